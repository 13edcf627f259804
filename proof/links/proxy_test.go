package links

import (
	"io"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/server"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// A proxied is a client's conversation with a proxy that understands the protocol, as ProxySQL
// does: it reads a command when it has answered the one before, refuses LOAD DATA LOCAL with
// ProxySQL's error, and knows no prepared statements.
type proxied struct {
	server.EmptyHandler
	to *client.Conn
}

func (p *proxied) UseDB(name string) error { return p.to.UseDB(name) }

func (p *proxied) HandleQuery(sql string) (*mysql.Result, error) {
	if strings.HasPrefix(strings.ToUpper(sql), "LOAD DATA LOCAL INFILE") {
		return nil, &mysql.MyError{Code: 1047, State: "08S01", Message: "Unsupported 'LOAD DATA LOCAL INFILE' command"}
	}
	return p.to.Execute(sql)
}

// behindProxy returns a database's URL behind a proxy.
func behindProxy(t *testing.T, db string) string {
	t.Helper()
	u, err := url.Parse(db)
	if err != nil {
		t.Fatal(err)
	}
	backend, user := u.Host, u.User.Username()
	password, _ := u.User.Password()
	version := testdb.Query(t, db, "SELECT VERSION()")
	conf := server.NewServer(version, mysql.DEFAULT_COLLATION_ID, mysql.AUTH_NATIVE_PASSWORD, nil, nil)
	users := server.NewInMemoryAuthenticationHandler(mysql.AUTH_NATIVE_PASSWORD)
	if err := users.AddUser("through", "proxy"); err != nil {
		t.Fatal(err)
	}
	l := testdb.Accept(t, func(conn net.Conn) {
		defer conn.Close()
		to, err := client.Connect(backend, user, password, strings.TrimPrefix(u.Path, "/"))
		if err != nil {
			return
		}
		defer to.Close()
		c, err := conf.NewCustomizedConn(conn, users, &proxied{to: to})
		for err == nil {
			err = c.HandleCommand()
		}
	})
	out := *u
	out.Host, out.User = l.Addr().String(), url.UserPassword("through", "proxy")
	return out.String()
}

// TestMySQLProxy copies from and to MySQL and MariaDB behind such a proxy, and streams into them.
func TestMySQLProxy(t *testing.T) {
	t.Parallel()
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil))) // the library logs each connection that ends
	for _, open := range []func(testing.TB) *testdb.Server{testdb.MariaDB, testdb.MySQL} {
		s := open(t)
		t.Run(s.Engine, func(t *testing.T) {
			t.Parallel()
			from := shop(t, s)
			to := s.NewDatabase(t, "dst")
			must(t, "copy", behindProxy(t, from), behindProxy(t, to))
			compareShop(t, from, to)
			pg := postgres(t).NewDatabase(t, "dst")
			must(t, "copy", behindProxy(t, from), pg)
			compareShop(t, from, pg)
			must(t, "diff", behindProxy(t, from), behindProxy(t, to))
			keyless(t, pg)
			into := s.NewDatabase(t, "into")
			stream := []string{"replicate", pg, behindProxy(t, into), "--name", streamName(), "--until", "now"}
			must(t, stream...)
			testdb.Query(t, pg, "UPDATE t1 SET v = 'changed'; DELETE FROM t2 WHERE id = 1; INSERT INTO t3 (id, v) VALUES (1000, 'new')")
			must(t, stream...)
			compareShop(t, pg, into)
			must(t, append(stream[:5:5], "--remove")...)
		})
	}
}
