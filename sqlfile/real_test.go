package sqlfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/sqltext"
)

// dumper returns the dump program that comes with a server.
func dumper(t *testing.T, s *testdb.Server) string {
	t.Helper()
	if s.Engine == "mariadb" {
		return "mariadb-dump"
	}
	cache := os.Getenv("TIDEMARK_TEST_CACHE")
	if cache == "" && os.Getuid() == 0 {
		cache = "/var/cache/tidemark-test"
	} else if cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		cache = filepath.Join(dir, "tidemark-test")
	}
	found, err := filepath.Glob(filepath.Join(cache, "mysql-8.*", "bin", "mysqldump"))
	if err != nil || len(found) == 0 {
		t.Fatalf("mysqldump of MySQL 8 is missing in %s: run make test-deps", cache)
	}
	return found[0]
}

// dump runs the dump program over databases.
func dump(t *testing.T, s *testdb.Server, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(dumper(t, s), append([]string{"--no-defaults", "--protocol=tcp", fmt.Sprintf("--host=%s", s.Host), fmt.Sprintf("--port=%d", s.Port), "--user=" + s.User}, args...)...)
	cmd.Env = append(os.Environ(), "MYSQL_PWD="+s.Password)
	if s.Engine == "mysql" {
		cmd.Args = append(cmd.Args[:1:1], append([]string{"--no-defaults", "--set-gtid-purged=OFF"}, cmd.Args[2:]...)...)
	}
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, problems.String())
	}
	return out.Bytes()
}

func databaseName(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		panic(err)
	}
	return strings.TrimPrefix(u.Path, "/")
}

// An importer writes the script that loads a dump through LOAD DATA.
type importer struct {
	t      *testing.T
	dir    string
	server sqltext.Server
	tables map[string]*tidemark.Table
	script bytes.Buffer
	rows   map[string]int
	parts  []*Tuples // of a long row, until it is complete
	raw    int
	piece  int
}

func name(s string) string { return "`" + strings.ReplaceAll(s, "`", "``") + "`" }

// build writes the script for a dump.
func (im *importer) build(file []byte) {
	s := NewScanner(bytes.NewReader(file), Options{Name: "dump.sql", Server: im.server, Piece: im.piece})
	for {
		st, err := s.Next(context.Background())
		if err == io.EOF {
			break
		}
		if err != nil {
			im.t.Fatalf("%v (%s)", err, tidemark.HintOf(err))
		}
		switch {
		case st.Tuples != nil:
			im.load(st.Tuples)
		case st.Kind == CreateTable && st.DefErr != nil:
			im.t.Fatal(st.DefErr)
		case st.Kind == CreateTable:
			im.create(st)
		case st.Kind == LockTables, st.Kind == Transaction, st.Kind == Keys, st.Kind == SetGTID:
		default:
			im.run(string(st.Text))
		}
	}
}

func (im *importer) run(sql string) { fmt.Fprintf(&im.script, "DELIMITER ;;;;\n%s\n;;;;\n", sql) }

func (im *importer) create(st *Statement) {
	im.tables[st.Table] = st.Def
	im.run(string(st.Text))
}

// load writes a LOAD DATA with CHARACTER SET binary, as the engine's writer does.
func (im *importer) load(p *Tuples) {
	def := p.Def
	if def == nil {
		def = im.tables[p.Table.Name]
	}
	if def == nil {
		im.t.Fatalf("no definition of %v", p.Table)
	}
	if im.parts = append(im.parts, p); p.More {
		return
	}
	pieces := im.parts
	im.parts = nil
	m := Narrow(move(def), p.Columns)
	file := filepath.Join(im.dir, fmt.Sprintf("%d", p.Index))
	text, rows, err := convert(m, tidemark.LoadData, ConvertOptions{}, pieces...)
	if errors.Is(err, ErrRaw) {
		im.raw++
		im.run(string(p.SQL()))
		return
	}
	if err != nil {
		im.t.Fatal(err)
	}
	im.rows[p.Table.Name] += rows
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		im.t.Fatal(err)
	}
	var cols, set []string
	for i, c := range m.To.Stored() {
		if c.Type.Kind == tidemark.JSON || c.Type.Kind == tidemark.UUID || c.Type.Kind == tidemark.Other {
			cols = append(cols, fmt.Sprintf("@v%d", i))
			set = append(set, fmt.Sprintf("%s=CONVERT(@v%d USING utf8mb4)", name(c.Name), i))
			continue
		}
		cols = append(cols, name(c.Name))
	}
	how := map[string]string{"REPLACE": "REPLACE ", "INSERT IGNORE": "IGNORE "}[p.Verb]
	sql := fmt.Sprintf("LOAD DATA LOCAL INFILE '%s' %sINTO TABLE %s CHARACTER SET binary (%s)", file, how, name(p.Table.Name), strings.Join(cols, ","))
	if len(set) > 0 {
		sql += " SET " + strings.Join(set, ",")
	}
	im.run(sql)
}

