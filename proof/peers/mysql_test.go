package peers

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

const salt = "abcdefghijklmnopqrst" // 20 bytes

// mysqlPacket returns one packet.
func mysqlPacket(seq byte, payload ...byte) []byte {
	n := len(payload)
	return append([]byte{byte(n), byte(n >> 8), byte(n >> 16), seq}, payload...)
}

// mysqlGreeting returns the greeting of a server of version 8.0.33 with a default plugin, and with
// TLS if requested.
func mysqlGreeting(plugin string, secure bool) []byte {
	p := append([]byte{10}, "8.0.33\x00"...)
	p = binary.LittleEndian.AppendUint32(p, 7)
	p = append(append(p, salt[:8]...), 0)
	capability := uint32(0x00ff_f7ff) &^ (1<<24 | 1<<5)
	if secure {
		capability |= 1 << 11
	}
	p = binary.LittleEndian.AppendUint16(p, uint16(capability))
	p = append(p, 45, 2, 0)
	p = binary.LittleEndian.AppendUint16(p, uint16(capability>>16))
	p = append(append(p, 21), make([]byte, 10)...)
	p = append(append(p, salt[8:]...), 0)
	return mysqlPacket(0, append(append(p, plugin...), 0)...)
}

// readMySQL reads one packet.
func readMySQL(c io.Reader) (payload []byte, seq byte, err error) {
	var head [4]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return nil, 0, err
	}
	payload = make([]byte, int(head[0])|int(head[1])<<8|int(head[2])<<16)
	_, err = io.ReadFull(c, payload)
	return payload, head[3], err
}

var mysqlOK = []byte{0, 0, 0, 2, 0, 0, 0}

// mysqlLogin greets and accepts every login.
func mysqlLogin(c net.Conn) bool {
	_, _ = c.Write(mysqlGreeting("mysql_native_password", false))
	_, seq, err := readMySQL(c)
	if err != nil {
		return false
	}
	_, err = c.Write(mysqlPacket(seq+1, mysqlOK...))
	return err == nil
}

// afterLogin answers the commands that set up a session as a server would, and from the nth command
// on sends raw bytes.
func afterLogin(nth int, raw ...byte) func(net.Conn) {
	return func(c net.Conn) {
		if !mysqlLogin(c) {
			return
		}
		for i := 0; ; i++ {
			if _, _, err := readMySQL(c); err != nil {
				return
			}
			switch {
			case i >= nth:
				if _, err := c.Write(raw); err != nil {
					return
				}
				wait(c)
				return
			case i == 0:
				_, _ = c.Write(mysqlRow("8.0.33", "u@%"))
			default:
				_, _ = c.Write(mysqlPacket(1, mysqlOK...))
			}
		}
	}
}

// mysqlRow returns a result of one row of texts.
func mysqlRow(values ...string) []byte {
	out := mysqlPacket(1, byte(len(values)))
	seq := byte(2)
	add := func(p ...byte) { out = append(out, mysqlPacket(seq, p...)...); seq++ }
	for range values {
		add(append([]byte("\x03def\x00\x00\x00\x01a\x00\x0c"), 45, 0, 0, 1, 0, 0, 253, 0, 0, 0, 0, 0)...)
	}
	add(0xfe, 0, 0, 2, 0)
	var row []byte
	for _, v := range values {
		row = append(append(row, byte(len(v))), v...)
	}
	add(row...)
	add(0xfe, 0, 0, 2, 0)
	return out
}

