// Package filelock locks files. The operating system releases a lock whenever the process that
// holds it ends, in whatever way.
package filelock

import "errors"

// ErrLocked is returned for a file that another process, or another open file of this process, has
// locked.
var ErrLocked = errors.New("locked by another")
