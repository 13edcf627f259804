package drda

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A recorded is one conversation: what was written, turn by turn.
type recorded struct{ client, server [][]byte }

// readPCAP reads the conversation of a file with one TCP connection, as tcpdump writes it.
func readPCAP(t *testing.T, name string, port uint16) (out recorded) {
	t.Helper()
	dir := os.Getenv("TIDEMARK_SAMPLES")
	if dir == "" {
		t.Skip("set TIDEMARK_SAMPLES to the folder of the sample databases")
	}
	file, err := os.ReadFile(filepath.Join(dir, "db2", name))
	if err != nil {
		t.Fatal(err)
	}
	for file = file[24:]; len(file) >= 16; {
		n := int(binary.LittleEndian.Uint32(file[8:]))
		ip := file[16+14 : 16+n]
		file = file[16+n:]
		tcp := ip[int(ip[0]&15)*4 : be.Uint16(ip[2:])]
		data := tcp[int(tcp[12]>>4)*4:]
		switch {
		case len(data) == 0:
		case be.Uint16(tcp) == port:
			out.server = append(out.server, data)
		default:
			out.client = append(out.client, data)
		}
	}
	return out
}

// A replay is a connection whose server says what one has said before, whatever it is asked.
type replay struct {
	net.Conn
	server [][]byte
	sent   []byte
}

func (r *replay) Read(p []byte) (int, error) {
	if len(r.server) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.server[0])
	if r.server[0] = r.server[0][n:]; len(r.server[0]) == 0 {
		r.server = r.server[1:]
	}
	return n, nil
}

func (r *replay) Write(p []byte) (int, error) {
	r.sent = append(r.sent, p...)
	return len(p), nil
}
func (r *replay) Close() error                { return nil }
func (r *replay) SetDeadline(time.Time) error { return nil }

// objects returns the DDM objects of a turn, by code point.
func objects(t *testing.T, b []byte) map[uint16][]byte {
	t.Helper()
	out := map[uint16][]byte{}
	for len(b) > 0 {
		n := be.Uint16(b)
		out[be.Uint16(b[8:])] = b[6:n]
		b = b[n:]
	}
	return out
}