// malformedMySQL are servers that violate the protocol.
func malformedMySQL() map[string]func(net.Conn) {
	greeting := mysqlGreeting("mysql_native_password", false)
	raw := func(p ...byte) func(net.Conn) {
		return func(c net.Conn) { _, _ = c.Write(p); wait(c) }
	}
	// answer greets, and replies with p to the client's response.
	answer := func(p ...byte) func(net.Conn) {
		return func(c net.Conn) {
			_, _ = c.Write(greeting)
			if _, seq, err := readMySQL(c); err == nil {
				_, _ = c.Write(mysqlPacket(seq+1, p...))
				wait(c)
			}
		}
	}
	cut := func(n int) []byte { return mysqlPacket(0, greeting[4:n]...) }
	all := map[string]func(net.Conn){
		"hangs up":                   func(net.Conn) {},
		"empty packet":               raw(0, 0, 0, 0),
		"huge packet":                raw(0xff, 0xff, 0xff, 0),
		"packet of another number":   raw(append([]byte{5, 0, 0, 9}, "hello"...)...),
		"version without an end":     raw(mysqlPacket(0, append([]byte{10}, bytes.Repeat([]byte{'8'}, 900)...)...)...),
		"error without text":         raw(mysqlPacket(0, 0xff)...),
		"protocol 9":                 raw(mysqlPacket(0, append([]byte{9}, greeting[5:]...)...)...),
		"greeting of 6 bytes":        raw(cut(10)...),
		"greeting without salt":      raw(cut(16)...),
		"greeting without plugin":    raw(cut(40)...),
		"endless greeting":           func(c net.Conn) { pour(c, bytes.Repeat([]byte{0xff}, 1<<16)) },
		"empty answer to login":      answer(),
		"switch to rubbish":          answer(0xfe, 0xff, 0xff, 0x80),
		"switch to nothing":          answer(0xfe),
		"switch without salt":        answer(append([]byte{0xfe}, "caching_sha2_password\x00"...)...),
		"switch to a short salt":     answer(append([]byte{0xfe}, "mysql_native_password\x00abc\x00"...)...),
		"switch to ed25519 and less": answer(append([]byte{0xfe}, "client_ed25519\x00abc"...)...),
		"a stray answer":             answer(1),
		"more of rubbish":            answer(1, 9, 9, 9),
		"column count 2^33":          afterLogin(0, mysqlPacket(1, 0xfe, 0, 0, 0, 0, 2, 0, 0, 0)...),
		"column count 2^63":          afterLogin(0, mysqlPacket(1, 0xfe, 0, 0, 0, 0, 0, 0, 0, 0x80)...),
		"column count 2^64-1":        afterLogin(0, mysqlPacket(1, 0xfe, 255, 255, 255, 255, 255, 255, 255, 255)...),
		"column count without size":  afterLogin(0, mysqlPacket(1, 0xfe, 1)...),
		"empty result":               afterLogin(0, 0, 0, 0, 1),
		"short OK":                   afterLogin(0, mysqlPacket(1, 0)...),
		"short error":                afterLogin(0, mysqlPacket(1, 0xff, 1)...),
		"column of one byte":         afterLogin(0, append(mysqlPacket(1, 2), mysqlPacket(2, 0xfe)...)...),
		"asks for a file":            afterLogin(0, mysqlPacket(1, append([]byte{0xfb}, "/etc/passwd"...)...)...),
		"row longer than it is":      afterLogin(0, rowLongerThanItIs()...),
		"wrong shape later":          afterLogin(2, mysqlRow("x")...),
		"silent after login":         afterLogin(0),
	}
	return all
}

// rowLongerThanItIs returns a result with a value that claims to have 2^63 bytes.
func rowLongerThanItIs() []byte {
	out := mysqlRow("v")
	out = out[:len(out)-(4+5)-(4+2)]
	out = append(out, mysqlPacket(4, 0xfe, 0, 0, 0, 0, 0, 0, 0, 0x80)...)
	return append(out, mysqlPacket(5, 0xfe, 0, 0, 2, 0)...)
}

// mysqlURL returns the URL of a hostile server.
func mysqlURL(h *hostile, options string) string {
	return "mysql://tm:" + url.PathEscape(secret) + "@" + h.addr + "/shop?connect-timeout=2s" + options
}

// verbs are command lines that name a hostile server as one of their databases.
func verbs(hostile, good string, scratch func() string) map[string][]string {
	return map[string][]string{
		"check":     {"check", hostile, good},
		"copy from": {"copy", hostile, good, "--retry-for", "1s"},
		"copy to":   {"copy", good, hostile, "--retry-for", "1s"},
		"replicate": {"replicate", hostile, good, "--retry-for", "1s"},
		"diff":      {"diff", good, hostile},
		"repair":    {"repair", hostile, good},
		"backup":    {"backup", "--logical", hostile, scratch()},
		"ha check":  {"ha", "check", hostile},
		"ha scan":   {"ha", "scan", hostile},
	}
}

