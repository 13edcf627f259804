package server

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"sync"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
)

// A server of MySQL 8 keeps what proves the passwords of caching_sha2_password in memory only.
// After its restart it asks for the password itself, once for each user, and says the same if the
// password is wrong. What this process remembers of its logins tells the two apart: a password
// that was right may be so again once the user has logged in elsewhere, so that waiting makes
// sense.

// logins has, by account, the number of the last session with which this process has logged in.
// Servers number their sessions from their start on.
var logins sync.Map

// account identifies address, user and password, without holding them.
func (a *address) account() [sha256.Size]byte {
	return sha256.Sum256([]byte(strings.Join([]string{a.network, a.host, a.user, a.password}, "\x00")))
}

// remember notes that a login has succeeded.
func (a *address) remember(id uint32) { logins.Store(a.account(), id) }

// refused tells why a server asks for the password itself: out is the error of a login.
func (a *address) refused(out *tidemark.Error, reveal *revealError, id uint32) {
	out.Kind, out.Err, out.Hint = tidemark.Denied, reveal, reveal.hint
	last, known := logins.Load(a.account())
	if !known {
		return
	}
	why := "the password itself, though it was proved before (the server was restarted, or the password was changed, and this user has not logged in since)"
	if id < last.(uint32) {
		why = "the password itself, since it was restarted and this user has not logged in yet"
	}
	hint := elsewhere(a.user)
	out.Kind, out.Err = tidemark.Transient, &revealError{why, hint}
	out.Hint = strings.ToUpper(hint[:1]) + hint[1:] + " To need no help, verify the server (?tls=verify-ca&tls-ca=FILE, with its ca.pem), or connect through its Unix socket (?socket=PATH)."
}

// elsewhere is what makes a server know the password of a user without its being sent to a server
// that is not verified.
func elsewhere(user string) string {
	return "log in once as this user on the server's own host, through its socket (mysql -u " + user + " -p): the server then knows the password until it restarts."
}

// asks names the plugin that may ask for the password at another login, where it would not be
// sent; "" if none does.
func (l *login) asks() string {
	if l.plugin != gomysql.AUTH_CACHING_SHA2_PASSWORD {
		return ""
	}
	salt := binary.LittleEndian.AppendUint64(nil, 1) // any
	if _, err := l.whole(salt, 2); err == nil {
		return ""
	}
	return l.plugin
}
