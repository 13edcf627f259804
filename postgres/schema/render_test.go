package schema

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysqltype"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// findingLines returns findings as lines, in order.
func findingLines(findings []tidemark.Finding) []string {
	var out []string
	for _, f := range findings {
		out = append(out, fmt.Sprintf("%s: %s: %s", f.Severity, f.Object, f.Text))
	}
	slices.Sort(out)
	return out
}

func TestRenderLeavesOutWhatNeedsATableThatStays(t *testing.T) {
	src := testdb.Postgres(t, 15).NewDatabase(t, "src")
	dst := testdb.Postgres(t, 15).NewDatabase(t, "dst")
	testdb.Load(t, src, strings.NewReader(`
		CREATE TABLE kept (id serial PRIMARY KEY, v text);
		CREATE TABLE stays (id serial PRIMARY KEY, kept_id int REFERENCES kept, v text);
		CREATE INDEX stays_v ON stays (v);
		ALTER TABLE kept ADD other int REFERENCES stays;
		CREATE VIEW of_kept AS SELECT * FROM kept;
		CREATE VIEW of_both AS SELECT k.id, s.v FROM kept k JOIN stays s ON s.kept_id = k.id;
		CREATE VIEW of_view AS SELECT id FROM of_both;
		CREATE FUNCTION takes_stays(stays) RETURNS int LANGUAGE sql AS 'SELECT 1';
		CREATE FUNCTION evt() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END';
		CREATE EVENT TRIGGER ev ON sql_drop EXECUTE FUNCTION evt();
		CREATE TABLE par (a int); CREATE TABLE kid (b int PRIMARY KEY) INHERITS (par);
		ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO pg_monitor;
		CREATE PUBLICATION pub FOR TABLE kept, stays;
		SELECT setval('stays_id_seq', 5);`))
	db := describeURL(t, src)
	var moves []tidemark.Move
	for _, table := range db.Tables {
		if table.Name == "kept" || table.Name == "kid" {
			moves = append(moves, tidemark.Move{From: table, To: table, Direct: true})
		}
	}
	e := &Schema{Server: &server.Server{Options: server.Options{Grants: true}}}
	objects, findings := e.Render(db, moves)
	want := []string{
		"warning: foreign key kept_other_fkey ON public.kept: left out: it needs public.stays, which is not copied",
		"warning: function public.takes_stays(public.stays): left out: it needs public.stays, which is not copied",
		"warning: table public.kid: it is created with its columns and keys only, since public.par, which it needs, is not copied",
		"warning: view public.of_both: left out: it needs public.stays, which is not copied",
		"warning: view public.of_view: left out: it needs public.stays, which is not copied",
	}
	if diff := cmp.Diff(want, findingLines(findings)); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	runAll(t, dst, objects)
	got := testdb.Query(t, dst, "SELECT string_agg(relname || relkind::text, ' ' ORDER BY relname) FROM pg_class WHERE relnamespace = 'public'::regnamespace")
	if want := "keptr kept_id_seqS kept_pkeyi kidr kid_pkeyi of_keptv"; got != want {
		t.Errorf("relations %q, want %q", got, want)
	}
}

// TestRenderRenamed moves every table to another schema, which no native DDL can do.
func TestRenderRenamed(t *testing.T) {
	for _, sample := range []string{"pagila/pg.sql.zst", "types-zoo/pg.sql"} {
		src := testdb.Postgres(t, 15).NewDatabase(t, "src")
		dst := testdb.Postgres(t, 15).NewDatabase(t, "dst")
		testdb.Load(t, src, testdb.Sample(t, sample))
		db := describeURL(t, src)
		moves := slices.DeleteFunc(all(db), func(m tidemark.Move) bool { return m.From.Form == tidemark.LargeObjects })
		for i := range moves {
			to := *moves[i].From
			to.Schema = "copy of " + to.Schema
			to.ForeignKeys = slices.Clone(to.ForeignKeys)
			for k := range to.ForeignKeys {
				to.ForeignKeys[k].Ref.Schema = "copy of " + to.ForeignKeys[k].Ref.Schema
			}
			moves[i].To, moves[i].Direct = &to, false
		}
		objects, findings := (&Schema{Server: &server.Server{}}).Render(db, moves)
		for _, f := range findingLines(findings) {
			if strings.Contains(f, "foreign key") {
				t.Error(f)
			}
		}
		runAll(t, dst, objects)
		after := describeURL(t, dst)
		for i := range moves {
			sameShape(t, moves[i].To, after)
		}
	}
}

