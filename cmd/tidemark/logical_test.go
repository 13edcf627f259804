package main

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// madeByHand backs up a database, and runs the backup's own script against another one.
func madeByHand(t *testing.T, src, dst string, args ...string) (place string) {
	t.Helper()
	place = t.TempDir()
	must(t, append([]string{"backup", "--logical", src, place}, args...)...)
	folders, err := filepath.Glob(filepath.Join(place, "dumps", "*"))
	if err != nil || len(folders) != 1 {
		t.Fatal(folders, err)
	}
	if out, err := testdb.Shell(t, folders[0], "restore.sh", dst); err != nil {
		t.Fatalf("restore.sh: %v\n%s", err, out)
	}
	return place
}

// What psql restores from a logical backup equals the original: pg_dump output is the same for
// both, and the rows are equal.
func TestPostgresByHand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sample  string
		version int
	}{{"pagila", 15}, {"types-zoo", 15}, {"types-zoo", 18}} {
		t.Run(c.sample+"/"+major(c.version), func(t *testing.T) {
			s := testdb.Postgres(t, c.version)
			src, dst := filled(t, s, c.sample+"/pg.sql"+packed(c.sample)), s.NewDatabase(t, "dst")
			if c.version == 15 {
				testdb.Query(t, src, "SELECT lo_from_bytea(4711, decode(repeat('00ff10', 5000), 'hex')); SELECT lo_create(4712)")
			}
			madeByHand(t, src, dst, "--owners", "--grants")
			must(t, "diff", src, dst)
			if a, b := testdb.PgDump(t, src), testdb.PgDump(t, dst); a != b {
				t.Errorf("pg_dump differs:\n%s", testdb.FirstDifference(a, b))
			}
			if c.version == 15 {
				large := "SELECT oid, md5(lo_get(oid)) FROM pg_largeobject_metadata ORDER BY 1"
				if a, b := testdb.Query(t, src, large), testdb.Query(t, dst, large); a != b || !strings.Contains(a, "4712") {
					t.Errorf("large objects are\n%s\nand were\n%s", b, a)
				}
			}
		})
	}
}

// mysqlShape returns everything that information_schema has about a database.
func mysqlShape(t *testing.T, url string) string {
	t.Helper()
	return testdb.Query(t, url, `SELECT TABLE_NAME, TABLE_TYPE, ENGINE, TABLE_COLLATION, TABLE_COMMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA=DATABASE() ORDER BY 1;
SELECT TABLE_NAME, COLUMN_NAME, ORDINAL_POSITION, COLUMN_DEFAULT, IS_NULLABLE, COLUMN_TYPE, CHARACTER_SET_NAME, COLLATION_NAME, EXTRA, COLUMN_COMMENT, GENERATION_EXPRESSION FROM information_schema.COLUMNS JOIN information_schema.TABLES USING (TABLE_SCHEMA, TABLE_NAME) WHERE TABLE_SCHEMA=DATABASE() AND TABLE_TYPE<>'VIEW' ORDER BY 1, 3;
SELECT TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX, COLUMN_NAME, NON_UNIQUE, SUB_PART, INDEX_TYPE FROM information_schema.STATISTICS WHERE TABLE_SCHEMA=DATABASE() ORDER BY 1, 2, 3;
SELECT CONSTRAINT_NAME, TABLE_NAME, REFERENCED_TABLE_NAME, UPDATE_RULE, DELETE_RULE FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE CONSTRAINT_SCHEMA=DATABASE() ORDER BY 1, 2;
SELECT CONSTRAINT_NAME, CHECK_CLAUSE FROM information_schema.CHECK_CONSTRAINTS WHERE CONSTRAINT_SCHEMA=DATABASE() ORDER BY 1, 2;
SELECT TRIGGER_NAME, EVENT_MANIPULATION, EVENT_OBJECT_TABLE, ACTION_ORDER, ACTION_STATEMENT, ACTION_TIMING, SQL_MODE, DEFINER, CHARACTER_SET_CLIENT, COLLATION_CONNECTION FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA=DATABASE() ORDER BY 1;
SELECT ROUTINE_NAME, ROUTINE_TYPE, DTD_IDENTIFIER, ROUTINE_DEFINITION, SQL_MODE, DEFINER, SECURITY_TYPE FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA=DATABASE() ORDER BY 1, 2;
SELECT TABLE_NAME, VIEW_DEFINITION, DEFINER, SECURITY_TYPE, CHECK_OPTION FROM information_schema.VIEWS WHERE TABLE_SCHEMA=DATABASE() ORDER BY 1;
SELECT EVENT_NAME, EVENT_DEFINITION, INTERVAL_VALUE, STATUS, SQL_MODE, TIME_ZONE FROM information_schema.EVENTS WHERE EVENT_SCHEMA=DATABASE() ORDER BY 1;
SELECT DEFAULT_CHARACTER_SET_NAME, DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME=DATABASE()`)
}