// contents describes a database: tables with their DDL and checksums, and the number of other
// objects.
func contents(t *testing.T, u string) string {
	t.Helper()
	names := testdb.Query(t, u, "SELECT table_name FROM information_schema.tables WHERE table_schema=database() AND table_type='BASE TABLE' ORDER BY table_name")
	var checks []string
	var sql strings.Builder
	for _, n := range strings.Split(names, "\n") {
		checks = append(checks, name(n))
		sql.WriteString("SHOW CREATE TABLE " + name(n) + ";\n")
	}
	sql.WriteString("CHECKSUM TABLE " + strings.Join(checks, ",") + " EXTENDED;\n" +
		"SELECT table_name FROM information_schema.views WHERE table_schema=database() ORDER BY 1;\n" +
		"SELECT trigger_name, action_statement FROM information_schema.triggers WHERE trigger_schema=database() ORDER BY 1;\n" +
		"SELECT routine_name, routine_definition FROM information_schema.routines WHERE routine_schema=database() ORDER BY 1;\n" +
		"SELECT event_name, event_definition FROM information_schema.events WHERE event_schema=database() ORDER BY 1;\n")
	return strings.ReplaceAll(testdb.Query(t, u, sql.String()), databaseName(u)+".", "")
}

// Whatever options a dump was made with, its rows arrive through LOAD DATA as through the client
// program.
func TestDumpsLoadAsTheClientLoadsThem(t *testing.T) {
	for _, server := range []*testdb.Server{testdb.MariaDB(t), testdb.MySQL(t)} {
		maria := server.Engine == "mariadb"
		sample := testdb.Sample
		version := sqltext.Server{MariaDB: true, Version: 101100}
		if !maria {
			sample, version = testdb.SampleMySQL8, sqltext.Server{Version: 80033}
		}
		zoo, sakila := server.NewDatabase(t, "zoo"), server.NewDatabase(t, "sakila")
		testdb.Load(t, zoo, sample(t, "types-zoo/mysql.sql"))
		spatial := map[bool]string{true: "sakila/mysql-spatial-mariadb.sql.zst", false: "sakila/mysql-spatial-mysql8.sql.zst"}[maria]
		testdb.Load(t, sakila, sample(t, spatial))
		everything := []string{"--routines", "--triggers", "--events"}
		for _, c := range []struct {
			of   string
			args []string
		}{
			{zoo, everything},
			{zoo, []string{"--hex-blob", "--complete-insert"}},
			{zoo, []string{"--skip-extended-insert", "--skip-quote-names", "--tables", "t_int", "t_num", "t_time", "t_str", "t_enum", "t_json", "t_geo", "t_latin1"}},
			{zoo, []string{"--skip-opt", "--replace", "--hex-blob", "--create-options"}},
			{zoo, []string{"--insert-ignore", "--net-buffer-length=4096", "--skip-tz-utc"}},
			{zoo, []string{"--default-character-set=latin1", "--tables", "t_latin1", "t_int", "t_time", "chk"}},
			{zoo, []string{"--default-character-set=binary", "--tables", "t_latin1", "t_str", "t_charsets"}},
			{zoo, []string{"--compact"}},
			{zoo, []string{"--no-create-info"}},
			{sakila, everything},
			{sakila, append([]string{"--hex-blob", "--skip-extended-insert", "--order-by-primary"}, everything...)},
			{sakila, []string{"--compatible=ansi", "--skip-triggers"}}, // MySQL's own client cannot read triggers in this mode
		} {
			if !maria && (c.args[0] == "--skip-extended-insert" || strings.HasPrefix(c.args[0], "--default-character-set=latin1")) && c.of == zoo {
				continue // MySQL 8's mysqldump makes files there that it cannot load itself
			}
			t.Run(server.Engine+"/"+strings.Split(databaseName(c.of), "_")[0]+strings.Join(c.args, " "), func(t *testing.T) {
				args := c.args
				if i := indexOf(args, "--tables"); i >= 0 {
					args = append(append(append([]string{}, args[:i]...), databaseName(c.of)), args[i:]...)
				} else {
					args = append(append([]string{}, args...), databaseName(c.of))
				}
				checkDump(t, server, version, dump(t, server, args...), c.of)
			})
		}
	}
}

func indexOf(list []string, s string) int {
	for i := range list {
		if list[i] == s {
			return i
		}
	}
	return -1
}

