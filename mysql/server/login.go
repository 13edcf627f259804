package server

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/internal/door"
	"github.com/tidemarkdb/tidemark/internal/roundtrip"
)

// A login takes a connection from the server's greeting to its OK. It is our own code because it
// alone decides which servers may see the password: a server may ask for it in clear text, or under
// its own key, at any moment of the handshake, and so may anyone who impersonates the server.
//
// The rule: we send the password itself only to an authenticated server (TLS with a certificate
// that a known authority has signed), through a Unix socket, under a key that the user has given,
// or if the user insists. Otherwise we only prove it, by mysql_native_password, the fast path of
// caching_sha2_password, or ed25519.
//
// See "MySQL Source Code Documentation: Connection Phase", and MariaDB's "Connection".
type login struct {
	to       *address
	silent   *time.Timer // fires if the server does not greet
	packets  packets
	server   greeting
	agreed   uint32 // capabilities
	bulk     bool   // agreed: many rows for one prepared statement
	secure   bool   // TLS
	verified error  // nil: the server is authenticated
	plugin   string // with which it has logged in
}

// A loginError is an error with the state of the connection.
type loginError struct {
	error
	offered, used bool   // TLS
	id            uint32 // of the session
}

func (l *loginError) Unwrap() error { return l.error }

// A doorError reports that the peer is another kind of server.
type doorError struct{ door.Kind }

func (d *doorError) Error() string { return string(d.Kind) + " listens there, not MySQL or MariaDB" }

// errNoTLS reports a server without TLS although the mode requires it.
var errNoTLS = errors.New("the server has no TLS")

// A revealError reports that the server asks for the password but must not see it.
type revealError struct {
	what string // what the server asks for
	hint string
}

func (r *revealError) Error() string {
	return "the server's identity is not verified, and it asks for " + r.what + ": it was not sent"
}

// NeedsHand marks an error that waiting alone does not resolve: somebody has to log in elsewhere.
func (r *revealError) NeedsHand() {}

// wanted are the capabilities that every session asks for. The classic protocol: a result
// ends with an EOF packet, and a query is its text alone.
const wanted = gomysql.CLIENT_PROTOCOL_41 | gomysql.CLIENT_SECURE_CONNECTION | gomysql.CLIENT_TRANSACTIONS |
	gomysql.CLIENT_PLUGIN_AUTH | gomysql.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA | gomysql.CLIENT_LONG_FLAG | gomysql.CLIENT_LOCAL_FILES |
	gomysql.CLIENT_MULTI_RESULTS | gomysql.CLIENT_CONNECT_ATTRS

// utf8mb4General is a collation that all servers have; SET NAMES follows.
const utf8mb4General = 45