// sameShape compares a logical table with the one created from it.
func sameShape(t *testing.T, want *tidemark.Table, db *tidemark.Database) {
	t.Helper()
	i := slices.IndexFunc(db.Tables, func(x *tidemark.Table) bool { return x.TableID == want.TableID })
	if i < 0 {
		t.Errorf("%s is not there", want)
		return
	}
	got := db.Tables[i]
	shape := func(x *tidemark.Table) []string {
		var out []string
		for _, c := range x.Columns {
			out = append(out, fmt.Sprintf("%s %s %s null %t generated %q identity %t default %v comment %q", c.Name, c.Type.Kind, c.Type.Native, !c.NotNull, c.Generated,
				c.Identity != nil, c.Default, c.Comment))
		}
		for _, x := range append(keyOf(x), x.Indexes...) {
			out = append(out, fmt.Sprint(x.Unique, x.Method, x.Parts, x.Where, x.Include))
		}
		for _, fk := range x.ForeignKeys {
			out = append(out, fmt.Sprint(fk))
		}
		slices.Sort(out)
		return out
	}
	if diff := cmp.Diff(shape(want), shape(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", want, diff)
	}
}

func mysqlColumn(name, native string, change ...func(*tidemark.Column)) tidemark.Column {
	c := tidemark.Column{Name: name, Type: mysqltype.Parse(native)}
	for _, f := range change {
		f(&c)
	}
	return c
}

func notNull(c *tidemark.Column) { c.NotNull = true }

func withDefault(kind tidemark.DefaultKind, text string) func(*tidemark.Column) {
	return func(c *tidemark.Column) { c.Default = &tidemark.Default{Kind: kind, Text: text} }
}

// mysqlShop returns a MySQL database in the logical vocabulary.
func mysqlShop() *tidemark.Database {
	customer := &tidemark.Table{TableID: tidemark.TableID{Schema: "shop", Name: "customer"}, Comment: "it's who buys",
		Columns: []tidemark.Column{
			mysqlColumn("id", "int unsigned", notNull, func(c *tidemark.Column) { c.Identity = &tidemark.Identity{Next: 42} }),
			mysqlColumn("name", "varchar(100)", notNull, withDefault(tidemark.Literal, "no'body"), func(c *tidemark.Column) { c.Type.Collation = "utf8mb4_general_ci" }),
			mysqlColumn("notes", "text"), mysqlColumn("active", "tinyint(1)", withDefault(tidemark.Literal, "1")),
			mysqlColumn("level", "enum('low','it''s')", withDefault(tidemark.Literal, "low")), mysqlColumn("tags", "set('a','b')"),
			mysqlColumn("flags", "bit(8)", withDefault(tidemark.Literal, "00000101")), mysqlColumn("pic", "varbinary(20)", withDefault(tidemark.Literal, `\x00ff`)),
			mysqlColumn("born", "date", withDefault(tidemark.Literal, "0000-00-00")), mysqlColumn("spent", "time(3)"), mysqlColumn("seen", "datetime(3)", withDefault(tidemark.Now, "")),
			mysqlColumn("changed", "timestamp", notNull, withDefault(tidemark.Now, ""), func(c *tidemark.Column) { c.OnUpdate = true }),
			mysqlColumn("y", "year"), mysqlColumn("j", "json"), mysqlColumn("where_", "point"), mysqlColumn("token", "char(36)", withDefault(tidemark.NewUUID, "")),
			mysqlColumn("twice", "int", func(c *tidemark.Column) { c.Generated = "(`id` * 2)" }),
			mysqlColumn("label", "varchar(200)", func(c *tidemark.Column) { c.Generated, c.Virtual = "concat(upper(`name`),_utf8mb4'-',`level`)", true }),
			mysqlColumn("full", "varchar(200)", func(c *tidemark.Column) { c.Generated, c.Virtual = "concat(upper(`name`),_utf8mb4'-')", true }),
			mysqlColumn("price", "decimal(10,2)", withDefault(tidemark.Literal, "1.50")), mysqlColumn("odd", "varchar(10)", withDefault(tidemark.Expression, "soundex('x')")),
			mysqlColumn("expr", "int", withDefault(tidemark.Expression, "(1 + 2)")),
		},
		Key: &tidemark.Index{Name: "PRIMARY", Parts: []tidemark.IndexPart{{Column: "id"}}, Unique: true},
		Indexes: []tidemark.Index{
			{Name: "name", Parts: []tidemark.IndexPart{{Column: "name", Prefix: 10}, {Column: "born", Desc: true}}},
			{Name: "notes", Parts: []tidemark.IndexPart{{Column: "notes", Prefix: 20}}, Unique: true},
			{Name: "words", Parts: []tidemark.IndexPart{{Column: "notes"}}, Method: "fulltext"},
			{Name: "near", Parts: []tidemark.IndexPart{{Column: "notes"}}, Method: "vector"},
			{Name: "low", Parts: []tidemark.IndexPart{{Expr: "lower(`name`)"}}},
			{Name: "gone", Parts: []tidemark.IndexPart{{Column: "label"}}},
		},
		Checks: []tidemark.Check{{Name: "positive", Expr: "(`price` > 0 and `name` <> _utf8mb4'x')"}, {Name: "j", Expr: "json_valid(`j`)"}, {Name: "odd", Expr: "(`price` / 2 > 1)"}},
	}
	order := &tidemark.Table{TableID: tidemark.TableID{Schema: "shop", Name: "order"},
		Columns: []tidemark.Column{
			mysqlColumn("id", "bigint unsigned", notNull, func(c *tidemark.Column) { c.Identity = &tidemark.Identity{Next: 7} }),
			mysqlColumn("customer", "int unsigned"), mysqlColumn("total", "double", notNull), mysqlColumn("plain", "int"),
		},
		Key:     &tidemark.Index{Name: "PRIMARY", Parts: []tidemark.IndexPart{{Column: "id"}}, Unique: true},
		Indexes: []tidemark.Index{{Name: "name", Parts: []tidemark.IndexPart{{Column: "customer"}}}},
		ForeignKeys: []tidemark.ForeignKey{
			{Name: "who", Columns: []string{"customer"}, Ref: customer.TableID, RefColumns: []string{"id"}, OnDelete: "CASCADE", OnUpdate: "RESTRICT"},
			{Name: "loose", Columns: []string{"plain"}, Ref: customer.TableID, RefColumns: []string{"y"}},
		},
	}
	return &tidemark.Database{Engine: "mysql", Tables: []*tidemark.Table{customer, order}}
}

func TestRenderFromMySQL(t *testing.T) {
	dst := testdb.Postgres(t, 15).NewDatabase(t, "dst")
	db := mysqlShop()
	objects, findings := (&Schema{Server: &server.Server{}}).Render(db, all(db))
	want := []string{
		"note: column shop.customer.full: the virtual column becomes a stored one",
		"note: index name of shop.customer: it has all of name, not only its first 10 characters",
		"note: index notes of shop.customer: queries use it only where they compare left(notes, 20)",
		"note: table shop.customer: ON UPDATE CURRENT_TIMESTAMP becomes a trigger",
		"warning: check odd of shop.customer: left out: \"/\" has no counterpart in (`price` / 2 > 1)",
		"warning: check positive of shop.customer: its expression compares text, which ignores case and accents and trailing blanks on the source and nothing here: a row that fulfills it there may violate it here, where it is not made then",
		"warning: column shop.customer.born: its default 0000-00-00 is left out: it is not a date",
		"warning: column shop.customer.label: the generated column is left out: function concat of another kind of value in concat(upper(`name`),_utf8mb4'-',`level`)",
		"warning: column shop.customer.odd: its default is left out: it is SQL of the source: soundex('x')",
		"warning: foreign key loose of shop.order: left out: no unique key of shop.customer has exactly the columns y",
		"warning: index gone of shop.customer: left out: its column label is left out",
		"warning: index near of shop.customer: left out: PostgreSQL has no vector index of this kind",
		"warning: index words of shop.customer: left out: PostgreSQL has no fulltext index of this kind",
	}
	if diff := cmp.Diff(want, findingLines(findings)); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	// Rows come between the phases: the identity has to continue after them.
	before := slices.DeleteFunc(slices.Clone(objects), func(o tidemark.Object) bool { return o.Phase == tidemark.AfterRows })
	after := slices.DeleteFunc(slices.Clone(objects), func(o tidemark.Object) bool { return o.Phase != tidemark.AfterRows })
	runAll(t, dst, before)
	testdb.Query(t, dst, `INSERT INTO shop.customer (id, name, price, spent, where_) VALUES (100, 'Ann', 5, '-838:59:59', '\x00')`)
	runAll(t, dst, after)
	for sql, want := range map[string]string{
		`INSERT INTO shop.customer (name, price) VALUES ('Bob', 1) RETURNING id, active, level, flags, pic, twice, "full", expr`: "101\t1\tlow\t00000101\t\\x00ff\t202\tBOB-\t3",
		`INSERT INTO shop."order" (customer, total) VALUES (100, 1) RETURNING id`:                                                "7",
	} {
		if got := testdb.Query(t, dst, sql); got != want {
			t.Errorf("%s\ngives %q, want %q", sql, got, want)
		}
	}
	if got := testdb.Query(t, dst, `UPDATE shop.customer SET changed = '2000-01-01' WHERE id = 100; UPDATE shop.customer SET notes = 'x' WHERE id = 100;
		SELECT changed > '2020-01-01' FROM shop.customer WHERE id = 100`); !strings.HasSuffix(got, "t") && !strings.HasSuffix(got, "true") {
		t.Errorf("ON UPDATE gives %q", got)
	}
	got := testdb.Query(t, dst, `SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'shop.customer'::regclass AND attnum > 0`)
	wantTypes := "id bigint, name character varying(100), notes text, active smallint, level shop.customer_level, tags text, flags bit(8), pic bytea, born date, " +
		"spent interval(3), seen timestamp(3) without time zone, changed timestamp(0) with time zone, y smallint, j json, where_ bytea, token character varying(36), " +
		"twice integer, full character varying(200), price numeric(10,2), odd character varying(10), expr integer"
	if got != wantTypes {
		t.Errorf("types\n got %s\nwant %s", got, wantTypes)
	}
	if keys := testdb.Query(t, dst, `SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_class WHERE relkind = 'i' AND relnamespace = 'shop'::regnamespace`); keys != "customer_pkey low name notes order_name order_pkey" {
		t.Errorf("indexes %q", keys)
	}
}

func TestExpressionsOfMySQL(t *testing.T) {
	columns := map[string]exprClass{"n": intClass, "t": textClass, "b": boolClass, "d": dateClass, "z": zonedClass, "e": otherClass, "j": jsonClass, "f": floatClass, "odd name": bigClass}
	for in, want := range map[string]string{
		"(`n` > 0)":                                     "(n > 0)",
		"`n` between 1 and 2 or not `b`":                "((n BETWEEN 1 AND 2) OR (NOT b))",
		"`n` and `b`":                                   "((n <> 0) AND b)",
		"`t` in ('a','it''s')":                          "(t IN ('a', 'it''s'))",
		"`t` not in (_utf8mb4'a')":                      "(t NOT IN ('a'))",
		`(` + "`t`" + ` <> _utf8mb4\'x\')`:              "(t <> 'x')",
		"`odd name` + -1 * 2":                           `("odd name" + ((- 1)::bigint * 2))`,
		"case when `n` = 1 then 'x' else `t` end":       "CASE WHEN (n = 1) THEN 'x' ELSE t END",
		"char_length(`t`) <= 5 and `d` >= '2020-01-01'": "((char_length(t) <= 5) AND (d >= '2020-01-01'))",
		"ifnull(`n`,0) is not null":                     "(COALESCE(n, 0) IS NOT NULL)",
		"`n` / 2":                                       "error",
		"`n` div 2":                                     "(n::bigint / NULLIF(2, 0))",
		"`n` * `n` % 7":                                 "((n::bigint * n) % NULLIF(7, 0))",
		"`f` % 2":                                       "error",
		"`d` = `t`":                                     "error",
		"`d` > `z`":                                     "error",
		"`d` > 'soon'":                                  "error",
		"`d` > '2024-02-29 23:59:59.5'":                 "(d > '2024-02-29 23:59:59.5')",
		"`d` > '2023-02-29'":                            "error",
		"`e` = 'x'":                                     "error",
		"coalesce(`d`,'2020-01-01')":                    "COALESCE(d, '2020-01-01')",
		"concat(`d`,'x')":                               "error",
		"concat(`n`,'x')":                               "((n)::text || 'x')",
		"`j` = `j`":                                     "error",
		"`t` + 1":                                       "error",
		"`t` = 1":                                       "error",
		"`n` <=> 1":                                     "(n IS NOT DISTINCT FROM 1)",
		"json_extract(`j`,'$.a')":                       "(j -> 'a')",
		"json_extract(`j`,'$.*')":                       "error",
		"json_extract(`j`,'$[last]')":                   "error",
		"json_extract(`t`,'$.a')":                       "error",
		"`missing` = 1":                                 "error",
		"'a\\'b'":                                       "error",
		"`n` = 1 garbage":                               "error",
		"`t` like 'a%' and":                             "error",
		"0x41":                                          "error",
		"concat(`t`":                                    "error",
		"'open":                                         "error",
	} {
		v, err := newExpr(in, "mysql", func(name string) (value, error) {
			c, ok := columns[name]
			if !ok {
				return value{}, errNoColumn(name)
			}
			return value{sql: server.QuoteIdent(name), class: c}, nil
		}).parse()
		got := v.sql
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%s: got %s (%v), want %s", in, got, err, want)
		}
	}
}

