package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// A bad is a command line that must fail.
type bad struct {
	name string
	// line creates the databases, and returns the arguments and the databases that must stay
	// unchanged.
	line func(t *testing.T) (args, kept []string)
	code int
}

var update = flag.Bool("update", false, "write the texts in testdata anew")

// check runs it.
func (b bad) check(t *testing.T) {
	t.Parallel()
	args, kept := b.line(t)
	before := make([]string, len(kept))
	for i, db := range kept {
		before[i] = fingerprint(t, db)
	}
	o := cli(t, args...)
	sameText(t, o, b.code, args)
	for i, db := range kept {
		if now := fingerprint(t, db); now != before[i] {
			t.Errorf("%s has changed from\n%s\nto\n%s", db, before[i], now)
		}
	}
	noSecrets(t, o)
}

// sameText compares the exit code, and standard error from the error to the end, with the test's
// text in testdata/errors; placeholders in braces replace what differs between runs: see templated.
func sameText(t *testing.T, o outcome, code int, args []string) {
	t.Helper()
	if o.code != code {
		t.Errorf("exit %d, want %d", o.code, code)
	}
	o.errOut = asText(o.errOut)
	at := strings.Index(o.errOut, "tidemark: ")
	if at < 0 {
		t.Fatalf("no error in %q", o.errOut)
	}
	got := templated(t, o.errOut[at:], args)
	if n := strings.Count(got, "\n"); n != 2 || !strings.Contains(got, "\nhint: ") {
		t.Errorf("not a line and a hint:\n%s", got)
	}
	path := filepath.Join("testdata", "errors", strings.ReplaceAll(filepath.Base(t.Name()), "_", "-"))
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// templated replaces what differs between runs: hosts, names and files.
func templated(t *testing.T, s string, args []string) string {
	t.Helper()
	s = strings.ReplaceAll(s, filepath.Dir(statePath(t)), "{state}")
	for _, arg := range args {
		if u, err := url.Parse(arg); err == nil && len(u.Host) > 3 {
			if pw, ok := u.User.Password(); ok {
				masked := strings.Replace(arg, ":"+pw+"@", "@", 1)
				s = strings.ReplaceAll(s, masked, "{url}")
				s = strings.ReplaceAll(s, strings.TrimSuffix(masked, "?sslmode=disable"), "{url}")
			}
			s = strings.ReplaceAll(s, u.Host, "{host}")
			s = strings.ReplaceAll(s, "-p "+u.Port(), "-p {port}")
			if db := strings.Trim(u.Path, "/"); len(db) > 3 {
				s = regexp.MustCompile(`\b`+db+`\b`).ReplaceAllString(s, "{db}")
			}
		} else if filepath.IsAbs(strings.TrimPrefix(arg, "file:")) {
			s = strings.ReplaceAll(s, filepath.Dir(strings.TrimPrefix(arg, "file:")), "{dir}")
		}
	}
	s = regexp.MustCompile(`\b(10\.05|5\.7|12|99)\.\d+(-MariaDB\S*)?`).ReplaceAllString(s, "$1.{patch}") // versions of the servers that pretend to be older
	s = regexp.MustCompile(`"pg_tblspc/[^"]*"`).ReplaceAllString(s, "{relation file}")
	return regexp.MustCompile(`\b01[0-9A-Z]{24}\b`).ReplaceAllString(s, "{run}")
}

// Passwords of the tests; none may appear anywhere.
const wrongPassword = "wr0ng-tide"

func noSecrets(t *testing.T, o outcome) {
	t.Helper()
	texts := map[string]string{"standard output": o.out, "standard error": o.errOut}
	files, _ := filepath.Glob(filepath.Join(filepath.Dir(statePath(t)), "*"))
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil {
			texts[f] = string(b)
		}
	}
	for where, text := range texts {
		for _, secret := range []string{"s3cret-tide", wrongPassword} {
			if strings.Contains(text, secret) {
				t.Errorf("a password is in %s", where)
			}
		}
	}
}

// fingerprint returns everything that a copy could change: the objects, when their files were
// created, and the rows.
func fingerprint(t *testing.T, db string) string {
	t.Helper()
	var tables, objects string
	if strings.HasPrefix(db, "postgres") {
		objects = testdb.Query(t, db, `SELECT n.nspname, c.relname, c.relkind, c.relfilenode, c.relacl FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' ORDER BY 1, 2`) + testdb.Query(t, db, "SELECT nspname, nspacl FROM pg_namespace ORDER BY 1")
		tables = testdb.Query(t, db, `SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE c.relkind = 'r' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' ORDER BY 1`)
		for _, table := range strings.Fields(tables) {
			objects += "\n" + table + " " + testdb.Query(t, db, "SELECT count(*), min(ctid::text), sum(xmin::text::bigint) FROM "+table)
		}
		return objects
	}
	objects = testdb.Query(t, db, "SELECT table_name, table_type, create_time FROM information_schema.tables WHERE table_schema = database() ORDER BY 1")
	for _, row := range strings.Split(objects, "\n") {
		if name, _, ok := strings.Cut(row, "\t"); ok && strings.Contains(row, "BASE TABLE") {
			objects += "\n" + testdb.Query(t, db, "CHECKSUM TABLE `"+name+"`")
		}
	}
	return objects
}

