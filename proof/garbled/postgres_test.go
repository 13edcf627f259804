package garbled

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// postgresWire is PostgreSQL's protocol, without TLS. Row data messages count as different kinds by
// their first bytes.
var postgresWire = protocol{
	read: func(r *bufio.Reader, _ *sync.Map) (m message, err error) {
		m.head = make([]byte, 5)
		if _, err := io.ReadFull(r, m.head); err != nil {
			return m, err
		}
		n := int(binary.BigEndian.Uint32(m.head[1:])) - 4
		if n < 0 || n > 1<<30 {
			return m, fmt.Errorf("a server says %q", m.head)
		}
		m.body = make([]byte, n)
		_, err = io.ReadFull(r, m.body)
		m.kind = string(m.head[:1])
		switch {
		case m.kind == "d" && n > 0 && strings.ContainsRune("wkndmpt", rune(m.body[0])):
			m.kind += string(m.body[:1])
			if m.kind == "dw" && n > 25 && strings.ContainsRune("BCRIUDTYMOSEcAKP", rune(m.body[25])) {
				m.kind += string(m.body[25:26])
			}
		case m.kind == "R" && n >= 4:
			m.kind += fmt.Sprint(m.body[3])
		}
		return m, err
	},
	join: func(m message) []byte {
		out := append(append([]byte{}, m.head...), m.body...)
		binary.BigEndian.PutUint32(out[1:], uint32(len(m.body)+4))
		return out
	},
	lie: func(head []byte, rnd *rand.Rand) []byte {
		head = append([]byte{}, head...)
		lengths := []uint32{0x7fffffff, 0x80000000, 0xffffffff, 0, 1, 3, 0x3fffffff, 0x10000000, 1 << 16}
		binary.BigEndian.PutUint32(head[1:], lengths[rnd.IntN(len(lengths))])
		return head
	},
}

const postgresRows = `CREATE TABLE t (id int PRIMARY KEY, name text, at timestamptz DEFAULT now(), n numeric(10,2) CHECK (n < 1000), j jsonb);
INSERT INTO t SELECT g, 'name ' || g, now(), g / 10.0, '{"a": [1, 2]}' FROM generate_series(1, 300) g; CREATE INDEX ON t (name);
CREATE VIEW v AS SELECT id, name FROM t;`

func TestPostgres(t *testing.T) {
	t.Parallel()
	srv := testdb.OwnPostgres(t, 15)
	testdb.Query(t, srv.URL("postgres"), "CREATE ROLE scrammed SUPERUSER LOGIN REPLICATION PASSWORD 'hush-7Fq'")
	maria := testdb.MariaDB(t)
	filled := srv.NewDatabase(t, "filled")
	testdb.Load(t, filled, strings.NewReader(postgresRows))
	// way is a database's URL with the proxy's address instead of the server's.
	way := func(db, at string) string {
		u, err := url.Parse(db)
		if err != nil {
			t.Fatal(err)
		}
		u.Host, u.User = at, url.UserPassword("scrammed", "hush-7Fq")
		q := u.Query()
		q.Set("sslmode", "disable")
		q.Set("connect_timeout", "3")
		u.RawQuery = q.Encode()
		return u.String()
	}
	from := func(at string) string { return way(filled, at) }
	var stream atomic.Int32
	lies(t, postgresWire, fmt.Sprintf("%s:%d", srv.Host, srv.Port), []scene{
		{"check", func(t *testing.T, at string) []string { return []string{"check", from(at), maria.NewDatabase(t, "to")} }},
		{"copy from", func(t *testing.T, at string) []string {
			return []string{"copy", from(at), maria.NewDatabase(t, "to"), "--retry-for", "1s"}
		}},
		{"copy both", func(t *testing.T, at string) []string {
			return []string{"copy", from(at), way(srv.NewDatabase(t, "to"), at), "--retry-for", "1s"}
		}},
		{"copy to", func(t *testing.T, at string) []string {
			return []string{"copy", filled, way(srv.NewDatabase(t, "to"), at), "--retry-for", "1s"}
		}},
		{"replicate", func(t *testing.T, at string) []string {
			name := fmt.Sprintf("s%d", stream.Add(1))
			src := srv.NewDatabase(t, "src")
			testdb.Load(t, src, strings.NewReader(postgresRows))
			dst := maria.NewDatabase(t, "to")
			args := []string{"replicate", way(src, at), dst, "--name", name, "--retry-for", "1s", "--until", "now", "--queue", "direct"}
			testdb.Must(t, args...)
			testdb.Load(t, src, strings.NewReader("UPDATE t SET name = 'other' WHERE id < 50; DELETE FROM t WHERE id = 60; BEGIN; INSERT INTO t SELECT g, 'x', now(), 1, '[]' FROM generate_series(1000, 1300) g; COMMIT; TRUNCATE t; INSERT INTO t VALUES (1, 'again')"))
			return args
		}},
		{"apply", func(t *testing.T, at string) []string {
			name := fmt.Sprintf("s%d", stream.Add(1))
			src, dst := srv.NewDatabase(t, "src"), srv.NewDatabase(t, "to")
			testdb.Load(t, src, strings.NewReader(postgresRows))
			args := []string{"replicate", src, way(dst, at), "--name", name, "--retry-for", "1s", "--until", "now", "--queue", "direct"}
			testdb.Must(t, args...)
			testdb.Load(t, src, strings.NewReader("UPDATE t SET name = 'other' WHERE id < 50; DELETE FROM t WHERE id = 60; INSERT INTO t SELECT g, 'x', now(), 1, '[]' FROM generate_series(1000, 1300) g"))
			return args
		}},
		{"diff", func(t *testing.T, at string) []string { return []string{"diff", filled, from(at)} }},
		{"repair", func(t *testing.T, at string) []string {
			dst := srv.NewDatabase(t, "to")
			testdb.Load(t, dst, strings.NewReader(postgresRows+"UPDATE t SET name = 'wrong' WHERE id % 7 = 0; DELETE FROM t WHERE id = 5"))
			return []string{"repair", filled, way(dst, at)}
		}},
		{"backup", func(t *testing.T, at string) []string {
			return []string{"backup", from(at), t.TempDir() + "/repo", "--compress", "none"}
		}},
		{"backup logical", func(t *testing.T, at string) []string {
			return []string{"backup", "--logical", from(at), t.TempDir() + "/repo"}
		}},
		{"archive", func(t *testing.T, at string) []string {
			return []string{"archive", from(at), t.TempDir() + "/repo", "--slot", "garbled", "--slot-use", "temporary"}
		}},
		{"ha check", func(t *testing.T, at string) []string { return []string{"ha", "check", from(at), "--for", "1s"} }},
		{"ha scan", func(t *testing.T, at string) []string { return []string{"ha", "scan", from(at)} }},
	}, some(1), 400)
}
