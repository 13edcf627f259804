//go:build !unix

package plainfile

import "io/fs"

const noWait = 0

// exposed is false where modes do not say who may read a file.
func exposed(fs.FileInfo) bool { return false }
