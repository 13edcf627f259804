package sqlfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
)

func folderOf(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// yields returns what a script yields, one line for each piece.
func yields(t *testing.T, path string) (out []string, s *Script) {
	t.Helper()
	s, err := OpenScript(path, ScriptOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for {
		p, err := s.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return out, s
		}
		if err != nil {
			t.Fatal(err)
		}
		switch p.Kind {
		case tidemark.Rows:
			out = append(out, fmt.Sprintf("%d rows %s %d defined=%v", p.ID, p.Table, p.Rows, p.Def != nil))
			s.Done(p)
		case tidemark.Define:
			out = append(out, "table "+p.Table.String())
		case tidemark.Schema:
			out = append(out, "database "+p.Table.Schema)
		default:
			out = append(out, strings.TrimSpace(p.What+" "+p.Table.Schema+" "+p.SQL))
		}
	}
}

// Files one after the other: later files fill the tables of earlier ones, pieces are numbered
// throughout, and no file's USE, SETs or missing last line end affect the next.
func TestFilesOneAfterTheOther(t *testing.T) {
	dir := folderOf(t, map[string]string{
		"1.sql": "CREATE TABLE t (a int);\nUSE elsewhere;\nSET NAMES latin1;\nCREATE TABLE u (a int);",
		"2.sql": "INSERT INTO t VALUES (1),(2);\nINSERT INTO t VALUES (3);\n",
		"3.sql": "INSERT INTO t VALUES (4);\nCREATE VIEW v AS SELECT 1;",
		"notes": "nothing",
	})
	want := []string{"table t", "elsewhere SET NAMES latin1", "table elsewhere.u", "1 rows t 3 defined=true", "2 rows t 1 defined=true", "view v (line 2 of 3.sql)  CREATE VIEW v AS SELECT 1"}
	list := []string{filepath.Join(dir, "1.sql"), filepath.Join(dir, "2.sql"), "file:" + filepath.Join(dir, "3.sql")}
	for _, path := range []string{strings.Join(list, ","), dir, "file:" + dir + "/"} {
		got, s := yields(t, path)
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s gives\n%s", path, strings.Join(got, "\n"))
		}
		if at, size := s.Offset(); at != size || size == 0 {
			t.Errorf("at the end it is at %d of %d", at, size)
		}
		before := s.Stamp()
		if err := os.WriteFile(filepath.Join(dir, "2.sql"), fmt.Appendf(nil, "INSERT INTO t VALUES (1),(2);\nINSERT INTO t VALUES (3);\n%s", strings.Repeat("\n", len(path))), 0o600); err != nil {
			t.Fatal(err)
		}
		if before == s.Stamp() {
			t.Error("a changed file leaves the stamp as it was")
		}
	}
}

// A mydumper folder is read in an order that works, in the databases that its file names indicate.
func TestMydumperFolder(t *testing.T) {
	dir := folderOf(t, map[string]string{
		"metadata":                  "Started dump at: x\nSHOW MASTER STATUS:\n\tLog: binlog.000002\n\tPos: 157\n\tGTID:0-1-149\n\nSHOW SLAVE STATUS:\n\tLog: other.000001\n\tPos: 4\n",
		"a-schema-create.sql":       "CREATE DATABASE `a` /*!40100 DEFAULT CHARACTER SET utf8mb4 */;\n",
		"a.b-schema-create.sql":     "CREATE DATABASE `a.b`;\n",
		"q_1-schema-create.sql":     "CREATE DATABASE /*!32312 IF NOT EXISTS*/ `q``é`;\n",
		"a-schema-post.sql":         "CREATE PROCEDURE `p`()\nBEGIN\n select 1; \n select ';'; \nEND;\n",
		"a.t-schema.sql":            "CREATE TABLE `t` (`a` int);\n",
		"a.t.00001.sql":             "/*!40101 SET NAMES binary*/;\nINSERT INTO `t` VALUES\n(1),\n(2);\n",
		"a.t.00000.sql":             "INSERT INTO `t` VALUES\n(0);\n",
		"a.t-schema-triggers.sql":   "CREATE trigger tr before insert on t for each row BEGIN set new.a=1; \n END;\n",
		"a.v-schema.sql":            "CREATE TABLE `v`(`a` int)ENGINE=MyISAM;\n",
		"a.v-schema-view.sql":       "DROP TABLE IF EXISTS `v`;\nDROP VIEW IF EXISTS `v`;\nCREATE VIEW `v` AS select a from t;\n",
		"a.b.t.u-schema.sql":        "CREATE TABLE `t.u` (`a` int);\n",
		"a.b.t.u.sql":               "INSERT INTO `t.u` VALUES (1);\n",
		"q_1.x_1-schema.sql":        "CREATE TABLE `é` (`a` int);\n",
		"a.s-schema-sequence.sql":   "CREATE SEQUENCE `s`;\n",
		"a.t-metadata":              "3",
		"a.t-schema-checksum":       "",
		"a.empty.00000.sql":         "",
		"a.empty-schema.sql":        "CREATE TABLE `empty` (`a` int);\n",
		"unrelated-schema-view.txt": "",
	})
	got, s := yields(t, dir)
	want := []string{"database a", "database a.b", "database q`é", "sequence s (line 1 of a.s-schema-sequence.sql) a CREATE SEQUENCE `s`",
		"table a.b.t.u", "table a.empty", "table a.t", "table q`é.é",
		"1 rows a.b.t.u 1 defined=true", "2 rows a.t 1 defined=true", "3 rows a.t 2 defined=true",
		"routine CREATE PROCEDURE `p`() BEGIN select 1; select ';'; END (line 1 of a-schema-post.sql) a CREATE PROCEDURE `p`()\nBEGIN\n select 1; \n select ';'; \nEND",
		"view v (line 2 of a.v-schema-view.sql) a DROP VIEW IF EXISTS `v`", "view v (line 3 of a.v-schema-view.sql) a CREATE VIEW `v` AS select a from t",
		"trigger t (line 1 of a.t-schema-triggers.sql) a CREATE trigger tr before insert on t for each row BEGIN set new.a=1; \n END"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("it gives\n%q\nwant\n%q", got, want)
	}
	if s.Server() != "MariaDB" || !s.Defined() {
		t.Errorf("server %q, defined %v", s.Server(), s.Defined())
	}
	text := fmt.Sprint(s.Findings())
	for _, part := range []string{"binlog.000002:157", "0-1-149", "a.t-metadata, a.t-schema-checksum, unrelated-schema-view.txt"} {
		if !strings.Contains(text, part) {
			t.Errorf("findings lack %q: %s", part, text)
		}
	}
}

