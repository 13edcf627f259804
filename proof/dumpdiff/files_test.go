package dumpdiff

import (
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

const ended = "-- MariaDB dump 10.19\n/*!40101 SET NAMES utf8mb4 */;\n%s\n-- Dump completed on 2026-11-28  6:00:00\n"

func dump(t *testing.T, text string) string {
	t.Helper()
	return testdb.Written(t, "dump.sql", fmt.Sprintf(ended, text))
}

// Rows of many pieces, in an order that is not the key's, among those of other tables, in every
// packing: few that differ are found exactly, and rows of one key do not hide each other.
func TestDumpOrder(t *testing.T) {
	const n = 60_000
	var b strings.Builder
	b.WriteString("CREATE TABLE big (id int NOT NULL, v varchar(200), n decimal(10,2), PRIMARY KEY (id));\nCREATE TABLE other (id int NOT NULL PRIMARY KEY, v longtext);\nCREATE TABLE loose (a int, b varchar(20));\n")
	order := rand.New(rand.NewPCG(testdb.Seed(t), 0)).Perm(n)
	for at := 0; at < n; at += 500 {
		b.WriteString("INSERT INTO big VALUES ")
		for i, id := range order[at : at+500] {
			if i > 0 {
				b.WriteString(",")
			}
			fmt.Fprintf(&b, "(%d,'%s %d',%d.50)", id, strings.Repeat("some text ", 12), id, id%1000)
		}
		fmt.Fprintf(&b, ";\nINSERT INTO other VALUES (%d,'x');\nINSERT INTO loose VALUES (%d,'a'),(%d,'a');\n", at, at%7, at%7)
	}
	b.WriteString("INSERT INTO other VALUES (1,'" + strings.Repeat("0123456789abcdef", 20<<20/16) + "');\n") // larger than a piece
	plain := dump(t, b.String())
	for i, to := range []string{"postgres", "mysql", "mariadb"} {
		t.Run(to, func(t *testing.T) {
			t.Parallel()
			dst := target(t, to).NewDatabase(t, "order")
			testdb.Must(t, "copy", plain, dst)
			packed := pack(t, plain, i)
			differ(t, 0, packed, dst, "--lanes", "3")
			for _, sql := range []string{"UPDATE big SET v = concat(v, '.') WHERE id = 4711", "UPDATE big SET n = n + 0.01 WHERE id = 59999", "DELETE FROM big WHERE id = 17", "UPDATE big SET id = -5 WHERE id = 5",
				"UPDATE other SET v = concat(substr(v, 1, 20971519), 'F') WHERE id = 1", "INSERT INTO loose VALUES (3, 'a'), (9, 'z')"} {
				testdb.Query(t, dst, sql)
			}
			want := []string{"big different 4711: v", "big different 59999: n", "big extra -5: ", "big missing 17: ", "big missing 5: ", "loose extra 3 a: ", "loose extra 9 z: ", "other different 1: v"}
			if got := found(t, []string{packed, dst}); !slices.Equal(got, want) {
				t.Errorf("found\n%s\ninstead of\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

// pack compresses a file in one of the ways that are read; 0 leaves it as it is.
func pack(t *testing.T, path string, how int) string {
	t.Helper()
	if how == 0 {
		return "file:" + path
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "dump.sql"+[]string{"", ".gz", ".zst"}[how])
	f, err := os.Create(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if how == 1 {
		w := gzip.NewWriter(f)
		w.Write(text)
		err = w.Close()
	} else {
		w, _ := zstd.NewWriter(f)
		w.Write(text)
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Rows of one key, which a target cannot have, do not hide each other; nor do equal rows.
func TestDumpDuplicateKeys(t *testing.T) {
	dst := testdb.MariaDB(t).NewDatabase(t, "twice")
	testdb.Query(t, dst, "CREATE TABLE t (id int PRIMARY KEY, v varchar(9)); INSERT INTO t VALUES (1,'a'),(2,'b'),(3,'c')")
	for _, c := range []struct{ rows, want string }{
		{"(1,'a'),(1,'x'),(2,'b'),(3,'c')", "t missing 1: "},
		{"(1,'a'),(1,'a'),(2,'b'),(3,'c')", "t missing 1: "},
		{"(1,'x'),(2,'b'),(1,'y'),(3,'c')", "t different 1: v|t missing 1: "},
		{"(1,'a'),(2,'b'),(2,'b'),(2,'b'),(3,'c')", "t missing 2: |t missing 2: "},
	} {
		path := dump(t, "CREATE TABLE t (id int, v varchar(9), PRIMARY KEY (id));\nINSERT INTO t VALUES "+c.rows+";")
		if got := strings.Join(found(t, []string{path, dst}), "|"); got != c.want {
			t.Errorf("%s: found %q instead of %q", c.rows, got, c.want)
		}
	}
}

// Dumps in other forms than mysqldump's: keys after the rows, some columns only, mydumper's folder.
func TestDumpForms(t *testing.T) {
	maria := testdb.MariaDB(t)
	t.Run("keys later", func(t *testing.T) {
		dst := maria.NewDatabase(t, "later")
		path := dump(t, "CREATE TABLE t (id int NOT NULL, v varchar(9));\nINSERT INTO t VALUES (1,'a'),(2,'b');\nALTER TABLE t ADD PRIMARY KEY (id);")
		testdb.Query(t, dst, "CREATE TABLE t (id int PRIMARY KEY, v varchar(9)); INSERT INTO t VALUES (1,'a'),(2,'b')")
		differ(t, 0, path, dst)
		testdb.Query(t, dst, "UPDATE t SET v = NULL WHERE id = 2")
		if got := strings.Join(found(t, []string{path, dst}), "|"); got != "t different 2: v" {
			t.Errorf("found %q", got)
		}
	})
	t.Run("some columns", func(t *testing.T) {
		dst := maria.NewDatabase(t, "some")
		path := dump(t, "CREATE TABLE t (id int NOT NULL AUTO_INCREMENT PRIMARY KEY, v varchar(9), d varchar(9) DEFAULT 'x', b varchar(9));\nINSERT INTO t (b,v) VALUES ('a','1'),('b','2');\nINSERT INTO t (v,b,d) VALUES ('3','c','y');")
		testdb.Must(t, "copy", path, dst)
		if out := differ(t, 0, path, dst); !strings.Contains(out, "the columns d, id") {
			t.Errorf("what is not compared is not said:\n%s", out)
		}
		testdb.Query(t, dst, "UPDATE t SET b = 'z' WHERE v = '3'")
		if got := strings.Join(found(t, []string{path, dst}), "|"); got != "t extra 3 z: |t missing 3 c: " {
			t.Errorf("found %q", got)
		}
	})
	t.Run("numbers as people write them", func(t *testing.T) {
		dst := maria.NewDatabase(t, "numbers")
		path := dump(t, "CREATE TABLE t (id int PRIMARY KEY, d decimal(10,3), b int unsigned, y date, f double);\nINSERT INTO t VALUES (+1,'007.50',0x10,'2024-1-2',1e3),(02,-0,'3','20240103',.5);")
		testdb.Must(t, "copy", path, dst)
		differ(t, 0, path, dst)
	})
	for _, server := range []*testdb.Server{maria, testdb.MySQL(t)} {
		t.Run("mydumper "+server.Engine, func(t *testing.T) {
			src, dst := server.NewDatabase(t, "src"), testdb.Postgres(t, 15).NewDatabase(t, "dst")
			testdb.Query(t, src, "CREATE TABLE t (id int PRIMARY KEY, v varchar(60)); CREATE TABLE u (a int, b int); INSERT INTO t VALUES (1,'a''b'),(2,NULL),(3,''),(4,'é'); INSERT INTO u VALUES (1,1),(1,1)")
			dir := testdb.Mydumper(t, src, "--rows", "2")
			testdb.Must(t, "copy", dir, dst, "--target-schema", "public")
			differ(t, 0, dir, dst, "--target-schema", "public")
			testdb.Query(t, dst, "UPDATE t SET v = '' WHERE id = 2; DELETE FROM u WHERE ctid = (SELECT max(ctid) FROM u)")
			if got := strings.Join(found(t, []string{dir, dst, "--target-schema", "public"}), "|"); got != "t different 2: v|u missing 1 1: " {
				t.Errorf("found %q", got)
			}
			differ(t, 1, dir, dst, "--target-schema", "public", "--exclude", "*.t")
		})
	}
}

// What one side lacks is a difference, whichever side the file is.
func TestDumpMissingTables(t *testing.T) {
	dst := testdb.MariaDB(t).NewDatabase(t, "lacks")
	path := dump(t, "CREATE TABLE t (id int PRIMARY KEY, v int);\nINSERT INTO t VALUES (1,1);\nCREATE TABLE u (id int PRIMARY KEY);\n")
	testdb.Query(t, dst, "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1,1); CREATE TABLE w (id int PRIMARY KEY)")
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{path, dst}, `table \S+u.* does not exist on the target`},
		{[]string{dst, path}, `table \S+u.* does not exist on the source`},
		{[]string{dst, path}, `table \S+w.* is not in the dump file`},
	} {
		if out := differ(t, 1, c.args...); !regexp.MustCompile(c.says).MatchString(out) {
			t.Errorf("%q is not in\n%s", c.says, out)
		}
	}
	differ(t, 0, dst, path, "--exclude", "*.u", "--exclude", "*.w")
	differ(t, 0, path, dst, "--exclude", "*.u")
}

// What cannot be compared is refused in one line, with a hint.
func TestDumpRefused(t *testing.T) {
	maria := testdb.MariaDB(t)
	dst := maria.NewDatabase(t, "refused")
	testdb.Query(t, dst, "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1,1)")
	good := dump(t, "CREATE TABLE t (id int PRIMARY KEY, v int);\nINSERT INTO t VALUES (1,1);")
	differ(t, 0, good, dst)
	postgres := testdb.Written(t, "dump.sql", "--\n-- PostgreSQL database dump\n--\nSET standard_conforming_strings = on;\nCREATE TABLE public.t (id integer);\nCOPY public.t (id) FROM stdin;\n1\n\\.\n")
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{15, "truncated", []string{"diff", testdb.Written(t, "dump.sql", "CREATE TABLE t (id int PRIMARY KEY, v int);\nINSERT INTO t VALUES (1,1),(2,'"), dst}},
		{15, "without the line that ends a dump", []string{"diff", testdb.Written(t, "dump.sql", "-- MariaDB dump 10.19\nCREATE TABLE t (id int PRIMARY KEY, v int);\nINSERT INTO t VALUES (1,1);\n"), dst}},
		{15, "line 2", []string{"diff", testdb.Written(t, "dump.sql", "CREATE TABLE t (id int PRIMARY KEY, v int);\nINSERT INTO t VALUES (1,1,1);\n"), dst}},
		{15, "line 1", []string{"diff", testdb.Written(t, "dump.sql", "this is no dump\n"), dst}},
		{2, "two dump files", []string{"diff", good, good}},
		{2, "--live", []string{"diff", good, dst, "--live"}},
		{2, "Exchange", []string{"diff", dst, good, "--definitions=only"}},
		{2, "Exchange", []string{"diff", dst, good, "--definitions"}},
		{2, "repair", []string{"repair", good, dst}},
		{2, "repair", []string{"repair", dst, good, "--execute"}},
		{7, "is a dump of PostgreSQL", []string{"diff", postgres, dst}},
		{7, "server", []string{"diff", dump(t, "CREATE TABLE t (id int PRIMARY KEY, v int);\nINSERT INTO t SELECT 1, 1;"), dst}},
		{7, "server", []string{"diff", dump(t, "CREATE TABLE t (id int PRIMARY KEY, v int);\nINSERT INTO t VALUES (1, rand());"), dst}},
		{7, "once", []string{"diff", "-", dst}},
		{6, "Check", []string{"diff", "/nowhere/dump.sql", dst}},
		{6, "Check", []string{"diff", dst, "/nowhere/dump.sql"}},
		{20, "tables", []string{"diff", good, dst, "--include", "x.y"}},
	} {
		out := testdb.Run(t, c.args...)
		if out.Code != c.code || !strings.Contains(out.ErrOut, c.says) || !strings.Contains(out.ErrOut, "hint: ") || strings.Count(out.ErrOut, "\n") > 2 {
			t.Errorf("%q: exit %d instead of %d, %q in\n%s%s", c.args, out.Code, c.code, c.says, out.ErrOut, out.Out)
		}
	}
}
