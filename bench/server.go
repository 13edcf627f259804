package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	postgresBin = "/usr/lib/postgresql/15/bin"
	account     = "bench"
	password    = "bench"
	database    = "shop" // the only database of each server that is copied, from or to
)

// postgresConf is a production configuration: PostgreSQL's defaults apply to everything else, so
// fsync is on.
const postgresConf = `
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
shared_buffers = 1GB
max_wal_size = 4GB
lc_messages = 'C'
timezone = 'UTC'
log_timezone = 'UTC'
`

// mariaOptions are a production configuration, with a binlog that can be replicated from. MariaDB's
// defaults apply to everything else, so innodb_flush_log_at_trx_commit is 1 and sync_binlog 0.
var mariaOptions = []string{
	"--innodb-buffer-pool-size=2G",
	"--innodb-log-file-size=1G",
	"--log-bin=binlog",
	"--binlog-format=ROW",
	"--binlog-row-metadata=FULL",
	"--gtid-strict-mode=ON",
	"--local-infile=1",
	"--skip-name-resolve",
	"--character-set-server=utf8mb4", // this and the next as Debian configures them
	"--collation-server=utf8mb4_general_ci",
	"--default-time-zone=+00:00",
}

// mysqlOptions are like mariaOptions, for mysqlDist's server: MySQL's defaults apply to everything
// else, so innodb_flush_log_at_trx_commit and sync_binlog are 1.
func mysqlOptions() []string {
	return []string{
		"--basedir=" + mysqlDist(),
		"--lc-messages-dir=" + filepath.Join(mysqlDist(), "share"),
		"--innodb-buffer-pool-size=2G",
		"--innodb-redo-log-capacity=1G",
		"--log-bin=binlog",
		"--binlog-row-metadata=FULL",
		"--gtid-mode=ON",
		"--enforce-gtid-consistency=ON",
		"--log-bin-trust-function-creators=1",
		"--local-infile=1",
		"--skip-name-resolve",
		"--mysqlx=OFF",
		"--default-time-zone=+00:00",
	}
}

// testCache returns where script/install-test-deps.sh installs what has no package.
func testCache() string {
	cache := os.Getenv("TIDEMARK_TEST_CACHE")
	if cache == "" {
		cache = "/var/cache/tidemark-test"
		if dir, err := os.UserCacheDir(); os.Getuid() != 0 && err == nil {
			cache = filepath.Join(dir, "tidemark-test")
		}
	}
	return cache
}

func mysqlDist() string { return filepath.Join(testCache(), "mysql-8.0.33") }

// installMySQL installs it there, unless it exists.
func installMySQL(ctx context.Context) error {
	if _, err := os.Stat(mysqlDist()); err == nil {
		return nil
	}
	return command(ctx, "script/install-test-deps.sh")
}

// A server is a database server that this program started.
type server struct {
	engine string // "postgres", "maria" or "mysql"
	dir    string // its folder, with data and log
	port   int
	cmd    *exec.Cmd
	done   <-chan struct{} // closed once it has ended
	far    int             // port of a proxy through which tools reach it; 0: none
}

// serve starts a server in dir, which it initialises if it does not exist yet. options are further
// command-line options of the server.
func serve(ctx context.Context, engine, dir string, options ...string) (*server, error) {
	s := &server{engine: engine, dir: dir}
	as, err := s.credential()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(s.data()); errors.Is(err, os.ErrNotExist) {
		if err := s.initialise(ctx, as); err != nil {
			return nil, fmt.Errorf("initialise a server of %s: %w", engine, err)
		}
	}
	if s.port, err = freePort(); err != nil {
		return nil, err
	}
	own := []string{"--no-defaults", "--datadir=" + s.data(), "--port=" + strconv.Itoa(s.port),
		"--bind-address=127.0.0.1", "--socket=" + filepath.Join(dir, "socket"), "--pid-file=" + filepath.Join(dir, "pid"),
		"--init-file=" + s.initFile(), "--server-id=" + strconv.Itoa(s.port)}
	switch s.engine {
	case "postgres":
		s.cmd = exec.Command(postgresBin+"/postgres", "-D", s.data(), "-p", strconv.Itoa(s.port))
	case "maria":
		s.cmd = exec.Command("mariadbd", append(own, mariaOptions...)...)
	case "mysql":
		s.cmd = exec.Command(filepath.Join(mysqlDist(), "bin", "mysqld"), append(own, mysqlOptions()...)...)
	}
	s.cmd.Args = append(s.cmd.Args, options...)
	if err := s.spawn(as); err != nil {
		return nil, err
	}
	if err := s.awaitReady(ctx); err != nil {
		s.stop(false)
		return nil, err
	}
	return s, nil
}

