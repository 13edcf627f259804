package peers

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// With the URL of one engine and the port of another, the command says which server listens there.
func TestWrongDoor(t *testing.T) {
	t.Parallel()
	pg, maria := testdb.Postgres(t, 15).NewDatabase(t, "door"), testdb.MariaDB(t).NewDatabase(t, "door")
	swap := func(scheme, url string) string {
		_, rest, _ := strings.Cut(url, "://")
		rest, _, _ = strings.Cut(rest, "?")
		return scheme + "://" + rest
	}
	for line, want := range map[[2]string]string{
		{swap("postgres", maria), pg}:                             "a MySQL or MariaDB server listens there",
		{swap("postgres", maria) + "?sslmode=disable", pg}:        "a MySQL or MariaDB server listens there",
		{swap("postgres", maria) + "?sslmode=require", pg}:        "a MySQL or MariaDB server listens there",
		{swap("mysql", pg), maria}:                                "PostgreSQL listens there",
		{maria, swap("mariadb", pg) + "?tls=true"}:                "PostgreSQL listens there",
		{maria + "?sslmode=disable", pg}:                          "tls=false, preferred, true, verify-ca or verify-full",
		{maria + "?ssl-mode=DISABLED", pg}:                        "tls=false, preferred, true, verify-ca or verify-full",
		{pg + "&tls=true", maria}:                                 "sslmode (disable, allow, prefer, require, verify-ca or verify-full)",
		{swap("mysql", maria) + "nowhere", pg}:                    "Correct the name in the URL",
		{swap("postgres", pg) + "nowhere?sslmode=disable", maria}: "Correct the name in the URL",
	} {
		if o := testdb.Run(t, "check", line[0], line[1]); o.Code == 0 || !strings.Contains(o.ErrOut, want) {
			t.Errorf("%q: exit %d, want %q in\n%s", line, o.Code, want, o.ErrOut)
		}
	}
}