// A real Db2 8.2 on Linux, which sends numbers little-endian, and text in ISO 8859-1, as IBM's
// driver has heard it: our decoder understands it, and our requests are what that driver has sent.
func TestReplayOfDb2(t *testing.T) {
	said := readPCAP(t, "db2-8.2-linux-jcc.pcap", 50000)
	link := &replay{server: said.server[:2]}
	cfg := Config{Database: "MYDB2DB", User: "MYUSER", Password: "MYUSER", Accept: []Security{Plain}, Program: "tidemark"}
	c := &Conn{net: link, in: newReader(link), order: binary.BigEndian, single: pageNone, mixed: pageNone, double: pageUTF16}
	if err := c.login(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if want := (Server{Class: "QDB2/LINUX", Release: "SQL08024", Product: "SQL08024"}); c.Server != want {
		t.Errorf("server %+v", c.Server)
	}
	if c.order != binary.LittleEndian || c.single != pageLatin1 || c.mixed != pageNone || c.unicode {
		t.Errorf("order %v, code page %v, unicode %t", c.order, c.single, c.unicode)
	}
	theirs, ours := objects(t, bytes.Join(said.client[:2], nil)), objects(t, link.sent)
	for code, name := range map[uint16]string{cpACCSEC: "ACCSEC", cpSECCHK: "SECCHK"} {
		if !bytes.Equal(ours[code], theirs[code]) {
			t.Errorf("%s is % x, theirs % x", name, ours[code], theirs[code])
		}
	}

	// A turn with two SETs and a query: objects that nobody expects do no harm.
	link.server = said.server[2:3]
	c.in.start()
	if err := c.rest(nil); err != nil {
		t.Errorf("the turn with SETs: %v", err)
	}

	queries := 0
	for i, turn := range said.server {
		request := objects(t, said.client[i])
		link.server, link.sent = [][]byte{turn}, nil
		switch {
		case i < 3:
		case request[cpOPNQRY] != nil:
			sql := request[cpSQLSTT]
			r, err := c.Query(t.Context(), string(sql[9:len(sql)-1]))
			if err != nil {
				t.Fatal(err)
			}
			rest, rows, err := r.Copy(t.Context(), nil, 1<<20, 1<<20, nil)
			if err != nil || rows != 1 {
				t.Errorf("%d rows, %v", rows, err)
			}
			if got := string(rest); got != "SC     \n" && got != "2007-04-02\n" && got != "SC      \n" {
				t.Errorf("rows: %q", got)
			}
			if err := r.Close(t.Context()); err != nil {
				t.Error(err)
			}
			queries++
			// Our package keeps no cursor open (N), theirs does (H), and our blocks are larger.
			jcc := bytes.Replace(request[cpOPNQRY], []byte{0xE2, 0xE8, 0xE2, 0xE2, 0xC8}, []byte{0xE2, 0xE8, 0xE2, 0xE2, 0xD5}, 1)
			jcc = bytes.Replace(jcc, []byte{0x21, 0x14, 0, 0, 0x7F, 0xFF}, []byte{0x21, 0x14, 0, 0x10, 0, 0}, 1)
			mine := objects(t, link.sent)
			if !bytes.Equal(mine[cpOPNQRY], jcc) {
				t.Errorf("OPNQRY is % x, theirs % x", mine[cpOPNQRY], jcc)
			}
			for _, code := range []uint16{cpSQLSTT, cpSQLATTR} {
				if !bytes.Equal(mine[code], request[code]) {
					t.Errorf("%04X is % x, theirs % x", code, mine[code], request[code])
				}
			}
		case request[cpRDBCMM] != nil:
			if err := c.Commit(t.Context()); err != nil {
				t.Error(err)
			}
			if !bytes.Equal(link.sent, said.client[i]) {
				t.Errorf("RDBCMM is % x, theirs % x", link.sent, said.client[i])
			}
		default: // a CALL with a result set, and its end
			c.in.start()
			if err := c.rest(nil); err != nil {
				t.Errorf("turn %d: %v", i, err)
			}
		}
	}
	if queries != 2 {
		t.Errorf("%d queries were replayed", queries)
	}
}

// The same turns, cut anywhere, end in an error, and with any byte changed in nothing worse.
func TestGarbledReplay(t *testing.T) {
	said := readPCAP(t, "db2-8.2-linux-jcc.pcap", 50000)
	var turn []byte
	for i, b := range said.server {
		if i >= 3 && objects(t, said.client[i])[cpOPNQRY] != nil {
			turn = b
		}
	}
	ask := func(b []byte) (string, error) {
		link := &replay{server: [][]byte{bytes.Clone(b)}}
		c := &Conn{net: link, in: newReader(link), order: binary.LittleEndian, single: pageLatin1, mixed: pageLatin1, double: pageUTF16, rdb: bytes.Repeat([]byte{0x40}, 18)}
		r, err := c.Query(t.Context(), "x")
		if err != nil {
			return "", err
		}
		rest, _, err := r.Copy(t.Context(), nil, 1<<20, 1<<20, func(b []byte, _ int, _ bool) ([]byte, error) { return b[:0], nil })
		return string(rest), err
	}
	whole, err := ask(turn)
	if err != nil {
		t.Fatal(err)
	}
	for n := range turn {
		if got, err := ask(turn[:n]); err == nil && !strings.HasPrefix(whole, got) {
			t.Errorf("cut at %d: %q", n, got)
		}
		for bit := range 8 {
			bad := bytes.Clone(turn)
			bad[n] ^= 1 << bit
			ask(bad)
		}
	}
}

// FuzzReplies gives random bytes to all that reads replies.
func FuzzReplies(f *testing.F) {
	row := []byte{0, 13, 0xD0, 0x43, 0, 1, 0, 7, 0x24, 0x1B, 0xFF, 0, 0xFF}
	f.Add(row)
	f.Add([]byte{0, 10, 0xD0, 2, 0, 1, 0, 4, 0x22, 0x0C})
	f.Add([]byte{0xFF, 0xFF, 0xD0, 3, 0, 1, 0x80, 4, 0x24, 0x1B})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, columns := range [][]Column{nil, {{Type: 0x03, Length: 4}, {Type: 0x3F, Length: 9}, {Type: 0x0F, Length: 0x1F04}, {Type: 0xCF, Length: 0x8004}, {Type: 0xCC, Length: 0x8008}, {Type: 0x25, Length: 26}}} {
			link := &replay{server: [][]byte{bytes.Clone(b)}}
			c := &Conn{net: link, in: newReader(link), order: binary.LittleEndian, double: pageUTF16, rdb: bytes.Repeat([]byte{0x40}, 18)}
			c.in.start()
			if columns == nil {
				c.results()
				continue
			}
			r := &Rows{c: c, section: 1, limit: 1 << 10, piece: 1 << 10, replies: 1, full: func(b []byte, _ int, _ bool) ([]byte, error) { return b[:0], nil }}
			for _, d := range columns {
				col, err := c.column(d)
				if err != nil {
					t.Fatal(err)
				}
				r.columns = append(r.columns, col)
			}
			if err := r.copy(); err == nil {
				r.Close(t.Context())
			}
		}
		parseQRYDSC(b)
		parseSQLCA(&fields{b: b, order: binary.LittleEndian}, func(b []byte) string { return string(b) })
	})
}
