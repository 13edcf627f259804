package mysql

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/mysqltest"
	"github.com/tidemarkdb/tidemark/mysql/schema"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// pg returns a type as PostgreSQL's describer does.
func pg(native string, kind tidemark.TypeKind, set ...func(*tidemark.Type)) tidemark.Type {
	t := tidemark.Type{Kind: kind, Native: native}
	for _, f := range set {
		f(&t)
	}
	return t
}

func size(n int64) func(*tidemark.Type) { return func(t *tidemark.Type) { t.Length = n } }
func width(n int) func(*tidemark.Type)  { return func(t *tidemark.Type) { t.Bits = n } }
func precise(p, s int) func(*tidemark.Type) {
	return func(t *tidemark.Type) { t.Precision, t.Scale = p, s }
}
func labeled(l ...string) func(*tidemark.Type) { return func(t *tidemark.Type) { t.Labels = l } }

var (
	pgInt    = pg("integer", tidemark.Int, width(32))
	pgBigint = pg("bigint", tidemark.Int, width(64))
	pgText   = pg("text", tidemark.Text)
	pgMood   = pg("zoo.mood", tidemark.Enum, labeled("sad", "ok", "it's \"complicated\"", `back\slash`, "日本"))
)

func id(name string) tidemark.TableID { return tidemark.TableID{Schema: "public", Name: name} }

func col(name string, t tidemark.Type, set ...func(*tidemark.Column)) tidemark.Column {
	c := tidemark.Column{Name: name, Type: t}
	for _, f := range set {
		f(&c)
	}
	return c
}

func required(c *tidemark.Column) { c.NotNull = true }
func defaults(kind tidemark.DefaultKind, text string) func(*tidemark.Column) {
	return func(c *tidemark.Column) { c.Default = &tidemark.Default{Kind: kind, Text: text} }
}
func numbered(next uint64, step int64) func(*tidemark.Column) {
	return func(c *tidemark.Column) {
		c.Identity, c.NotNull = &tidemark.Identity{Next: next, Increment: step}, true
	}
}
func computed(expr string) func(*tidemark.Column) {
	return func(c *tidemark.Column) { c.Generated = expr }
}

func on(columns ...string) []tidemark.IndexPart {
	var out []tidemark.IndexPart
	for _, c := range columns {
		out = append(out, tidemark.IndexPart{Column: c})
	}
	return out
}

func key(columns ...string) *tidemark.Index {
	return &tidemark.Index{Name: "pk", Parts: on(columns...), Unique: true}
}

