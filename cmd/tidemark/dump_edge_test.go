package main

import (
	"archive/tar"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// oddRows are values that the options of a dump program spell in different ways, and columns
// without values.
const oddRows = `
CREATE TABLE odd (id int PRIMARY KEY, bytes varbinary(40), bits bit(9), note text, at timestamp(3) NULL, made int GENERATED ALWAYS AS (id * 2) STORED, seen int GENERATED ALWAYS AS (id + 1) VIRTUAL);
INSERT INTO odd (id, bytes, bits, note, at) VALUES (3, x'00FF27225C0A', b'101010101', 'it''s "q" \\ \n; -- /* é', '2024-02-29 12:00:00.125'), (1, '', b'0', '', NULL), (2, NULL, NULL, NULL, '1999-12-31 23:59:59');
CREATE TABLE pair (a int, b int, PRIMARY KEY (b, a));
INSERT INTO pair VALUES (2, 1), (1, 2), (1, 1);
`

// mysqldump runs MySQL 8's own program, from the folder of its server.
func mysqldump(t *testing.T, srv *testdb.Server, args ...string) string {
	t.Helper()
	exe, err := os.Readlink("/proc/" + strconv.Itoa(srv.Pid) + "/exe")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "dump.sql")
	cmd := exec.Command(filepath.Join(filepath.Dir(exe), "mysqldump"), append([]string{"--no-defaults", "--protocol=tcp", "--host=" + srv.Host, "--port=" + strconv.Itoa(srv.Port), "--user=" + srv.User, "--result-file=" + path}, args...)...)
	cmd.Env = append(os.Environ(), "MYSQL_PWD="+srv.Password)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("mysqldump: %v\n%s", err, out)
	}
	return path
}

// TestDumpsOfEveryOption loads dumps made with the options of both dump programs, each into a
// randomly drawn server.
func TestDumpsOfEveryOption(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]struct {
		srv  *testdb.Server
		dump func(*testing.T, *testdb.Server, ...string) string
	}{"mariadb": {maria(t), dumpOf}, "mysql": {mysql8(t), mysqldump}} {
		src := sqlOn(t, of.srv, shop+programs+oddRows+"CREATE EVENT later ON SCHEDULE EVERY 1 YEAR DO DELETE FROM item WHERE id < 0;")
		for _, args := range [][]string{
			{"--hex-blob"}, {"--complete-insert"}, {"--skip-extended-insert"}, {"--order-by-primary"}, {"--skip-opt", "--create-options"},
			{"--single-transaction", "--master-data=2"}, {"--routines", "--events", "--triggers"}, {"--no-autocommit"}, {"--skip-comments"}, {"--skip-tz-utc"},
			{"--hex-blob", "--complete-insert", "--skip-extended-insert", "--order-by-primary", "--routines", "--events"},
		} {
			t.Run(name+strings.Join(args, " "), func(t *testing.T) {
				file := "file:" + of.dump(t, of.srv, append(args[:len(args):len(args)], nameOf(src))...)
				targets := []*testdb.Server{maria(t), mysql8(t), pg15(t)}
				for _, i := range testdb.Draw(t, len(targets), 1) {
					to := targets[i]
					dst := to.NewDatabase(t, "dst")
					must(t, "copy", file, dst, "--plan")
					must(t, "copy", file, dst)
					if args[0] != "--skip-tz-utc" || to.Engine != "postgres" {
						must(t, "diff", src, dst)
					}
					if to.Engine == "postgres" || !strings.Contains(strings.Join(args, " "), "--events") {
						continue
					}
					if got := testdb.Query(t, dst, "SELECT twice(4), (SELECT count(*) FROM prices), (SELECT count(*) FROM information_schema.triggers WHERE trigger_schema = database()), "+
						"(SELECT count(*) FROM information_schema.events WHERE event_schema = database())"); got != "8\t3\t1\t1" {
						t.Errorf("programs: %s", got)
					}
				}
			})
		}
	}
}

