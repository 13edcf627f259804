package links

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

const relaySecret = "5d1f0a7bfe9b4c6d"

// A relayed is a relay that runs, and what reaches it.
type relayed struct {
	*testdb.Process
	t          *testing.T
	addr, file string
	certs      string // folder of certificates, instead of file
	targets    []string
	said       string // by those that were killed
}

// relaying starts a relay that may connect to the servers of these databases.
func relaying(t *testing.T, targets ...string) *relayed {
	t.Helper()
	r := &relayed{t: t, addr: testdb.FreeAddress(t), file: filepath.Join(t.TempDir(), "secret"), targets: targets}
	if err := os.WriteFile(r.file, []byte(relaySecret), 0o600); err != nil {
		t.Fatal(err)
	}
	r.start()
	return r
}

func (r *relayed) start() {
	r.t.Helper()
	args := []string{"relay", "--listen", r.addr, "--dir", filepath.Join(r.t.TempDir(), "queues")}
	if r.certs != "" {
		args = append(args, "--tls-ca", r.certs+"/ca.pem", "--tls-cert", r.certs+"/cert.pem", "--tls-key", r.certs+"/key.pem")
	} else {
		args = append(args, "--secret-file", r.file)
	}
	for _, db := range r.targets {
		u, err := url.Parse(db)
		if err != nil {
			r.t.Fatal(err)
		}
		u.User, u.Path = nil, ""
		args = append(args, "--target", u.String())
	}
	r.Process = testdb.Start(r.t, args...)
	r.Says("listening on")
}

// kill kills it, as kill -9 does.
func (r *relayed) kill() {
	r.Kill()
	r.said += r.Text()
}

// at is the value of --relay.
func (r *relayed) at(port string) string {
	if r.certs != "" {
		return "127.0.0.1:" + port + "?ca=" + r.certs + "/ca.pem&cert=" + r.certs + "/cert.pem&key=" + r.certs + "/key.pem"
	}
	return "127.0.0.1:" + port + "?secret-file=" + r.file
}

func (r *relayed) port() string {
	_, port, _ := net.SplitHostPort(r.addr)
	return port
}

var notOfRows = regexp.MustCompile(`(?m)^(-- .*|/\*M?!.*|)\n`)

// dumped returns all of a database, by the dump program of its server.
func dumped(t *testing.T, db string) string {
	t.Helper()
	if strings.HasPrefix(db, "postgres") {
		return testdb.PgDump(t, db)
	}
	text, err := os.ReadFile(testdb.MariaDBDump(t, db, "--order-by-primary", "--routines", "--events", "--skip-extended-insert"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(notOfRows.ReplaceAllString(string(text), ""), schema(db), "this")
}

// TestRelayCopies copies samples through a relay, and directly. The dump programs of the servers
// say the same of both targets.
func TestRelayCopies(t *testing.T) {
	t.Parallel()
	pg := postgres
	for _, c := range []struct {
		name, sample string
		from, to     func(testing.TB) *testdb.Server
		preps        []string
	}{
		{"binary rows", "pagila/pg.sql.zst", pg, pg, nil},
		{"all types", "types-zoo/pg.sql", pg, pg, nil},
		{"to MariaDB", "chinook/pg.sql.zst", pg, testdb.MariaDB, []string{"drop", "truncate"}},
		{"of MariaDB", "sakila/mysql.sql.zst", testdb.MariaDB, testdb.MariaDB, []string{"drop"}},
		{"of MariaDB to PostgreSQL", "sakila/mysql.sql.zst", testdb.MariaDB, pg, []string{"drop", "truncate"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			src := c.from(t).NewDatabase(t, "src")
			testdb.Load(t, src, testdb.Sample(t, c.sample))
			near, far := c.to(t).NewDatabase(t, "near"), c.to(t).NewDatabase(t, "far")
			r := relaying(t, far)
			through := []string{"copy", src, far, "--target-schema", "main", "--relay", r.at(r.port()), "--zero-dates", "null"}
			direct := []string{"copy", src, near, "--target-schema", "main", "--zero-dates", "null"}
			if c.from(t).Engine == c.to(t).Engine || strings.HasPrefix(far, "mariadb") {
				through, direct = append(through[:3:3], through[5:]...), append(direct[:3:3], direct[5:]...)
			}
			must(t, direct...)
			if code, out := run(t, append(through, "--plan")...); code != 0 || !strings.Contains(out, "table") {
				t.Fatalf("--plan: exit %d\n%s", code, out)
			}
			must(t, through...)
			if a, b := dumped(t, near), dumped(t, far); a != b {
				t.Fatalf("the dumps differ\n%s", difference(a, b))
			}
			if strings.HasPrefix(src, "postgres") && strings.HasPrefix(far, "postgres") {
				if a, b := dumped(t, src), dumped(t, far); a != b {
					t.Fatalf("the dumps of source and target differ\n%s", difference(a, b))
				}
			}
			if code, out := run(t, through...); code != 8 {
				t.Errorf("a target with rows: exit %d\n%s", code, out)
			}
			for _, prep := range c.preps {
				must(t, append(direct, "--prep", prep)...)
				must(t, append(through, "--prep", prep)...)
				if a, b := dumped(t, near), dumped(t, far); a != b {
					t.Fatalf("the dumps differ after --prep %s\n%s", prep, difference(a, b))
				}
			}
			if strings.Contains(r.Text(), relaySecret) || strings.Contains(r.Text(), passwordOf(t, far)) {
				t.Errorf("a secret was written\n%s", r.Text())
			}
		})
	}
}

func passwordOf(t *testing.T, db string) string {
	u, err := url.Parse(db)
	if err != nil {
		t.Fatal(err)
	}
	if p, has := u.User.Password(); has {
		return p
	}
	return "no password"
}

// difference returns the first lines that differ.
func difference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return fmt.Sprintf("%.500s\n%.500s", x[i], y[i])
		}
	}
	return "one is longer"
}

