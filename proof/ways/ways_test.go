// Package ways compares every way a value can travel: each type, at its edges, moves from each
// engine to each other one by a copy, by dump files, by a stream and by a logical backup, and is
// compared with what the source's own server prints.
package ways

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// A way moves all of a source's tables to a new database of a target.
type way struct {
	name string
	go_  func(t *testing.T, p *pair) (target string)
}

// A pair is a source with its types, and a target's server.
type pair struct {
	server, target *testdb.Server
	types          []typ
	src            string
	early          string // filled by a stream
	state          string // the catalogue
}

// nothingStops are options for values that the target cannot represent.
var nothingStops = []string{"--zero-dates", "null", "--unrepresentable", "null"}

func (p *pair) foreign() bool {
	return (p.server.Engine == "postgres") != (p.target.Engine == "postgres")
}

func TestEveryTypeByEveryWay(t *testing.T) {
	pg, maria, my := testdb.Postgres(t, 15), testdb.MariaDB(t), testdb.MySQL(t)
	for _, server := range []*testdb.Server{maria, my, pg} {
		for _, target := range []*testdb.Server{pg, maria, my} {
			t.Run(server.Engine+" to "+target.Engine, func(t *testing.T) {
				t.Parallel()
				compare(t, &pair{server: server, target: target})
			})
		}
	}
}

func compare(t *testing.T, p *pair) {
	p.types = mysqlTypes()
	if p.server.Engine == "postgres" {
		p.types = postgresTypes()
	}
	p.state = filepath.Join(t.TempDir(), "catalog.db")
	p.src = p.server.NewDatabase(t, "src")
	var create []string
	kept := p.types[:0]
	for _, y := range p.types {
		if y.only != "" && y.only != p.server.Engine || y.name == "cs_gb18030" && p.target.Engine == "mariadb" { // MariaDB lacks gb18030
			continue
		}
		kept, create = append(kept, y), append(create, y.create())
	}
	p.types = kept
	testdb.Query(t, p.src, strings.Join(create, ";\n"))
	p.early = p.target.NewDatabase(t, "stream")
	p.must(t, append([]string{"replicate", p.src, p.early, "--name", p.name(), "--until", "now"}, nothingStops...)...)
	want := map[string]string{}
	source := testdb.NewSession(p.src)
	defer source.Close()
	for _, y := range p.types {
		if _, err := testdb.TryQuery(p.src, y.fill()); err != nil {
			t.Fatalf("%s: %v", y.ddl, err)
		}
		want[y.name] = p.expected(y, y.text(t, p.src, source, false))
	}
	for _, w := range p.ways() {
		t.Run(w.name, func(t *testing.T) {
			target := w.go_(t, p)
			in := testdb.NewSession(target)
			defer in.Close()
			for _, y := range p.types {
				if got := y.text(t, target, in, p.foreign()); got != want[y.name] {
					t.Errorf("%s: %s", y.ddl, different(got, want[y.name]))
				}
			}
		})
	}
}

// name returns the name of the pair's stream: a server has several.
func (p *pair) name() string { return "ways_" + p.target.Engine }

// must runs tidemark with the pair's catalogue. Only errors from its output appear in the test's
// own report.
func (p *pair) must(t *testing.T, args ...string) {
	t.Helper()
	o := testdb.Run(t, append(args, "--state", p.state)...)
	if o.Code == 0 {
		return
	}
	_, why, _ := strings.Cut("\n"+o.ErrOut, "\ntidemark: ")
	t.Fatalf("tidemark %s: exit %d\n%s", args[0], o.Code, why)
}

// expected returns what the target should hold if the source has text.
func (p *pair) expected(y typ, text string) string {
	if y.name == "zerodate" && p.foreign() {
		return strings.ReplaceAll(text, "0000-00-00 00:00:00", "NULL")
	}
	return text
}

