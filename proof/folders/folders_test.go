// Package folders loads dumps made of several files, as mydumper and people leave them, and
// compares the result with the source by the servers' own text.
package folders

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// shop fills a database with what a dump may contain: a table of several chunks, keys, views that
// need later views and functions, triggers and routines with bodies, and names that make file names
// ambiguous to split.
func shop(t *testing.T, db string) {
	t.Helper()
	testdb.Query(t, db, "CREATE TABLE big (id int PRIMARY KEY AUTO_INCREMENT, s varchar(60) NOT NULL, n int, UNIQUE KEY u (s), KEY k (n))")
	testdb.Query(t, db, "INSERT INTO big (s, n) VALUES ('a''; \\\\ \n', 1), ('é', NULL)")
	for range 11 {
		testdb.Query(t, db, "INSERT INTO big (s, n) SELECT concat(s, '.', (SELECT count(*) FROM big b)), coalesce(n, 0) + 1 FROM big")
	}
	testdb.Query(t, db, "CREATE TABLE `odd.name-schema` (id int PRIMARY KEY, big int, CONSTRAINT f FOREIGN KEY (big) REFERENCES big (id) ON DELETE CASCADE); INSERT INTO `odd.name-schema` VALUES (1, 1)")
	testdb.Query(t, db, "CREATE TABLE nothing (id int PRIMARY KEY, t timestamp NULL, KEY (t))")
	testdb.Query(t, db, "CREATE FUNCTION fn(x int) RETURNS int DETERMINISTIC BEGIN DECLARE y int DEFAULT 1; SET y = x + 1; RETURN y; END")
	testdb.Query(t, db, "CREATE VIEW zz AS SELECT id, fn(id) AS f FROM big; CREATE VIEW aa AS SELECT f FROM zz")
	testdb.Query(t, db, "CREATE TRIGGER tr BEFORE INSERT ON nothing FOR EACH ROW BEGIN SET NEW.id = NEW.id + 1; SET NEW.t = '2020-01-01'; END")
}

// text returns a server's description of a database, without its name.
func text(t *testing.T, db string) string {
	t.Helper()
	var out []string
	for _, sql := range []string{"SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = database() AND TABLE_NAME NOT LIKE 'tidemark%' ORDER BY 1", "SHOW CREATE TABLE big", "SHOW CREATE TABLE `odd.name-schema`", "SHOW CREATE TABLE nothing", "SHOW CREATE TABLE aa", "SHOW CREATE TABLE zz",
		"SELECT count(*), sum(crc32(concat_ws('|', id, s, n))) FROM big", "SELECT * FROM `odd.name-schema`", "SELECT * FROM aa WHERE f < 9 ORDER BY f", "SELECT TRIGGER_NAME, ACTION_STATEMENT FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = database()",
		"SELECT ROUTINE_NAME, ROUTINE_DEFINITION FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = database()", "CHECKSUM TABLE big, nothing"} {
		out = append(out, testdb.Query(t, db, sql))
	}
	return strings.ReplaceAll(strings.Join(strings.Fields(strings.Join(out, "\n")), " "), nameOf(db), "DB")
}

func nameOf(db string) string { return db[strings.LastIndex(db, "/")+1:] }

// A mydumper dump loads as a live copy would, from both servers, plain, compressed and in chunks;
// and a stream continues from its metadata's log position.
func TestMydumper(t *testing.T) {
	for _, server := range []*testdb.Server{testdb.MariaDB(t), testdb.MySQL(t)} {
		t.Run(server.Engine, func(t *testing.T) {
			t.Parallel()
			src := server.NewDatabase(t, "src")
			shop(t, src)
			for i, args := range [][]string{{"--rows", "500"}, {"--compress", "--statement-size", "5000"}} {
				dir, dst := testdb.Mydumper(t, src, args...), server.NewDatabase(t, "dst")
				want := text(t, src)
				testdb.Query(t, src, fmt.Sprintf("UPDATE big SET n = -%d WHERE id = 1", i+7)) // after the dump
				plan := testdb.Must(t, "copy", dir, dst, "--plan")
				testdb.Must(t, "copy", "file:"+dir+"/", dst)
				if got := text(t, dst); got != want {
					t.Errorf("%v: the target has\n%s\nand the source\n%s", args, got, want)
				}
				from := regexp.MustCompile(`--from (\S+:\d+)`).FindStringSubmatch(plan)
				if from == nil {
					t.Fatalf("the plan says no log position:\n%s", plan)
				}
				testdb.Must(t, "replicate", src, dst, "--from", from[1], "--name", fmt.Sprintf("folder%d_%s", i, server.Engine), "--until", "now")
				if got, want := text(t, dst), text(t, src); got != want {
					t.Errorf("%v: after the stream the target has\n%s\nand the source\n%s", args, got, want)
				}
			}
		})
	}
}

