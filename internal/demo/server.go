package main

import (
	"bufio"
	"context"
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
)

// serverEnv holds "port dir cache" in a process that is to be a server's keeper.
const serverEnv = "TIDEMARK_DEMO_SERVER"

const pgVersion = embedded.PostgresVersion("18.6.0")

// A server is a PostgreSQL server with the process that keeps it. It ends when
// its keeper's standard input does, so also when we are killed.
type server struct {
	url    string
	keeper *exec.Cmd
	hold   io.WriteCloser
}

// start starts a server in a folder of its own. PostgreSQL refuses to run as
// root, so as root the keeper is this same program as another user.
func start(ctx context.Context, dir, name string) (*server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	home := filepath.Join(dir, name)
	if err := os.MkdirAll(home, 0o755); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe") // not its path: another user may not be able to follow it
	cache := filepath.Join(dir, "cache")
	if base, err := os.UserCacheDir(); err == nil && os.Geteuid() != 0 {
		cache = filepath.Join(base, "tidemark-demo")
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, err
	}
	if os.Geteuid() == 0 {
		if cmd.SysProcAttr, err = asSomebody(home, cache); err != nil {
			return nil, err
		}
	}
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s %s", serverEnv, port, home, cache), "HOME="+home)
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
		return nil, fmt.Errorf("the %s server did not start", name)
	}
	return &server{url: fmt.Sprintf("postgres://demo:demo@127.0.0.1:%d/demo?sslmode=disable", port), keeper: cmd, hold: hold}, nil
}

func (s *server) stop() {
	s.hold.Close()
	s.keeper.Wait()
}

// asSomebody picks an ordinary user and gives the folders to it.
func asSomebody(folders ...string) (*syscall.SysProcAttr, error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		for _, f := range folders {
			if err := os.Chown(f, uid, gid); err != nil {
				return nil, err
			}
		}
		return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
	}
	return nil, fmt.Errorf("PostgreSQL cannot run as root, and there is neither a user postgres nor nobody")
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// serve is the keeper: it starts the server, says so, and stops it when nobody
// holds its standard input any more.
func serve() {
	signal.Ignore(os.Interrupt) // the terminal sends it to us too; our standard input says when to stop
	f := strings.Fields(os.Getenv(serverEnv))
	port, _ := strconv.Atoi(f[0])
	dir, cache := f[1], f[2]
	pg := embedded.NewDatabase(embedded.DefaultConfig().Version(pgVersion).Port(uint32(port)).Database("demo").Username("demo").Password("demo").
		RuntimePath(filepath.Join(dir, "run")).DataPath(filepath.Join(dir, "data")).BinariesPath(filepath.Join(dir, "bin")).CachePath(cache).
		StartTimeout(2 * time.Minute).Logger(io.Discard).
		StartParameters(map[string]string{"listen_addresses": "127.0.0.1", "shared_buffers": "256MB", "max_wal_size": "4GB", "wal_level": "logical"}))
	if err := pg.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
	if err := pg.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
