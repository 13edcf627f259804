package schema

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

func tableOf(t *testing.T, db *tidemark.Database, schema, name string) *tidemark.Table {
	t.Helper()
	for _, table := range db.Tables {
		if table.Schema == schema && table.Name == name {
			return table
		}
	}
	t.Fatalf("table %s.%s is not described", schema, name)
	return nil
}

func TestDescribeTypes(t *testing.T) {
	src := testdb.Postgres(t, 15).NewDatabase(t, "src")
	testdb.Load(t, src, testdb.Sample(t, "types-zoo/pg.sql"))
	db := describeURL(t, src)
	want := map[string]string{
		"t_numeric.i2": "int/16/portable smallint", "t_numeric.n": "decimal/portable numeric", "t_numeric.n_ps": "decimal(20,5)/portable numeric(20,5)",
		"t_numeric.n_neg": "decimal(5,-2)/portable numeric(5,-2)", "t_numeric.f4": "float/32/portable real", "t_numeric.o": "int/32/unsigned/portable oid",
		"t_text.v": "varchar[10]/portable character varying(10)", "t_text.c": "char[5]/portable character(5)", "t_text.ci": "text/portable public.citext",
		"t_text.b": "blob/portable bytea", "t_text.bit4": "bit[4]/portable bit(4)", "t_text.vb": "varbit/portable bit varying", "t_text.x": "xml/portable xml",
		"t_time.tz": "", "t_time.ts0": "datetime.0/portable timestamp(0) without time zone", "t_time.tstz": "timestamp.-1/portable timestamp with time zone",
		"t_time.iv_ds": "interval.3/portable interval day to second(3)", "t_time.t": "time.-1/portable time without time zone",
		"t_net_geo.ip": "other/portable inet", "t_net_geo.u": "uuid/portable uuid", "t_json.jb": "json/portable jsonb", "t_json.h": "other/portable public.hstore",
		"t_array.ia": "array of int/portable integer[]", "t_array.ma": "array of enum zoo.mood[]", "t_array.ca": "array of text public.citext[]", "t_array.il": "array of int/portable zoo.int_list",
		"t_array.pa": "array of other zoo.person[]", "t_range.r4": "other/portable int4range", "t_range.rf": "other/portable zoo.floatrange", "t_range.m4": "other/portable int4multirange",
		"t_composite.p": "other zoo.person", "t_composite.f": "enum{sad meh ok happy it's \"complicated\" 日本}/portable zoo.mood", "t_composite.z": "text/portable zoo.us_postal",
		"t_composite.n": "int/32/portable zoo.pos_int",
	}
	delete(want, "t_time.tz")
	got := map[string]string{}
	for name := range want {
		table, column, _ := strings.Cut(name, ".")
		got[name] = typeLine(&tableOf(t, db, "zoo", table).Column(column).Type)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("types (-want +got):\n%s", diff)
	}
	if !tableOf(t, db, "zoo", "t_composite").Column("n").NotNull {
		t.Error("a domain that is not null makes no column that is not null")
	}
	if lobs := tableOf(t, db, "pg_catalog", "pg_largeobject"); lobs.Form != tidemark.LargeObjects || len(lobs.Columns) != 3 {
		t.Errorf("large objects are %+v", lobs)
	}
}

func typeLine(c *tidemark.Type) string {
	s := c.Kind.String()
	if c.Elem != nil {
		s += " of " + c.Elem.Kind.String()
	}
	if c.Kind == tidemark.Decimal && c.Precision > 0 {
		s += fmt.Sprintf("(%d,%d)", c.Precision, c.Scale)
	} else if c.Kind != tidemark.Decimal && c.Precision != 0 || c.Kind == tidemark.DateTime {
		s += fmt.Sprintf(".%d", c.Precision)
	}
	if c.Bits > 0 {
		s += fmt.Sprintf("/%d", c.Bits)
	}
	if c.Length > 0 {
		s += fmt.Sprintf("[%d]", c.Length)
	}
	if len(c.Labels) > 0 {
		s += "{" + strings.Join(c.Labels, " ") + "}"
	}
	if c.Unsigned {
		s += "/unsigned"
	}
	if c.Portable {
		s += "/portable"
	}
	return s + " " + c.Native
}

