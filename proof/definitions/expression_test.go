package definitions_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestExpressions carries functions and casts of MySQL and MariaDB to the other one, in every place
// where an expression stands: the copy ends well, what the target computes is what the source does,
// and a warning names what it does not.
func TestExpressions(t *testing.T) {
	t.Run("mysql-mariadb", func(t *testing.T) { testExpressions(t, "mysql", "mariadb", ofMySQL) })
	t.Run("mariadb-mysql", func(t *testing.T) { testExpressions(t, "mariadb", "mysql", ofMariaDB) })
}

var (
	ofMySQL = []string{"uuid_to_bin(s)", "uuid_to_bin(s,1)", "uuid_to_bin(s,false)", "bin_to_uuid(b)", "bin_to_uuid(b,1)", "bin_to_uuid(uuid_to_bin(s,1),0)", "is_uuid(s)", "s regexp '^6'",
		"regexp_instr(s,'c')", "regexp_instr(s,'c',1,1)", "regexp_replace(s,'c','#')", "json_extract(cast(concat('[',n,']') as json),'$[0]')", "json_value(j,'$.a')", "json_value(j,'$.a' returning signed)", "json_value(j,'$.none')",
		"n member of (j)", "j->>'$.a'", "date_format(d,'%Y-%m')", "date_format(d,'%M')", "dayname(d)", "week(d)", "from_unixtime(n)", "cast(j->>'$.t' as datetime)", "cast(j->>'$.t' as date)", "cast(d as time)", "timestamp(d)",
		"cast(n as float)", "cast(n as real)", "st_astext(g)", "st_geohash(g,5)", "st_latitude(g)", "any_value(n)", "format_bytes(n)", "json_storage_size(j)", "json_schema_valid('{}',j)", "(s is not null)", "if(n is not null and s is null,'a','not null')", "s not regexp 'x'", "last_day(d)", "convert_tz(d,'+00:00','+01:00')"}
	ofMariaDB = []string{"json_compact(j)", "json_loose(j)", "json_detailed(j)", "json_equals(j,j)", "json_exists(j,'$.a')", "json_exists(j,'$.b')", "json_query(j,'$.a')", "json_value(j,'$.a')", "to_char(d)", "natural_sort_key(s)",
		"sformat('{}',s)", "chr(65)", "nvl(s,'a')", "nvl2(s,'a','b')", "crc32(s)", "crc32(s,1)", "crc32c(s)", "s regexp '^6'", "date_format(d,'%Y','en_US')", "date_format(d,'%M','de_DE')", "date_format(d,'%Y')",
		"uuid()", "sys_guid()", "user()", "current_user()", "current_timestamp(3)", "database()", "lpad(s,50)", "rpad(s,50)", "lpad(s,3)", "cast(s as uuid)", "cast(s as inet6)", "column_create('a',1)", "st_boundary(g)", "st_isring(g)", "st_astext(g)", "(s is not null)", "if(n is not null and s is null,'a','not null')", "md5(s)", "format(n,2,'de_DE')"}
)