// TestRelayCut ends connections at random moments: between the copy and its relay, and between the
// relay and the server.
func TestRelayCut(t *testing.T) {
	t.Parallel()
	all := pairs()
	for _, i := range testdb.Draw(t, len(all), 2) {
		from, to := all[i].from(t), all[i].to(t)
		t.Run(from.Engine+" to "+to.Engine, func(t *testing.T) {
			t.Parallel()
			from, to := shop(t, from), to.NewDatabase(t, "dst")
			dst, a := testdb.Through(t, to, 0)
			r := relaying(t, dst)
			b := testdb.NewWire(t, r.port(), far)
			seed := testdb.Seed(t)
			args := []string{"copy", from, dst, "--target-schema", schema(to), "--lanes", "4", "--range-size", "64kB", "--relay", r.at(b.Port)}
			whole := len(args)
			for try := uint64(1); ; try++ {
				o := testdb.Start(t, args...)
				stop := make(chan struct{})
				if try < 8 {
					go cut(seed+try, []*testdb.Wire{b, a, b}, 12, stop)
				}
				code := o.Wait()
				close(stop)
				a.Spare()
				b.Spare()
				if code == 0 {
					t.Logf("done with try %d\n%s", try, o.Text())
					break
				}
				t.Logf("exit %d\n%s", code, o.Text())
				if code != 10 && code != 3 || try == 20 {
					t.Fatal("a cut is to be tried again")
				}
				if strings.Contains(o.Text(), "run 01") || strings.Contains(o.Text(), "--resume 01") {
					args = append(args[:whole:whole], "--resume", "last")
				}
			}
			compareShop(t, from, to)
		})
	}
}

// TestRelayKilled kills the relay at random moments. The copy ends, and --resume continues it with
// the next relay.
func TestRelayKilled(t *testing.T) {
	t.Parallel()
	for _, to := range []func(testing.TB) *testdb.Server{postgres, testdb.MariaDB} {
		to := to(t)
		t.Run(to.Engine, func(t *testing.T) {
			t.Parallel()
			from, to := shop(t, postgres(t)), to.NewDatabase(t, "dst")
			r := relaying(t, to)
			b := testdb.NewWire(t, r.port(), 10*time.Millisecond)
			args := []string{"copy", from, to, "--target-schema", schema(to), "--lanes", "2", "--range-size", "64kB", "--relay", r.at(b.Port)}
			whole, killed, cleared := len(args), 0, true
			for try := 1; ; try++ {
				o := testdb.Start(t, args...)
				if try < 5 {
					time.Sleep(time.Duration(300+400*try) * time.Millisecond)
					r.kill()
					killed++
					r.start()
				}
				code := o.Wait()
				if code == 0 {
					cleared = !strings.Contains(o.Text(), "could not be removed") // killed after the copy
					break
				}
				t.Logf("exit %d\n%s", code, o.Text())
				if code != 2 && code != 3 && code != 10 || try == 10 || code == 2 && !strings.Contains(o.Text(), "the relay has lost this copy") {
					t.Fatal("this is not what a killed relay does")
				}
				if strings.Contains(o.Text(), "run 01") || strings.Contains(o.Text(), "--resume 01") {
					args = append(args[:whole:whole], "--resume", "last")
				}
			}
			compareShop(t, from, to)
			if left := testdb.Query(t, to, "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'tidemark' OR table_name LIKE 'tidemark%' AND table_schema = '"+schema(to)+"'"); cleared && strings.TrimSpace(left) != "0" {
				t.Errorf("%s tables of ours are left", left)
			}
		})
	}
}