// everyType has one column of each type that PostgreSQL has.
func everyType() *tidemark.Table {
	t := &tidemark.Table{TableID: id("every_type"), Key: key("id"), Comment: "it's every \\ type\nin two lines", Columns: []tidemark.Column{
		col("id", pgBigint, numbered(4711, 1)),
		col("bool", pg("boolean", tidemark.Bool), defaults(tidemark.Literal, "t"), required),
		col("small", pg("smallint", tidemark.Int, width(16)), defaults(tidemark.Literal, "-7")),
		col("num", pg("numeric(20,5)", tidemark.Decimal, precise(20, 5)), defaults(tidemark.Literal, "1.50")),
		col("num_neg", pg("numeric(5,-2)", tidemark.Decimal, precise(5, -2))),
		col("num_tiny", pg("numeric(2,4)", tidemark.Decimal, precise(2, 4))),
		col("num_any", pg("numeric", tidemark.Decimal), defaults(tidemark.Literal, "NaN")),
		col("num_huge", pg("numeric(200,100)", tidemark.Decimal, precise(200, 100))),
		col("real", pg("real", tidemark.Float, width(32))),
		col("double", pg("double precision", tidemark.Float, width(64)), defaults(tidemark.Literal, "1e-5")),
		col("money", pg("money", tidemark.Money)),
		col("char5", pg("character(5)", tidemark.Char, size(5)), defaults(tidemark.Literal, "ab")),
		col("char999", pg("character(999)", tidemark.Char, size(999))),
		col("v10", pg("character varying(10)", tidemark.Varchar, size(10)), defaults(tidemark.Literal, `it's \ "`)),
		col("v20000", pg("character varying(20000)", tidemark.Varchar, size(20000))),
		col("v5000000", pg("character varying(5000000)", tidemark.Varchar, size(5000000))),
		col("v", pg("character varying", tidemark.Varchar)),
		col("text", pgText, defaults(tidemark.Literal, "long 'text' \\n")),
		col("bytes", pg("bytea", tidemark.Blob), defaults(tidemark.Literal, `\x00ff27`)),
		col("bit4", pg("bit(4)", tidemark.Bit, size(4)), defaults(tidemark.Literal, "1010")),
		col("bit100", pg("bit(100)", tidemark.Bit, size(100))),
		col("varbit", pg("bit varying", tidemark.VarBit)),
		col("date", pg("date", tidemark.Date), defaults(tidemark.Today, "")),
		col("date_inf", pg("date", tidemark.Date), defaults(tidemark.Literal, "infinity")),
		col("time", pg("time without time zone", tidemark.Time, precise(-1, 0)), defaults(tidemark.Now, "")),
		col("timetz", pg("time with time zone", tidemark.TimeTZ, precise(-1, 0))),
		col("ts", pg("timestamp without time zone", tidemark.DateTime, precise(-1, 0)), defaults(tidemark.Now, "")),
		col("ts0", pg("timestamp(0) without time zone", tidemark.DateTime), defaults(tidemark.Now, "")),
		col("tstz", pg("timestamp with time zone", tidemark.Timestamp, precise(-1, 0)), defaults(tidemark.Now, "")),
		col("tstz3", pg("timestamp(3) with time zone", tidemark.Timestamp, precise(3, 0)), defaults(tidemark.Literal, "2020-01-01 00:00:00+00")),
		col("iv", pg("interval", tidemark.Interval), defaults(tidemark.Literal, "P1D")),
		col("uuid", pg("uuid", tidemark.UUID), defaults(tidemark.NewUUID, "")),
		col("json", pg("json", tidemark.JSON), defaults(tidemark.Literal, `{"a": "it's"}`)),
		col("jsonb", pg("jsonb", tidemark.JSON), required),
		col("xml", pg("xml", tidemark.XML)),
		col("mood", pgMood, defaults(tidemark.Literal, "ok")),
		col("moods", pg("zoo.mood[]", tidemark.Array, func(t *tidemark.Type) { t.Elem = &pgMood }), defaults(tidemark.Literal, "{}")),
		col("inet", pg("inet", tidemark.Other)), col("cidr", pg("cidr", tidemark.Other)), col("mac", pg("macaddr", tidemark.Other)),
		col("lsn", pg("pg_lsn", tidemark.Other)), col("name", pg("name", tidemark.Other)), col("ci", pg("public.citext", tidemark.Text)),
		col("point", pg("point", tidemark.Other)), col("range", pg("int4range", tidemark.Other)), col("hstore", pg("hstore", tidemark.Other)),
		col("geo", pg("geometry(Point,4326)", tidemark.Geometry)),
		col("composite", pg("zoo.addr", tidemark.Other)),
		col("select", pgInt, defaults(tidemark.Expression, "(1 + 1)")),
		col("Gen \"q\" `b`", pgInt, computed("(small * 2)")),
		col("lower_t", pgText, computed("lower((v10)::text)")),
		col("regex", pgText, computed("regexp_replace(text, 'a', 'b')")),
	}}
	t.Columns[13].Comment = "a 'comment'"
	t.Checks = []tidemark.Check{{Name: "c1", Expr: "((num > (0)::numeric) AND (bool OR (small <> ALL (ARRAY[1, 2]))))"},
		{Name: "c2", Expr: "((v10)::text ~ '^a'::text)"}, {Name: "c3", Expr: "((mood = 'ok'::zoo.mood) OR (length(text) > 3))"}}
	return t
}