// What the client program mysql restores from a logical backup equals the original.
func TestMySQLByHand(t *testing.T) {
	t.Parallel()
	for name, s := range mysqlServers(t) {
		for _, sample := range []string{"sakila", "types-zoo"} {
			if sample == "sakila" && name == "mysql" {
				continue // its definitions are spelled as in MariaDB
			}
			t.Run(sample+"/"+name, func(t *testing.T) {
				src, kept := filled(t, s, sample+"/mysql.sql"+packed(sample)), s.NewDatabase(t, "kept")
				must(t, "copy", src, kept)
				shape := mysqlShape(t, src)
				place := t.TempDir()
				must(t, "backup", "--logical", src, place)
				db := src[strings.LastIndex(src, "/")+1:]
				testdb.Query(t, src, "DROP DATABASE "+db+"; CREATE DATABASE "+db)
				folders, err := filepath.Glob(filepath.Join(place, "dumps", "*"))
				if err != nil || len(folders) != 1 {
					t.Fatal(folders, err)
				}
				if out, err := testdb.Shell(t, folders[0], "restore.sh", src); err != nil {
					t.Fatalf("restore.sh: %v\n%s", err, out)
				}
				must(t, "diff", kept, src)
				if now := mysqlShape(t, src); now != shape {
					t.Errorf("it is not as it was:\n%s", testdb.FirstDifference(shape, now))
				}
			})
		}
	}
}

// While rows come and go, a logical backup has those of a single moment, in all tables and ranges.
func TestLogicalBackupIsOfOneMoment(t *testing.T) {
	t.Parallel()
	servers := mysqlServers(t)
	servers["postgres"] = testdb.Postgres(t, 16)
	for name, s := range servers {
		t.Run(name, func(t *testing.T) {
			src, dst := s.NewDatabase(t, "src"), s.NewDatabase(t, "dst")
			// Each transaction moves an amount between the tables.
			testdb.Query(t, src, "CREATE TABLE a (id int PRIMARY KEY, amount int NOT NULL); CREATE TABLE b (id int PRIMARY KEY, amount int NOT NULL); CREATE TABLE c (n int)")
			rows := make([]string, 2000)
			for i := range rows {
				rows[i] = "(" + strconv.Itoa(i) + ", 100)"
			}
			all := strings.Join(rows, ", ")
			testdb.Query(t, src, "INSERT INTO a VALUES "+all+"; INSERT INTO b VALUES "+all)
			stop, ended := make(chan struct{}), make(chan error, 1)
			go func() {
				s := testdb.NewSession(src)
				defer s.Close()
				for i := 0; goesOn(stop); i++ {
					id := strconv.Itoa(i * 37 % 2000)
					if _, err := s.Try("BEGIN; UPDATE a SET amount = amount - 1 WHERE id = " + id + "; UPDATE b SET amount = amount + 1 WHERE id = " + id + "; INSERT INTO c VALUES (1); COMMIT"); err != nil {
						ended <- err
						return
					}
				}
				ended <- nil
			}()
			place := t.TempDir()
			o := must(t, "backup", "--logical", src, place, "--json", "--parallelism", "3", "--compress", map[string]string{"postgres": "none", "mysql": "zstd:1", "mariadb": "none"}[name])
			close(stop)
			if err := testdb.From(t, "the writer's end", ended); err != nil {
				t.Fatal(err)
			}
			var rep struct {
				Report struct {
					Rows     int64 `json:"rows"`
					Position struct {
						Text string `json:"text"`
					} `json:"position"`
				} `json:"report"`
			}
			lines := strings.Split(strings.TrimSpace(o.out), "\n") // events, and the report last
			if err := json.Unmarshal([]byte(lines[len(lines)-1]), &rep); err != nil || rep.Report.Rows < 4000 || rep.Report.Position.Text == "" {
				t.Errorf("%v in the report\n%s", err, o.out)
			}
			folders, _ := filepath.Glob(filepath.Join(place, "dumps", "*"))
			if name != "postgres" { // the script names the database
				db := src[strings.LastIndex(src, "/")+1:]
				testdb.Query(t, src, "DROP DATABASE "+db+"; CREATE DATABASE "+db)
				dst = src
			}
			if out, err := testdb.Shell(t, folders[0], "restore.sh", dst); err != nil {
				t.Fatalf("restore.sh: %v\n%s", err, out)
			}
			if got := testdb.Query(t, dst, "SELECT (SELECT sum(amount) FROM a) + (SELECT sum(amount) FROM b) - 400000, (SELECT 200000 - sum(amount) FROM a) - (SELECT count(*) FROM c)"); got != "0\t0" {
				t.Errorf("amounts are off by, and changes that are in one table only: %s", got)
			}
		})
	}
}

