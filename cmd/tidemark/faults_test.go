package main

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// bigTable has 200,000 rows and one key.
const bigTable = "CREATE TABLE big (id int PRIMARY KEY, v varchar(200)); INSERT INTO big SELECT %s, concat('row ', %[1]s, ' ', repeat('x', 90)) FROM %[2]s;"

func bigOn(t *testing.T, srv *testdb.Server) string {
	t.Helper()
	if srv.Engine == "postgres" {
		return sqlOn(t, srv, fmt.Sprintf(bigTable, "i", "generate_series(1, 200000) i")+"ANALYZE big;")
	}
	return sqlOn(t, srv, fmt.Sprintf(bigTable, "seq", "seq_1_to_200000")+"ANALYZE TABLE big;")
}

// cutOff ends a session that has been busy for a moment with a statement matching like, if one
// appears soon.
func cutOff(t *testing.T, db, like string) bool {
	t.Helper()
	const none = "no session to end"
	try := func(sql string) bool {
		t.Helper()
		_, err := testdb.TryQuery(db, sql)
		if err != nil && !strings.Contains(err.Error(), none) {
			t.Fatal(err)
		}
		return err == nil
	}
	if strings.HasPrefix(db, "postgres") {
		return try(`DO $$ BEGIN
			FOR i IN 1 .. 500 LOOP
				PERFORM pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' AND query LIKE '` + like + `' AND pid <> pg_backend_pid()
					AND clock_timestamp() - query_start > interval '20 ms' LIMIT 1;
				IF FOUND THEN RETURN; END IF;
				PERFORM pg_sleep(0.001), pg_stat_clear_snapshot();
			END LOOP;
			RAISE '` + none + `';
		END $$`)
	}
	name := db[strings.LastIndex(db, "/")+1:]
	return try(`BEGIN NOT ATOMIC
			DECLARE v BIGINT DEFAULT 0;
			DECLARE n INT DEFAULT 0;
			WHILE v = 0 DO
				SELECT COALESCE(MIN(id), 0), SLEEP(0.001) INTO v, @none FROM information_schema.processlist WHERE info LIKE '` + like + `' AND info LIKE '%` + name + `%' AND id <> connection_id();
				SET n = n + 1;
				IF n > 500 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = '` + none + `'; END IF;
			END WHILE;
			EXECUTE IMMEDIATE CONCAT('KILL ', v);
		END`)
}

// TestConnectionCutInMidCopy ends tidemark's sessions while they move rows: their work is repeated,
// and the copy succeeds.
func TestConnectionCutInMidCopy(t *testing.T) {
	for _, c := range []struct {
		name     string
		src, dst func(*testing.T) *testdb.Server
		at       string // the side that is disconnected
		like     string // the session's statement
	}{
		{"postgres target", pg15, pg15, "target", "%COPY%FROM STDIN%"},
		{"postgres source", pg15, maria, "source", "%COPY%TO STDOUT%"},
		{"mariadb target", pg15, maria, "target", "LOAD DATA%"},
		{"mariadb source", maria, pg15, "source", "SELECT%big%"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			src, dst := bigOn(t, c.src(t)), ""
			var o outcome
			for cuts := 0; !strings.Contains(o.errOut, "retrying for another "); { // a slow machine may leave no time for it while rows move
				if cuts == 20 {
					t.Fatalf("nothing was tried again:\n%s", o.errOut)
				}
				dst = c.dst(t).NewDatabase(t, "dst")
				done := make(chan outcome, 1)
				go func() { done <- cli(t, "copy", src, dst, "--lanes", "2", "--range-size", "64MB") }()
				where := dst
				if c.at == "source" {
					where = src
				}
				for over := false; !over; {
					select {
					case o = <-done:
						over = true
					default:
						if cutOff(t, where, c.like) {
							cuts, over = cuts+1, true
							o = <-done
						}
					}
				}
				if o.code != 0 {
					t.Fatalf("exit %d\n%s", o.code, o.errOut)
				}
			}
			must(t, "diff", src, dst)
			if n := testdb.Query(t, dst, "SELECT count(*), count(DISTINCT id) FROM big"); n != "200000\t200000" {
				t.Errorf("the target has %s rows", n)
			}
			nothingOfOurs(t, dst)
		})
	}
}

// TestServerGoesAway permanently stops the network to one side. The run ends with the exit code of
// a temporary failure, and says how to resume; then it resumes.
func TestServerGoesAway(t *testing.T) {
	for _, c := range []struct {
		name     string
		src, dst func(*testing.T) *testdb.Server
		at       string
	}{
		{"postgres target", pg15, pg15, "target"},
		{"postgres source", pg15, pg15, "source"},
		{"mariadb target", maria, maria, "target"},
		{"mariadb source", maria, maria, "source"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			from, to := bigOn(t, c.src(t)), c.dst(t).NewDatabase(t, "dst")
			src, dst := from, to
			var p *proxy
			if c.at == "target" {
				p = newProxy(t, c.dst(t))
				dst = at(to, p.addr)
			} else {
				p = newProxy(t, c.src(t))
				src = at(from, p.addr)
			}
			args := []string{"copy", src, dst, "--lanes", "2", "--range-size", "256kB", "--retry-for", "1s"} // so many ranges that it does not end before the connection is lost
			cmd, in, errOut := started(t, 4, append(args, "--json")...)
			p.stop()
			drain(in)
			code := exitCode(cmd)
			hint := "dd --resume " + lastRun(t) + " to the same command.\n"
			// Without the source its snapshot is gone too, if that is noticed first.
			if code != 10 && !(code == 11 && c.at == "source") || !strings.HasSuffix(asText(errOut.String()), hint) {
				t.Errorf("exit %d\n%s", code, errOut)
			}
			p.start()
			must(t, append(args, "--resume", "last")...)
			must(t, "diff", from, to)
			if n := testdb.Query(t, to, "SELECT count(*), count(DISTINCT id) FROM big"); n != "200000\t200000" {
				t.Errorf("the target has %s rows", n)
			}
			nothingOfOurs(t, to)
		})
	}
}