// Schema and rows in separate files are one import, in the given order, and keys wait for the rows;
// PostgreSQL accepts them too.
func TestSeveralFiles(t *testing.T) {
	maria, pg := testdb.MariaDB(t), testdb.Postgres(t, 15)
	src := maria.NewDatabase(t, "src")
	shop(t, src)
	schema := testdb.MySQLDump(t, src, "--no-data", "--skip-triggers")
	rows := testdb.MySQLDump(t, src, "--no-create-info", "--skip-triggers", "--ignore-table="+nameOf(src)+".odd.name-schema")
	rest := testdb.MySQLDump(t, src, "--no-create-info", "--routines", "--ignore-table="+nameOf(src)+".big")
	t.Run("mariadb", func(t *testing.T) {
		t.Parallel()
		dst := maria.NewDatabase(t, "dst")
		testdb.Must(t, "copy", schema, rows, "file:"+rest, dst)
		if got, want := text(t, dst), text(t, src); got != want {
			t.Errorf("the target has\n%s\nand the source\n%s", got, want)
		}
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		dst := pg.NewDatabase(t, "dst")
		dir := t.TempDir()
		for i, file := range []string{schema, rows, rest} {
			link := filepath.Join(dir, strconv.Itoa(i)+".sql")
			if err := os.Symlink(file, link); err != nil {
				t.Fatal(err)
			}
		}
		testdb.Must(t, "copy", dir, dst)
		sum := func(quote string) string {
			return "SELECT concat(count(*), ' ', sum(n), ' ', sum(char_length(s)), ' ', max(s)) FROM " + quote + "big" + quote
		}
		if got, want := testdb.Query(t, dst, sum(`"`)), testdb.Query(t, src, sum("`")); got != want {
			t.Errorf("the target has %s and the source %s", got, want)
		}
	})
}

// A killed import of a folder resumes where it stopped; with a changed file it is refused.
func TestKilled(t *testing.T) {
	t.Parallel()
	server := testdb.MariaDB(t)
	src, dst := server.NewDatabase(t, "src"), server.NewDatabase(t, "dst")
	shop(t, src)
	dir := testdb.Mydumper(t, src, "--rows", "100")
	testdb.Query(t, dst, "CREATE TABLE big LIKE "+nameOf(src)+".big")
	testdb.Query(t, dst, "CREATE TRIGGER slow BEFORE INSERT ON big FOR EACH ROW SET @x = sleep(0.001)")
	cmd := testdb.Command(t, "copy", dir, dst, "--prep", "keep", "--lanes", "1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for n := "0"; n == "0"; time.Sleep(10 * time.Millisecond) {
		n = testdb.Query(t, dst, "SELECT count(*) FROM big")
	}
	kill(t, cmd)
	if n := testdb.Query(t, dst, "SELECT count(*) FROM big"); n == testdb.Query(t, src, "SELECT count(*) FROM big") {
		t.Fatalf("all %s rows were there", n)
	}
	testdb.Query(t, dst, "DROP TRIGGER slow")
	metadata := filepath.Join(dir, nameOf(src)+".nothing-schema.sql")
	old, err := os.Stat(metadata)
	if err != nil {
		t.Fatal(err)
	}
	set := func(when time.Time) {
		if err := os.Chtimes(metadata, when, when); err != nil {
			t.Fatal(err)
		}
	}
	set(old.ModTime().Add(time.Hour))
	if o := testdb.Run(t, "copy", dir, dst, "--prep", "keep", "--resume", "last"); o.Code == 0 || !strings.Contains(o.ErrOut, "not the dump file") {
		t.Errorf("with another file: exit %d\n%s", o.Code, o.ErrOut)
	}
	set(old.ModTime())
	testdb.Must(t, "copy", dir, dst, "--prep", "keep", "--resume", "last")
	counter := regexp.MustCompile(`AUTO_INCREMENT=\d+`) // the table existed before
	if got, want := counter.ReplaceAllString(text(t, dst), ""), counter.ReplaceAllString(text(t, src), ""); got != want {
		t.Errorf("the target has\n%s\nand the source\n%s", got, want)
	}
}

func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
}

// A statement in a file that the server refuses is reported as the file's fault, not the program's.
func TestRefusedStatement(t *testing.T) {
	const table = "CREATE TABLE `t` (`id` int NOT NULL, PRIMARY KEY (`id`)) ENGINE=InnoDB;\n"
	for _, server := range []*testdb.Server{testdb.MariaDB(t), testdb.MySQL(t)} {
		t.Run(server.Engine, func(t *testing.T) {
			t.Parallel()
			for _, sql := range []string{table + "INSERT INTO `t` SELECT FRM 1 1;", table + "INSERT INTO `t` VALUES (1 + nofunction(3));",
				"CREATE TABLE `t` (`id` int NOT NULL, `x` nonsense(3), PRIMARY KEY (`id`)) ENGINE=InnoDB;", "CREATE TABLE `t` (`id` int NOT NULL, PRIMARY KEY (`id`), CHECK (nofunction(id))) ENGINE=InnoDB;"} {
				file := filepath.Join(t.TempDir(), "bad.sql")
				if err := os.WriteFile(file, []byte(sql), 0o600); err != nil {
					t.Fatal(err)
				}
				o := testdb.Run(t, "copy", file, server.NewDatabase(t, "dst"))
				if o.Code != 15 && o.Code != 7 || !strings.Contains(o.ErrOut, "\nhint: ") {
					t.Errorf("%s: exit %d\n%s", sql, o.Code, o.ErrOut)
				}
			}
		})
	}
}
