// Package ddl_test changes table definitions while a stream runs, in all ways that the servers
// support, and compares target and source by the output of the servers' own clients. All tests hold
// to one rule: a table is equal, or it is stopped with a reason; and nothing stops the stream.
package ddl_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// A server is an engine, and how to query its catalogue.
type server struct {
	name string
	open func(testing.TB) *testdb.Server
}

var (
	postgres = server{"postgres", func(tb testing.TB) *testdb.Server { return testdb.Postgres(tb, 15) }}
	mysql    = server{"mysql", testdb.MySQL}
	mariadb  = server{"mariadb", testdb.MariaDB}
)

func (s server) isPostgres() bool { return s.name == "postgres" }

// A stream runs from one new database to another.
type stream struct {
	t        testing.TB
	src, tgt server
	from, to string
	name     string
	args     []string
	lacks    string // columns that the target lacks, separated by commas
}

func newStream(t testing.TB, src, tgt server, setup ...string) *stream {
	return newStreamWith(t, src, tgt, nil, setup...)
}

// newStreamWith is newStream with more options.
func newStreamWith(t testing.TB, src, tgt server, more []string, setup ...string) *stream {
	s := &stream{t: t, src: src, tgt: tgt, from: src.open(t).NewDatabase(t, "ddl_s"), to: tgt.open(t).NewDatabase(t, "ddl_t")}
	s.do(setup...)
	s.begin(s.from, s.to, more)
	return s
}

// begin creates the stream between URLs of its databases.
func (s *stream) begin(from, to string, more []string) {
	s.name = s.from[strings.LastIndexByte(s.from, '/')+1:]
	s.name, _, _ = strings.Cut(s.name, "?")
	s.args = append(append([]string{"replicate", from, to}, more...), "--name", s.name, "--until", "now")
	s.flow()
	t := s.t
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		if o := testdb.Run(t, "replicate", from, to, "--name", s.name, "--remove"); o.Code != 0 && o.Code != 6 { // the test may have removed it
			t.Errorf("remove: exit %d\n%s", o.Code, o.ErrOut)
		}
	})
}

// do changes the source.
func (s *stream) do(all ...string) {
	s.t.Helper()
	for _, sql := range all {
		testdb.Query(s.t, s.from, sql)
	}
}

// flow lets the stream reach the source's end. It must never end because of a table.
func (s *stream) flow() string {
	s.t.Helper()
	o := testdb.Run(s.t, s.args...)
	if o.Code != 0 {
		s.t.Fatalf("the stream ended with %d:\n%s%s", o.Code, o.ErrOut, o.Out)
	}
	return o.ErrOut + o.Out
}

// await waits until a query gives a text.
func await(t testing.TB, url, sql, want string) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); testdb.Query(t, url, sql) != want; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it is not %s: %s", want, sql)
		}
	}
}

// A state is what the stream reports about a table.
type state struct {
	Table               struct{ Schema, Name string }
	State, Reason, Hint string
}

func (s *stream) states() map[string]state {
	s.t.Helper()
	var all []state
	out := testdb.Must(s.t, "sub", "--name", s.name, "--json")
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		s.t.Fatalf("%v in %s", err, out)
	}
	by := map[string]state{}
	for _, x := range all {
		by[x.Table.Name] = x
	}
	return by
}

// columns returns a table's columns on source or target, ordered by name.
func columns(t testing.TB, of server, url, table string) []string {
	t.Helper()
	schema := "DATABASE()"
	if of.isPostgres() {
		schema = "'public'"
	}
	out := testdb.Query(t, url, "SELECT column_name FROM information_schema.columns WHERE table_schema = "+schema+" AND table_name = '"+table+"'")
	names := strings.Fields(out)
	slices.Sort(names)
	return names
}

// dump returns a table's rows, in columns, ordered.
func dump(t testing.TB, of server, url, table string, names []string) string {
	t.Helper()
	var texts []string
	for _, c := range names {
		switch {
		case of.isPostgres():
			texts = append(texts, fmt.Sprintf(`coalesce("%s"::text, '~')`, c))
		default:
			texts = append(texts, fmt.Sprintf("coalesce(CAST(`%s` AS CHAR), '~')", c))
		}
	}
	q := "concat_ws('|', " + strings.Join(texts, ", ") + ")"
	lines := strings.Split(testdb.Query(t, url, "SELECT "+q+" FROM "+table), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

var (
	times = regexp.MustCompile(`(\d\d:\d\d:\d\d(?:\.\d*[1-9])?)\.?0*(?:\+00)?(\||\n|$)`)
	bytes = regexp.MustCompile(`\\x(?:[0-9a-f]{2})+`)
)

// spelled returns rows whose times and bytes are alike if they are equal on PostgreSQL and MySQL.
func spelled(rows string) string {
	return bytes.ReplaceAllStringFunc(times.ReplaceAllString(rows, "$1$2"), func(hexed string) string {
		raw, err := hex.DecodeString(hexed[2:])
		if err != nil {
			return hexed
		}
		return string(raw)
	})
}

// differs returns how a table of the target differs; it should have all columns of the source's.
func (s *stream) differs(table string) string {
	s.t.Helper()
	is := slices.DeleteFunc(columns(s.t, s.src, s.from, table), func(c string) bool { return slices.Contains(strings.Split(s.lacks, ","), c) })
	for _, c := range is {
		if !slices.Contains(columns(s.t, s.tgt, s.to, table), c) {
			return "the target has no column " + c
		}
	}
	want, have := dump(s.t, s.src, s.from, table, is), dump(s.t, s.tgt, s.to, table, is)
	if s.src.isPostgres() != s.tgt.isPostgres() {
		want, have = spelled(want), spelled(have)
	}
	if want != have {
		return fmt.Sprintf("the source has (%s)\n%s\nthe target has\n%s", strings.Join(is, ", "), want, have)
	}
	return ""
}

// whole checks that a table is equal or stopped with a reason, and returns its state.
func (s *stream) whole(table string) state {
	s.t.Helper()
	st, ok := s.states()[table]
	switch {
	case !ok:
		s.t.Errorf("%s is not in the stream", table)
	case st.State == "stopped" && (st.Reason == "" || st.Hint == "" || !strings.HasSuffix(strings.TrimSpace(st.Hint), ".") && strings.Contains(st.Hint, "\n")):
		s.t.Errorf("%s is stopped with %+v", table, st)
	case st.State != "stopped":
		if text := s.differs(table); text != "" {
			s.t.Errorf("%s is %s, and %s", table, st.State, text)
		}
	}
	return st
}