func testExpressions(t *testing.T, from, to string, expressions []string) {
	uses := map[string]string{
		"default": "x text DEFAULT (%s)", "virtual": "x varchar(99) GENERATED ALWAYS AS (%s) VIRTUAL NOT NULL COMMENT 'generated as (x)'", "nullable": "x varchar(99) AS (%s) VIRTUAL", "keyed": "x varchar(99) AS (%s) VIRTUAL, UNIQUE KEY k (x)",
		"stored": "x varchar(99) AS (%s) STORED, KEY k (x, n)", "check": "x int, CONSTRAINT c CHECK ((%s) IS NOT NULL OR id > 0)",
	}
	src, dst := testdb.ServerOf(t, from).NewDatabase(t, "src"), testdb.ServerOf(t, to).NewDatabase(t, "dst")
	made := map[string]string{}
	for use, sql := range uses {
		for _, i := range testdb.Draw(t, len(expressions), 8) {
			x := expressions[i]
			table := fmt.Sprintf("%s_%d", use, i)
			_, err := testdb.TryQuery(src, "CREATE TABLE "+table+" (id int PRIMARY KEY, s varchar(60), b binary(16), j json, g geometry, n int, d datetime, "+fmt.Sprintf(sql, x)+")")
			if err != nil {
				continue // the source has it elsewhere only
			}
			_, err = testdb.TryQuery(src, "INSERT INTO "+table+" (id, s, b, j, g, n, d) VALUES (1, '6ccd780c-baba-1026-9564-5b8c656024db', x'6ccd780cbaba102695645b8c656024db', '{\"a\": 7, \"t\": \"2024-05-06 07:08:09\"}', point(1, 2), 1700000000, '2024-05-06 07:08:09')")
			if err == nil {
				made[table] = x
			} else {
				testdb.Query(t, src, "DROP TABLE "+table)
			}
		}
	}
	if len(made) < 20 {
		t.Fatalf("%d tables only", len(made))
	}
	if o := testdb.Run(t, "check", src, dst); o.Code != 0 {
		t.Errorf("check: %d\n%s%s", o.Code, o.Out, o.ErrOut)
	}
	o := testdb.Run(t, "copy", src, dst, "-v")
	if o.Code != 0 {
		t.Errorf("copy: %d\n%s%s", o.Code, o.Out, o.ErrOut)
	}
	for table, x := range made {
		use, _, _ := strings.Cut(table, "_")
		warned := strings.Contains(o.ErrOut+o.Out, "."+table+".")
		if use == "check" {
			continue
		}
		if use == "default" {
			testdb.Query(t, dst, "INSERT INTO "+table+" (id, s, b, j, g, n, d) SELECT 2, s, b, j, g, n, d FROM "+table)
			out := testdb.Query(t, dst, "SELECT count(*) FROM "+table+" p JOIN "+table+" q ON p.id = 1 AND q.id = 2 WHERE p.x <=> q.x")
			column := regexp.MustCompile("`x` text.* DEFAULT [^N]").FindString(testdb.Query(t, dst, "SHOW CREATE TABLE "+table))
			same := strings.TrimSpace(out) == "1" || slices.Contains([]string{"uuid()", "current_timestamp(3)", "database()"}, x)
			if column != "" && !same || column == "" && !warned {
				t.Errorf("default, %s: not the source's: %s (warned: %v)", x, column, warned)
			}
			testdb.Query(t, dst, "DELETE FROM "+table+" WHERE id = 2")
			continue
		}
		want, have := testdb.Query(t, src, "SELECT x FROM "+table), testdb.Query(t, dst, "SELECT x FROM "+table)
		create := testdb.Query(t, dst, "SHOW CREATE TABLE "+table)
		computed := strings.Contains(create, "GENERATED ALWAYS")
		if computed && want != have || !computed && !warned {
			t.Errorf("%s, %s: %s on the source, %s on the target (computed: %v, warned: %v)", use, x, want, have, computed, warned)
		}
		if !computed || use == "keyed" && !strings.Contains(create, "`k`") {
			t.Logf("%s, %s: not computed, or in no key", use, x)
		}
	}
	if o := testdb.Run(t, "diff", src, dst, "--definitions"); o.Code != 0 {
		t.Errorf("diff: %d\n%s%s", o.Code, o.Out, o.ErrOut)
	}
}