// linked are tables with difficult keys.
func linked() []*tidemark.Table {
	return []*tidemark.Table{
		{TableID: id("parent"), Key: key("name"), Columns: []tidemark.Column{
			col("name", pgText, required), col("a", pgInt, required), col("b", pg("character varying(900)", tidemark.Varchar, size(900)), required), col("body", pgText),
			col("second", pgInt, numbered(5, 10)), col("u", pg("uuid", tidemark.UUID), required)},
			Indexes: []tidemark.Index{
				{Name: "parent_ab", Unique: true, Parts: on("a", "b")},
				{Name: "parent_u", Unique: true, Parts: on("u")},
				{Name: "by_second", Parts: on("second")},
				{Name: "body_idx", Parts: []tidemark.IndexPart{{Column: "body", Desc: true}, {Column: "a"}}},
				{Name: "lower_idx", Parts: []tidemark.IndexPart{{Expr: "lower((b)::text)"}}},
				{Name: "partial_u", Unique: true, Parts: on("a"), Where: "(a > 0)"},
				{Name: "partial", Parts: on("a"), Where: "(a > 0)"},
				{Name: "gin", Parts: on("body"), Method: "gin"},
				{Name: strings.Repeat("long_", 14), Parts: on("b")},
			}},
		{TableID: id("child"), Key: key("id"), Columns: []tidemark.Column{
			col("id", pgInt, required), col("parent_name", pgText), col("x", pgInt), col("y", pg("character varying(900)", tidemark.Varchar, size(900))),
			col("u", pg("uuid", tidemark.UUID)), col("wrong", pgBigint), col("self", pgInt)},
			ForeignKeys: []tidemark.ForeignKey{
				{Name: "fk", Columns: []string{"parent_name"}, Ref: id("parent"), RefColumns: []string{"name"}, OnDelete: "CASCADE", OnUpdate: "NO ACTION"},
				{Name: "fk_swapped", Columns: []string{"y", "x"}, Ref: id("parent"), RefColumns: []string{"b", "a"}, OnDelete: "SET NULL", Deferrable: true},
				{Name: "fk_u", Columns: []string{"u"}, Ref: id("parent"), RefColumns: []string{"u"}, OnDelete: "SET DEFAULT"},
				{Name: "fk_self", Columns: []string{"self"}, Ref: id("child"), RefColumns: []string{"id"}},
				{Name: "fk_wrong", Columns: []string{"wrong"}, Ref: id("child"), RefColumns: []string{"id"}},
				{Name: "fk_gone", Columns: []string{"x"}, Ref: id("elsewhere"), RefColumns: []string{"id"}},
			}},
		{TableID: id("same_names"), Columns: []tidemark.Column{col("parent_name", pgText)}, ForeignKeys: []tidemark.ForeignKey{
			{Name: "fk", Columns: []string{"parent_name"}, Ref: id("parent"), RefColumns: []string{"name"}}},
			Checks: []tidemark.Check{{Name: "c1", Expr: "(parent_name IS NOT NULL)"}}},
		{TableID: id("crowded"), Key: key("doc"), Columns: []tidemark.Column{
			col("doc", pg("jsonb", tidemark.JSON), required), col("address", pg("inet", tidemark.Other)), col("long", pg("character varying(900)", tidemark.Varchar, size(900))),
			col("above", pg("jsonb", tidemark.JSON))},
			Indexes:     []tidemark.Index{{Name: "both", Parts: on("address", "long")}},
			ForeignKeys: []tidemark.ForeignKey{{Name: "fk_json", Columns: []string{"above"}, Ref: id("crowded"), RefColumns: []string{"doc"}}}},
		wide(),
		{TableID: id("many"), Form: tidemark.Partitioned, Columns: []tidemark.Column{col("city", pgInt), col("day", pg("date", tidemark.Date))}},
		{TableID: id("two_numbers"), Key: key("a"), Columns: []tidemark.Column{col("a", pgInt, numbered(3, 1)), col("b", pgInt, numbered(4, 1)), col("c", pgText, numbered(1, 1))}},
	}
}

// wide has a row that InnoDB does not accept unchanged.
func wide() *tidemark.Table {
	t := &tidemark.Table{TableID: id("wide")}
	for i := range 12 {
		t.Columns = append(t.Columns, col(fmt.Sprintf("c%d", i), pg("character varying(3000)", tidemark.Varchar, size(3000))))
	}
	return t
}