// The backup contains only the chosen tables, with what they need.
func TestLogicalBackupOfSomeTables(t *testing.T) {
	t.Parallel()
	s := testdb.Postgres(t, 15)
	src, dst := filled(t, s, "pagila/pg.sql.zst"), s.NewDatabase(t, "dst")
	place := madeByHand(t, src, dst, "--include", "public.film", "--table", "language", "--compress", "zstd:6")
	if o := must(t, "backups", place); !strings.Contains(o.out, "2 tables, 1,006 rows") {
		t.Errorf("listed is\n%s", o.out)
	}
	if got := testdb.Query(t, dst, "SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace"); got != "film language" {
		t.Errorf("restored are %s", got)
	}
	if got := testdb.Query(t, dst, "SELECT count(*) FROM film"); got != testdb.Query(t, src, "SELECT count(*) FROM film") {
		t.Errorf("restored are %s films", got)
	}

	space := "space_" + testdb.Query(t, src, "SELECT current_database()")
	testdb.Query(t, src, "CREATE TABLESPACE "+space+" LOCATION '"+s.TempDir(t)+"'")
	t.Cleanup(func() {
		testdb.Query(t, src, "DROP TABLE public.by_day, public.\"f*\"; ALTER TABLE public.store SET TABLESPACE pg_default; DROP INDEX public.far")
		testdb.Query(t, src, "DROP TABLESPACE "+space)
	})
	testdb.Query(t, src, `CREATE TABLE public.by_day (day date) PARTITION BY RANGE (day); CREATE TABLE public.today PARTITION OF public.by_day FOR VALUES FROM ('2026-11-22') TO ('2026-11-23') TABLESPACE `+space+`;
		CREATE TABLE public.later PARTITION OF public.by_day DEFAULT; INSERT INTO public.by_day VALUES ('2026-11-22'), ('2027-01-01'); CREATE TABLE public."f*" (n int); INSERT INTO public."f*" VALUES (1);
		ALTER TABLE public.store SET TABLESPACE `+space+`; CREATE INDEX far ON public.film (title) TABLESPACE `+space)
	place = t.TempDir()
	must(t, "backup", "--logical", src, place, "--tablespace", space, "--table", `public.f*`)
	if o := must(t, "backups", place); !strings.Contains(o.out, "3 tables, 5 rows") {
		t.Errorf("listed is\n%s", o.out)
	}
	for _, c := range []struct {
		name string
		code int
		args []string
	}{
		{"backup of a table that is not there", 6, []string{"backup", "--logical", src, place, "--table", "public.Film", "--table", "public.language"}},
		{"backup of a tablespace that is not there", 6, []string{"backup", "--logical", src, place, "--tablespace", "nowhere"}},
		{"backup of a tablespace without tables", 6, []string{"backup", "--logical", src, place, "--tablespace", "pg_global"}},
		{"backup of a table without its form", 2, []string{"backup", src, place, "--table", "public.film"}},
		{"backup of two forms", 2, []string{"backup", src, place, "--logical", "--physical"}},
		{"backup of rows with an option for files", 2, []string{"backup", src, place, "--logical", "--delta"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := cli(t, c.args...)
			o.errOut = regexp.MustCompile(`It has [^\n]*`).ReplaceAllString(o.errOut, "It has {tablespaces}.") // including those of other tests
			sameText(t, o, c.code, c.args)
		})
	}
}

