//go:build unix

package plainfile

import (
	"io/fs"
	"syscall"
)

// noWait keeps the opening of a named pipe from waiting for its other end.
const noWait = syscall.O_NONBLOCK

func exposed(st fs.FileInfo) bool {
	others := fs.FileMode(0o077)
	if is, ok := st.Sys().(*syscall.Stat_t); ok && is.Uid == 0 {
		others = 0o037
	}
	return st.Mode()&others != 0
}