// TestDumpTexts loads dumps whose text was altered by editors or written by newer programs.
func TestDumpTexts(t *testing.T) {
	text := shopDump(20)
	sandbox := "/*M!999999\\- enable the sandbox mode */ \n"
	mysql8Text := "-- MySQL dump 10.13  Distrib 8.0.36, for Linux (x86_64)\n-- Server version\t8.0.36\n" + strings.Replace(text[strings.Index(text, "\n")+1:], ") ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;", ") /*!50100 TABLESPACE `innodb_file_per_table` */ ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci /*!80016 ENCRYPTION='N' */;\n"+
		"/*!80000 SET SESSION information_schema_stats_expiry=0 */;\nSET @@SESSION.SQL_LOG_BIN= 0;\nSET @@GLOBAL.GTID_PURGED=/*!80000 '+'*/ '3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5';", 1)
	if !strings.Contains(mysql8Text, "80016") {
		t.Fatal("the dump is not what it was")
	}
	for name, text := range map[string]string{
		"sandbox":                     sandbox + text,
		"crlf":                        strings.ReplaceAll(text, "\n", "\r\n"),
		"byte order mark":             "\xef\xbb\xbf" + text,
		"byte order mark and sandbox": "\xef\xbb\xbf" + strings.ReplaceAll(sandbox+text, "\n", "\r\n"),
		"mysql 8":                     mysql8Text,
		"packed":                      gzipped(sandbox + text),
	} {
		for _, to := range []*testdb.Server{maria(t), mysql8(t), pg15(t)} {
			t.Run(name+" to "+to.Engine, func(t *testing.T) {
				dst := to.NewDatabase(t, "dst")
				file := testdb.Written(t, "dump.sql", text)
				must(t, "copy", file, dst, "--plan")
				must(t, "copy", file, dst)
				if got := testdb.Query(t, dst, "SELECT count(*), count(DISTINCT name), max(name) FROM item"); got != "20\t20\titem 9" {
					t.Errorf("got %q", got)
				}
			})
		}
	}
}

// TestDumpsOfNothing loads empty dumps, and reports so without an error.
func TestDumpsOfNothing(t *testing.T) {
	for name, text := range map[string]string{"empty": "", "comments": "-- a line\n/* and\nmore */\n# the end\n", "settings": "/*!40101 SET NAMES utf8mb4 */;\nSET time_zone = '+00:00';\n"} {
		for _, to := range []*testdb.Server{maria(t), pg15(t)} {
			t.Run(name+" to "+to.Engine, func(t *testing.T) {
				dst := to.NewDatabase(t, "dst")
				file := testdb.Written(t, "dump.sql", text)
				for _, more := range [][]string{{"--plan"}, nil} {
					if o := cli(t, append([]string{"copy", file, dst}, more...)...); o.code != 20 || !strings.Contains(o.out+o.errOut, "the file has no tables and no rows that the rules select") {
						t.Errorf("exit %d, want 20:\n%s%s", o.code, o.out, o.errOut)
					}
				}
				nothingOfOurs(t, dst)
			})
		}
	}
}

// utf16Text encodes a text as PowerShell's > does.
func utf16Text(text string) string {
	out := []byte{0xff, 0xfe}
	for _, u := range utf16.Encode([]rune(text)) {
		out = append(out, byte(u), byte(u>>8))
	}
	return string(out)
}

func tarred(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: "dump.sql", Mode: 0o600, Size: int64(len(text))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// noDumps are files given by mistake.
var noDumps = []bad{
	{"utf16 dump", func(t *testing.T) ([]string, []string) {
		dst := maria(t).NewDatabase(t, "dst")
		return []string{"copy", "file:" + testdb.Written(t, "dump.sql", utf16Text(shopDump(3))), dst}, []string{dst}
	}, 15},
	{"utf16 dump planned", func(t *testing.T) ([]string, []string) {
		dst := pg15(t).NewDatabase(t, "dst")
		return []string{"copy", "file:" + testdb.Written(t, "dump.sql", utf16Text(shopDump(3))[2:]), dst, "--plan"}, []string{dst}
	}, 15},
	{"tar of a dump", func(t *testing.T) ([]string, []string) {
		dst := maria(t).NewDatabase(t, "dst")
		return []string{"copy", "file:" + testdb.Written(t, "dump.tar", tarred(t, shopDump(3))), dst}, []string{dst}
	}, 7},
	{"packed tar of a dump", func(t *testing.T) ([]string, []string) {
		dst := maria(t).NewDatabase(t, "dst")
		return []string{"check", "file:" + testdb.Written(t, "dump.tgz", gzipped(tarred(t, shopDump(3)))), dst}, []string{dst}
	}, 7},
	{"custom format of pg_dump", func(t *testing.T) ([]string, []string) {
		src, dst := shopOn(t, pg15(t)), pg15(t).NewDatabase(t, "dst")
		path := filepath.Join(t.TempDir(), "shop.dump")
		if out, err := exec.Command("pg_dump", "-Fc", "-f", path, src).CombinedOutput(); err != nil {
			t.Fatalf("pg_dump: %v\n%s", err, out)
		}
		return []string{"copy", "file:" + path, dst}, []string{dst}
	}, 7},
	{"picture for a dump", func(t *testing.T) ([]string, []string) {
		dst := maria(t).NewDatabase(t, "dst")
		return []string{"copy", "file:" + testdb.Written(t, "dump.sql", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00"), dst}, []string{dst}
	}, 15},
}

// TestNoDumps loads files that are not dumps, and changes nothing.
func TestNoDumps(t *testing.T) {
	for _, b := range noDumps {
		t.Run(b.name, b.check)
	}
}
