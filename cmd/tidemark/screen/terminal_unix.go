//go:build !windows

package screen

import "os"

func understandsEscapes(*os.File) bool { return os.Getenv("TERM") != "dumb" }