func TestDescribeTables(t *testing.T) {
	src := testdb.Postgres(t, 15).NewDatabase(t, "src")
	testdb.Load(t, src, strings.NewReader(`
		CREATE TABLE a (id int GENERATED ALWAYS AS IDENTITY (START 5 INCREMENT 5), s bigserial, free int DEFAULT nextval('a_s_seq'), x text DEFAULT 'it''s', n numeric DEFAULT -1.5,
		  e text DEFAULT 'a' || 'b', ts timestamptz DEFAULT now(), d date DEFAULT CURRENT_DATE, dn date DEFAULT now(), u uuid DEFAULT gen_random_uuid(), nul int DEFAULT NULL,
		  b bool DEFAULT true, arr int[] DEFAULT '{1,2}', g int GENERATED ALWAYS AS (nul + 1) STORED, loc timestamp DEFAULT LOCALTIMESTAMP(3), j json DEFAULT '{}', cat text DEFAULT 'x' COLLATE "C",
		  PRIMARY KEY (id) INCLUDE (x), CONSTRAINT chk CHECK (n < 5));
		ALTER TABLE a ADD CONSTRAINT later CHECK (n < 6) NOT VALID;
		INSERT INTO a (x) VALUES ('1'), ('2');
		CREATE UNIQUE INDEX a_idx ON a (lower(x), n DESC) WHERE n > 0; CREATE INDEX a_ops ON a (x text_pattern_ops);
		COMMENT ON TABLE a IS 'tab'; COMMENT ON COLUMN a.x IS 'col'; COMMENT ON INDEX a_idx IS 'idx';
		CREATE TABLE p (k int, day date, PRIMARY KEY (k, day)) PARTITION BY RANGE (day);
		CREATE TABLE p1 PARTITION OF p FOR VALUES FROM ('2020-01-01') TO ('2021-01-01') PARTITION BY LIST (k);
		CREATE TABLE p1_1 PARTITION OF p1 FOR VALUES IN (1); CREATE TABLE p2 PARTITION OF p DEFAULT;
		INSERT INTO p SELECT 1, '2020-02-02'; INSERT INTO p SELECT g, '2022-01-01' FROM generate_series(1, 50) g; ANALYZE p;
		CREATE UNLOGGED TABLE u (id int PRIMARY KEY, a int REFERENCES u ON DELETE SET NULL DEFERRABLE INITIALLY DEFERRED);
		CREATE VIEW v AS SELECT 1 AS one; CREATE TEMP TABLE temporary (a int); CREATE TABLE skipped (a int);`))
	db, err := describe(t.Context(), connectTo(t, src), server.Options{Owners: true, Grants: true}, func(id tidemark.TableID) bool { return id.Name != "skipped" }, false)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, table := range db.Tables {
		names = append(names, fmt.Sprint(table.Name, table.Form))
	}
	if want := []string{"a0", "p1", "p12", "p1_12", "p22", "u0", "v3"}; !slices.Equal(names, want) {
		t.Errorf("tables and forms %v, want %v", names, want)
	}
	if !slices.ContainsFunc(db.Objects, func(o tidemark.Object) bool { return o.ID == "table public.skipped" }) {
		t.Error("native objects are not complete")
	}
	a := tableOf(t, db, "public", "a")
	var defaults []string
	for _, c := range a.Columns {
		line := c.Name
		if c.Default != nil {
			line += fmt.Sprintf(" %d:%s", c.Default.Kind, c.Default.Text)
		}
		if c.Identity != nil {
			line += fmt.Sprintf(" %+v", *c.Identity)
		}
		defaults = append(defaults, line+c.Generated)
	}
	want := []string{"id {Always:true Start:5 Increment:5 Next:15 Sequence:}", "s {Always:false Start:1 Increment:1 Next:5 Sequence:}", "free {Always:false Start:1 Increment:1 Next:5 Sequence:public.a_s_seq}", "x 0:it's", "n 0:-1.5",
		"e 4:('a'::text || 'b'::text)", "ts 1:now()", "d 2:CURRENT_DATE", "dn 2:now()", "u 3:gen_random_uuid()", "nul", "b 0:t", "arr 0:{1,2}", "g(nul + 1)", "loc 1:LOCALTIMESTAMP(3)", "j 0:{}",
		"cat 0:x"}
	if diff := cmp.Diff(want, defaults); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&tidemark.Index{Name: "a_pkey", Parts: []tidemark.IndexPart{{Column: "id"}}, Unique: true, Method: "btree", Include: []string{"x"}}, a.Key); diff != "" {
		t.Errorf("key (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]tidemark.Index{
		{Name: "a_idx", Parts: []tidemark.IndexPart{{Expr: "lower(x)"}, {Column: "n", Desc: true}}, Unique: true, Method: "btree", Where: "(n > (0)::numeric)", Comment: "idx"},
		{Name: "a_ops", Parts: []tidemark.IndexPart{{Expr: "x pg_catalog.text_pattern_ops"}}, Method: "btree"}}, a.Indexes); diff != "" {
		t.Errorf("indexes (-want +got):\n%s", diff)
	}
	if a.Comment != "tab" || a.Column("x").Comment != "col" || len(a.Checks) != 2 || a.Checks[0] != (tidemark.Check{Name: "chk", Expr: "(n < (5)::numeric)"}) || a.Checks[1].Unchecked != tidemark.NotValid {
		t.Errorf("comments %q, %q, checks %+v", a.Comment, a.Column("x").Comment, a.Checks)
	}
	p := tableOf(t, db, "public", "p")
	if len(p.Partitions) != 2 || p.Partitions[0].Table.Name != "p1_1" || p.Partitions[1].Rows != 50 || p.Rows != 51 || p.Bytes != 2*8192 {
		t.Errorf("partitions %+v of %d rows, %d bytes", p.Partitions, p.Rows, p.Bytes)
	}
	if leaf := tableOf(t, db, "public", "p1_1"); leaf.PartitionOf != p.TableID {
		t.Errorf("a leaf is a partition of %s", leaf.PartitionOf)
	}
	u := tableOf(t, db, "public", "u")
	if u.Storage != "unlogged" || u.Rows != -1 {
		t.Errorf("unlogged table %+v", u)
	}
	if diff := cmp.Diff([]tidemark.ForeignKey{{Name: "u_a_fkey", Columns: []string{"a"}, Ref: u.TableID, RefColumns: []string{"id"}, OnUpdate: "NO ACTION", OnDelete: "SET NULL",
		Deferrable: true, Deferred: true}}, u.ForeignKeys); diff != "" {
		t.Errorf("foreign key (-want +got):\n%s", diff)
	}
}

