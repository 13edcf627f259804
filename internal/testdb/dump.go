package testdb

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// PgDump returns the schema of a PostgreSQL 13 to 18 database as pg_dump writes it; args are
// further options. pg_dump 18 reads all versions, and lines that vary between runs are removed
// (versions, a random key), so equal schemas on servers of one major version yield equal texts.
// Across major versions the servers themselves differ: 15 qualifies the columns in views, 18 names
// inherited NOT NULLs.
func PgDump(tb testing.TB, url string, args ...string) string {
	tb.Helper()
	OnData(tb)
	dump, err := program("pg_dump 18", filepath.Join(cacheDir(), "postgresql-client-18", "bin", "pg_dump"))
	if err != nil {
		fail(tb, err)
	}
	text, err := output(exec.Command(dump, append(append([]string{"--schema-only", "--restrict-key=tidemark"}, args...), url)...))
	if err != nil {
		tb.Fatalf("testdb: %v", err)
	}
	return strings.TrimSpace(varying.ReplaceAllString(text, ""))
}

// varying matches the lines of a dump that name versions, and a setting unknown to servers before
// 17, so that they can load the text too.
var varying = regexp.MustCompile(`(?m)^(-- Dumped (from|by) .*|SET transaction_timeout = 0;)\n`)

// MySQLDump dumps a database with mysqldump or mariadb-dump, depending on the URL's scheme, and
// returns the file; args are further options.
func MySQLDump(tb testing.TB, rawURL string, args ...string) string {
	tb.Helper()
	path := "mariadb-dump"
	if strings.HasPrefix(rawURL, "mysql:") {
		path = filepath.Join(mysqlDist(), "bin", "mysqldump")
	}
	return dumpWith(tb, path, rawURL, args...)
}

// MariaDBDump is MySQLDump with MariaDB's program, which also reads MySQL servers.
func MariaDBDump(tb testing.TB, rawURL string, args ...string) string {
	tb.Helper()
	return dumpWith(tb, "mariadb-dump", rawURL, args...)
}

// Mydumper dumps a database with mydumper, including everything it can dump, and returns the
// folder; args are further options.
func Mydumper(tb testing.TB, rawURL string, args ...string) string {
	tb.Helper()
	dump, err := program("mydumper", "mydumper")
	if err != nil {
		fail(tb, err)
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		tb.Fatal(err)
	}
	dir := filepath.Join(tb.TempDir(), "dump")
	pw, _ := u.User.Password()
	if _, err := output(exec.Command(dump, append([]string{"--host", u.Hostname(), "--port", u.Port(), "--user", u.User.Username(), "--password", pw,
		"--database", strings.TrimPrefix(u.Path, "/"), "--outputdir", dir, "--triggers", "--events", "--routines"}, args...)...)); err != nil {
		tb.Fatalf("testdb: %v", err)
	}
	return dir
}

func dumpWith(tb testing.TB, path, rawURL string, args ...string) string {
	tb.Helper()
	OnData(tb)
	dump, err := program("a dump program", path)
	if err != nil {
		fail(tb, err)
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		tb.Fatal(err)
	}
	file := filepath.Join(tb.TempDir(), "dump.sql")
	cmd := exec.Command(dump, append(append([]string{"--no-defaults", "--protocol=tcp", "--host=" + u.Hostname(), "--port=" + u.Port(), "--user=" + u.User.Username(),
		"--default-character-set=utf8mb4", "--result-file=" + file}, args...), strings.TrimPrefix(u.Path, "/"))...)
	pw, _ := u.User.Password()
	cmd.Env = append(os.Environ(), "MYSQL_PWD="+pw)
	if _, err := output(cmd); err != nil {
		tb.Fatalf("testdb: %v", err)
	}
	return file
}