func TestTypeMapEndsInARuleForEverything(t *testing.T) {
	for _, bools := range []bool{false, true} {
		rules := TypeMap(bools)
		seen := map[string]bool{}
		for _, r := range rules {
			if r.Source == "" || r.Target == "" || seen[r.Source] {
				t.Errorf("rule %q gives %q", r.Source, r.Target)
			}
			seen[r.Source] = true
		}
	}
	for native, want := range map[string]string{"tinyint(1)": "boolean", "bigint(20) unsigned": "numeric(20,0)", "decimal(65,30)": "numeric(65,30)", "float(7,3)": "real",
		"datetime(6)": "timestamp without time zone", "time": "interval(0)", "char(3)": "character varying(3)", "varchar(0)": "text", "inet6": "inet", "nonsense": "text", "bit(64)": "bit(64)"} {
		typ := mysqltype.Parse(native)
		if got := sqlType(&typ, true); got != want {
			t.Errorf("%s becomes %s, want %s", native, got, want)
		}
	}
	for want, precision := range map[string]int{"time without time zone": -1, "time(0) without time zone": 0, "time(3) without time zone": 3} { // of a rule
		if got := sqlType(&tidemark.Type{Kind: tidemark.Time, Precision: precision}, false); got != want {
			t.Errorf("a time of day of %d digits becomes %s, want %s", precision, got, want)
		}
	}
}