// with returns a URL with another user.
func with(raw, user, password string) string {
	u, _ := url.Parse(raw)
	u.User = url.UserPassword(user, password)
	return u.String()
}

// at returns a URL with another host and port.
func at(raw, host string) string {
	u, _ := url.Parse(raw)
	u.Host = host
	return u.String()
}

// shop is a small database that all engines accept.
const shop = `
CREATE TABLE customer (id int PRIMARY KEY, name varchar(40) NOT NULL);
INSERT INTO customer VALUES (1, 'Ada'), (2, 'Grace');
CREATE TABLE item (id int PRIMARY KEY, customer_id int NOT NULL, price decimal(10,2), CONSTRAINT item_customer FOREIGN KEY (customer_id) REFERENCES customer (id));
INSERT INTO item VALUES (1, 1, 9.99), (2, 2, 19.50), (3, 1, NULL);
`

func shopOn(t *testing.T, srv *testdb.Server) string {
	t.Helper()
	db := srv.NewDatabase(t, "src")
	testdb.Load(t, db, strings.NewReader(shop))
	return db
}

// role creates a user for the test only, with the privileges that sql grants it (as r). On MySQL it
// may log in from this host.
func role(t *testing.T, srv *testdb.Server, db, name, sql string) string {
	t.Helper()
	if srv.Engine == "postgres" {
		testdb.Query(t, db, "CREATE ROLE "+name+" LOGIN PASSWORD 's3cret-tide'")
		t.Cleanup(func() { testdb.Query(t, db, "DROP OWNED BY "+name+"; DROP ROLE "+name) })
	} else {
		testdb.Query(t, db, "CREATE USER "+name+"@'127.0.0.1' IDENTIFIED BY 's3cret-tide'")
		name += "@'127.0.0.1'"
		t.Cleanup(func() { testdb.Query(t, db, "DROP USER "+name) })
	}
	if sql != "" {
		testdb.Query(t, db, strings.ReplaceAll(sql, " TO r", " TO "+name))
	}
	user, _, _ := strings.Cut(name, "@")
	return with(db, user, "s3cret-tide")
}

func pg15(t *testing.T) *testdb.Server   { return testdb.Postgres(t, 15) }
func maria(t *testing.T) *testdb.Server  { return testdb.MariaDB(t) }
func mysql8(t *testing.T) *testdb.Server { return testdb.MySQL(t) }

