//go:build !windows

package store

import (
	"os"
	"syscall"
)

// directory is for opening folders only.
const directory = syscall.O_DIRECTORY

// share gives something new the owner and group of the repository's folder: so the server's user,
// to whom an administrator gave the repository, can also read the log that root archives later.
// Only root can give away a file, and others can choose only a group of their own; where that is
// refused it stays as it is.
func (s *files) share(f *os.File) {
	whole, err := os.Stat(s.root)
	if err != nil {
		return
	}
	own, err := f.Stat()
	if err != nil {
		return
	}
	is, should := own.Sys().(*syscall.Stat_t), whole.Sys().(*syscall.Stat_t)
	uid, gid := -1, -1
	if is.Uid != should.Uid && os.Geteuid() == 0 {
		uid = int(should.Uid)
	}
	if is.Gid != should.Gid {
		gid = int(should.Gid)
	}
	if uid >= 0 || gid >= 0 {
		_ = f.Chown(uid, gid)
	}
}
