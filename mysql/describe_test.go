package mysql

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/mysqltest"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

func TestDescribeZoo(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		src := srv.NewDatabase(t, "describe")
		loadSample(t, srv, src, len(samples)-1)
		db := describe(t, src)
		name := mysqltest.DatabaseOf(src)
		if db.Engine != srv.Engine || db.Name != name || db.Charset != "utf8mb4" || db.Major == 0 {
			t.Errorf("database %+v", db)
		}
		var forms [2]int
		for _, x := range db.Tables {
			switch x.Form {
			case tidemark.Ordinary:
				forms[0]++
			case tidemark.View:
				forms[1]++
			}
		}
		if forms != [2]int{24, 2} {
			t.Errorf("tables and views: %v", forms)
		}
		describeColumns(t, db)
		describeKeys(t, db, name)
	})
}

func describeColumns(t *testing.T, db *tidemark.Database) {
	t.Helper()
	for _, c := range []struct {
		table, column string
		want          tidemark.Default
	}{
		{"chk", "w", tidemark.Default{Kind: tidemark.Expression, Text: "(1 + 1)"}},
		{"chk", "e", tidemark.Default{Kind: tidemark.NewUUID}},
		{"chk", "inv", tidemark.Default{Kind: tidemark.Literal, Text: "7"}},
		{"t_enum", "e2", tidemark.Default{Kind: tidemark.Literal, Text: "2"}},
		{"t_time", "upd", tidemark.Default{Kind: tidemark.Literal, Text: "2020-01-01 00:00:00+00"}},
	} {
		col := mysqltest.TableNamed(t, db, c.table).Column(c.column)
		if col.Default == nil || *col.Default != c.want {
			t.Errorf("default of %s.%s: %+v", c.table, c.column, col.Default)
		}
	}
	if !mysqltest.TableNamed(t, db, "chk").Column("inv").Invisible || mysqltest.TableNamed(t, db, "chk").Column("id").Invisible {
		t.Error("what is invisible")
	}
	if !mysqltest.TableNamed(t, db, "t_time").Column("upd").OnUpdate || mysqltest.TableNamed(t, db, "t_time").Column("ts").OnUpdate {
		t.Error("ON UPDATE")
	}
	j := mysqltest.TableNamed(t, db, "t_json")
	if k := j.Column("j").Type; k.Kind != tidemark.JSON || k.Native != "json" {
		t.Errorf("json is %+v", k)
	}
	if g := j.Column("g"); !g.Virtual || !strings.Contains(g.Generated, "'$.name'") || strings.Contains(g.Generated, `\`) {
		t.Errorf("virtual column %+v", g)
	}
	if g := j.Column("gs"); g.Virtual || g.Generated == "" {
		t.Errorf("stored column %+v", g)
	}
	if id := mysqltest.TableNamed(t, db, "t_empty").Column("id").Identity; id == nil || id.Next != 18446744073709551000 {
		t.Errorf("counter %+v", id)
	}
	if id := mysqltest.TableNamed(t, db, "t_myisam").Column("id").Identity; id == nil || id.Next != 0 {
		t.Errorf("counter per group %+v", id)
	}
	if c := mysqltest.TableNamed(t, db, "t_charsets").Column("l2").Type; c.Charset != "latin2" || c.Collation != "latin2_czech_cs" {
		t.Errorf("latin2 is %+v", c)
	}
	if c := mysqltest.TableNamed(t, db, "t_latin1"); c.Charset != "latin1" || c.Column("v").Type.Collation != "" {
		t.Errorf("latin1 is %+v", c)
	}
	if c := mysqltest.TableNamed(t, db, "weird `name` \"q\" é"); c.Comment != `it's a "comment" \ é` || c.Columns[len(c.Columns)-1].Name != "abcdefghijklmnopqrstuvwxyz0123456789_abcdefghijklmnopqrstuvwxyz1" {
		t.Errorf("weird %+v", c)
	}
}

