//go:build !unix

package sample

import "time"

// ownTime is not known here.
func ownTime() time.Duration { return 0 }