// Forms of metadata, and what replicate --from uses of them.
func TestMydumperMetadata(t *testing.T) {
	const id = "7b166a41-65a2-11ed-9de3-0800275ff74d"
	for _, c := range []struct{ text, from, gtids string }{
		{"SHOW MASTER STATUS:\n\tLog: b.000002\n\tPos: 157\n\tGTID:" + id + ":1-5,\n" + id[:35] + "e:1-3\n\nFinished", "b.000002:157", id + ":1-5," + id[:35] + "e:1-3"},
		{"# Started dump at: x\n[master]\n# Channel_Name = '' # c\nFile = b.000017\nPosition = 241\nExecuted_Gtid_Set = " + id + ":1-7\n\n[`a`.`t`]\nRows = 2\n", "b.000017:241", id + ":1-7"},
		{"[source]\nexecuted_gtid_set = \"" + id + ":1-7\"\n#SOURCE_LOG_FILE = \"b.1\"\n#SOURCE_LOG_POS = 9\n", "b.1:9", id + ":1-7"},
		{"[source]\nFile = \nPosition = \nExecuted_Gtid_Set = 0-1-7\n", "0-1-7", "0-1-7"},
		{"[replication]\nFile = b.1\nPosition = 9\n", "", ""},
		{"SHOW SLAVE STATUS:\n\tHost: h\n\tLog: b.1\n\tPos: 9\n", "", ""},
		{"", "", ""},
	} {
		p := metadataPosition(c.text)
		if p.from() != c.from || p.gtids != c.gtids {
			t.Errorf("%q: %q and %q", c.text, p.from(), p.gtids)
		}
	}
}

// Folders whose rows would be left out are refused, with the file's name or the reason.
func TestFoldersThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		kind  tidemark.Kind
		says  string
		files map[string]string
	}{
		{tidemark.NotFound, "no dump files", map[string]string{"a.txt": ""}},
		{tidemark.Unsupported, "t.txt", map[string]string{"t.sql": "", "t.txt": ""}},
		{tidemark.Unsupported, "a.t.00000.dat", map[string]string{"metadata": "", "a.t.00000.dat": "", "a.t.00000.sql": ""}},
		{tidemark.Unsupported, "a.t.00000.csv.gz", map[string]string{"metadata": "", "a.t.00000.csv.gz": ""}},
		{tidemark.BadInput, "did not finish", map[string]string{"metadata.partial": "", "a.t-schema.sql": ""}},
		{tidemark.BadInput, "did not finish", map[string]string{"a-schema-create.sql": ""}},
		{tidemark.NotFound, "no files but its metadata", map[string]string{"metadata": ""}},
	} {
		_, err := OpenScript(folderOf(t, c.files), ScriptOptions{})
		if tidemark.KindOf(err) != c.kind || !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("%v: %v", c.files, err)
		}
	}
	dir := folderOf(t, map[string]string{"a.sql": ""})
	if _, err := OpenScript(filepath.Join(dir, "a.sql")+","+filepath.Join(dir, "b.sql"), ScriptOptions{}); tidemark.KindOf(err) != tidemark.NotFound {
		t.Errorf("a file that is not there: %v", err)
	}
}

// TestListThatIsAPassword: a connection string with a comma in its password looks like two files.
// Of that no part is repeated.
func TestListThatIsAPassword(t *testing.T) {
	for _, text := range []string{"//tm:FSZ,X@127.0.0.1/shop", "tm:FSZ,X@tcp(127.0.0.1)/shop"} {
		if _, err := partsOf(text); tidemark.KindOf(err) != tidemark.NotFound || strings.Contains(err.Error()+tidemark.HintOf(err), "FSZ") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := partsOf("a.sql,b.sql"); tidemark.KindOf(err) != tidemark.NotFound || !strings.Contains(err.Error(), "a.sql") {
		t.Errorf("%v", err)
	}
}
