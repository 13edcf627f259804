package mysql

import (
	"context"
	"fmt"
	"io"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/mysqltest"
	"github.com/tidemarkdb/tidemark/mysql/schema"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// describe describes everything in a test's database.
func describe(t *testing.T, rawURL string) *tidemark.Database {
	t.Helper()
	db, err := open(t, rawURL, server.Options{}).Describe(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// movesOf moves every base table of a database, unchanged, into another database.
func movesOf(db *tidemark.Database, into string) []tidemark.Move {
	var out []tidemark.Move
	for _, from := range db.Tables {
		if from.Form != tidemark.Ordinary {
			continue
		}
		to := *from
		to.Schema = into
		out = append(out, tidemark.Move{From: from, To: &to, Source: schema.StoredNames(from), Direct: true})
	}
	return out
}

// build runs the objects in the order of a copy.
func build(t *testing.T, e *Engine, objects []tidemark.Object) {
	t.Helper()
	sorted := append([]tidemark.Object(nil), objects...)
	sort.SliceStable(sorted, func(i, j int) bool { return sorted[i].Phase < sorted[j].Phase })
	done := map[string]bool{}
	known := map[string]bool{}
	for _, o := range sorted {
		if known[o.ID] {
			t.Errorf("two objects %s", o.ID)
		}
		known[o.ID] = true
	}
	for _, o := range sorted {
		for _, d := range o.Depends {
			if known[d] && !done[d] {
				t.Errorf("%s comes before %s, which it depends on", o.ID, d)
			}
		}
		if err := e.Exec(context.Background(), 0, o.SQL); err != nil {
			t.Errorf("%s: %v\n%s", o.ID, err, strings.Join(o.SQL, ";\n"))
		}
		done[o.ID] = true
	}
}

// showAll returns SHOW CREATE of everything in a database, without its name.
func showAll(t *testing.T, rawURL string) string {
	t.Helper()
	db := mysqltest.DatabaseOf(rawURL)
	in := server.Literal(db)
	var b strings.Builder
	list := testdb.Query(t, rawURL, "SELECT CASE TABLE_TYPE WHEN 'VIEW' THEN 'VIEW' WHEN 'SEQUENCE' THEN 'SEQUENCE' ELSE 'TABLE' END, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA="+in+
		" UNION ALL SELECT ROUTINE_TYPE, ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA="+in+
		" UNION ALL SELECT 'EVENT', EVENT_NAME FROM information_schema.EVENTS WHERE EVENT_SCHEMA="+in+" ORDER BY 1, 2")
	for line := range strings.SplitSeq(list, "\n") {
		kind, name, ok := strings.Cut(line, "\t")
		if ok {
			fmt.Fprintf(&b, "SHOW CREATE %s %s;\n", kind, server.Quote(name))
		}
	}
	b.WriteString("SHOW CREATE DATABASE " + server.Quote(db) + ";")
	b.WriteString("SELECT TRIGGER_NAME, EVENT_MANIPULATION, EVENT_OBJECT_TABLE, ACTION_ORDER, ACTION_STATEMENT, ACTION_TIMING, SQL_MODE, DEFINER, CHARACTER_SET_CLIENT, " +
		"COLLATION_CONNECTION, DATABASE_COLLATION FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA=" + in + " ORDER BY TRIGGER_NAME;")
	return strings.ReplaceAll(testdb.Query(t, rawURL, b.String()), db, "THEDB")
}

var samples = []struct{ name, maria, my string }{
	{"sakila", "sakila/mysql.sql.zst", "sakila/mysql.sql.zst"},
	{"spatial", "sakila/mysql-spatial-mariadb.sql.zst", "sakila/mysql-spatial-mysql8.sql.zst"},
	{"chinook", "chinook/mysql.sql.zst", "chinook/mysql.sql.zst"},
	{"northwind", "northwind/mysql.sql.zst", "northwind/mysql.sql.zst"},
	{"world", "world/mysql.sql.zst", "world/mysql.sql.zst"},
	{"menagerie", "menagerie/mysql.sql", "menagerie/mysql.sql"},
	{"zoo", "types-zoo/mysql.sql", "types-zoo/mysql.sql"},
}

// loadSample loads a sample without its rows, which only other tests need.
func loadSample(t *testing.T, srv *testdb.Server, rawURL string, i int) {
	t.Helper()
	var r io.ReadCloser
	if srv.Engine == "mysql" {
		r = testdb.SampleMySQL8(t, samples[i].my)
	} else {
		r = testdb.Sample(t, samples[i].maria)
	}
	testdb.Load(t, rawURL, r)
}

func TestSamplesComeOutEqual(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		for i, sample := range samples {
			t.Run(sample.name, func(t *testing.T) {
				src, dst := srv.NewDatabase(t, "src_"+sample.name), srv.NewDatabase(t, "dst_"+sample.name)
				loadSample(t, srv, src, i)
				db := describe(t, src)
				e := open(t, dst, server.Options{})
				objects, findings := e.Render(db, movesOf(db, mysqltest.DatabaseOf(dst)))
				for _, f := range append(db.Findings, findings...) {
					if f.Severity != tidemark.Note {
						t.Errorf("%s %s: %s", f.Severity, f.Object, f.Text)
					}
				}
				build(t, e, objects)
				if diff := cmp.Diff(showAll(t, src), showAll(t, dst)); diff != "" {
					t.Errorf("source and target differ (-source +target):\n%s", diff)
				}
			})
		}
	})
}