func TestDescribeSaysWhatItLeavesOut(t *testing.T) {
	src := testdb.Postgres(t, 15).NewDatabase(t, "src")
	name := testdb.Query(t, src, "SELECT current_database()")
	testdb.Load(t, src, strings.NewReader(`
		CREATE EXTENSION postgres_fdw; CREATE SERVER s FOREIGN DATA WRAPPER postgres_fdw; CREATE USER MAPPING FOR PUBLIC SERVER s OPTIONS (user 'u', password 'hunter2');
		CREATE SUBSCRIPTION sub CONNECTION 'host=nowhere password=hunter2' PUBLICATION p WITH (connect = false, slot_name = NONE, enabled = false);
		ALTER DATABASE `+name+` SET search_path = x, public;
		CREATE FUNCTION pg_catalog.smuggled() RETURNS int LANGUAGE sql AS 'SELECT 1';
		CREATE TABLE t (a int); SET allow_system_table_mods = on; INSERT INTO t VALUES (1), (1);`))
	conn := connectTo(t, src)
	if _, err := conn.Exec(t.Context(), "CREATE UNIQUE INDEX CONCURRENTLY broken ON public.t (a)"); err == nil {
		t.Fatal("the index is not broken")
	}
	db := describeURL(t, src)
	want := []string{
		"note: index public.broken: it is invalid on the source (a CREATE INDEX CONCURRENTLY that failed), and is left out",
		"warning: database " + name + ": its setting search_path is not carried",
		"warning: function pg_catalog.smuggled: left out: it is in pg_catalog, where only the server's own objects should be",
		"warning: subscription sub: subscriptions are not carried: two databases would take the same changes, and its connection string may hold a password",
		"warning: user mapping for public server s: its option password looks secret and is not carried",
	}
	if diff := cmp.Diff(want, findingLines(db.Findings)); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	for _, o := range db.Objects {
		if s := strings.Join(o.SQL, ";"); strings.Contains(s, "hunter2") {
			t.Errorf("%s holds the password: %s", o.ID, s)
		}
	}
	testdb.Query(t, src, "DROP SUBSCRIPTION sub")
}

