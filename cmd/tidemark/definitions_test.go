package main

import (
	"os"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestTypesOfPostgresOnly: an empty default of bytes, which MySQL shows as 0x and cannot read; and
// what check says once for all columns and keys.
func TestTypesOfPostgresOnly(t *testing.T) {
	t.Parallel()
	src := pg15(t).NewDatabase(t, "only")
	testdb.Query(t, src, `CREATE TABLE i (id int PRIMARY KEY, none bytea NOT NULL DEFAULT '', a bytea NOT NULL DEFAULT '\x00ff27', u uuid, v uuid,
		p int REFERENCES i DEFERRABLE, q int REFERENCES i DEFERRABLE INITIALLY DEFERRED); INSERT INTO i VALUES (1)`)
	for _, to := range []*testdb.Server{mysql8(t), testdb.MariaDB(t)} {
		dst := to.NewDatabase(t, "only")
		o := must(t, "check", src, dst)
		if said := strings.Count(o.out, "deferrable"); said != 1 || strings.Contains(o.out, "note: uuid becomes char(36), with its hyphens (in 2 places)") != (to.Engine == "mysql") {
			t.Errorf("%s: %s", to.Engine, o.out)
		}
		must(t, "copy", src, dst)
		testdb.Query(t, dst, "INSERT INTO i (id) VALUES (2)")
		if got := testdb.Query(t, dst, "SELECT id, HEX(none), HEX(a) FROM i ORDER BY id"); got != "1\t\t00FF27\n2\t\t00FF27" {
			t.Errorf("%s: %q", to.Engine, got)
		}
		if o := cli(t, "diff", "--definitions=only", src, dst); o.code != 0 {
			t.Errorf("%s: %s", to.Engine, o.out)
		}
	}
}

// TestKeysOfADump: MariaDB calls the action of a foreign key that names none RESTRICT, of which its
// dumps say nothing: either way the target has what another source's key without an action becomes.
func TestKeysOfADump(t *testing.T) {
	t.Parallel()
	src := testdb.MariaDB(t).NewDatabase(t, "keys")
	testdb.Query(t, src, "CREATE TABLE p (id int PRIMARY KEY); CREATE TABLE c (id int PRIMARY KEY, a int, b int, FOREIGN KEY (a) REFERENCES p (id), FOREIGN KEY (b) REFERENCES p (id) ON DELETE CASCADE ON UPDATE SET NULL); CREATE TABLE Big (Id int); CREATE TABLE small (Id int, jobId int)")
	file := testdb.MySQLDump(t, src)
	for _, from := range []string{src, file} {
		dst := pg15(t).NewDatabase(t, "keys")
		if o := must(t, "check", from, dst); !strings.Contains(o.out, "names with capitals are found only by SQL that quotes them (public.Big, ") {
			t.Errorf("%s: of names that need quotes: %s", from, o.out)
		}
		must(t, "copy", from, dst)
		if o := cli(t, "diff", "--definitions=only", src, dst); o.code != 0 {
			t.Errorf("%s: %s", from, o.out)
		}
		if got := testdb.Query(t, dst, "SELECT confupdtype::text || confdeltype::text FROM pg_constraint WHERE contype = 'f' ORDER BY 1"); got != "aa\nnc" {
			t.Errorf("%s: actions %q", from, got)
		}
	}
}

// TestEnumKeysOfADump: the foreign key of an ENUM column needs the type of a table that may come
// later in a file: check says that it is left out, and the copy ends well.
func TestEnumKeysOfADump(t *testing.T) {
	t.Parallel()
	src, dst := testdb.MariaDB(t).NewDatabase(t, "enumkeys"), pg15(t).NewDatabase(t, "enumkeys")
	testdb.Query(t, src, "CREATE TABLE p (e enum('a','b') PRIMARY KEY); CREATE TABLE c (e enum('a','b') PRIMARY KEY, CONSTRAINT fk FOREIGN KEY (e) REFERENCES p (e)); INSERT INTO p VALUES ('b'); INSERT INTO c VALUES ('b')")
	file := testdb.MySQLDump(t, src)
	for _, command := range []string{"check", "copy"} {
		if o := must(t, command, file, dst); !strings.Contains(o.out+o.errOut, "foreign key fk of public.c: left out: e has an enum type of its own") {
			t.Errorf("%s: %s", command, o.out)
		}
	}
}

// TestHiddenLabelsOfADump: a dump has a question mark for an emoji in a label, which its rows do
// not match: check and copy warn, and what the hint says helps.
func TestHiddenLabelsOfADump(t *testing.T) {
	t.Parallel()
	for _, srv := range []*testdb.Server{testdb.MariaDB(t), mysql8(t)} {
		src, dst := srv.NewDatabase(t, "hidden"), pg15(t).NewDatabase(t, "hidden")
		testdb.Query(t, src, "CREATE TABLE t (id int PRIMARY KEY, e enum('😀','b') CHARACTER SET utf8mb4, f enum('?') CHARACTER SET latin1, g enum('a')); INSERT INTO t VALUES (1, '😀', '?', 'a')")
		file := testdb.MySQLDump(t, src)
		for i, want := range []int{0, 14} {
			command := []string{"check", "copy"}[i]
			o := cli(t, command, file, dst)
			if out := o.out + o.errOut; o.code != want || !strings.Contains(out, ".t.e: a label has a ?, which may stand for an emoji") || strings.Contains(out, "t.f: a label") {
				t.Errorf("%s %s: %d: %s%s", srv.Engine, command, o.code, o.out, o.errOut)
			}
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(strings.Replace(string(text), "enum('?','b')", "enum('😀','b')", 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		must(t, "copy", file, dst, "--prep", "drop")
		if o := cli(t, "diff", src, dst); o.code != 0 {
			t.Errorf("%s: %s", srv.Engine, o.out)
		}
	}
}

// TestDefinitionsAfterACopyAcross: after a copy between engines that ended well the definitions are
// equal, however each server writes defaults, checks and numbering; what is changed then is found.
func TestDefinitionsAfterACopyAcross(t *testing.T) {
	t.Parallel()
	maria, my, pg := testdb.MariaDB(t), mysql8(t), pg15(t)
	for _, pair := range []struct {
		name     string
		from, to *testdb.Server
	}{{"mysql to postgres", my, pg}, {"mariadb to postgres", maria, pg}, {"mysql to mariadb", my, maria}, {"mariadb to mysql", maria, my}} {
		t.Run(pair.name, func(t *testing.T) {
			t.Parallel()
			src, dst := pair.from.NewDatabase(t, "defs"), pair.to.NewDatabase(t, "defs")
			for _, sql := range []string{
				"CREATE TABLE p (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, x int, UNIQUE KEY uk (x))",
				`CREATE TABLE d (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, pid bigint unsigned,
					d1 datetime(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), d2 datetime(6) DEFAULT '2020-01-01 00:00:00.000000', d3 datetime(3) DEFAULT '2020-01-01 00:00:00.120', d4 time(2) DEFAULT '10:00:00.50',
					v varchar(10) DEFAULT (''), tx text DEFAULT (''), bl blob DEFAULT (''), bx blob DEFAULT ('it''s'),
					b32 binary(32) NOT NULL DEFAULT '` + strings.Repeat(`\0`, 32) + `', b4 binary(4) DEFAULT 'ab', vb varbinary(8) DEFAULT 'x', e enum('a','b') DEFAULT 'a',
					x int CHECK (x > 0), y int, CONSTRAINT yy CHECK (y < 5), r varchar(20), nn text NOT NULL, CONSTRAINT rr CHECK (r REGEXP '^[a-z]+$'), UNIQUE KEY uk (y), KEY ix (x),
					CONSTRAINT fk FOREIGN KEY (pid) REFERENCES p (id))`,
				"CREATE TABLE bin (id int PRIMARY KEY, ok tinyint(1), e enum('x','y'), s set('a','b'), q enum('q','w') NOT NULL DEFAULT 'w', vb varbinary(255) NOT NULL DEFAULT '') DEFAULT CHARSET=binary",
				"CREATE TABLE em (id int PRIMARY KEY, e enum('a','😀','b?') CHARACTER SET utf8mb4 DEFAULT '😀', s set('x','😀y') CHARACTER SET utf8mb4)",
				"INSERT INTO em VALUES (1, '😀', 'x,😀y')",
				"CREATE TABLE ep (x enum('a','b') PRIMARY KEY, me enum('a','b'), FOREIGN KEY (me) REFERENCES ep (x))",
				"CREATE TABLE ec (x enum('a','b') PRIMARY KEY, y enum('a','b','c'), CONSTRAINT same FOREIGN KEY (x) REFERENCES ep (x), CONSTRAINT other FOREIGN KEY (y) REFERENCES ep (x))",
				"INSERT INTO ep VALUES ('b', NULL), ('a', 'b')", "INSERT INTO ec VALUES ('a', 'b')",
				"CREATE TABLE zf (id int PRIMARY KEY, z int(5) unsigned zerofill NOT NULL DEFAULT 7, d decimal(6,2) unsigned zerofill DEFAULT 1.5, n int(5) zerofill DEFAULT 0)",
				"CREATE TABLE eb (id int PRIMARY KEY, e enum('a','😀','b?') NOT NULL DEFAULT '😀') DEFAULT CHARSET=binary",
				"INSERT INTO eb VALUES (1, '😀')",
				"INSERT INTO p (x) VALUES (1)", "INSERT INTO d (pid, r, nn) VALUES (1, 'abc', 'n')", "INSERT INTO bin VALUES (1, 1, 'y', 'a,b', 'q', 'x')"} {
				testdb.Query(t, src, sql)
			}
			if pair.to != pg { // which refuses labels that are no text
				testdb.Query(t, src, "CREATE TABLE eb2 (id int PRIMARY KEY, e enum(x'ff','b') CHARACTER SET binary DEFAULT x'ff')")
				testdb.Query(t, src, "INSERT INTO eb2 (id) VALUES (1)")
			}
			if pair.from == maria { // unique keys that MySQL's trees have no room for
				testdb.Query(t, src, "CREATE TABLE wide (id int PRIMARY KEY, v varchar(3000), w varchar(767), l varchar(3073) CHARACTER SET latin1, UNIQUE KEY x (v), UNIQUE KEY y (id, w), UNIQUE KEY z (l)) CHARSET=utf8mb4")
				testdb.Query(t, src, "CREATE TABLE parts (id int PRIMARY KEY, v varchar(255), UNIQUE KEY x (v), UNIQUE KEY y (v, id)) ENGINE=MyISAM CHARSET=utf8mb4 PARTITION BY KEY () PARTITIONS 2")
				testdb.Query(t, src, "CREATE TABLE isam (id int PRIMARY KEY, v varchar(250), w varchar(251), UNIQUE KEY x (v), UNIQUE KEY y (w)) ENGINE=MyISAM CHARSET=utf8mb4")
			}
			o := must(t, "copy", src, dst)
			if said := strings.Contains(o.out+o.errOut, "parts.x: is left out: MySQL's unique keys of a partitioned table"); said != (pair.from == maria && pair.to == my) {
				t.Errorf("a key of a partitioned table: %v: %s", said, o.out)
			}
			if n := strings.Count(o.out+o.errOut, "bytes, and keys of "); n != map[bool]int{true: 3}[pair.from == maria && pair.to == my] {
				t.Errorf("%d keys are left out: %s", n, o.out)
			}
			if said := strings.Contains(o.out+o.errOut, "foreign key other of public.ec: left out: y has other labels"); said != (pair.to == pg) {
				t.Errorf("a foreign key to an ENUM with other labels: %v: %s", said, o.out)
			}
			if said := strings.Contains(o.out+o.errOut, "NOT NULL text and blobs have no default"); said != (pair.to == pg) {
				t.Errorf("a column without a default: %v: %s", said, o.out)
			}
			const flags = "tinyint(1) becomes smallint, unless --tinyint1-bool makes boolean of it (1 column: public.bin.ok)\n"
			if said := strings.Contains(o.out+o.errOut, flags); said != (pair.to == pg) {
				t.Errorf("a number where applications have a boolean: %v: %s", said, o.out)
			}
			if o := must(t, "check", src, dst, "--tinyint1-bool", "--prep", "drop"); strings.Contains(o.out+o.errOut, "tinyint") {
				t.Errorf("a boolean: %s", o.out)
			}
			if o := cli(t, "diff", "--definitions", src, dst); !strings.Contains(o.out, "objects, all equal") {
				t.Errorf("%s", o.out)
			}
			// What a row gets that names nothing is the same, and so is what is refused.
			defaults := "INSERT INTO d (pid, nn) VALUES (1, '')"
			testdb.Query(t, src, defaults)
			testdb.Query(t, dst, defaults)
			for _, url := range []string{src, dst} {
				testdb.Query(t, url, "INSERT INTO bin (id) VALUES (2)")
				testdb.Query(t, url, "INSERT INTO em (id) VALUES (2)")
				testdb.Query(t, url, "INSERT INTO eb (id) VALUES (2)")
			}
			for _, table := range []string{"em", "eb"} {
				if got := testdb.Query(t, dst, "SELECT count(*) FROM "+table+" WHERE e = '😀'"); got != "2" {
					t.Errorf("labels that SHOW CREATE does not show: %s of %s", got, table)
				}
			}
			if o := cli(t, "diff", src, dst, "--exclude", "*.d"); o.code != 0 {
				t.Errorf("defaults differ: %s", o.out)
			}
			if _, err := testdb.TryQuery(dst, "DELETE FROM ep WHERE x = 'a'"); err == nil {
				t.Error("the foreign key of an ENUM is not there")
			}
			if _, err := testdb.TryQuery(dst, "INSERT INTO d (x, nn) VALUES (0, '')"); err == nil {
				t.Error("the check of a column is not there")
			}
			if _, err := testdb.TryQuery(dst, "INSERT INTO d (r, nn) VALUES ('1', '')"); err == nil && pair.to != pg { // there it is left out, with a finding
				t.Error("the check by REGEXP is not there")
			}
			columns := map[bool]string{true: "b32, b4, d2, d3", false: "HEX(b32), HEX(b4), d2, d3"}[pair.to == pg]
			want := strings.Repeat("00", 32) + "\t61620000\t"
			if got := testdb.Query(t, dst, "SELECT "+columns+" FROM d WHERE id = 2"); !strings.HasPrefix(strings.ReplaceAll(got, `\x`, ""), want) {
				t.Errorf("defaults: %s", got)
			}
			for _, change := range []string{"ALTER TABLE d ALTER COLUMN d2 SET DEFAULT '2020-01-01 00:00:00.000001'", "ALTER TABLE d ALTER COLUMN b4 SET DEFAULT 'abc'", "ALTER TABLE d DROP CONSTRAINT yy"} {
				testdb.Query(t, dst, change)
			}
			o = cli(t, "diff", "--definitions", src, dst)
			for _, is := range []string{"d2", "b4", "yy"} {
				if !strings.Contains(o.out, is) {
					t.Errorf("the change of %s is not found: %s", is, o.out)
				}
			}
		})
	}
}