func pgDatabase() *tidemark.Database {
	return &tidemark.Database{Engine: "postgres", Version: "15.18", Major: 15, Name: "shop", Tables: append([]*tidemark.Table{everyType()}, linked()...),
		Objects: []tidemark.Object{
			{ID: "table public.child", Kind: "table", Table: id("child")},
			{ID: "function public.f(integer)", Kind: "function", Table: tidemark.TableID{Schema: "public"}},
			{ID: "view public.v", Kind: "view", Table: id("v")},
			{ID: "trigger public.child.t", Kind: "trigger", Table: id("child")},
			{ID: "policy public.left_out.p", Kind: "policy", Table: id("left_out")},
		}}
}

func TestPostgresTablesAreBuilt(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		dst := srv.NewDatabase(t, "from_pg")
		db := pgDatabase()
		var moves []tidemark.Move
		for _, from := range db.Tables {
			to := *from
			to.Schema = mysqltest.DatabaseOf(dst)
			moves = append(moves, tidemark.Move{From: from, To: &to, Source: schema.StoredNames(from)})
		}
		e := open(t, dst, server.Options{})
		objects, findings := e.Render(db, moves)
		build(t, e, objects)
		golden(t, "from-pg-"+srv.Engine+".txt", told(findings, mysqltest.DatabaseOf(dst), "DST")+"\n"+showAll(t, dst)+"\n")
	})
}

// What Render writes reads back the same: names, keys, and the next value of the counter.
func TestBuiltTableReadsBack(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		dst := srv.NewDatabase(t, "readback")
		from := everyType()
		to := *from
		to.Schema = mysqltest.DatabaseOf(dst)
		e := open(t, dst, server.Options{})
		objects, _ := e.Render(&tidemark.Database{Engine: "postgres", Tables: []*tidemark.Table{from}}, []tidemark.Move{{From: from, To: &to, Source: schema.StoredNames(from)}})
		build(t, e, objects)
		db := describe(t, dst)
		if len(db.Tables) != 1 || len(db.Tables[0].Columns) != len(from.Columns) {
			t.Fatalf("got %d tables", len(db.Tables))
		}
		got := db.Tables[0]
		for i, c := range got.Columns {
			if c.Name != from.Columns[i].Name || c.NotNull != from.Columns[i].NotNull {
				t.Errorf("column %d: got %s, not null %v", i, c.Name, c.NotNull)
			}
		}
		if next := got.Columns[0].Identity.Next; next != 4711 {
			t.Errorf("the counter continues at %d", next)
		}
		if got.Comment != from.Comment || got.Columns[13].Comment != from.Columns[13].Comment {
			t.Errorf("comments %q, %q", got.Comment, got.Columns[13].Comment)
		}
		for name, want := range map[string]string{"bool": "1", "num": "1.50000", "v10": `it's \ "`, "bytes": `\x00ff27`, "bit4": "1010"} {
			if d := got.Column(name).Default; d == nil || name != "bytes" && d.Text != want {
				t.Errorf("default of %s: %+v", name, d)
			}
		}
	})
}

func TestEmptyTableOfColumns(t *testing.T) {
	from := &tidemark.Table{TableID: id("zero_cols")}
	_, findings := (&schema.Schema{Server: &server.Server{Major: 8, Patch: 33}}).Render(&tidemark.Database{Engine: "postgres"}, []tidemark.Move{{From: from, To: from}})
	if len(findings) != 1 || findings[0].Severity != tidemark.Blocker || findings[0].Kind != tidemark.Unmapped {
		t.Errorf("got %+v", findings)
	}
}

func TestLongNames(t *testing.T) {
	from := &tidemark.Table{TableID: id("t"), Columns: []tidemark.Column{col("a", pgInt)}}
	to := *from
	to.Name = strings.Repeat("é", 65)
	e := &schema.Schema{Server: &server.Server{Major: 8, Patch: 33}}
	_, findings := e.Render(&tidemark.Database{Engine: "postgres"}, []tidemark.Move{{From: from, To: &to, Source: []string{"a"}}})
	if len(findings) != 1 || findings[0].Severity != tidemark.Blocker || findings[0].Kind != tidemark.Invalid {
		t.Errorf("65 characters: %+v", findings)
	}
	to.Name = strings.Repeat("é", 64)
	if _, findings := e.Render(&tidemark.Database{Engine: "postgres"}, []tidemark.Move{{From: from, To: &to, Source: []string{"a"}}}); len(findings) != 0 {
		t.Errorf("64 characters: %+v", findings)
	}
}