// TestDescribeAsAnybody reads the catalogue with no privileges at all.
func TestDescribeAsAnybody(t *testing.T) {
	src := testdb.Postgres(t, 15).NewDatabase(t, "src")
	loadNasty(t, src, 15)
	want := describeURL(t, src)
	conn := connectTo(t, src)
	if _, err := conn.Exec(t.Context(), "SET ROLE pg_database_owner; SET ROLE pg_checkpoint"); err != nil {
		t.Fatal(err)
	}
	got, err := describe(t.Context(), conn, server.Options{Owners: true, Grants: true}, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	// Only values of sequences are invisible, and that is reported.
	values := 0
	for _, o := range want.Objects {
		if o.Kind == "sequence value" {
			values++
		} else if !slices.ContainsFunc(got.Objects, func(x tidemark.Object) bool { return x.ID == o.ID }) {
			t.Errorf("%s is not seen", o.ID)
		}
	}
	said := 0
	for _, f := range got.Findings {
		if strings.Contains(f.Text, "its value cannot be read") && strings.HasPrefix(f.Hint, "GRANT SELECT ON SEQUENCE ") {
			said++
		}
	}
	if said < values {
		t.Errorf("%d sequences have values that are not seen, and %d findings say so", values, said)
	}
}

// TestDescribeTakesFewRoundTrips counts them for few and for many tables, and for sequences whose
// state is asked for by name in between.
func TestDescribeTakesFewRoundTrips(t *testing.T) {
	srv := testdb.Postgres(t, 15)
	src := srv.NewDatabase(t, "src")
	wire := testdb.NewWire(t, fmt.Sprint(srv.Port), 0)
	conn := connectTo(t, strings.Replace(src, fmt.Sprint(srv.Port), wire.Port, 1))
	const tables = `DO $$ BEGIN FOR i IN %d..%d LOOP
		EXECUTE format('CREATE TABLE t%%s (id int PRIMARY KEY, v text DEFAULT ''x'' UNIQUE, CHECK (id > 0)); CREATE VIEW v%%s AS SELECT * FROM t%%s', i, i, i); END LOOP; END $$`
	for _, setup := range []string{fmt.Sprintf(tables, 1, 2), fmt.Sprintf(tables, 3, 200), "CREATE SEQUENCE fresh START 7"} {
		testdb.Query(t, src, setup)
		wire.Turns()
		got, err := describe(t.Context(), conn, server.Options{Owners: true, Grants: true}, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		// A message that is long travels in several pieces, between which an answer may begin.
		if n := wire.Turns(); n > 8 {
			t.Errorf("%d round trips for %d objects", n, len(got.Objects))
		}
		if diff := cmp.Diff(describeURL(t, src), got); diff != "" {
			t.Errorf("another description by that way (-direct +by way of a relay):\n%s", diff)
		}
	}
}

// TestOrderOfPhases checks the order that a copy relies on.
func TestOrderOfPhases(t *testing.T) {
	src := testdb.Postgres(t, 15).NewDatabase(t, "src")
	loadNasty(t, src, 15)
	db := describeURL(t, src)
	byID := map[string]tidemark.Object{}
	at := map[string]int{}
	for i, o := range db.Objects {
		byID[o.ID], at[o.ID] = o, i
	}
	for id, phase := range map[string]tidemark.Phase{
		"table app.everything": tidemark.BeforeRows, "check not_valid_yet ON app.everything": tidemark.AfterRows, "index app.everything_pk": tidemark.AfterTable,
		"constraint everything_pk ON app.everything": tidemark.AfterTable, "view app.by_order": tidemark.AfterRows, "view app.upd": tidemark.BeforeRows,
		"constraint pk_forced_pkey ON app.pk_forced": tidemark.BeforeRows, "table app.needs_pk_view": tidemark.BeforeRows, "refresh app.mv1": tidemark.AfterRows,
		"index app.mv1_who": tidemark.AfterRows, "foreign key FK ON app.fk_from": tidemark.AfterRows, "row security app.orders": tidemark.AfterRows,
		"domain check not_checked ON app.late": tidemark.AfterRows, "extended statistics app.ext_stat": tidemark.AfterTable, "function stub app.circular_ok": 0,
	} {
		if id == "foreign key FK ON app.fk_from" {
			id = `foreign key "FK" ON app.fk_from`
		}
		if o, ok := byID[id]; !ok && phase != 0 {
			t.Errorf("there is no %s", id)
		} else if o.Phase != phase {
			t.Errorf("%s is of phase %d, want %d", id, o.Phase, phase)
		}
	}
	for _, o := range db.Objects {
		for _, d := range o.Depends {
			if need, ok := byID[d]; !ok || at[d] > at[o.ID] || need.Phase > o.Phase {
				t.Errorf("%s (phase %d) needs %s (phase %d)", o.ID, o.Phase, d, need.Phase)
			}
		}
		for _, d := range o.After {
			if need, ok := byID[d]; !ok || at[d] > at[o.ID] || need.Phase > o.Phase || slices.Contains(o.Depends, d) {
				t.Errorf("%s (phase %d) waits for %s (phase %d)", o.ID, o.Phase, d, need.Phase)
			}
		}
		if o.Heavy && o.Kind == "index" && o.Table.Name == "" {
			t.Errorf("%s belongs to no table", o.ID)
		}
	}
	if at["refresh app.mv1"] > at["refresh app.a_mv2"] {
		t.Error("a materialized view is refreshed before the one that it reads")
	}
	// A failing unique index must not prevent the primary key.
	if pk := byID["constraint everything_pk ON app.everything"]; slices.Contains(pk.Depends, "index app.uq_idx") || !slices.Contains(pk.After, "index app.uq_idx") {
		t.Errorf("the primary key needs %v, and waits for %v", pk.Depends, pk.After)
	}
	last := db.Objects[len(db.Objects)-1]
	if last.Kind != "event trigger" && last.Kind != "owner" {
		t.Errorf("the last object is %s, not an event trigger", last.ID)
	}
}