// TestCallsInPrograms carries views and a trigger whose functions the other family has in other
// words: they give the same, and those that it does not have are named.
func TestCallsInPrograms(t *testing.T) {
	for from, c := range map[string]struct {
		to, calls, trigger, lost, refused, procedure string
	}{
		"mysql": {"mariadb", "s regexp '^6'|s not regexp 'x'|uuid_to_bin(s)|bin_to_uuid(b)|bin_to_uuid(b,1)|json_extract(cast(concat('[',n,']') as json),'$[0]')|json_value(j,'$.a')|date_format(d,'%Y-%m')|date_format(d,'%M')|_utf8mb4'it''s'",
			"SET NEW.b = uuid_to_bin(NEW.s, 1)", "SET NEW.n = is_uuid(NEW.s)", "is_uuid(s)", "concat(is_uuid('a'), regexp_substr('a', 'a', 1, 1))"},
		"mariadb": {"mysql", "s regexp '^6'|nvl2(s,'a','b')|lpad(s,50)|json_exists(j,'$.a')|date_format(d,'%Y','en_US')|current_user() is null|last_value(n) over (order by id)|_utf8mb4'it''s'",
			"SET NEW.s = nvl2(NEW.s, lpad(NEW.s, 40), user())", "SET NEW.s = json_query(NEW.j, '$.a')", "cast(s as uuid)", "concat(json_query('{}', '$.a'), crc32(1, 'a'))"},
	} {
		t.Run(from+"-"+c.to, func(t *testing.T) {
			t.Parallel()
			src := testdb.ServerOf(t, from).NewDatabase(t, "src")
			const columns, row = "(id int PRIMARY KEY, s varchar(60), b binary(16), j json, n int, d datetime)", " VALUES (1, '6ccd780c-baba-1026-9564-5b8c656024db', x'6ccd780cbaba102695645b8c656024db', '{\"a\": 7}', 17, '2024-05-06 07:08:09')"
			for _, table := range []string{"t", "u", "w"} {
				testdb.Query(t, src, "CREATE TABLE "+table+" "+columns)
			}
			testdb.Query(t, src, "INSERT INTO t"+row)
			calls := strings.Split(c.calls, "|")
			for i, call := range calls {
				testdb.Query(t, src, fmt.Sprintf("CREATE VIEW v%d AS SELECT %s AS x FROM t", i, call))
			}
			testdb.Query(t, src, "CREATE TRIGGER u_bi BEFORE INSERT ON u FOR EACH ROW "+c.trigger)
			testdb.Query(t, src, "CREATE TRIGGER w_bi BEFORE INSERT ON w FOR EACH ROW "+c.lost)
			testdb.Query(t, src, "CREATE VIEW none AS SELECT "+c.refused+" AS x FROM t")
			testdb.Query(t, src, "CREATE PROCEDURE gone() SET @x = "+c.procedure)
			if from == "mariadb" {
				testdb.Query(t, src, "CREATE SEQUENCE sq")
			}
			testdb.Query(t, src, "CREATE VIEW below AS SELECT x FROM none")
			dump := testdb.MySQLDump(t, src, "--routines")
			testdb.Query(t, src, "INSERT INTO u"+row)
			for _, of := range []string{src, dump} {
				dst := testdb.ServerOf(t, c.to).NewDatabase(t, "dst")
				o := testdb.Run(t, "copy", of, dst, "-v")
				said := o.Out + o.ErrOut
				if o.Code != 0 || !strings.Contains(said, "w_bi") || !strings.Contains(said, "fails when it runs") || strings.Contains(said, "u_bi: fails") || !notMade(said, "below") || !notMade(said, "gone") || from == "mariadb" && !notMade(said, "sq") {
					t.Errorf("copy of %s: %d\n%s", of, o.Code, said)
				}
				for i, call := range calls {
					sql := fmt.Sprintf("SELECT hex(x) FROM v%d", i)
					want := testdb.Query(t, src, sql)
					if have, err := testdb.TryQuery(dst, sql); err != nil || have != want {
						t.Errorf("%s is %s, and %s on the target (%v)", call, want, have, err)
					}
				}
				testdb.Query(t, dst, "INSERT INTO u"+strings.Replace(row, "1", "2", 1))
				const all = "SELECT hex(s), hex(b) FROM u ORDER BY id DESC LIMIT 1"
				if want, have := testdb.Query(t, src, all), testdb.Query(t, dst, all); want != have {
					t.Errorf("the trigger makes %s, and %s on the target", want, have)
				}
				testdb.Must(t, "diff", src, dst, "--definitions=only")
			}
		})
	}
}

// notMade reports whether a run has said of an object that it is not made.
func notMade(said, name string) bool { return strings.Contains(said, name+": is not made") }