func TestMalformedMySQL(t *testing.T) {
	good := testdb.MariaDB(t).NewDatabase(t, "good")
	for name, play := range malformedMySQL() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := listen(t, play)
			all := verbs(mysqlURL(h, ""), good, func() string { return t.TempDir() + "/repo" })
			if !testdb.Long() { // each behaviour once, with a varying verb
				all = map[string][]string{"check": all["check"]}
			}
			if name == "wrong shape later" {
				delete(all, "backup") // it waits for its snapshot, as for the locks of others, until somebody stops it
			}
			for _, args := range all {
				endure(t, h, usual, args...)
			}
		})
	}
	for name, args := range verbs("", good, func() string { return t.TempDir() + "/repo" }) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := listen(t, malformedMySQL()["column count 2^33"])
			for i := range args {
				if args[i] == "" {
					args[i] = mysqlURL(h, "")
				}
			}
			if text := endure(t, h, usual, args...); !strings.Contains(text, h.addr) && !strings.Contains(text, "columns") {
				t.Errorf("the error does not say what it was:\n%s", text)
			}
		})
	}
}

// A server that sends a result endlessly hits the guard's limits.
func TestGreedyMySQL(t *testing.T) {
	for name, row := range map[string][]byte{
		"long values":  bytes.Repeat(append(mysqlPacket(5, append([]byte{0xfd, 0, 0, 1}, make([]byte, 1<<16)...)...), 0)[:4+4+1<<16], 1),
		"short values": mysqlPacket(5, 0xfb),
		"empty values": mysqlPacket(5, 1, 'x'),
	} {
		t.Run(name, func(t *testing.T) {
			var head []byte
			full := mysqlRow("v")
			head = full[:len(full)-(4+5)-(4+2)]
			h := listen(t, func(c net.Conn) {
				if !mysqlLogin(c) {
					return
				}
				if _, _, err := readMySQL(c); err != nil {
					return
				}
				_, _ = c.Write(head)
				var rows []byte
				for seq := 4; seq < 4+256; seq++ {
					one := bytes.Clone(row)
					one[3] = byte(seq)
					rows = append(rows, one...)
				}
				pour(c, rows)
			})
			text := endure(t, h, limits{time.Minute, 2 << 30}, "check", strings.Replace(mysqlURL(h, ""), "=2s", "=50s", 1), "postgres://127.0.0.1:1/x")
			if !strings.Contains(text, "the connection to "+h.addr+" broke") {
				t.Errorf("the end is not that of a connection: %s", text)
			}
		})
	}
}

// fishing servers ask for the password; they can decrypt what is encrypted with the keys they
// present.
type fishing struct {
	key  *rsa.PrivateKey
	cert tls.Certificate
}

var newFishing = sync.OnceValue(func() fishing {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), NotBefore: time.Now().Add(-time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	return fishing{key, tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}}
})

// play greets, switches to TLS if the client requests it, and asks for the password in one way
// after the other as long as the client responds. It records what it could read.
func (f fishing) play(h **hostile, steps ...[]byte) func(net.Conn) {
	return func(c net.Conn) {
		_, _ = c.Write(mysqlGreeting("caching_sha2_password", true))
		p, seq, err := readMySQL(c)
		if err != nil {
			return
		}
		if len(p) == 32 {
			s := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{f.cert}})
			if s.Handshake() != nil {
				return
			}
			c = s
			if p, seq, err = readMySQL(c); err != nil {
				return
			}
			(*h).note(p)
		}
		for _, step := range steps {
			if _, err := c.Write(mysqlPacket(seq+1, step...)); err != nil {
				return
			}
			if p, seq, err = readMySQL(c); err != nil {
				return
			}
			(*h).note(p)
			if len(p) == 1 && (p[0] == 1 || p[0] == 2) { // requests a key
				der, _ := x509.MarshalPKIXPublicKey(&f.key.PublicKey)
				_, _ = c.Write(mysqlPacket(seq+1, append([]byte{1}, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})...)...))
				if p, seq, err = readMySQL(c); err != nil {
					return
				}
			}
			if plain, err := rsa.DecryptOAEP(sha1.New(), nil, f.key, p, nil); err == nil {
				for i := range plain {
					plain[i] ^= salt[i%len(salt)]
				}
				(*h).note(plain)
			}
		}
		_, _ = c.Write(mysqlPacket(seq+1, mysqlOK...))
		wait(c)
	}
}