var doors = []bad{
	{"unreachable postgres", func(t *testing.T) ([]string, []string) {
		dst := pg15(t).NewDatabase(t, "dst")
		return []string{"copy", at(dst, "127.0.0.1:1"), dst}, []string{dst}
	}, 3},
	{"unreachable mysql", func(t *testing.T) ([]string, []string) {
		src := shopOn(t, maria(t))
		return []string{"copy", src, at(src, "127.0.0.1:1")}, []string{src}
	}, 3},
	{"no such host", func(t *testing.T) ([]string, []string) {
		return []string{"copy", "postgres://u:s3cret-tide@nowhere.invalid/shop", "mysql://u:s3cret-tide@nowhere.invalid/shop"}, nil
	}, 3},
	{"wrong password postgres", func(t *testing.T) ([]string, []string) {
		src := shopOn(t, pg15(t))
		return []string{"copy", with(src, "tidemark", wrongPassword), src}, []string{src}
	}, 4},
	{"wrong password mariadb", func(t *testing.T) ([]string, []string) {
		src := shopOn(t, maria(t))
		return []string{"copy", with(src, "root", wrongPassword), src}, []string{src}
	}, 4},
	{"wrong password mysql", func(t *testing.T) ([]string, []string) {
		src := shopOn(t, mysql8(t))
		return []string{"copy", with(src, "root", wrongPassword), src}, []string{src}
	}, 4},
	{"missing database postgres", func(t *testing.T) ([]string, []string) {
		src := shopOn(t, pg15(t))
		return []string{"copy", src, pg15(t).URL("missing_one")}, []string{src}
	}, 6},
	{"missing database mariadb", func(t *testing.T) ([]string, []string) {
		src := shopOn(t, maria(t))
		return []string{"copy", src, maria(t).URL("missing_one")}, []string{src}
	}, 6},
	{"create postgres", func(t *testing.T) ([]string, []string) {
		src, dst := shopOn(t, pg15(t)), pg15(t).NewDatabase(t, "dst")
		return []string{"copy", src, role(t, pg15(t), dst, "writer1", "")}, []string{src, dst}
	}, 5},
	{"create in a schema", func(t *testing.T) ([]string, []string) {
		src, dst := shopOn(t, pg15(t)), pg15(t).NewDatabase(t, "dst")
		db := dst[strings.LastIndex(dst, "/")+1 : strings.Index(dst, "?")]
		return []string{"copy", src, role(t, pg15(t), dst, "writer2", "GRANT CREATE ON DATABASE "+db+" TO r")}, []string{src, dst}
	}, 5},
	{"drop and create in a schema", func(t *testing.T) ([]string, []string) {
		src, dst := shopOn(t, pg15(t)), shopOn(t, pg15(t))
		db := dst[strings.LastIndex(dst, "/")+1 : strings.Index(dst, "?")]
		return []string{"copy", src, role(t, pg15(t), dst, "writer3", "ALTER TABLE item OWNER TO r; ALTER TABLE customer OWNER TO r; GRANT CREATE ON DATABASE "+db+" TO r"), "--prep", "drop"}, []string{src, dst}
	}, 5},
	{"insert into a table", func(t *testing.T) ([]string, []string) {
		src, dst := shopOn(t, pg15(t)), shopOn(t, pg15(t))
		db := dst[strings.LastIndex(dst, "/")+1 : strings.Index(dst, "?")]
		return []string{"copy", src, role(t, pg15(t), dst, "writer4", "GRANT SELECT, INSERT ON customer TO r; GRANT SELECT ON item TO r; GRANT CREATE ON DATABASE "+db+" TO r"), "--prep", "keep"}, []string{src, dst}
	}, 5},
	{"select on a table", func(t *testing.T) ([]string, []string) {
		src, dst := shopOn(t, pg15(t)), pg15(t).NewDatabase(t, "dst")
		return []string{"copy", role(t, pg15(t), src, "reader1", "GRANT SELECT ON customer TO r"), dst}, []string{src, dst}
	}, 5},
	{"select on a partition", func(t *testing.T) ([]string, []string) {
		src, dst := shopOn(t, pg15(t)), maria(t).NewDatabase(t, "dst")
		testdb.Query(t, src, "CREATE TABLE parted (id int) PARTITION BY LIST (id); CREATE TABLE one PARTITION OF parted DEFAULT")
		return []string{"copy", role(t, pg15(t), src, "reader5", "GRANT SELECT ON customer, item, parted TO r"), dst}, []string{src, dst}
	}, 5},
	{"select mariadb", func(t *testing.T) ([]string, []string) {
		src, dst := shopOn(t, maria(t)), maria(t).NewDatabase(t, "dst")
		return []string{"copy", role(t, maria(t), src, "reader1", ""), dst}, []string{src, dst}
	}, 5},
	{"select mysql", func(t *testing.T) ([]string, []string) {
		src, dst := shopOn(t, mysql8(t)), pg15(t).NewDatabase(t, "dst")
		return []string{"copy", role(t, mysql8(t), src, "reader1", "GRANT INSERT ON item TO r"), dst}, []string{src, dst}
	}, 5},
	{"create mariadb", func(t *testing.T) ([]string, []string) {
		src, dst := shopOn(t, maria(t)), maria(t).NewDatabase(t, "dst")
		db := dst[strings.LastIndex(dst, "/")+1:]
		return []string{"copy", src, role(t, maria(t), dst, "writer1", "GRANT SELECT ON "+db+".* TO r")}, []string{src, dst}
	}, 5},
	{"reload mariadb", func(t *testing.T) ([]string, []string) {
		src, dst := shopOn(t, maria(t)), maria(t).NewDatabase(t, "dst")
		db := src[strings.LastIndex(src, "/")+1:]
		return []string{"copy", role(t, maria(t), src, "reader2", "GRANT SELECT ON "+db+".* TO r"), dst, "--lock", "global"}, []string{src, dst}
	}, 5},
	{"reload mysql", func(t *testing.T) ([]string, []string) {
		src, dst := shopOn(t, mysql8(t)), maria(t).NewDatabase(t, "dst")
		db := src[strings.LastIndex(src, "/")+1:]
		return []string{"copy", role(t, mysql8(t), src, "reader2", "GRANT SELECT ON "+db+".* TO r"), dst, "--lock", "backup"}, []string{src, dst}
	}, 5},
	{"lock tables mariadb", func(t *testing.T) ([]string, []string) {
		src, dst := shopOn(t, maria(t)), maria(t).NewDatabase(t, "dst")
		db := src[strings.LastIndex(src, "/")+1:]
		return []string{"copy", role(t, maria(t), src, "reader3", "GRANT SELECT ON "+db+".* TO r"), dst, "--lock", "tables"}, []string{src, dst}
	}, 5},
	{"old postgres", func(t *testing.T) ([]string, []string) {
		src, dst := shopOn(t, pg15(t)), maria(t).NewDatabase(t, "dst")
		p := newProxy(t, pg15(t))
		v := strings.Fields(pg15(t).Version)[0]
		p.change = strings.NewReplacer("server_version\x00"+v, "server_version\x00"+"12"+v[2:])
		return []string{"copy", at(src, p.addr), dst}, []string{src, dst}
	}, 7},
	{"new postgres", func(t *testing.T) ([]string, []string) {
		src, dst := shopOn(t, pg15(t)), maria(t).NewDatabase(t, "dst")
		p := newProxy(t, pg15(t))
		v := strings.Fields(pg15(t).Version)[0]
		p.change = strings.NewReplacer("server_version\x00"+v, "server_version\x00"+"99"+v[2:])
		return []string{"copy", at(src, p.addr), dst}, []string{src, dst}
	}, 7},
	{"old mariadb", func(t *testing.T) ([]string, []string) {
		src, dst := shopOn(t, maria(t)), pg15(t).NewDatabase(t, "dst")
		p := newProxy(t, maria(t))
		p.change = strings.NewReplacer("10.11.", "10.05.")
		return []string{"copy", at(src, p.addr), dst}, []string{src, dst}
	}, 7},
	{"old mysql", func(t *testing.T) ([]string, []string) {
		src, dst := pg15(t).NewDatabase(t, "src"), mysql8(t).NewDatabase(t, "dst")
		p := newProxy(t, mysql8(t))
		p.change = strings.NewReplacer("8.0.", "5.7.")
		return []string{"copy", src, at(dst, p.addr)}, []string{src, dst}
	}, 7},
	{"not empty postgres", func(t *testing.T) ([]string, []string) {
		src, dst := shopOn(t, pg15(t)), shopOn(t, pg15(t))
		return []string{"copy", src, dst}, []string{src, dst}
	}, 8},
	{"not empty mariadb", func(t *testing.T) ([]string, []string) {
		src, dst := shopOn(t, pg15(t)), shopOn(t, maria(t))
		testdb.Query(t, dst, "DELETE FROM item")
		return []string{"copy", src, dst}, []string{src, dst}
	}, 8},
	{"not a url", func(t *testing.T) ([]string, []string) {
		return []string{"copy", "oracle://u:s3cret-tide@h/db", "db2://u:s3cret-tide@h/db"}, nil
	}, 2},
	{"broken url", func(t *testing.T) ([]string, []string) {
		return []string{"copy", "mysql://u:s3cret-tide@h:notaport/db", "db2://u:s3cret-tide@h/db"}, nil
	}, 2},
	{"broken url postgres", func(t *testing.T) ([]string, []string) {
		return []string{"copy", "postgres://u:s3cret-tide@h:notaport/db", "db2://u:s3cret-tide@h/db"}, nil
	}, 2},
	{"unknown flag", func(t *testing.T) ([]string, []string) { return []string{"copy", "--lane", "4"}, nil }, 2},
	{"bad flag value", func(t *testing.T) ([]string, []string) { return []string{"copy", "--lanes", "many"}, nil }, 2},
	{"no source", func(t *testing.T) ([]string, []string) { return []string{"copy", "mysql://h/db"}, nil }, 2},
	{"too many arguments", func(t *testing.T) ([]string, []string) { return []string{"diff", "a", "b", "c"}, nil }, 2},
}

// TestBadDoors covers failures before any row moves: each has its exit code, its one line and its
// hint, and changes nothing.
func TestBadDoors(t *testing.T) {
	for _, b := range doors {
		t.Run(b.name, b.check)
	}
}

// TestUnknownCommand runs a misspelt command.
func TestUnknownCommand(t *testing.T) {
	var out, errOut bytes.Buffer
	o := outcome{code: run(t.Context(), []string{"cpoy", "a", "b"}, &out, &errOut)}
	o.out, o.errOut = out.String(), errOut.String()
	sameText(t, o, 2, nil)
}

// asText turns an error that --json has made an event, in the last line of standard error, back
// into plain text.
func asText(errOut string) string {
	before, last := "", strings.TrimSuffix(errOut, "\n")
	if i := strings.LastIndexByte(last, '\n'); i >= 0 {
		before, last = last[:i+1], last[i+1:]
	}
	var e struct{ Event, Error, Hint string }
	if json.Unmarshal([]byte(last), &e) != nil || e.Event != "error" {
		return errOut
	}
	return before + "tidemark: " + e.Error + "\nhint: " + e.Hint + "\n"
}