func describeKeys(t *testing.T, db *tidemark.Database, name string) {
	t.Helper()
	weird := mysqltest.TableNamed(t, db, "weird `name` \"q\" é")
	want := []tidemark.Index{{Name: "PRIMARY2", Unique: true, Constraint: true, Parts: []tidemark.IndexPart{{Column: "select"}, {Column: "a b"}}},
		{Name: "idx `q`", Parts: []tidemark.IndexPart{{Column: "a b", Prefix: 5, Desc: true}}}}
	if diff := cmp.Diff(want, weird.Indexes); diff != "" {
		t.Errorf("indexes: %s", diff)
	}
	if x := mysqltest.TableNamed(t, db, "t_ft").Indexes; len(x) != 1 || x[0].Method != "fulltext" || x[0].Parts[0].Prefix != 0 {
		t.Errorf("fulltext %+v", x)
	}
	if x := mysqltest.TableNamed(t, db, "t_geo").Indexes; len(x) != 1 || x[0].Method != "spatial" || x[0].Parts[0].Prefix != 0 {
		t.Errorf("spatial %+v", x)
	}
	child := mysqltest.TableNamed(t, db, "fk_child").ForeignKeys
	if len(child) != 2 {
		t.Fatalf("foreign keys %+v", child)
	}
	first := tidemark.ForeignKey{Name: "fk 1", Columns: []string{"a", "b"}, Ref: tidemark.TableID{Schema: name, Name: "fk_parent"}, RefColumns: []string{"a", "b"},
		OnUpdate: "CASCADE", OnDelete: "SET NULL"}
	if diff := cmp.Diff(first, child[0]); diff != "" {
		t.Errorf("foreign key: %s", diff)
	}
	if k := mysqltest.TableNamed(t, db, "chk").Checks; len(k) != 2 || !strings.Contains(k[0].Expr+k[1].Expr, "`v` > 0") {
		t.Errorf("checks %+v", k)
	}
	p := mysqltest.TableNamed(t, db, "part_range")
	if len(p.Partitions) != 6 || p.Partitions[0].Name != "p0sp0" || p.Partitions[0].Parent != "p0" || !strings.HasPrefix(p.Native, "PARTITION BY RANGE (year(`d`))") {
		t.Errorf("partitions %+v %q", p.Partitions, p.Native)
	}
	if p := mysqltest.TableNamed(t, db, "part_list"); len(p.Partitions) != 2 || p.Partitions[1] != (tidemark.Part{Name: "b", Rows: p.Partitions[1].Rows, Bytes: p.Partitions[1].Bytes}) {
		t.Errorf("partitions %+v", p.Partitions)
	}
	if k := mysqltest.TableNamed(t, db, "part_range").Key.Columns(); !cmp.Equal(k, []string{"id", "d"}) {
		t.Errorf("key %v", k)
	}
}

func TestDescribeOnlyWhatIsWanted(t *testing.T) {
	srv := testdb.MariaDB(t)
	src := srv.NewDatabase(t, "wanted")
	testdb.Load(t, src, strings.NewReader("CREATE TABLE a (id int, b tinyint(1)); CREATE TABLE b (id int); CREATE VIEW v AS SELECT * FROM a;"))
	db, err := open(t, src, server.Options{TinyInt1Bool: true}).Describe(context.Background(), func(id tidemark.TableID) bool { return id.Name == "a" })
	if err != nil {
		t.Fatal(err)
	}
	if len(db.Tables) != 1 || db.Tables[0].Name != "a" || db.Tables[0].Columns[1].Type.Kind != tidemark.Bool {
		t.Errorf("tables %+v", db.Tables)
	}
	if len(db.Objects) != 4 {
		t.Errorf("objects %+v", db.Objects)
	}
}

