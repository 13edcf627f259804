// Package filelock locks files so that the operating system frees them however the process
// that has them ends.
package filelock

import "errors"

// ErrLocked is of a file that another process, or another open file of this one, has
// locked.
var ErrLocked = errors.New("locked by another")
