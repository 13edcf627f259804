package manual

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// pagesDrawn is how many pages run unless TIDEMARK_TEST=all asks for all of them.
const pagesDrawn = 8

// TestManualCommands runs the commands that the pages print.
func TestManualCommands(t *testing.T) {
	names, blocks := pages(t)
	run, norun := 0, 0
	for _, page := range names {
		for _, b := range blocks[page] {
			if run++; b.norun != "" {
				run, norun = run-1, norun+1
				t.Logf("%s is not run: %s", b, b.norun)
			}
		}
	}
	t.Logf("%d blocks on %d pages, and %d that are not run", run, len(names), norun)
	h := newHouse(t)
	for _, n := range testdb.Draw(t, len(names), pagesDrawn) {
		t.Run(names[n], func(t *testing.T) { h.page(t, blocks[names[n]]) })
	}
}

// A house holds the servers that the examples name. "old" and "new" are two databases of one
// server.
type house struct {
	postgres, mariadb *testdb.Server
}

// users are the users in the examples. Passwords come from files, as the manual says.
var users = []string{"me", "backup", "repl", "monitor"}

const password = "of-the-examples"

func newHouse(t *testing.T) *house {
	h := &house{postgres: testdb.OwnPostgres(t, 15), mariadb: testdb.OwnMariaDB(t)}
	for _, user := range users {
		testdb.Query(t, h.postgres.URL("postgres"), "CREATE ROLE "+user+" LOGIN SUPERUSER REPLICATION PASSWORD '"+password+"'")
		testdb.Query(t, h.mariadb.URL(""), "GRANT ALL ON *.* TO "+user+"@'127.0.0.1' IDENTIFIED BY '"+password+"' WITH GRANT OPTION")
	}
	return h
}

// The example database: minimal, but with something for each page to show.
const shop = `
	CREATE TABLE customer (id int PRIMARY KEY, name varchar(80) NOT NULL, city varchar(80));
	CREATE TABLE orders (id int PRIMARY KEY, customer int NOT NULL REFERENCES customer (id), qty int NOT NULL, ordered date);
	CREATE INDEX orders_customer ON orders (customer);`

func sample(series string) string {
	return shop + `
	INSERT INTO customer SELECT n, concat('customer ', n), 'Bergen' FROM ` + series + `;
	INSERT INTO orders SELECT n, n, n % 10, date '2026-01-01' FROM ` + series + `;`
}

