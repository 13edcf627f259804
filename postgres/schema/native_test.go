package schema

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

func connectTo(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	if _, err := conn.Exec(t.Context(), server.SessionSQL(13)); err != nil {
		t.Fatal(err)
	}
	return conn
}

func describeURL(t *testing.T, url string) *tidemark.Database {
	t.Helper()
	db, err := describe(t.Context(), connectTo(t, url), server.Options{Owners: true, Grants: true}, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// runAll runs objects phase by phase, in order, and reports each statement that fails.
func runAll(t *testing.T, url string, objects []tidemark.Object) {
	t.Helper()
	conn := connectTo(t, url)
	done := map[string]bool{}
	known := map[string]bool{}
	for _, o := range objects {
		known[o.ID] = true
	}
	for phase := tidemark.BeforeRows; phase <= tidemark.AfterRows; phase++ {
		for _, o := range objects {
			if o.Phase != phase {
				continue
			}
			for _, d := range o.Depends {
				if known[d] && !done[d] {
					t.Errorf("%s needs %s, which comes later", o.ID, d)
				}
			}
			done[o.ID] = true
			for _, sql := range o.SQL {
				if _, err := conn.Exec(t.Context(), sql); err != nil {
					t.Errorf("%s: %v\n%s", o.ID, err, sql)
				}
			}
		}
	}
}

// all returns the moves that copy everything.
func all(db *tidemark.Database) []tidemark.Move {
	var out []tidemark.Move
	for _, table := range db.Tables {
		switch table.Form {
		case tidemark.Ordinary, tidemark.Partitioned, tidemark.LargeObjects:
			out = append(out, tidemark.Move{From: table, To: table, Direct: true})
		}
	}
	return out
}

func TestSchemaIsEqual(t *testing.T) {
	for _, versions := range [][2]int{{15, 15}, {18, 18}, {15, 18}, {18, 15}} {
		for _, sample := range []string{"pagila/pg.sql.zst", "chinook/pg.sql.zst", "northwind/pg.sql.zst", "world/pg.sql.zst", "types-zoo/pg.sql"} {
			name, _, _ := strings.Cut(sample, "/")
			t.Run(fmt.Sprintf("%s %d to %d", name, versions[0], versions[1]), func(t *testing.T) {
				src := testdb.Postgres(t, versions[0]).NewDatabase(t, "src")
				dst := testdb.Postgres(t, versions[1]).NewDatabase(t, "dst")
				testdb.Load(t, src, testdb.Sample(t, sample))
				sameSchema(t, src, dst)
			})
		}
	}
}

// TestBeyondDump copies what a dump does not include, and requires only equality.
func TestBeyondDump(t *testing.T) {
	sql, err := os.ReadFile(filepath.Join("testdata", "beyond.sql"))
	if err != nil {
		t.Fatal(err)
	}
	for _, major := range []int{15, 18} {
		src := testdb.Postgres(t, major).NewDatabase(t, "src")
		dst := testdb.Postgres(t, major).NewDatabase(t, "dst")
		testdb.Load(t, src, strings.NewReader(string(sql)))
		sameSchema(t, src, dst)
	}
}

// loadNasty loads the part of the nasty schema that a server of this version supports.
func loadNasty(t *testing.T, url string, major int) {
	t.Helper()
	for _, part := range []struct {
		since int
		file  string
	}{{13, "nasty.sql"}, {15, "nasty-15.sql"}, {18, "nasty-18.sql"}} {
		if major < part.since {
			continue
		}
		sql, err := os.ReadFile(filepath.Join("testdata", part.file))
		if err != nil {
			t.Fatal(err)
		}
		testdb.Load(t, url, strings.NewReader(string(sql)))
	}
}

// sameSchema copies the schema of src to dst and compares their pg_dump output.
func sameSchema(t *testing.T, src, dst string) {
	t.Helper()
	copySchema(t, src, dst)
	want := testdb.PgDump(t, src)
	if serverMajor(t, src) != serverMajor(t, dst) {
		if serverMajor(t, src) < 15 { // there no sequence was unlogged; an unlogged table's sequence has no choice
			want = strings.ReplaceAll(want, "\n    LOGGED\n", "\n")
		}
		want = reloaded(t, want, serverMajor(t, dst))
	}
	if diff := diffLines(t, want, testdb.PgDump(t, dst)); diff != "" {
		t.Errorf("pg_dump differs (-source +target):\n%s", diff)
	}
}

func copySchema(t *testing.T, src, dst string) {
	t.Helper()
	db := describeURL(t, src)
	for _, f := range db.Findings {
		if strings.Contains(f.Text, "left out") || f.Severity == tidemark.Blocker {
			t.Errorf("%s %s: %s", f.Severity, f.Object, f.Text)
		}
	}
	e := &Schema{Server: &server.Server{Options: server.Options{Grants: true, Owners: true}, Major: serverMajor(t, dst)}}
	objects, findings := e.Render(db, all(db))
	if e.Major >= db.Major {
		for _, f := range findings {
			t.Errorf("%s %s: %s", f.Severity, f.Object, f.Text)
		}
	} else { // an older version of an extension lacks functions of a newer one
		objects = slices.DeleteFunc(objects, func(o tidemark.Object) bool { return o.Kind == "grant" && strings.Contains(o.ID, " ext.") })
	}
	if e.Major == db.Major {
		objects = e.Join(objects)
	}
	// The writer of rows creates large objects.
	if lobs := testdb.Query(t, src, "SELECT coalesce(string_agg(format('SELECT lo_create(%s)', oid), ';'), '') FROM pg_largeobject_metadata"); lobs != "" {
		testdb.Query(t, dst, lobs)
	}
	runAll(t, dst, objects)
}

func serverMajor(t *testing.T, url string) int {
	t.Helper()
	major, err := strconv.Atoi(testdb.Query(t, url, "SELECT current_setting('server_version_num')::int / 10000"))
	if err != nil {
		t.Fatal(err)
	}
	return major
}

// reloaded returns a dump as it is after loading it into a server of another version and dumping it
// again: each version prints definitions in its own way.
func reloaded(t *testing.T, dump string, major int) string {
	t.Helper()
	url := testdb.Postgres(t, major).NewDatabase(t, "ref")
	if major < 18 {
		dump = childNotNull(dump)
	}
	testdb.Load(t, url, strings.NewReader(strings.ReplaceAll(dump, "SET transaction_timeout = 0;", "")))
	if major >= 15 { // the target decides who owns the schema public
		testdb.Query(t, url, "ALTER SCHEMA public OWNER TO pg_database_owner")
	}
	return testdb.PgDump(t, url)
}

// diffLines returns the output of diff -u for two texts, "" if they are equal.
func diffLines(t *testing.T, a, b string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"a": a, "b": b} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command("diff", "-U2", filepath.Join(dir, "a"), filepath.Join(dir, "b")).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		t.Fatalf("diff: %v: %s", err, out)
	}
	return string(out)
}

// childNotNull rewrites pg_dump 18's output for a child's not-null column, which is the same for
// all servers, so that servers before 18 accept it.
func childNotNull(dump string) string {
	return createsTable.ReplaceAllStringFunc(dump, func(create string) string {
		var alter string
		table := createsTable.FindStringSubmatch(create)[1]
		create = notNullLine.ReplaceAllStringFunc(create, func(line string) string {
			alter += "\nALTER TABLE ONLY " + table + " ALTER COLUMN " + notNullLine.FindStringSubmatch(line)[1] + " SET NOT NULL;"
			return ""
		})
		return strings.ReplaceAll(create, ",\n)", "\n)") + alter
	})
}

var (
	createsTable = regexp.MustCompile(`(?s)CREATE (?:UNLOGGED )?TABLE (\S+) \(\n.*?;`)
	notNullLine  = regexp.MustCompile(`\n    NOT NULL ([^\s,]+),?`)
)