// The script names a damaged object, and does not treat it as a shorter one.
func TestDamagedObjectByHand(t *testing.T) {
	t.Parallel()
	s := testdb.Postgres(t, 15)
	src, dst := s.NewDatabase(t, "src"), s.NewDatabase(t, "dst")
	testdb.Query(t, src, "CREATE TABLE item AS SELECT g AS id, md5(g::text) AS text FROM generate_series(1, 30000) g")
	place := t.TempDir()
	must(t, "backup", "--logical", src, place)
	objects, err := filepath.Glob(filepath.Join(place, "dumps", "*", "data", "*item*"))
	if err != nil || len(objects) != 1 {
		t.Fatal(objects, err)
	}
	text, err := os.ReadFile(objects[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(objects[0], text[:len(text)-1000], 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := testdb.Shell(t, filepath.Dir(filepath.Dir(objects[0])), "restore.sh", dst)
	if err == nil || !strings.Contains(err.Error(), "damaged: data/") {
		t.Errorf("got %v\n%s", err, out)
	}
}

// A session cut while it reads rows costs a retry, and no row. (What MySQL's lanes then do is
// tested with the engine.)
func TestLogicalBackupWithCutSessions(t *testing.T) {
	t.Parallel()
	s := testdb.Postgres(t, 15)
	src, dst := s.NewDatabase(t, "src"), s.NewDatabase(t, "dst")
	for _, table := range []string{"a", "b", "c"} {
		testdb.Query(t, src, "CREATE TABLE "+table+" AS SELECT g AS id, md5(concat(g, '"+table+"')) AS x, repeat(md5(g::text), 10) AS y FROM generate_series(1, 30000) g; ALTER TABLE "+table+" ADD PRIMARY KEY (id)")
	}
	place := t.TempDir()
	cmd := process(t, "backup", "--logical", src, place, "--parallelism", "2", "--max-rate", "2MB")
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	cuts := 0
	for done := false; !done; {
		select {
		case err := <-ended:
			if done = true; err != nil {
				t.Fatalf("%v\n%s", err, out.String())
			}
		case <-time.After(20 * time.Millisecond):
			if cuts < 2 && testdb.Query(t, src, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'COPY%' AND state = 'active'") != "0" {
				cuts++
			}
		}
	}
	t.Logf("%d times sessions were cut", cuts)
	if cuts > 0 && !strings.Contains(out.String(), "was read again") {
		t.Errorf("the report does not say that sessions were cut:\n%s", out.String())
	}
	folders, err := filepath.Glob(filepath.Join(place, "dumps", "*"))
	if err != nil || len(folders) != 1 {
		t.Fatal(folders, err)
	}
	if out, err := testdb.Shell(t, folders[0], "restore.sh", dst); err != nil {
		t.Fatalf("restore.sh: %v\n%s", err, out)
	}
	must(t, "diff", src, dst)
}

// A killed logical backup is listed nowhere, and the next prune removes all of it.
func TestLogicalBackupThatIsKilled(t *testing.T) {
	t.Parallel()
	s := testdb.Postgres(t, 15)
	url := s.NewDatabase(t, "src")
	testdb.Query(t, url, "CREATE TABLE a AS SELECT g AS id, md5(g::text) AS x FROM generate_series(1, 50000) g; CREATE TABLE b AS TABLE a")
	place := t.TempDir()
	for range 3 {
		cmd := process(t, "backup", "--logical", url, place, "--max-rate", "2MB", "--progress", "none")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(50+rand.IntN(700)) * time.Millisecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
	}
	must(t, "backup", "--logical", url, place)
	must(t, "prune", place, "--keep", "last=1")
	must(t, "verify", place)
	left, err := filepath.Glob(filepath.Join(place, "dumps", "*", "README.txt"))
	more, merr := filepath.Glob(filepath.Join(place, "dumps", "*", "data", "[0-9]*"))
	if err != nil || merr != nil || len(left) != 1 || len(more) != 2 {
		t.Errorf("left are %v and %v, %v, %v", left, more, err, merr)
	}
}