// fresh creates a page's databases: each with rows on "old", and empty on "new".
func (h *house) fresh(t *testing.T, names []string) {
	t.Helper()
	admin := h.postgres.URL("postgres")
	testdb.Within(t, "slots are free", func() bool { // the server may not have noticed yet which sessions are gone
		_, err := testdb.TryQuery(admin, "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active; SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
		return err == nil
	})
	for _, name := range append(names, "tidemark") {
		for _, db := range []string{name, name + "_new"} {
			testdb.Query(t, admin, "DROP DATABASE IF EXISTS "+db+" WITH (FORCE)")
			testdb.Query(t, h.mariadb.URL(""), "DROP DATABASE IF EXISTS "+db)
			if name != "tidemark" {
				testdb.Query(t, admin, "CREATE DATABASE "+db)
				testdb.Query(t, h.mariadb.URL(""), "CREATE DATABASE "+db)
			}
		}
		if name != "tidemark" {
			testdb.Query(t, h.postgres.URL(name), sample("generate_series(1, 300) AS g (n)"))
			testdb.Query(t, h.mariadb.URL(name), sample("(SELECT seq AS n FROM seq_1_to_300) AS g"))
		}
	}
}

var (
	urlHost  = regexp.MustCompile(`\b(postgres|postgresql|mysql|mariadb)://((?:[a-z]+@)?)(old|new)\b(?::\d+)?(?:/(\w+))?`)
	hostWord = regexp.MustCompile(`\bhost=old\b`)
	hostFlag = regexp.MustCompile(`(-h|--host) (old|new) `)
	folders  = regexp.MustCompile(`(?m)(^|[ '"=]|file://)(/backup|/srv)\b`)
)

// databases returns the databases that the blocks of a page name.
func databases(blocks []block) []string {
	names := []string{"shop"}
	for _, b := range blocks {
		for _, m := range urlHost.FindAllStringSubmatch(b.text, -1) {
			if m[4] != "" && m[4] != "postgres" && !slices.Contains(names, m[4]) {
				names = append(names, m[4])
			}
		}
	}
	return names
}

// here replaces the servers and folders of a page with those of the test.
func (h *house) here(text, dir string) string {
	text = urlHost.ReplaceAllStringFunc(text, func(url string) string {
		m := urlHost.FindStringSubmatch(url)
		server, db := h.mariadb, m[4]
		if strings.HasPrefix(m[1], "postgres") {
			server = h.postgres
		}
		if m[3] == "new" && db != "" && db != "postgres" {
			db += "_new"
		}
		if db != "" {
			db = "/" + db
		}
		return fmt.Sprintf("%s://%s127.0.0.1:%d%s", m[1], m[2], server.Port, db)
	})
	text = hostWord.ReplaceAllString(text, "host=127.0.0.1 port="+strconv.Itoa(h.postgres.Port))
	text = hostFlag.ReplaceAllString(text, "-h 127.0.0.1 -P "+strconv.Itoa(h.mariadb.Port)+" ")
	return folders.ReplaceAllString(text, "${1}"+dir+"${2}")
}

// page runs the blocks of a page.
func (h *house) page(t *testing.T, blocks []block) {
	names := databases(blocks)
	h.fresh(t, names)
	staying := []func(){}
	end := func() { // ends running commands, the last one first
		for ; len(staying) > 0; staying = staying[:len(staying)-1] {
			staying[len(staying)-1]()
		}
	}
	defer end()
	dir := h.postgres.TempDir(t) // the server's user can enter it
	home := filepath.Join(dir, ".home")
	write(t, filepath.Join(home, ".pgpass"), "*:*:*:*:"+password+"\n")
	write(t, filepath.Join(home, ".my.cnf"), "[client]\npassword="+password+"\n")
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(testdb.Program(t), filepath.Join(bin, "tidemark")); err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "HOME="+home, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"),
		"TIDEMARK_STATE="+filepath.Join(home, "state", "catalog.db"), "PGSSLMODE=disable")
	cleared(t, dir, home)
	waiting := false // for the startup of a command that stays
	for _, b := range blocks {
		if b.fresh {
			end()
			h.fresh(t, names)
			cleared(t, dir, home)
		}
		text := h.here(b.text, dir)
		switch {
		case b.file != "":
			write(t, filepath.Join(dir, b.file), text)
		case b.norun != "", b.long && !testdb.Long():
		case b.stays:
			staying = append(staying, stay(t, b, dir, env, "exec "+strings.TrimSpace(text)))
			waiting = true
		default:
			code, out := script(t, dir, env, text)
			for begun := time.Now(); waiting && code != b.exit && time.Since(begun) < 30*time.Second; {
				time.Sleep(200 * time.Millisecond)
				code, out = script(t, dir, env, text)
			}
			if waiting = false; code != b.exit {
				t.Fatalf("%s: exit %s, not %s\n%s\n%s", b, code, b.exit, text, out)
			}
		}
	}
}

// cleared empties the folders that examples name, and the catalogue.
func cleared(t *testing.T, dir, home string) {
	t.Helper()
	for _, folder := range []string{filepath.Join(dir, "backup"), filepath.Join(dir, "srv"), filepath.Join(home, "state")} {
		if err := os.RemoveAll(folder); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// script runs a block until its end, or until its first command that fails.
func script(t *testing.T, dir string, env []string, text string) (code, out string) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-e", "-c", text)
	cmd.Dir, cmd.Env = dir, env
	said, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return strconv.Itoa(cmd.ProcessState.ExitCode()), string(said)
}

// stay runs a command until end is called.
func stay(t *testing.T, b block, dir string, env []string, text string) (end func()) {
	cmd := exec.Command("sh", "-e", "-c", text)
	var out lockedBuffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, env, &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return func() {
		for begun := time.Now(); out.String() == "" && time.Since(begun) < 2*time.Second; {
			time.Sleep(20 * time.Millisecond) // it does not handle signals yet
		}
		_ = cmd.Process.Signal(os.Interrupt)
		select {
		case <-ended:
		case <-time.After(time.Minute):
			_ = cmd.Process.Kill()
			<-ended
			t.Errorf("%s: it did not end at SIGINT", b)
		}
		if code := cmd.ProcessState.ExitCode(); code != 0 && code != 130 {
			t.Errorf("%s: exit %d\n%s\n%s", b, code, text, out.String())
		}
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A lockedBuffer is read while a process writes into it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