// TestRelayRefuses has what is wrong with a relay, by exit code.
func TestRelayRefuses(t *testing.T) {
	t.Parallel()
	src, dst := shop(t, postgres(t)), postgres(t).NewDatabase(t, "dst")
	other := testdb.MariaDB(t).NewDatabase(t, "other")
	u, err := url.Parse(dst)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = "127.0.0.1:1"
	nowhere := u.String()
	r := relaying(t, dst, nowhere)
	wrong := filepath.Join(t.TempDir(), "wrong")
	if err := os.WriteFile(wrong, []byte("ffffffffffffffff"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		target, relay string
		code          int
		says          string
	}{
		{dst, "127.0.0.1:" + r.port() + "?secret-file=" + wrong, 4, "the shared secret differs"},
		{dst, "127.0.0.1:2?secret-file=" + r.file, 3, "connection refused"},
		{dst, "nowhere.invalid:2?secret-file=" + r.file, 3, "no such host: nowhere.invalid\nhint: Check the host name."},
		{dst, r.at(u.Port()), 3, ""},
		{nowhere, r.at(r.port()), 3, "127.0.0.1:1"},
		{other, r.at(r.port()), 5, "does not connect to that server"},
		{dst + "&host=/tmp", r.at(r.port()), 5, "does not allow the option"},
		{strings.Replace(dst, "?", "_no?", 1), r.at(r.port()), 6, "_no"},
		{src, r.at(r.port()), 2, "the same table"},
	} {
		code, out := run(t, "copy", src, c.target, "--relay", c.relay)
		if code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("%s through %s: exit %d, not %d\n%s", c.target, c.relay, code, c.code, out)
		}
		if p := passwordOf(t, dst); strings.Contains(out, p) || strings.Contains(r.Text(), p) {
			t.Errorf("a password was printed\n%s", out)
		}
	}
}

// TestRelayKilledAtTheProof kills a relay while the target's definitions are compared with the
// plan: what it does not answer is not missing.
func TestRelayKilledAtTheProof(t *testing.T) {
	t.Parallel()
	server := postgres(t)
	from := server.NewDatabase(t, "src")
	for i := range 20 {
		testdb.Query(t, from, fmt.Sprintf("CREATE TABLE t%d (id int PRIMARY KEY, a text, b int CHECK (b > 0)); CREATE INDEX ON t%[1]d (a)", i))
	}
	r := relaying(t, server.NewDatabase(t, "any"))
	b := testdb.NewWire(t, r.port(), 5*time.Millisecond)
	for i := range testdb.Draw(t, 24, 8) {
		args := []string{"copy", from, server.NewDatabase(t, "dst"), "--relay", r.at(b.Port), "--json"}
		for try := 0; ; try++ {
			o := testdb.Start(t, args...)
			if try == 0 {
				for strings.Count(o.Text(), `"object":"statistics `) < 20 && !o.Over() { // the last objects
					time.Sleep(time.Millisecond)
				}
				time.Sleep(time.Duration(3*i) * time.Millisecond) // anywhere in the round trips of the proof
				r.kill()
				r.start()
			}
			code := o.Wait()
			if code == 0 {
				break
			}
			if code != 2 && code != 3 && code != 10 || try == 3 {
				t.Fatalf("%d ms later: exit %d\n%s", 3*i, code, o.Text())
			}
			if try == 0 {
				args = append(args, "--resume", "last")
			}
		}
	}
}
