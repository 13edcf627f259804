//go:build !windows

package backup

import (
	"os"
	"os/user"
	"strconv"

	"github.com/tidemarkdb/tidemark/backup/repo"
)

func (x *files) owner() (uid, gid int, ok bool) { return Owner(x.m) }

// Owner returns the owner for a restored backup's files: the server's user on this host, by name,
// or by number if the host does not know the name. Only root can change the owner of files.
func Owner(m *repo.Manifest) (uid, gid int, ok bool) {
	o := m.Owner
	if os.Geteuid() != 0 || o.UID < 0 {
		return 0, 0, false
	}
	uid, gid = o.UID, o.GID
	if u, err := user.Lookup(o.User); err == nil {
		uid = number(u.Uid, uid)
		gid = number(u.Gid, gid)
	}
	if g, err := user.LookupGroup(o.Group); err == nil {
		gid = number(g.Gid, gid)
	}
	return uid, gid, true
}

func number(s string, or int) int {
	if n, err := strconv.Atoi(s); err == nil {
		return n
	}
	return or
}
