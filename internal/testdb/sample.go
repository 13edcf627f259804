package testdb

import (
	"bufio"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// own holds the sample databases that are our own work and part of the project.
//
//go:embed testdata/samples
var own embed.FS

// Sample opens a file of the sample databases, such as "pagila/pg.sql.zst", and decompresses it by
// its suffix. types-zoo and menagerie are in the project. The others are in TIDEMARK_SAMPLES, or in
// shared/data of a parent folder; the test is skipped if both are missing.
//
// The MySQL northwind names its database everywhere; Sample removes the name, so that every sample
// loads into a database of any name.
func Sample(tb testing.TB, name string) io.ReadCloser {
	tb.Helper()
	r, err := openSample(tb, name)
	if err != nil {
		tb.Fatalf("testdb: sample %s: %v", name, err)
	}
	if name == "northwind/mysql.sql.zst" {
		return rewrite(tb, r, strings.NewReplacer("`northwind`.", ""))
	}
	return r
}

func openSample(tb testing.TB, name string) (io.ReadCloser, error) {
	tb.Helper()
	if f, err := own.Open("testdata/samples/" + name); err == nil {
		return f, nil
	}
	dir := samples()
	if dir == "" {
		tb.Skip("set TIDEMARK_SAMPLES to the folder of the sample databases")
	}
	f, err := os.Open(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil || !strings.HasSuffix(name, ".zst") {
		return f, err
	}
	d, err := zstd.NewReader(bufio.NewReader(f))
	if err != nil {
		f.Close()
		return nil, err
	}
	return &decompressed{d.IOReadCloser(), f}, nil
}

type decompressed struct {
	io.ReadCloser
	file fs.File
}

func (d *decompressed) Close() error {
	_ = d.ReadCloser.Close() // never fails
	return d.file.Close()
}

// samples returns the folder of the sample databases, or "".
func samples() string {
	if dir := os.Getenv("TIDEMARK_SAMPLES"); dir != "" {
		return dir
	}
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	for {
		found := filepath.Join(dir, "shared", "data")
		if _, err := os.Stat(filepath.Join(found, "README.md")); err == nil {
			return found
		}
		if dir == filepath.Dir(dir) {
			return ""
		}
		dir = filepath.Dir(dir)
	}
}

// mysql8 rewrites what MySQL 8 with GTIDs rejects, or treats differently from MariaDB.
var mysql8 = strings.NewReplacer(
	// The variable that bounds recursion has a different name.
	"max_recursive_iterations", "cte_max_recursion_depth",
	// MySQL parses JSON into numbers, and this one exceeds a double.
	"[1e400,", "[1e300,",
	// SRID 4326 puts latitude first and has longitudes in (-180, 180]: this is the same point.
	"POINT(-180 90)", "POINT(90 180)",
	// sakila's triggers write film_text in the transaction that writes film, and
	// enforce_gtid_consistency requires both to be transactional. InnoDB has FULLTEXT too.
	")ENGINE=MyISAM", ")ENGINE=InnoDB",
)

// SampleMySQL8 is Sample for MySQL 8: it rewrites the few spellings and values of the MySQL samples
// that only MariaDB accepts.
func SampleMySQL8(tb testing.TB, name string) io.ReadCloser {
	tb.Helper()
	return rewrite(tb, Sample(tb, name), mysql8)
}

// What the zoo uses of PostgreSQL 15 (numbers rounded to hundreds, a publication's row filter) and
// 14 (multiranges, infinite numerics, parsed function bodies), expressed for 14 and 13.
var (
	since15    = []string{"numeric(5,-2)", "numeric(7,0)", "t_text WHERE (id > 0)", "t_text"}
	postgres14 = strings.NewReplacer(since15...)
	postgres13 = strings.NewReplacer(append(since15, "int4multirange", "text", "tstzmultirange", "text",
		"(3, 0, 0, 0, 'Infinity'", "(3, 0, 0, 0, 'NaN'", "(4, 1, -1, 1, '-Infinity'", "(4, 1, -1, 1, -1",
		"RETURN a + 1;", "AS 'SELECT a + 1';")...)
)

// SamplePostgres is Sample for a major version of PostgreSQL: it rewrites the few types and values
// of the samples that need a later version.
func SamplePostgres(tb testing.TB, major int, name string) io.ReadCloser {
	tb.Helper()
	r := Sample(tb, name)
	switch {
	case name != "types-zoo/pg.sql" || major >= 15:
		return r
	case major == 14:
		return rewrite(tb, r, postgres14)
	}
	return rewrite(tb, r, postgres13)
}

func rewrite(tb testing.TB, r io.ReadCloser, how *strings.Replacer) io.ReadCloser {
	tb.Helper()
	defer r.Close()
	all, err := io.ReadAll(r)
	if err != nil {
		tb.Fatalf("testdb: sample: %v", err)
	}
	return io.NopCloser(strings.NewReader(how.Replace(string(all))))
}

// CheckCounts compares the row counts of a database with a sample's
// expected-counts file, such as "pagila/expected-counts.pg.tsv".
func CheckCounts(tb testing.TB, url, name string) {
	tb.Helper()
	r := Sample(tb, name)
	defer r.Close()
	all, err := io.ReadAll(r)
	if err != nil {
		tb.Fatalf("testdb: sample %s: %v", name, err)
	}
	want := lines(strings.TrimSpace(string(all)))
	counts := make([]string, len(want))
	for i, line := range want {
		table, _, _ := strings.Cut(line, "\t")
		sql := "ONLY " + table // quoted where needed; ONLY counts a parent's rows that are in no child
		if !strings.HasPrefix(url, "postgres://") {
			sql = "`" + strings.ReplaceAll(table, "`", "``") + "`"
		}
		counts[i] = fmt.Sprintf("SELECT '%s', count(*) FROM %s", strings.ReplaceAll(table, "'", "''"), sql)
	}
	got := lines(Query(tb, url, strings.Join(counts, " UNION ALL "))) // in any order
	for _, line := range want {
		if !slices.Contains(got, line) {
			tb.Errorf("row count: want %q, got\n%s", line, strings.Join(got, "\n"))
		}
	}
}