// smallDisk mounts a file system of that size for a server's user, over an existing folder or in a
// new one.
func smallDisk(t *testing.T, over, owner string, size int) string {
	t.Helper()
	if over == "" {
		over = filepath.Join(t.TempDir(), "disk")
		if err := os.Mkdir(over, 0o700); err != nil {
			t.Fatal(err)
		}
		for dir := over; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
			if dir != over {
				os.Chmod(dir, 0o755) // the server's user must reach it
			}
		}
	}
	u, err := user.Lookup(owner)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tidemark-test", over, "tmpfs", 0, fmt.Sprintf("size=%d,uid=%s,gid=%s,mode=0700", size, u.Uid, u.Gid)); err != nil {
		t.Fatalf("mount: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(over, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", over, err)
		}
	})
	return over
}

// TestDiskFull fills the target's disk. Once there is space, the run resumes where it stopped.
func TestDiskFull(t *testing.T) {
	if os.Getuid() != 0 {
		t.Log("a small disk can be mounted by root alone; continuous integration runs as root")
		return
	}
	t.Run("disk full postgres", func(t *testing.T) {
		src := bigOn(t, pg15(t))
		dst := pg15(t).NewDatabase(t, "dst")
		disk := smallDisk(t, "", "postgres", 16<<20)
		space := "small_" + strconv.Itoa(os.Getpid())
		testdb.Query(t, dst, "CREATE TABLESPACE "+space+" LOCATION '"+disk+"'")
		t.Cleanup(func() {
			testdb.Query(t, dst, "DROP TABLE IF EXISTS big")
			testdb.Query(t, dst, "DROP TABLESPACE "+space)
		})
		testdb.Query(t, dst, "CREATE TABLE big (id int PRIMARY KEY, v varchar(200)) TABLESPACE "+space)
		full(t, src, dst, func() { remount(t, disk, 256<<20) })
	})
	t.Run("disk full mariadb", func(t *testing.T) {
		src, srv := bigOn(t, pg15(t)), maria(t)
		dst := srv.NewDatabase(t, "dst")
		u, _ := url.Parse(dst)
		disk := smallDisk(t, filepath.Join(srv.Dir, strings.Trim(u.Path, "/")), "mysql", 16<<20)
		t.Cleanup(func() { testdb.Query(t, dst, "DROP TABLE IF EXISTS big, tidemark_copied") })
		full(t, src, dst, func() { remount(t, disk, 256<<20) })
	})
}

func remount(t *testing.T, disk string, size int) {
	t.Helper()
	if err := syscall.Mount("tidemark-test", disk, "tmpfs", syscall.MS_REMOUNT, fmt.Sprintf("size=%d", size)); err != nil {
		t.Fatalf("remount: %v", err)
	}
}

func full(t *testing.T, src, dst string, grow func()) {
	t.Helper()
	args := []string{"copy", src, dst, "--lanes", "2", "--range-size", "1MB"}
	sameText(t, cli(t, args...), 9, args)
	grow()
	must(t, append(args, "--resume", "last")...)
	must(t, "diff", src, dst)
	if n := testdb.Query(t, dst, "SELECT count(*), count(DISTINCT id) FROM big"); n != "200000\t200000" {
		t.Errorf("the target has %s rows", n)
	}
	nothingOfOurs(t, dst)
}

// TestPasswordsAreNowhere searches for the passwords during and after a copy: in output and stored
// files, in the process list, and in what the servers show about it.
func TestPasswordsAreNowhere(t *testing.T) {
	t.Parallel()
	src, dst := bigOn(t, pg15(t)), maria(t).NewDatabase(t, "dst")
	bare := func(raw string) string {
		u, _ := url.Parse(raw)
		u.User = url.User(u.User.Username())
		return u.String()
	}
	cmd := process(t, "copy", bare(src), bare(dst), "--lanes", "2", "--range-size", "1MB", "--json")
	cmd.Env = append(cmd.Env, "PGPASSWORD="+pg15(t).Password, "MYSQL_PWD="+maria(t).Password)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	seen := ""
	for range 10 {
		time.Sleep(50 * time.Millisecond)
		ps, _ := exec.Command("ps", "-o", "args=", "-p", strconv.Itoa(cmd.Process.Pid)).Output()
		seen += string(ps) + testdb.Query(t, src, "SELECT * FROM pg_stat_activity") + testdb.Query(t, maria(t).URL("mysql"), "SHOW FULL PROCESSLIST")
	}
	code := exitCode(cmd)
	if code != 0 {
		t.Fatalf("exit %d\n%s", code, &errOut)
	}
	if !strings.Contains(seen, "tidemark") || strings.Contains(seen, "s3cret-tide") {
		t.Errorf("the process lists have\n%s", seen)
	}
	noSecrets(t, outcome{0, out.String(), errOut.String()})
	noSecrets(t, must(t, "runs"))
	noSecrets(t, must(t, "report", "--json"))
}
