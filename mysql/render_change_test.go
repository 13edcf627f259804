package mysql

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/mysqltest"
	"github.com/tidemarkdb/tidemark/mysql/schema"
	"github.com/tidemarkdb/tidemark/mysql/server"
	"github.com/tidemarkdb/tidemark/sqltext"
)

// moveOf creates a move that prefixes a table and its columns, leaves one column out, and turns
// another one into text, as transformations do.
func moveOf(from *tidemark.Table, db string, leave, text string) tidemark.Move {
	to := *from
	to.TableID = tidemark.TableID{Schema: db, Name: "new_" + from.Name}
	to.Columns = nil
	var source []string
	rename := func(n string) string { return schema.Shorten("c_"+n, 64) }
	for _, c := range from.Columns {
		if c.Name == leave {
			continue
		}
		if c.Generated == "" {
			source = append(source, c.Name)
		}
		if c.Name == text {
			c.Type = tidemark.Type{Kind: tidemark.Varchar, Length: 30}
		}
		c.Name = rename(c.Name)
		to.Columns = append(to.Columns, c)
	}
	part := func(x tidemark.Index) tidemark.Index {
		var parts []tidemark.IndexPart
		for _, p := range x.Parts {
			if p.Column != "" {
				p.Column = rename(p.Column)
			}
			parts = append(parts, p)
		}
		x.Parts = parts
		return x
	}
	if from.Key != nil {
		k := part(*from.Key)
		to.Key = &k
	}
	to.Indexes = nil
	for _, x := range from.Indexes {
		to.Indexes = append(to.Indexes, part(x))
	}
	return tidemark.Move{From: from, To: &to, Source: source}
}

func TestChangedTablesAreBuilt(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		src := srv.NewDatabase(t, "zoo_changed")
		loadSample(t, srv, src, len(samples)-1)
		db := describe(t, src)
		for _, to := range []*testdb.Server{srv, testdb.MariaDB(t), testdb.MySQL(t)} {
			dst := to.NewDatabase(t, "changed")
			var moves []tidemark.Move
			for _, from := range db.Tables {
				if from.Form == tidemark.Ordinary {
					moves = append(moves, moveOf(from, mysqltest.DatabaseOf(dst), "tiu", "si"))
				} else {
					view := *from
					view.Schema = mysqltest.DatabaseOf(dst)
					moves = append(moves, tidemark.Move{From: from, To: &view, Source: schema.StoredNames(from)})
				}
			}
			e := open(t, dst, server.Options{})
			objects, findings := e.Render(db, moves)
			build(t, e, objects)
			golden(t, "changed-"+srv.Engine+"-"+to.Engine+".txt", told(findings, mysqltest.DatabaseOf(src), "SRC", mysqltest.DatabaseOf(dst), "DST")+"\n"+showAll(t, dst)+"\n")
		}
	})
}

// For any text, joining the tokens yields the text again, and nothing hangs.
func FuzzScan(f *testing.F) {
	for _, s := range []string{hardMariaDB, hardMySQL, "/*!80023 INVISIBLE */ 'a''b\\'c' `x``y` -- c\n# d\n\"e\" /* f */ /*M!100301 COMPRESSED*/", "'", "`", "/*", "/*!"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		tokens := sqltext.Scan(s)
		if got := sqltext.Join(tokens); got != s {
			t.Errorf("got %q of %q", got, s)
		}
	})
}

func TestDescribeManyTables(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		src := srv.NewDatabase(t, "many")
		var b strings.Builder
		const n = 250 // more than two batches of SHOW CREATE
		for i := range n {
			b.WriteString(strings.ReplaceAll("CREATE TABLE t_# (id int AUTO_INCREMENT PRIMARY KEY, a int, KEY (a), v varchar(10) DEFAULT 'x');\n", "#", string(rune('a'+i%26))+strings.Repeat("x", i/26)))
		}
		testdb.Load(t, src, strings.NewReader(b.String()))
		db := describe(t, src)
		if len(db.Tables) != n {
			t.Fatalf("got %d tables", len(db.Tables))
		}
		e := open(t, src, server.Options{})
		objects, findings := e.Render(db, movesOf(db, "elsewhere"))
		if len(objects) != 3*n+1 || len(findings) != 0 {
			t.Errorf("got %d objects, %d findings", len(objects), len(findings))
		}
	})
}