func (s *server) data() string     { return filepath.Join(s.dir, "data") }
func (s *server) log() string      { return filepath.Join(s.dir, "log") }
func (s *server) initFile() string { return filepath.Join(s.dir, "init.sql") }

func (s *server) initialise(ctx context.Context, as *syscall.Credential) error {
	building := s.data() + ".new"
	if err := os.RemoveAll(building); err != nil {
		return err
	}
	for _, dir := range []string{s.dir, building} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		if as != nil {
			if err := os.Chown(dir, int(as.Uid), int(as.Gid)); err != nil {
				return err
			}
		}
	}
	var cmd *exec.Cmd
	if s.engine == "postgres" {
		// initdb opens the file by name as its own user, who cannot open our pipe: the shell
		// creates one.
		cmd = exec.CommandContext(ctx, "sh", "-c", `echo `+password+` | "$0" "$@" --pwfile=/dev/stdin`,
			postgresBin+"/initdb", "-D", building, "-U", account, "-A", "scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8", "--lc-messages=C")
	} else if s.engine == "mysql" {
		cmd = exec.CommandContext(ctx, filepath.Join(mysqlDist(), "bin", "mysqld"), append([]string{"--no-defaults", "--datadir=" + building, "--initialize-insecure"}, mysqlOptions()...)...)
	} else {
		cmd = exec.CommandContext(ctx, "mariadb-install-db", "--no-defaults", "--datadir="+building,
			"--auth-root-authentication-method=normal", "--skip-test-db", "--innodb-log-file-size=1G")
	}
	cmd.Dir, cmd.SysProcAttr = s.dir, procAttr(as, syscall.SIGKILL)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", cmd.Path, err, out)
	}
	if s.engine == "postgres" {
		f, err := os.OpenFile(filepath.Join(building, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		if _, err := f.WriteString(postgresConf); err != nil {
			f.Close()
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	} else {
		// With skip-name-resolve the account differs from root@localhost.
		who, by := account+"@'127.0.0.1'", "IDENTIFIED BY"
		if s.engine == "mysql" {
			by = "IDENTIFIED WITH mysql_native_password BY" // all clients support it
		}
		sql := "SET sql_log_bin = 0;\nCREATE USER IF NOT EXISTS " + who + " " + by + " '" + password + "';\nGRANT ALL ON *.* TO " + who + " WITH GRANT OPTION;\n"
		if err := os.WriteFile(s.initFile(), []byte(sql), 0o644); err != nil {
			return err
		}
	}
	return os.Rename(building, s.data())
}

// spawn starts the process.
func (s *server) spawn(as *syscall.Credential) error {
	out, err := os.Create(s.log())
	if err != nil {
		return err
	}
	defer out.Close()
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr, s.cmd.SysProcAttr = s.dir, out, out, procAttr(as, s.quit())
	s.done, err = background(s.cmd)
	return err
}

// background starts a process; the channel is closed once the process has ended. The kernel sends
// the parent death signal when the starting thread ends, not the process: so one locked thread
// starts it and stays until then.
func background(cmd *exec.Cmd) (<-chan struct{}, error) {
	done, started := make(chan struct{}), make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // its state and its log tell how it ended
			close(done)
		}
	}()
	return done, <-started
}

func (s *server) awaitReady(ctx context.Context) error {
	for deadline := time.Now().Add(2 * time.Minute); ; {
		_, err := s.query(ctx, "", "SELECT 1")
		if err == nil {
			return nil
		}
		select {
		case <-s.done:
			return fmt.Errorf("%s ended while starting:\n%s", s.cmd.Path, tail(s.log()))
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s does not answer: %w", s.cmd.Path, err)
		}
	}
}

// quit returns the signal that ends the server at once: for PostgreSQL one that leaves no shared
// memory behind.
func (s *server) quit() syscall.Signal {
	if s.engine == "postgres" {
		return syscall.SIGQUIT
	}
	return syscall.SIGKILL
}

