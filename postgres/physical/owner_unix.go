//go:build !windows

package physical

import (
	"io/fs"
	"os/user"
	"strconv"
	"syscall"

	"github.com/tidemarkdb/tidemark"
)

// ownerOf returns the owner of a file.
func ownerOf(info fs.FileInfo) tidemark.Owner {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return tidemark.Owner{UID: -1, GID: -1}
	}
	o := tidemark.Owner{UID: int(stat.Uid), GID: int(stat.Gid)}
	if u, err := user.LookupId(strconv.Itoa(o.UID)); err == nil {
		o.User = u.Username
	}
	if g, err := user.LookupGroupId(strconv.Itoa(o.GID)); err == nil {
		o.Group = g.Name
	}
	return o
}