// different returns the first row that differs between two texts.
func different(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range a {
		if i >= len(b) || a[i] != b[i] {
			return fmt.Sprintf("%.300q, and at the source %.300q", a[i], append(b, make([]string, len(a))...)[i])
		}
	}
	return fmt.Sprintf("%d rows of %d", len(a), len(b))
}

func (p *pair) ways() []way {
	out := []way{{"copy", copied}, {"stream", streamed}, {"backup", backedUp}}
	if p.server.Engine != "postgres" && p.target.Engine == "postgres" {
		out = append(out, way{"copy into a schema of the source's name", namesake})
	}
	if p.server.Engine == p.target.Engine {
		out = append(out, way{"script", scripted})
	}
	if p.server.Engine != "postgres" {
		out = append(out, way{"dump", func(t *testing.T, p *pair) string { return dumped(t, p) }},
			way{"mydumper", func(t *testing.T, p *pair) string { return loaded(t, p, testdb.Mydumper(t, p.src, "--compress")) }},
			way{"dump in hex", func(t *testing.T, p *pair) string { return dumped(t, p, "--hex-blob") }})
	}
	if testdb.Long() && p.server.Engine == "mysql" {
		out = append(out, way{"dump by mariadb-dump", func(t *testing.T, p *pair) string { return loaded(t, p, testdb.MariaDBDump(t, p.src)) }})
	}
	return out
}

func (p *pair) database(t *testing.T) string { return p.target.NewDatabase(t, "dst") }

func copied(t *testing.T, p *pair) string {
	dst := p.database(t)
	p.must(t, append([]string{"copy", p.src, dst}, nothingStops...)...)
	return dst
}

// namesake copies to a schema with the name of the source's database.
func namesake(t *testing.T, p *pair) string {
	dst, schema := p.database(t), p.src[strings.LastIndex(p.src, "/")+1:]
	p.must(t, append([]string{"copy", p.src, dst, "--target-schema", schema}, nothingStops...)...)
	testdb.Query(t, dst, "ALTER DATABASE "+dst[strings.LastIndex(dst, "/")+1:strings.Index(dst, "?")]+" SET search_path = "+schema)
	return dst
}

// streamed follows the source from before its rows were written.
func streamed(t *testing.T, p *pair) string {
	p.must(t, append([]string{"replicate", p.src, p.early, "--name", p.name(), "--until", "now"}, nothingStops...)...)
	return p.early
}

func backedUp(t *testing.T, p *pair) string {
	dst, place := p.database(t), t.TempDir()
	p.must(t, "backup", "--logical", p.src, place)
	p.must(t, append([]string{"restore", place, "latest", dst}, nothingStops...)...)
	return dst
}

// scripted restores a logical backup with its own script and the server's client. A backup of MySQL
// restores into its original database, so the source's tables are first copied, and then dropped.
func scripted(t *testing.T, p *pair) string {
	src, place := p.src, t.TempDir()
	if p.server.Engine != "postgres" {
		src = copied(t, p)
	}
	p.must(t, "backup", "--logical", src, place)
	folders, err := filepath.Glob(filepath.Join(place, "dumps", "*"))
	if err != nil || len(folders) != 1 {
		t.Fatal(folders, err)
	}
	dst := src
	if p.server.Engine == "postgres" {
		dst = p.database(t)
	} else {
		db := src[strings.LastIndex(src, "/")+1:]
		testdb.Query(t, src, "DROP DATABASE "+db+"; CREATE DATABASE "+db)
	}
	if out, err := testdb.Shell(t, folders[0], "restore.sh", dst); err != nil {
		t.Fatalf("restore.sh: %v\n%s", err, out)
	}
	return dst
}

// dumped transfers through a file written by the server's own dump program.
func dumped(t *testing.T, p *pair, args ...string) string {
	return loaded(t, p, testdb.MySQLDump(t, p.src, args...))
}

func loaded(t *testing.T, p *pair, file string) string {
	dst := p.database(t)
	p.must(t, append([]string{"copy", "file:" + file, dst}, nothingStops...)...)
	return dst
}