func TestLabelsOfBytesAreRefused(t *testing.T) {
	table := &tidemark.Table{TableID: tidemark.TableID{Schema: "s", Name: "t"}, Columns: []tidemark.Column{mysqlColumn("e", "enum(x'ff','a')")}}
	db := &tidemark.Database{Engine: "mysql", Tables: []*tidemark.Table{table}}
	_, findings := (&Schema{Server: &server.Server{}}).Render(db, all(db))
	if got := findingLines(findings); !strings.Contains(strings.Join(got, "\n"), `its label "\xff" is bytes`) || findings[0].Severity != tidemark.Blocker {
		t.Errorf("findings %v", got)
	}
}

// A column of labels that a table of MySQL gets later has its type made first.
func TestAddColumnOfLabels(t *testing.T) {
	table := &tidemark.Table{TableID: tidemark.TableID{Schema: "shop", Name: "item"}, Columns: []tidemark.Column{mysqlColumn("id", "int"), mysqlColumn("mood", "enum('sad','glad')", notNull)}}
	m := &tidemark.Move{From: table, To: table}
	got := (&Schema{Server: &server.Server{}}).AddColumn(&tidemark.Database{Engine: "mysql", Tables: []*tidemark.Table{table}}, m, "mood", "")
	want := []string{`CREATE TYPE shop.item_mood AS ENUM ('sad', 'glad')`, `ALTER TABLE shop.item ADD COLUMN IF NOT EXISTS mood shop.item_mood DEFAULT 'sad' NOT NULL`}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestNamesAreShortenedAndStayDifferent(t *testing.T) {
	long := strings.Repeat("é", 40)
	a, b := shorten(long+"a"), shorten(long+"b")
	if a == b || len(a) > server.MaxName || !strings.HasPrefix(a, "ééé") || strings.ToValidUTF8(a, "?") != a {
		t.Errorf("shorten gives %q and %q", a, b)
	}
	if got := server.Clip(long); len(got) != 62 || strings.ToValidUTF8(got, "?") != got {
		t.Errorf("clip gives %q", got)
	}
	table := &tidemark.Table{TableID: tidemark.TableID{Schema: "s", Name: "t"}, Columns: []tidemark.Column{
		mysqlColumn(strings.Repeat("x", 63)+"1", "int"), mysqlColumn(strings.Repeat("x", 63)+"2", "int")}}
	db := &tidemark.Database{Engine: "mysql", Tables: []*tidemark.Table{table}}
	_, findings := (&Schema{Server: &server.Server{}}).Render(db, all(db))
	if len(findings) == 0 || !slices.ContainsFunc(findings, func(f tidemark.Finding) bool { return f.Kind == tidemark.Collision && f.Severity == tidemark.Blocker }) {
		t.Errorf("findings %v lack the collision", findingLines(findings))
	}
}