// After Freeze the described tables cannot be altered, and one that was dropped
// meanwhile is Lost.
func TestDescribeHoldsTables(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		src := srv.NewDatabase(t, "held")
		testdb.Load(t, src, strings.NewReader("CREATE TABLE a (id int PRIMARY KEY) ENGINE=InnoDB; CREATE TABLE b (id int) ENGINE=InnoDB;"))
		e := open(t, src, server.Options{})
		if _, err := e.Freeze(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Describe(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		other := open(t, src, server.Options{})
		err := other.Exec(t.Context(), 0, []string{"SET lock_wait_timeout = 1", "ALTER TABLE a ADD COLUMN x int"})
		if tidemark.KindOf(err) != tidemark.Transient {
			t.Errorf("a held table was altered: %v", err)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		if err := other.Exec(t.Context(), 0, []string{"ALTER TABLE a ADD COLUMN x int"}); err != nil {
			t.Errorf("a table is held after Close: %v", err)
		}
	})
}

func TestDescribeAllDatabases(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		one, two := srv.NewDatabase(t, "all_one"), srv.NewDatabase(t, "all_two")
		testdb.Load(t, one, strings.NewReader("CREATE TABLE p (id int PRIMARY KEY) ENGINE=InnoDB;"))
		testdb.Load(t, two, strings.NewReader("CREATE TABLE c (id int, CONSTRAINT across FOREIGN KEY (id) REFERENCES `"+mysqltest.DatabaseOf(one)+"`.p (id)) ENGINE=InnoDB; "+
			"CREATE VIEW both_ AS SELECT c.id FROM c JOIN "+mysqltest.DatabaseOf(one)+".p ON p.id = c.id;"))
		db := describe(t, srv.URL(""))
		dst1, dst2 := srv.NewDatabase(t, "to_one"), srv.NewDatabase(t, "to_two")
		into := map[string]string{mysqltest.DatabaseOf(one): mysqltest.DatabaseOf(dst1), mysqltest.DatabaseOf(two): mysqltest.DatabaseOf(dst2)}
		var moves []tidemark.Move
		for _, from := range db.Tables {
			if to := into[from.Schema]; to != "" && from.Form == tidemark.Ordinary {
				moves = append(moves, movesOf(&tidemark.Database{Tables: []*tidemark.Table{from}}, to)...)
			}
		}
		e := open(t, srv.URL(""), server.Options{})
		objects, findings := e.Render(db, moves)
		for _, f := range findings {
			if f.Severity != tidemark.Note {
				t.Errorf("%+v", f)
			}
		}
		build(t, e, objects)
		got := testdb.Query(t, dst2, "SHOW CREATE TABLE c") + testdb.Query(t, dst2, "SHOW CREATE VIEW both_")
		if strings.Contains(got, mysqltest.DatabaseOf(one)) || strings.Contains(got, mysqltest.DatabaseOf(two)) || !strings.Contains(got, "REFERENCES `"+mysqltest.DatabaseOf(dst1)+"`.`p`") ||
			!strings.Contains(got, "`"+mysqltest.DatabaseOf(dst1)+"`.`p` on") {
			t.Errorf("got %s", got)
		}
		testdb.Load(t, dst2, strings.NewReader("DROP VIEW both_; DROP TABLE c;")) // before the database of its parent is dropped
		testdb.Load(t, two, strings.NewReader("DROP VIEW both_; DROP TABLE c;"))
	})
}

func TestDefiner(t *testing.T) {
	srv := testdb.MySQL(t)
	src, dst := srv.NewDatabase(t, "definer"), srv.NewDatabase(t, "definer_to")
	testdb.Load(t, src, strings.NewReader("CREATE TABLE a (id int); CREATE DEFINER=`nobody`@`%` VIEW v AS SELECT id FROM a; "+
		"CREATE DEFINER='nobody'@'%' PROCEDURE p() COMMENT 'DEFINER=x' SELECT 1;"))
	db := describe(t, src)
	for policy, want := range map[server.Definer]string{server.KeepDefiner: "nobody@%", server.CurrentDefiner: "root@127.0.0.1"} {
		e := open(t, dst, server.Options{Definer: policy})
		objects, _ := e.Render(db, movesOf(db, mysqltest.DatabaseOf(dst)))
		build(t, e, objects)
		got := testdb.Query(t, dst, "SELECT DEFINER FROM information_schema.VIEWS WHERE TABLE_SCHEMA=database(); SELECT DEFINER FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA=database()")
		if got != want+"\n"+want {
			t.Errorf("policy %d: got %s", policy, got)
		}
		testdb.Load(t, dst, strings.NewReader("DROP VIEW v; DROP PROCEDURE p; DROP TABLE a"))
	}
}
