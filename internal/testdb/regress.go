package testdb

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Regress returns PostgreSQL's own regression tests, ready to start: they fill an empty database of
// a PostgreSQL 15 server that belongs to this test only (they create roles and tablespaces), in
// about half a minute. Some of them fail, since they expect a server initialised differently; the
// objects are created all the same. script/install-test-deps.sh installs what they need for
// TIDEMARK_TEST=all only.
func (s *Server) Regress(tb testing.TB, at string) *exec.Cmd {
	tb.Helper()
	program, err := program("pg_regress of PostgreSQL 15", "/usr/lib/postgresql/15/lib/pgxs/src/test/regress/pg_regress")
	if err != nil {
		fail(tb, err)
	}
	u, err := url.Parse(at)
	if err != nil {
		tb.Fatal(err)
	}
	dir := s.TempDir(tb) // the server writes there too
	in := filepath.Join(cacheDir(), "postgresql-15-regress")
	secret, _ := u.User.Password()
	cmd := exec.Command(program, "--use-existing", "--dbname="+filepath.Base(u.Path), "--inputdir="+in, "--outputdir="+dir, "--dlpath="+in,
		"--bindir=/usr/lib/postgresql/15/bin", "--schedule="+filepath.Join(in, "parallel_schedule"), "--max-connections=4",
		"--host="+u.Hostname(), "--port="+u.Port(), "--user="+u.User.Username())
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PGPASSWORD="+secret)
	return cmd
}