// stop ends the server: cleanly, so that its data can be reused, or at once.
func (s *server) stop(clean bool) {
	quit, patience := s.quit(), 20*time.Second
	if clean {
		quit = map[string]syscall.Signal{"postgres": syscall.SIGINT, "maria": syscall.SIGTERM, "mysql": syscall.SIGTERM}[s.engine]
		patience = 3 * time.Minute
	}
	_ = s.cmd.Process.Signal(quit) // it may have ended already
	select {
	case <-s.done:
	case <-time.After(patience):
		_ = s.cmd.Process.Kill()
		<-s.done
	}
}

// url returns the URL of a database on this server, with the password.
func (s *server) url(db string) string {
	scheme := map[string]string{"postgres": "postgres", "maria": "mysql", "mysql": "mysql"}[s.engine]
	return fmt.Sprintf("%s://%s:%s@127.0.0.1:%d/%s", scheme, account, password, s.port, db)
}

// reach returns the URL by which tools reach a database: the server's own, or that of the proxy in
// front of it.
func (s *server) reach(db string) string {
	if s.far == 0 {
		return s.url(db)
	}
	return strings.Replace(s.url(db), fmt.Sprint(":", s.port, "/"), fmt.Sprint(":", s.far, "/"), 1)
}

// client returns the engine's own client for a database, which reads SQL from standard input.
func (s *server) client(ctx context.Context, db string, args ...string) *exec.Cmd {
	if s.engine == "postgres" {
		if db == "" {
			db = "postgres"
		}
		return exec.CommandContext(ctx, postgresBin+"/psql", append([]string{"-XqAt", "-v", "ON_ERROR_STOP=1", "-F", "\t", "-d", s.url(db)}, args...)...)
	}
	return exec.CommandContext(ctx, "mariadb", append([]string{"--no-defaults", "--protocol=tcp", "--host=127.0.0.1", "--port=" + strconv.Itoa(s.port),
		"--user=" + account, "--password=" + password, "--default-character-set=utf8mb4", "--local-infile=1", "--batch", "--raw",
		"--skip-column-names", "--database=" + db}, args...)...)
}

// query runs SQL and returns its rows: columns separated by tabs, rows by newlines.
func (s *server) query(ctx context.Context, db, sql string) (string, error) {
	cmd := s.client(ctx, db)
	cmd.Stdin = strings.NewReader(sql)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", s.engine, err, strings.TrimSpace(errs.String()))
	}
	return strings.TrimSpace(out.String()), nil
}

// exec runs SQL whose rows do not matter, statement by statement.
func (s *server) exec(ctx context.Context, db string, statements ...string) error {
	for _, sql := range statements {
		if _, err := s.query(ctx, db, sql); err != nil {
			return fmt.Errorf("%w\nin %.200s", err, sql)
		}
	}
	return nil
}

// empty drops the database and recreates it.
func (s *server) empty(ctx context.Context) error {
	if s.engine == "postgres" {
		return s.exec(ctx, "", "DROP DATABASE IF EXISTS "+database+" WITH (FORCE)", "CREATE DATABASE "+database)
	}
	return s.exec(ctx, "", "DROP DATABASE IF EXISTS "+database, "CREATE DATABASE "+database, "RESET MASTER")
}

// settle makes the server write everything that is only in memory, so that no tool pays for earlier
// work.
func (s *server) settle(ctx context.Context) error {
	if s.engine == "postgres" {
		return s.exec(ctx, "", "CHECKPOINT")
	}
	// MySQL has no CHECKPOINT: if it may not keep dirty pages, it writes them.
	if err := s.exec(ctx, "", "SET GLOBAL innodb_max_dirty_pages_pct = 0"); err != nil {
		return err
	}
	for range 600 {
		dirty, err := s.query(ctx, "", "SHOW GLOBAL STATUS LIKE 'innodb_buffer_pool_pages_dirty'")
		if err != nil {
			return err
		}
		_, count, _ := strings.Cut(dirty, "\t")
		if n, err := strconv.Atoi(count); err == nil && n < 100 {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return s.exec(ctx, "", "SET GLOBAL innodb_max_dirty_pages_pct = DEFAULT")
}

// credential returns the user that the server runs as: ourselves (nil), or if we are root, which
// servers refuse, the user of the Debian package.
func (s *server) credential() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup(map[string]string{"postgres": "postgres", "maria": "mysql", "mysql": "mysql"}[s.engine])
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// tail returns the end of a log.
func tail(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b[max(0, len(b)-2000):]))
}
