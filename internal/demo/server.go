package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	embedded "github.com/fergusstrange/embedded-postgres"
	"github.com/jackc/pgx/v5"
)

// serverEnv holds "engine port home cache" in a server's keeper process.
const serverEnv = "TIDEMARK_DEMO_SERVER"

const pgVersion = embedded.PostgresVersion("18.6.0")

// account is the only account of each server, and shop its database. PGPASSWORD and MYSQL_PWD hold
// the password, which differs in each run.
const account, shop = "demo", "shop"

// A server is a database server with its keeper process. It ends when its keeper's standard input
// closes, so also when we are killed.
type server struct {
	engine string // postgres or mariadb
	url    string // without the password
	addr   string
	home   string
	keeper *exec.Cmd
	hold   io.WriteCloser
}

// title is the engine's usual name.
func (s *server) title() string {
	return map[string]string{"postgres": "PostgreSQL", "mariadb": "MariaDB"}[s.engine]
}

// mariaDB finds the two programs that a MariaDB server needs.
func mariaDB() (server, install string) {
	for _, name := range []string{"mariadbd", "/usr/sbin/mariadbd"} {
		if path, err := exec.LookPath(name); err == nil {
			server = path
			break
		}
	}
	install, _ = exec.LookPath("mariadb-install-db")
	return server, install
}

// newPassword sets the password of all servers of this tour.
func newPassword() {
	os.Setenv("PGPASSWORD", rand.Text())
	os.Setenv("MYSQL_PWD", os.Getenv("PGPASSWORD"))
}

// start starts a server with its files in home.
func start(ctx context.Context, engine, home string) (*server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	cache, err := cacheFolder()
	if err != nil {
		return nil, err
	}
	for _, dir := range []string{home, cache} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe") // not by path, which another user may not be able to reach
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %s %s", serverEnv, engine, port, home, cache), "HOME="+home)
	cmd.Dir, cmd.Stderr = home, os.Stderr
	hold, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	cmd.Cancel, cmd.WaitDelay = hold.Close, 30*time.Second // let it stop its server
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != "ready" {
		hold.Close()
		cmd.Wait()
		return nil, fmt.Errorf("the %s server in %s did not start", engine, home)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	return &server{engine: engine, url: fmt.Sprintf("%s://%s@%s/%s", engine, account, addr, shop), addr: addr, home: home, keeper: cmd, hold: hold}, nil
}

func (s *server) stop() {
	s.hold.Close()
	s.keeper.Wait()
}

// rootCache is where PostgreSQL's programs are kept for root, whose home others cannot enter.
const rootCache = "/var/cache/tidemark-demo"

// cacheFolder returns where they are kept for other users.
func cacheFolder() (string, error) {
	if os.Getenv("HOME") == rootCache {
		return rootCache, nil
	}
	base, err := os.UserCacheDir()
	return filepath.Join(base, "tidemark-demo"), err
}

// leaveRoot turns root into an ordinary user, who becomes the owner of dir: neither engine likes to
// run as root. Other users stay as they are.
func leaveRoot(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		if err := os.MkdirAll(rootCache, 0o755); err != nil {
			return err
		}
		for _, d := range []string{dir, rootCache} {
			if err := os.Chown(d, uid, gid); err != nil {
				return err
			}
		}
		os.Setenv("HOME", rootCache)
		return errors.Join(syscall.Setgroups([]int{gid}), syscall.Setgid(gid), syscall.Setuid(uid))
	}
	return fmt.Errorf("database servers cannot run as root, and there is neither a user postgres nor nobody")
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// serve is the keeper: it starts the server, reports that it is ready, and stops it once its
// standard input closes.
func serve() {
	signal.Ignore(os.Interrupt) // only our standard input stops us
	f := strings.Fields(os.Getenv(serverEnv))
	port, _ := strconv.Atoi(f[1])
	run := postgres
	if f[0] == "mariadb" {
		run = mariadb
	}
	stop, err := run(port, f[2], f[3])
	if err == nil {
		fmt.Println("ready")
		io.Copy(io.Discard, os.Stdin)
		err = stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// postgres starts a PostgreSQL server in home/data; the first run fetches its programs. If that
// folder has files, the server uses them.
func postgres(port int, home, cache string) (stop func() error, err error) {
	password, data := os.Getenv("PGPASSWORD"), filepath.Join(home, "data")
	_, there := os.Stat(filepath.Join(data, "PG_VERSION"))
	pg := embedded.NewDatabase(embedded.DefaultConfig().Version(pgVersion).Port(uint32(port)).Database(shop).Username(account).Password(password).
		RuntimePath(filepath.Join(home, "run")).DataPath(data).BinariesPath(filepath.Join(cache, "postgresql-"+string(pgVersion))).CachePath(cache).
		StartTimeout(2 * time.Minute).Logger(io.Discard).
		StartParameters(map[string]string{"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "shared_buffers": "128MB", "max_wal_size": "4GB", "wal_level": "logical"}))
	if err := pg.Start(); err != nil {
		return nil, err
	}
	if there != nil { // this server receives no clear-text passwords
		hba := "host all all 127.0.0.1/32 scram-sha-256\nhost replication all 127.0.0.1/32 scram-sha-256\n"
		if err = os.WriteFile(filepath.Join(data, "pg_hba.conf"), []byte(hba), 0o600); err == nil {
			err = reload(port, password)
		}
		if err != nil {
			pg.Stop()
			return nil, err
		}
	}
	return pg.Stop, nil
}

func reload(port int, password string) error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, fmt.Sprintf("postgres://%s:%s@127.0.0.1:%d/%s?sslmode=disable", account, password, port, shop))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, "SELECT pg_reload_conf()")
	return err
}

// mariadb starts a MariaDB server in home/data.
func mariadb(port int, home, _ string) (stop func() error, err error) {
	program, install := mariaDB()
	data, init := filepath.Join(home, "data"), filepath.Join(home, "init.sql")
	if out, err := exec.Command(install, "--no-defaults", "--datadir="+data, "--auth-root-authentication-method=normal", "--skip-test-db", "--innodb-log-file-size=256M").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("mariadb-install-db: %w: %s", err, out)
	}
	password := os.Getenv("MYSQL_PWD")
	sql := fmt.Sprintf("SET sql_log_bin = 0;\nALTER USER root@localhost IDENTIFIED BY '%[1]s';\nCREATE USER %[2]s@'127.0.0.1' IDENTIFIED BY '%[1]s';\nGRANT ALL ON *.* TO %[2]s@'127.0.0.1' WITH GRANT OPTION;\nCREATE DATABASE %[3]s;\n", password, account, shop)
	if err := os.WriteFile(init, []byte(sql), 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(home, "log"))
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, "--no-defaults", "--datadir="+data, "--port="+strconv.Itoa(port), "--bind-address=127.0.0.1", "--skip-name-resolve",
		"--socket="+filepath.Join(home, "socket"), "--pid-file="+filepath.Join(home, "pid"), "--tmpdir="+home, "--init-file="+init,
		"--server-id=1", "--log-bin=binlog", "--binlog-format=ROW", "--binlog-row-metadata=FULL", "--innodb-buffer-pool-size=256M", "--innodb-log-file-size=256M", "--character-set-server=utf8mb4")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	stop = func() error {
		cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		return nil
	}
	for until := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			c.Close()
			return stop, nil
		}
		select {
		case <-ended:
		default:
			if time.Now().Before(until) {
				continue
			}
		}
		stop()
		text, _ := os.ReadFile(log.Name())
		return nil, fmt.Errorf("MariaDB did not start: %s", text)
	}
}
