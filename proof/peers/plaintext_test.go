package peers

import (
	"io"
	"net"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// stripper listens at an address of this machine that is not its loopback, and passes everything to
// a server that has no TLS, as a proxy does that strips it.
func stripper(t *testing.T, srv *testdb.Server) string {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		ip, is := a.(*net.IPNet)
		if !is || ip.IP.To4() == nil || ip.IP.IsLoopback() {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort(ip.IP.String(), "0"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		to, err := url.Parse(srv.URL(""))
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					s, err := net.Dial("tcp", to.Host)
					if err != nil {
						return
					}
					defer s.Close()
					go func() { _, _ = io.Copy(s, c); s.Close() }()
					_, _ = io.Copy(c, s)
				}()
			}
		}()
		return l.Addr().String()
	}
	t.Fatal("this machine has no address but its loopback's")
	return ""
}

var weak = regexp.MustCompile(`(?:use|or|try|write) \??(?:sslmode=(?:disable|allow|prefer|require)|tls=(?:false|preferred|true)\b)`)

// A connection that has no TLS, though its URL would have it, is said, unless it stays on this
// machine or the URL says that this is wanted. Where TLS is demanded no hint offers less.
func TestPlainText(t *testing.T) {
	t.Parallel()
	pg, maria := testdb.Postgres(t, 15), testdb.MariaDB(t)
	target := maria.NewDatabase(t, "plain")
	for _, srv := range []*testdb.Server{pg, maria} {
		db := srv.NewDatabase(t, "plain")
		testdb.Query(t, db, "CREATE TABLE t (id int PRIMARY KEY)")
		at := func(host, query string) string {
			u, err := url.Parse(db)
			if err != nil {
				t.Fatal(err)
			}
			if host != "" {
				u.Host = host
			}
			u.RawQuery = query
			return u.String()
		}
		far := stripper(t, srv)
		off, verified := "sslmode=disable", "sslmode=verify-full"
		if srv == maria {
			off, verified = "tls=false", "tls=verify-full"
		}
		const said = "no TLS: anyone on the network path"
		for line, want := range map[string]bool{at(far, ""): true, at(far, off): false, at("", ""): false} {
			o := testdb.Run(t, "check", line, target)
			if o.Code != 0 || strings.Contains(o.Out+o.ErrOut, said) != want {
				t.Errorf("%s: exit %d, want the warning: %v\n%s%s", line, o.Code, want, o.Out, o.ErrOut)
			}
		}
		if o := testdb.Run(t, "check", at(far, verified), target); o.Code == 0 || weak.MatchString(strings.ToLower(o.ErrOut)) {
			t.Errorf("exit %d\n%s", o.Code, o.ErrOut)
		}
	}
}
