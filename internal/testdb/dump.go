package testdb

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// PgDump returns the schema of a PostgreSQL 13 to 18 database as pg_dump
// writes it; args are further options for it. One pg_dump, of version 18,
// reads them all, and what differs between runs is left out (versions, a
// random key), so that equal schemas on servers of one major version give
// equal texts. Between major versions there are differences of the servers'
// own: 15 qualifies the columns in views, 18 names inherited NOT NULLs.
func PgDump(tb testing.TB, url string, args ...string) string {
	tb.Helper()
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

// varying matches the lines of a dump that name versions, and a setting that
// servers before 17 do not know, so that they too can load the text.
var varying = regexp.MustCompile(`(?m)^(-- Dumped (from|by) .*|SET transaction_timeout = 0;)\n`)
