package server

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"
)

// answers is a connection that returns a fixed peer input.
type answers struct{ *bytes.Reader }

func (answers) Write(p []byte) (int, error)      { return len(p), nil }
func (answers) Close() error                     { return nil }
func (answers) LocalAddr() net.Addr              { return nil }
func (answers) RemoteAddr() net.Addr             { return nil }
func (answers) SetDeadline(time.Time) error      { return nil }
func (answers) SetReadDeadline(time.Time) error  { return nil }
func (answers) SetWriteDeadline(time.Time) error { return nil }

func seedGreeting() []byte {
	g := greeting{version: "8.0.33", id: 7, capability: 0x00fff7ff &^ (1 << 24), charset: 45, status: 2, plugin: "mysql_native_password", salt: []byte("abcdefghijklmnopqrst")}
	return g.append(nil)
}

// FuzzGreeting: a greeting that is decoded, encoded and decoded again is the same.
func FuzzGreeting(f *testing.F) {
	f.Add(seedGreeting())
	f.Add([]byte{})
	f.Add([]byte{10, 0})
	f.Add([]byte{0xff, 1})
	f.Fuzz(func(t *testing.T, p []byte) {
		g, err := readGreeting(p)
		if err != nil {
			return
		}
		if len(g.salt) < 20 || len(g.salt) > 255 {
			t.Fatalf("a challenge of %d bytes", len(g.salt))
		}
		if len(g.salt) != 20 || bytes.IndexByte([]byte(g.plugin), 0) >= 0 {
			return
		}
		again, err := readGreeting(g.append(nil))
		if err != nil || again.version != g.version || again.id != g.id || again.capability != g.capability || !bytes.Equal(again.salt, g.salt) {
			t.Fatalf("%+v is written and read as %+v, %v", g, again, err)
		}
	})
}

// FuzzLogin: for any server input, a login ends, and nothing sent contains the password unless the
// server was authenticated.
func FuzzLogin(f *testing.F) {
	head := appendPacket(nil, 0, seedGreeting())
	for _, next := range [][]byte{{0, 0, 0, 2, 0, 0, 0}, {0xfe}, append([]byte("\xfemysql_clear_password\x00"), 0), {1, 4}, {1, 3}, append([]byte("\xfesha256_password\x00abcdefghijklmnopqrst"), 0), append([]byte("\xfeclient_ed25519\x00"), make([]byte, 32)...)} {
		f.Add(appendPacket(bytes.Clone(head), 2, next))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		sent := &recorded{answers: answers{bytes.NewReader(said)}}
		l := &login{to: &address{network: "tcp", user: "u", password: "hush-7Fq!zT", db: "d"}, packets: packets{conn: sent}, silent: time.NewTimer(time.Hour)}
		defer l.silent.Stop()
		_ = l.run(t.Context(), Wishes{Bulk: true})
		if bytes.Contains(sent.out.Bytes(), []byte("hush-7Fq!zT")) {
			t.Fatalf("the password was sent to %q", said)
		}
	})
}

type recorded struct {
	answers
	out bytes.Buffer
}

func (r *recorded) Write(p []byte) (int, error) { return r.out.Write(p) }

// FuzzStatements: for any answer of a server to statements, the client ends with an error or a
// result.
func FuzzStatements(f *testing.F) {
	f.Add([]byte{1, 0, 0, 1, 0})
	f.Add([]byte{7, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0})
	f.Add([]byte{9, 0, 0, 1, 0xfe, 0, 0, 0, 0, 2, 0, 0, 0})
	f.Add(append([]byte{1, 0, 0, 1, 1, 22, 0, 0, 2}, append([]byte("\x03def\x00\x00\x00\x01a\x00\x0c\x2d\x00\x00\x01\x00\x00\xfd\x00\x00\x00\x00"), []byte{5, 0, 0, 3, 0xfe, 0, 0, 2, 0, 2, 0, 0, 4, 1, 'x', 5, 0, 0, 5, 0xfe, 0, 0, 2, 0}...)...))
	f.Fuzz(func(t *testing.T, said []byte) {
		g, _ := readGreeting(seedGreeting())
		l := &login{to: &address{}, packets: packets{conn: answers{bytes.NewReader(said)}}, server: g, agreed: wanted}
		s, err := newStatements(l)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := s.Execute("SELECT 1"); err == nil && r != nil {
			r.Close()
		}
	})
}

// FuzzWire covers rows and answers that the Wire reads itself.
func FuzzWire(f *testing.F) {
	f.Add([]byte{1, 0, 0, 1, 0})
	f.Add([]byte{9, 0, 0, 1, 0xfe, 255, 255, 255, 255, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, said []byte) {
		w := NewWire(answers{bytes.NewReader(said)})
		if n, err := w.Columns(); err == nil {
			for range 100 {
				if _, _, err := w.Next(); err != nil {
					break
				}
			}
			if n < 1 || n > maxResultColumns {
				t.Fatal(n)
			}
		}
		w = NewWire(answers{bytes.NewReader(said)})
		_, _ = w.Drain(1 << 20)
		_, _ = ReadAnswer(said)
		_ = ErrorIn(said)
		_, _ = io.Copy(io.Discard, bytes.NewReader(said))
	})
}

func FuzzMySQLURL(f *testing.F) {
	f.Add("mysql://u:p@h:1/db?tls=true")
	f.Add("mariadb://h/?connect-timeout=1s&get-server-public-key=true")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := parseURL(text)
		if err == nil && (a.host == "" && a.network == "tcp" || a.timeout <= 0) {
			t.Fatalf("%q: %+v", text, a)
		}
	})
}
