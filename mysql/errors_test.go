package mysql

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/mysqltest"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// TestConnectErrors checks the whole messages of errors while connecting.
func TestConnectErrors(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		base := srv.NewDatabase(t, "door")
		with := func(change func(u *url.URL)) string {
			u, err := url.Parse(base)
			if err != nil {
				t.Fatal(err)
			}
			change(u)
			return u.String()
		}
		silent, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
		closed := testdb.FreeAddress(t)
		testdb.Query(t, srv.URL(""), "CREATE USER weak@'127.0.0.1' IDENTIFIED BY 'secret-Weak1'")
		defer testdb.Query(t, srv.URL(""), "DROP USER weak@'127.0.0.1'")
		weak := url.UserPassword("weak", "secret-Weak1")
		at := fmt.Sprintf("127.0.0.1:%d", srv.Port)
		scheme, db := srv.Engine, mysqltest.DatabaseOf(base)
		cases := []struct {
			url, want, hint string
			kind            tidemark.Kind
		}{
			{with(func(u *url.URL) { u.User = url.UserPassword("weak", "wrong-Secret") }),
				"connect " + scheme + "://weak@" + at + "/" + db + ": Access denied for user 'weak'@'127.0.0.1' (using password: YES) (error 1045)", "Check the user and the password", tidemark.Denied},
			{with(func(u *url.URL) { u.User = weak }),
				"connect " + scheme + "://weak@" + at + "/" + db + ": Access denied for user 'weak'@'127.0.0.1' to database '" + db + "' (error 1044)", "GRANT SELECT ON `" + db + "`.* TO 'weak'", tidemark.Forbidden},
			{with(func(u *url.URL) { u.Path = "/nowhere" }),
				"connect " + scheme + "://root@" + at + "/nowhere: Unknown database 'nowhere' (error 1049)", "Correct the name in the URL", tidemark.NotFound},
			{with(func(u *url.URL) { u.Host = closed }),
				"connect " + scheme + "://root@" + closed + "/" + db + ": dial tcp " + closed + ": connect: connection refused", "Check that the server runs at " + closed, tidemark.Unreachable},
			{with(func(u *url.URL) { u.Host, u.RawQuery = silent.Addr().String(), "connect-timeout=300ms" }),
				"connect " + scheme + "://root@" + silent.Addr().String() + "/" + db + "?connect-timeout=300ms: the server did not complete the login within 300ms", "Check that the server runs", tidemark.Unreachable},
			{with(func(u *url.URL) { u.Host = "no-such-host.invalid" }),
				"connect " + scheme + "://root@no-such-host.invalid/" + db + ": there is no host no-such-host.invalid", "Correct the host name", tidemark.Unreachable},
			{with(func(u *url.URL) { u.RawQuery = "sslmode=disable" }), "open " + scheme + "://root@" + at + "/" + db + `?sslmode=disable: unknown option "sslmode"`, "?tls=false, preferred, true, verify-ca or verify-full", tidemark.Invalid},
			{with(func(u *url.URL) { u.RawQuery = "tls=maybe" }), "open " + scheme + "://root@" + at + "/" + db + `?tls=maybe: tls is false, preferred, true, verify-ca or verify-full, not "maybe"`, "Options for TLS", tidemark.Invalid},
			{"mysql://root:sec%ret@h/x", "open mysql://...: not a URL: user, password and host cannot be separated", "percent-encoded", tidemark.Invalid},
		}
		for _, c := range cases {
			e, err := Open(t.Context(), c.url, server.Options{})
			if err == nil {
				e.Close()
				t.Errorf("no error: %s", c.want)
				continue
			}
			if err.Error() != c.want || tidemark.KindOf(err) != c.kind || !strings.HasPrefix(tidemark.HintOf(err), c.hint) && !strings.Contains(tidemark.HintOf(err), c.hint) {
				t.Errorf("got  %v (%v; %s)\nwant %s (%v; %s)", err, tidemark.KindOf(err), tidemark.HintOf(err), c.want, c.kind, c.hint)
			}
			for _, secret := range []string{srv.Password, "wrong-Secret", "secret-Weak1", "sec%ret"} {
				if strings.Contains(err.Error()+tidemark.HintOf(err), secret) {
					t.Errorf("the password is in the message %q", err)
				}
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := Open(ctx, with(func(u *url.URL) { u.Host = silent.Addr().String() }), server.Options{}); tidemark.KindOf(err) != tidemark.Cancelled {
			t.Errorf("cancelled: %v", err)
		}
	})
}

