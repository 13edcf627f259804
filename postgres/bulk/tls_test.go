package bulk

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/postgres/pgtest"
)

// encrypted enables TLS on a server for the duration of a test, and returns the file of its
// certificate, which is for another host name.
func encrypted(t *testing.T, srv *testdb.Server) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "elsewhere"}, DNSNames: []string{"elsewhere"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(srv.Dir)
	if err != nil {
		t.Fatal(err)
	}
	owner := info.Sys().(*syscall.Stat_t)
	for name, block := range map[string]*pem.Block{"server.crt": {Type: "CERTIFICATE", Bytes: cert}, "server.key": {Type: "EC PRIVATE KEY", Bytes: secret}} {
		path := filepath.Join(srv.Dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, int(owner.Uid), int(owner.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	set := func(sql, is string) {
		testdb.Query(t, srv.URL("postgres"), sql)
		testdb.Query(t, srv.URL("postgres"), "SELECT pg_reload_conf()")
		testdb.Within(t, "ssl "+is, func() bool { return testdb.Query(t, srv.URL("postgres"), "SHOW ssl") == is })
	}
	set("ALTER SYSTEM SET ssl = on", "on")
	t.Cleanup(func() { set("ALTER SYSTEM RESET ssl", "off") })
	root := filepath.Join(t.TempDir(), "root.crt")
	if err := os.WriteFile(root, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600); err != nil {
		t.Fatal(err)
	}
	return root
}

// Rows travel over TLS in both directions, and a certificate that does not match is reported with
// the reason.
func TestRowsByTLS(t *testing.T) {
	srv := testdb.Postgres(t, 15)
	db := srv.NewDatabase(t, "tls")
	root := encrypted(t, srv)
	testdb.Query(t, db, "CREATE TABLE t AS SELECT g AS id, repeat('x', g % 3000) AS v FROM generate_series(1, 10000) g; CREATE TABLE u (LIKE t)")
	mode := func(query string) string { return with(t, db, func(u *url.URL) { u.RawQuery = query }) }
	url := mode("sslmode=verify-ca&sslrootcert=" + root)
	from, into := frozen(t, url, 1), open(t, url)
	if got := testdb.Query(t, db, "SELECT count(*) > 2, bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'tidemark' AND datname = current_database()"); got != "t\tt" {
		t.Errorf("sessions, encrypted: %s", got)
	}
	m := move(pgtest.Table(t, db, "t"))
	m.To = pgtest.Table(t, db, "u")
	for _, f := range []tidemark.Format{tidemark.CopyText, tidemark.CopyBinary} {
		out, err := pipe(t.Context(), from, into, 0, tidemark.Read{Move: m, Range: &tidemark.Range{}, Format: f}, tidemark.Write{Move: m, Range: &tidemark.Range{}, Format: f})
		if err != nil || out.Rows != 10000 {
			t.Errorf("%v: %+v, %v", f, out, err)
		}
	}
	if got := testdb.Query(t, db, "SELECT count(*), count(DISTINCT u) FROM u JOIN t USING (id, v)"); got != "20000\t10000" {
		t.Errorf("rows %s", got)
	}
	for _, tt := range []struct{ query, hint string }{
		{"sslmode=verify-full&sslrootcert=" + root, "The certificate is for another name: use that name in the URL."},
		{"sslmode=verify-ca", "The server's certificate is not trusted: give sslrootcert=FILE with the authority that signed it."},
	} {
		e, err := Open(t.Context(), mode(tt.query), Options{})
		if err == nil {
			e.Close()
		}
		if tidemark.KindOf(err) != tidemark.Unreachable || tidemark.HintOf(err) != tt.hint {
			t.Errorf("%s: %v: %v (%s)", tt.query, tidemark.KindOf(err), err, tidemark.HintOf(err))
		}
	}
}