// checkDump loads a dump in both ways and compares.
func checkDump(t *testing.T, server *testdb.Server, version sqltext.Server, file []byte, of string) {
	a, b := server.NewDatabase(t, "client"), server.NewDatabase(t, "ours")
	im := &importer{t: t, dir: t.TempDir(), server: version, tables: map[string]*tidemark.Table{}, rows: map[string]int{}, piece: 100 << 10}
	if !bytes.Contains(file, []byte("CREATE TABLE")) { // --no-create-info
		shape := dump(t, server, "--no-data", "--skip-triggers", databaseName(of))
		testdb.Load(t, a, bytes.NewReader(shape))
		testdb.Load(t, b, bytes.NewReader(shape))
		for _, st := range all(t, bytes.NewReader(shape), Options{Server: version}) {
			if st.Def != nil {
				im.tables[st.Table] = st.Def
			}
		}
	}
	if bytes.HasPrefix(file, []byte("/*!50503 SET")) || !bytes.Contains(file, []byte("FOREIGN_KEY_CHECKS")) { // --compact does not turn checks off
		file = append([]byte("SET FOREIGN_KEY_CHECKS=0, SQL_MODE='NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES';\n"), file...)
	}
	testdb.Load(t, a, bytes.NewReader(file))
	im.build(file)
	testdb.Load(t, b, &im.script, "--local-infile=1")
	if im.raw > 0 {
		t.Errorf("%d pieces had to be run as SQL", im.raw)
	}
	if diff := cmp.Diff(strings.Split(contents(t, a), "\n"), strings.Split(contents(t, b), "\n")); diff != "" {
		t.Errorf("client and we differ: %s", diff)
	}
}

// A dump of several databases names each with USE.
func TestDatabasesAreNamed(t *testing.T) {
	server := testdb.MariaDB(t)
	one, two := server.NewDatabase(t, "one"), server.NewDatabase(t, "two")
	testdb.Load(t, one, testdb.Sample(t, "menagerie/mysql.sql"))
	testdb.Load(t, two, testdb.Sample(t, "world/mysql.sql.zst"))
	file := dump(t, server, "--databases", databaseName(one), databaseName(two))
	before := contents(t, one) + contents(t, two)
	im := &importer{t: t, dir: t.TempDir(), tables: map[string]*tidemark.Table{}, rows: map[string]int{}}
	for _, u := range []string{one, two} {
		testdb.Query(t, server.URL(""), "DROP DATABASE "+databaseName(u))
	}
	im.build(file)
	testdb.Load(t, server.URL(""), &im.script, "--local-infile=1")
	if diff := cmp.Diff(before, contents(t, one)+contents(t, two)); diff != "" {
		t.Error(diff)
	}
	for _, st := range all(t, bytes.NewReader(file), Options{}) {
		if st.Tuples != nil && st.Tuples.Table.Schema != databaseName(one) && st.Tuples.Table.Schema != databaseName(two) {
			t.Errorf("rows of %v", st.Tuples.Table)
		}
	}
}

// The samples have the row counts in their expected-counts files.
func TestSamplesAreRead(t *testing.T) {
	for _, c := range []struct{ file, counts string }{
		{"sakila/mysql.sql.zst", "sakila/expected-counts.mysql.tsv"},
		{"sakila/mysql-spatial-mysql8.sql.zst", "sakila/expected-counts.mysql-spatial-mysql8.mysql.tsv"},
		{"sakila/mysql-spatial-mariadb.sql.zst", "sakila/expected-counts.mysql-spatial-mariadb.mysql.tsv"},
		{"chinook/mysql.sql.zst", "chinook/expected-counts.mysql.tsv"},
		{"northwind/mysql.sql.zst", "northwind/expected-counts.mysql.tsv"},
		{"world/mysql.sql.zst", "world/expected-counts.mysql.tsv"},
		{"menagerie/mysql.sql", "menagerie/expected-counts.mysql.tsv"},
		{"types-zoo/mysql.sql", "types-zoo/expected-counts.mysql.tsv"},
	} {
		t.Run(c.file, func(t *testing.T) {
			got := map[string]int{}
			for _, st := range all(t, testdb.Sample(t, c.file), Options{Piece: 64 << 10}) {
				if st.Kind == CreateTable && st.Def == nil {
					t.Error(st.DefErr)
				}
				if p := st.Tuples; p != nil {
					got[st.Table] += p.Rows
				}
			}
			counts, err := io.ReadAll(testdb.Sample(t, c.counts))
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range strings.Split(strings.TrimSpace(string(counts)), "\n") {
				table, n, _ := strings.Cut(l, "\t")
				switch table {
				case "film_text", "part_range": // filled by a trigger; by a query
					continue
				}
				if fmt.Sprint(got[table]) != strings.TrimSpace(n) {
					t.Errorf("%s has %d rows, want %s", table, got[table], n)
				}
			}
		})
	}
}