// TestForbidden checks that the GRANT in the hint fixes the error.
func TestForbidden(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		base := srv.NewDatabase(t, "forbidden")
		testdb.Query(t, base, "CREATE TABLE seen (id int PRIMARY KEY); CREATE TABLE hidden (id int PRIMARY KEY); CREATE USER weak@'127.0.0.1' IDENTIFIED BY 'secret-Weak1'; GRANT SELECT ON "+mysqltest.DatabaseOf(base)+".seen TO weak@'127.0.0.1'")
		t.Cleanup(func() { testdb.Query(t, srv.URL(""), "DROP USER weak@'127.0.0.1'") })
		e := open(t, strings.Replace(base, srv.User+":"+srv.Password, "weak:secret-Weak1", 1), server.Options{})
		m := mysqltest.MoveTo(mysqltest.TableFrom(t, base, "hidden"), mysqltest.DatabaseOf(base))
		read := func() error {
			return e.Read(t.Context(), 0, tidemark.Read{Move: m, Range: &tidemark.Range{}}, func(b *tidemark.Batch) error { return nil })
		}
		err := read()
		if tidemark.KindOf(err) != tidemark.Forbidden {
			t.Fatalf("%v (%v)", err, tidemark.KindOf(err))
		}
		testdb.Query(t, base, strings.TrimSuffix(tidemark.HintOf(err), "."))
		if err := read(); err != nil {
			t.Errorf("after the GRANT: %v", err)
		}
		m = mysqltest.MoveTo(mysqltest.TableFrom(t, base, "seen"), mysqltest.DatabaseOf(base))
		r := &tidemark.Range{}
		write := func() error {
			_, err := e.Write(t.Context(), 0, tidemark.Write{Move: m, Range: r, Format: tidemark.LoadData}, mysqltest.Batches(tidemark.LoadData, r, "1\n"))
			return err
		}
		if err = write(); tidemark.KindOf(err) != tidemark.Forbidden {
			t.Fatalf("%v (%v)", err, tidemark.KindOf(err))
		}
		hint := tidemark.HintOf(err)
		testdb.Query(t, base, strings.TrimSuffix(hint, "."))
		if err := write(); err != nil {
			t.Errorf("after the GRANT (%s): %v", hint, err)
		}
	})
}

func TestPreflight(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		base := srv.NewDatabase(t, "preflight")
		db := mysqltest.DatabaseOf(base)
		testdb.Query(t, base, "CREATE TABLE old (id int PRIMARY KEY) ENGINE=MyISAM; CREATE USER weak@'127.0.0.1' IDENTIFIED BY 'secret-Weak1'; GRANT INSERT ON `"+strings.ReplaceAll(db, "_", `\_`)+"`.* TO weak@'127.0.0.1'")
		t.Cleanup(func() { testdb.Query(t, srv.URL(""), "DROP USER weak@'127.0.0.1'; SET GLOBAL local_infile=1") })
		holds := &tidemark.Database{Engine: srv.Engine, Tables: []*tidemark.Table{{TableID: tidemark.TableID{Schema: db, Name: "old"}, Storage: "MyISAM", Bytes: 4 << 30}}}
		check := func(rawURL, role string) string {
			found, err := open(t, rawURL, server.Options{}).Preflight(t.Context(), role, holds)
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			for _, f := range found {
				fmt.Fprintf(&b, "%s %s: %s. %s\n", f.Severity, f.Object, f.Text, f.Hint)
			}
			return b.String()
		}
		wants := func(got string, lines ...string) {
			t.Helper()
			for _, want := range lines {
				if !strings.Contains(got, want) {
					t.Errorf("no %q in\n%s", want, got)
				}
			}
		}
		if got := check(base, "source"); strings.Contains(got, "blocker") {
			t.Errorf("root is not free:\n%s", got)
		} else {
			wants(got, "warning storage engine: non-transactional tables are not part of the snapshot; they are read as they are at that moment: "+db+".old (MyISAM)")
		}
		testdb.Query(t, base, "SET GLOBAL local_infile=0")
		wants(check(base, "target"), "warning local_infile: the server refuses LOAD DATA LOCAL", "note redo log: the redo log of", "note innodb_buffer_pool_size: the buffer pool has 64 MB", "warning storage engine: these tables have no transactions")
		weak := strings.Replace(base, srv.User+":"+srv.Password, "weak:secret-Weak1", 1)
		got := check(weak, "target")
		wants(got, "blocker user 'weak'@'127.0.0.1': making and filling tables needs SELECT, UPDATE, DELETE, CREATE, DROP, ALTER, INDEX, REFERENCES. GRANT SELECT, UPDATE, DELETE, CREATE, DROP, ALTER, INDEX, REFERENCES ON `"+db+"`.* TO 'weak'@'127.0.0.1'.")
		wants(check(weak, "source"), "blocker user 'weak'@'127.0.0.1': reading rows needs SELECT.", "blocker user 'weak'@'127.0.0.1': a consistent snapshot of the source needs RELOAD")
	})
}

// Too many connections at once is temporary; a user's limit per hour is not.
func TestConnectionsAreShort(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		base := srv.NewDatabase(t, "short")
		for _, c := range []struct {
			limit, hint string
			kind        tidemark.Kind
		}{
			{"MAX_USER_CONNECTIONS 1", "MAX_USER_CONNECTIONS", tidemark.Transient},
			{"MAX_CONNECTIONS_PER_HOUR 1", "MAX_CONNECTIONS_PER_HOUR 0", tidemark.Forbidden},
		} {
			testdb.Query(t, srv.URL(""), "CREATE USER few@'127.0.0.1' IDENTIFIED BY 'secret-Few1' WITH "+c.limit+"; GRANT ALL ON *.* TO few@'127.0.0.1'")
			u, err := url.Parse(base)
			if err != nil {
				t.Fatal(err)
			}
			u.User = url.UserPassword("few", "secret-Few1")
			holder := testdb.NewSession(u.String())
			if _, err := holder.Try("SELECT 1"); err != nil {
				t.Fatal(err)
			}
			_, err = Open(t.Context(), u.String(), server.Options{})
			if tidemark.KindOf(err) != c.kind || !strings.Contains(tidemark.HintOf(err), c.hint) {
				t.Errorf("%s: %v: %v (%s)", c.limit, tidemark.KindOf(err), err, tidemark.HintOf(err))
			}
			holder.Close()
			testdb.Query(t, srv.URL(""), "DROP USER few@'127.0.0.1'")
		}
	})
}