// login dials and logs in. The connection's deadline is cleared at the end.
func (e *Server) login(ctx context.Context, want Wishes) (*login, error) {
	ctx, cancel := context.WithTimeout(ctx, e.to.timeout)
	defer cancel()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var d net.Dialer
	dialled, err := d.DialContext(ctx, e.to.network, e.to.host)
	if err != nil {
		return nil, &dialError{err}
	}
	conn := roundtrip.NewConn(ctx, dialled, &e.Distance)
	stop := crash.OnDone(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	l := &login{to: &e.to, packets: packets{conn: conn}}
	// A server greets at once; one that waits for the client is of another kind.
	l.silent = crash.After(2*time.Second, func() {
		if kind := door.Knock(ctx, e.to.network, e.to.host); kind != door.Unknown && kind != door.MySQL {
			end(&doorError{kind})
		}
	})
	err = l.run(ctx, want)
	l.silent.Stop()
	if !stop() {
		err = context.Cause(ctx)
	}
	roundtrip.LoggedIn(conn)
	if err != nil {
		conn.Close()
		return nil, &loginError{err, l.server.capability&gomysql.CLIENT_SSL != 0, l.secure, l.server.id}
	}
	e.to.remember(l.server.id)
	return l, nil
}

func (l *login) run(ctx context.Context, want Wishes) error {
	p, err := l.packets.read()
	if err != nil {
		return err
	}
	l.silent.Stop()
	if l.server, err = readGreeting(p); err != nil {
		return err
	}
	l.agreed = wanted
	for _, one := range want.Capabilities {
		l.agreed |= one
	}
	if l.to.db != "" {
		l.agreed |= gomysql.CLIENT_CONNECT_WITH_DB
	}
	l.agreed &= l.server.capability
	if l.bulk = want.Bulk && l.server.mariadb&bulkOperations != 0; !l.bulk {
		l.agreed |= gomysql.CLIENT_LONG_PASSWORD // if unset, MariaDB's own capabilities apply
	}
	if err := l.protect(ctx); err != nil {
		return err
	}
	return l.authenticate()
}

// head returns the common beginning of the TLS request and the answer to the greeting.
func (l *login) head() []byte {
	out := binary.LittleEndian.AppendUint32(make([]byte, 0, 256), l.agreed)
	out = binary.LittleEndian.AppendUint32(out, 0) // maximum packet size: no limit
	out = append(append(out, utf8mb4General), make([]byte, 19)...)
	var own uint32
	if l.bulk {
		own = bulkOperations
	}
	return binary.LittleEndian.AppendUint32(out, own)
}

// protect begins TLS if the mode asks for it and the server supports it.
func (l *login) protect(ctx context.Context) error {
	l.verified = errNoTLS
	if l.to.network == "unix" {
		l.verified = nil // the file system authenticates the server
	}
	if l.to.tls == nil {
		return nil
	}
	if l.server.capability&gomysql.CLIENT_SSL == 0 {
		if l.to.mode.optional() {
			return nil
		}
		return errNoTLS
	}
	l.agreed |= gomysql.CLIENT_SSL
	if err := l.packets.write(l.head()); err != nil {
		return err
	}
	conn := tls.Client(l.packets.conn, l.to.tls)
	if err := conn.HandshakeContext(ctx); err != nil {
		return err
	}
	l.packets.conn, l.secure = conn, true
	err := l.to.verification(conn.ConnectionState())
	if l.to.network != "unix" {
		l.verified = err
	}
	if err != nil && (l.to.mode == tlsVerifyCA || l.to.mode == tlsVerifyFull) {
		return err
	}
	return nil
}

// authenticate answers the greeting and the server's further requests.
func (l *login) authenticate() error {
	plugin := l.server.plugin
	answer, err := l.answer(plugin, l.server.salt)
	if errors.Is(err, errPlugin) || errors.As(err, new(*revealError)) { // only the server's default plugin: this user may have another
		plugin = gomysql.AUTH_NATIVE_PASSWORD
		answer, err = l.answer(plugin, l.server.salt)
	}
	if err != nil {
		return err
	}
	if err := l.packets.write(l.response(plugin, answer)); err != nil {
		return err
	}
	salt := l.server.salt
	for range 8 { // packets that a server may send before it decides; real servers send up to four
		p, err := l.packets.read()
		if err != nil {
			return err
		}
		switch p[0] {
		case PacketOK:
			l.plugin = plugin
			return nil
		case PacketErr:
			return ErrorIn(p)
		case PacketEOF:
			if plugin, salt, err = readSwitch(p); err != nil {
				return err
			}
			answer, err := l.answer(plugin, salt)
			if err == nil {
				err = l.packets.write(answer)
			}
			if err != nil {
				return err
			}
		case 1:
			if err := l.more(plugin, salt, p[1:]); err != nil {
				return err
			}
		default:
			return ErrMalformed
		}
	}
	return ErrMalformed
}

// response writes HandshakeResponse41.
func (l *login) response(plugin string, answer []byte) []byte {
	out := append(append(l.head(), l.to.user...), 0)
	if l.agreed&gomysql.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA != 0 {
		out = AppendLenenc(out, uint64(len(answer)))
	} else {
		out = append(out, byte(len(answer)))
	}
	out = append(out, answer...)
	if l.agreed&gomysql.CLIENT_CONNECT_WITH_DB != 0 {
		out = append(append(out, l.to.db...), 0)
	}
	if l.agreed&gomysql.CLIENT_PLUGIN_AUTH != 0 {
		out = append(append(out, plugin...), 0)
	}
	if l.agreed&gomysql.CLIENT_CONNECT_ATTRS != 0 {
		const attributes = "\x0cprogram_name\x08tidemark"
		out = append(append(out, byte(len(attributes))), attributes...)
	}
	return out
}

// readSwitch reads a request for another plugin.
func readSwitch(p []byte) (plugin string, salt []byte, err error) {
	for i := 1; i < len(p); i++ {
		if p[i] == 0 {
			salt = p[i+1:]
			if len(salt) == 21 && salt[20] == 0 {
				salt = salt[:20]
			}
			return string(p[1:i]), salt, nil
		}
	}
	// A single byte asks for the password as MySQL 4.0 hashed it.
	return "", nil, fmt.Errorf("%w mysql_old_password", errPlugin)
}

// errPlugin reports an authentication plugin that we do not support.
var errPlugin = errors.New("unsupported authentication plugin")

// answer proves the password to a plugin, or sends it where that is allowed.
func (l *login) answer(plugin string, salt []byte) ([]byte, error) {
	password := []byte(l.to.password)
	switch plugin {
	case gomysql.AUTH_NATIVE_PASSWORD, "":
		if len(salt) < 20 {
			return nil, ErrMalformed
		}
		return gomysql.CalcNativePassword(salt[:20], password), nil
	case gomysql.AUTH_CACHING_SHA2_PASSWORD:
		if len(salt) < 20 {
			return nil, ErrMalformed
		}
		return gomysql.CalcCachingSha2Password(salt[:20], password), nil
	case gomysql.AUTH_MARIADB_ED25519:
		if len(salt) != 32 {
			return nil, ErrMalformed
		}
		return gomysql.CalcEd25519Password(salt, l.to.password)
	case gomysql.AUTH_SHA256_PASSWORD:
		return l.whole(salt, 1)
	case gomysql.AUTH_CLEAR_PASSWORD:
		if len(password) > 0 && l.verified != nil && !l.to.trust.cleartext {
			return nil, &revealError{"the password in clear text (mysql_clear_password)",
				"Verify the server (?tls=verify-full, or verify-ca with tls-ca=FILE), or, if any host at this address may see the password, add ?enable-cleartext-plugin=true."}
		}
		return append(password, 0), nil
	}
	return nil, fmt.Errorf("%w %q", errPlugin, printable(plugin))
}

// more answers a plugin's further data.
func (l *login) more(plugin string, salt, data []byte) error {
	switch {
	case plugin == gomysql.AUTH_CACHING_SHA2_PASSWORD && len(data) == 1 && data[0] == gomysql.CACHE_SHA2_FAST_AUTH:
		return nil // OK follows
	case plugin == gomysql.AUTH_CACHING_SHA2_PASSWORD && len(data) == 1 && data[0] == gomysql.CACHE_SHA2_FULL_AUTH:
		answer, err := l.whole(salt, 2)
		if err != nil {
			return err
		}
		return l.packets.write(answer)
	case (plugin == gomysql.AUTH_CACHING_SHA2_PASSWORD || plugin == gomysql.AUTH_SHA256_PASSWORD) && l.takesKey():
		key, err := publicKey(data) // the key that we asked for
		if err != nil {
			return fmt.Errorf("the server's key is %w", err)
		}
		answer, err := gomysql.EncryptPassword(l.to.password, salt, key)
		if err != nil {
			return err
		}
		return l.packets.write(answer)
	}
	return ErrMalformed
}

// takesKey reports whether the password may be sent encrypted with the key that the server shows.
func (l *login) takesKey() bool {
	return !l.secure && l.to.trust.key == nil && (l.to.network == "unix" || l.to.trust.serverKey)
}

// whole sends the password itself to the sha2 plugins: in clear text within TLS (and, for the newer
// plugin, through a socket), as servers expect it, otherwise encrypted with an RSA key. request is
// the byte that asks a plugin for the server's key.
func (l *login) whole(salt []byte, request byte) ([]byte, error) {
	password, trust := l.to.password, l.to.trust
	switch {
	case password == "":
		return []byte{0}, nil
	case l.to.network == "unix" && request == 2, l.secure && (l.verified == nil || trust.serverKey || trust.cleartext):
		return append([]byte(password), 0), nil
	case l.secure:
	case trust.key != nil && len(salt) > 0:
		return gomysql.EncryptPassword(password, salt, trust.key)
	case l.takesKey() && len(salt) > 0:
		return []byte{request}, nil
	}
	hint := "Verify the server (?tls=verify-ca&tls-ca=FILE, with its ca.pem), connect through its Unix socket (?socket=PATH), or give its key (?server-public-key-path=FILE, with its public_key.pem)"
	if l.secure {
		hint = "Verify the server: ?tls=verify-full, or ?tls=verify-ca&tls-ca=FILE with its ca.pem"
	}
	hint += "; or add ?get-server-public-key=true to trust whoever answers."
	if request == 2 {
		hint += " Or " + elsewhere(l.to.user)
	}
	return nil, &revealError{"the password itself (caching_sha2_password and sha256_password do so at a user's first login since the server's start, and if the password is wrong)", hint}
}

// printable bounds the length of a name that the server sent.
func printable(name string) string {
	if len(name) > 64 {
		name = name[:64]
	}
	return name
}

// warnings reports what the connection does not protect against.
func (l *login) warnings() []tidemark.Finding {
	if l.to.mode != tlsAuto {
		return nil
	}
	switch {
	case !l.secure:
		return []tidemark.Finding{{Severity: tidemark.Warning, Object: l.to.masked, Text: "the server has no TLS: anyone on the network path can read and change the traffic",
			Hint: "Set the server, or the proxy before it, up for TLS. tls=false says that the network is safe."}}
	case l.verified != nil:
		return []tidemark.Finding{{Severity: tidemark.Warning, Object: l.to.masked,
			Text: "the connection is encrypted, but the server's identity is not verified: anyone on the network path can impersonate it (" + certificateTrouble(l.verified) + ")",
			Hint: "Write ?tls=verify-ca&tls-ca=FILE with the authority that signed the server's certificate (MySQL's own is ca.pem in its data folder)."}}
	}
	return nil
}

// bulkOperations is MARIADB_CLIENT_STMT_BULK_OPERATIONS, bit 34 of the capabilities, among
// MariaDB's own. A proxy in between may not support it.
const bulkOperations = 1 << 2