// No server whose identity is unverified gets the password: in clear, within TLS, or encrypted with
// the server's own key; each gets it where the user allows that.
func TestFishingMySQL(t *testing.T) {
	f := newFishing()
	plugin := func(name string) []byte { return append(append([]byte{0xfe}, name...), "\x00"+salt+"\x00"...) }
	ways := map[string]struct {
		steps [][]byte
		allow string // the option that allows it
	}{
		"clear":               {[][]byte{plugin("mysql_clear_password")}, "&enable-cleartext-plugin=true"},
		"sha256":              {[][]byte{plugin("sha256_password")}, "&get-server-public-key=true"},
		"caching sha2":        {[][]byte{{1, 4}}, "&get-server-public-key=true"},
		"switch, then sha2":   {[][]byte{plugin("mysql_native_password"), plugin("caching_sha2_password"), {1, 4}}, "&get-server-public-key=true"},
		"quick, then in full": {[][]byte{plugin("caching_sha2_password"), {1, 4}}, "&get-server-public-key=true"},
	}
	for name, way := range ways {
		for _, tlsOption := range []string{"", "&tls=preferred", "&tls=true"} {
			t.Run(name+tlsOption, func(t *testing.T) {
				t.Parallel()
				var h *hostile
				h = listen(t, f.play(&h, way.steps...))
				text := endure(t, h, usual, "check", mysqlURL(h, tlsOption), "postgres://127.0.0.1:1/x")
				if !strings.Contains(text, "identity is not verified") || !strings.Contains(text, "hint: ") {
					t.Errorf("the refusal does not say why:\n%s", text)
				}
				h = listen(t, f.play(&h, way.steps...))
				out := testdb.Run(t, "check", mysqlURL(h, tlsOption+way.allow), "postgres://127.0.0.1:1/x")
				if !strings.Contains(h.got(), secret) {
					t.Errorf("with %s the password does not come: the server sees nothing, so this test neither\n%s", way.allow, out.ErrOut)
				}
			})
		}
	}
}

// A server that has proved its identity gets the password, and so does a socket.
func TestPasswordToWhomItBelongs(t *testing.T) {
	t.Parallel()
	srv := testdb.OwnMySQL(t)
	testdb.Query(t, srv.URL(""), "CREATE USER shy@'%' IDENTIFIED WITH caching_sha2_password BY '"+secret+"'; GRANT ALL ON *.* TO shy@'%'; CREATE USER old@'%' IDENTIFIED WITH sha256_password BY '"+secret+"'; GRANT ALL ON *.* TO old@'%'; "+
		"CREATE USER guarded@'%' IDENTIFIED WITH mysql_native_password BY '"+secret+"' REQUIRE SSL; GRANT ALL ON *.* TO guarded@'%'")
	db := srv.NewDatabase(t, "shy")
	testdb.Query(t, db, "CREATE TABLE t (id int PRIMARY KEY)")
	name := db[strings.LastIndex(db, "/"):]
	data := testdb.Query(t, srv.URL(""), "SELECT @@datadir")
	socket := testdb.Query(t, srv.URL(""), "SELECT @@socket")
	at := func(user, options string) string {
		u, err := url.Parse(db)
		if err != nil {
			t.Fatal(err)
		}
		return "mysql://" + user + ":" + url.PathEscape(secret) + "@" + u.Host + name + "?" + options
	}
	target := testdb.Postgres(t, 15).NewDatabase(t, "shy")
	forget := func() { testdb.Query(t, srv.URL(""), "FLUSH PRIVILEGES") } // which clears the cache of caching_sha2_password
	for _, user := range []string{"shy", "old"} {
		for _, options := range []string{"tls=verify-ca&tls-ca=" + data + "ca.pem", "tls-ca=" + data + "ca.pem", "socket=" + socket, "server-public-key-path=" + data + "public_key.pem", "get-server-public-key=true", "tls=true&get-server-public-key=true"} {
			forget()
			if o := testdb.Run(t, "check", at(user, options), target); o.Code != 0 {
				t.Errorf("%s with %s: exit %d\n%s", user, options, o.Code, o.ErrOut)
			}
		}
		for _, options := range []string{"", "tls=true", "tls=preferred"} {
			forget()
			if o := testdb.Run(t, "check", at(user, options), target); o.Code != 4 || !strings.Contains(o.ErrOut, "tls-ca=FILE") {
				t.Errorf("%s with %q: exit %d\n%s", user, options, o.Code, o.ErrOut)
			}
		}
	}
	// Once the server has cached the user, the scramble is enough.
	testdb.Must(t, "check", at("shy", "socket="+socket), target)
	testdb.Must(t, "check", at("shy", ""), target)
	// A user who must use TLS is informed.
	if o := testdb.Run(t, "check", at("guarded", ""), target); o.Code != 4 || !strings.Contains(o.ErrOut, "?tls=verify-ca") {
		t.Errorf("exit %d\n%s", o.Code, o.ErrOut)
	}
	testdb.Must(t, "check", at("guarded", "tls=true"), target)
}
