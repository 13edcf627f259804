package testdb

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb/home"
)

// startTimeout allows for a busy machine, and for servers that fetch a log as they start; half a
// second is usual. The wait ends at once if the server exits.
const startTimeout = 5 * time.Minute

// A process is a server process and the goroutine that waits for it.
type process struct {
	cmd  *exec.Cmd
	log  string         // file of its output
	quit syscall.Signal // stops it at once
	done chan struct{}  // closed once it has ended
}

// spawn starts a server in dir. The kernel sends the parent death signal when the starting thread
// ends, not the process: so one locked thread starts the server and stays until the server has
// ended.
func spawn(cmd *exec.Cmd, dir string, as *syscall.Credential, quit syscall.Signal) (*process, error) {
	p := &process{cmd: cmd, log: filepath.Join(dir, "log"), quit: quit, done: make(chan struct{})}
	out, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = procAttr(as, quit)
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // its exit status does not matter: we stopped it, or the log has the reason
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

func (p *process) stop() {
	_ = p.cmd.Process.Signal(p.quit) // it may have ended already
	select {
	case <-p.done:
	case <-time.After(10 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// awaitReady polls until the server answers with its version.
func (p *process) awaitReady(s *Server, sp *spec) error {
	ready := sp.ready
	if ready == nil {
		ready = func(s *Server) (string, error) { return TryQuery(s.URL(sp.db), sp.sql) }
	}
	deadline := time.Now().Add(startTimeout)
	for {
		version, err := ready(s)
		if err == nil {
			s.Version = version
			s.note()
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended while starting:\n%s", p.cmd.Path, tail(p.log))
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			p.stop()
			return fmt.Errorf("%s does not answer: %w\n%s", p.cmd.Path, err, tail(p.log))
		}
	}
}

func tail(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-4000):])
}

// A spec describes how to create and start one kind of server.
type spec struct {
	server  Server         // Engine, User, Password
	runAs   string         // its usual user, used if we are root
	quit    syscall.Signal // stops it at once; nothing needs saving
	program string         // the initialised data folder depends on it
	// initdb fills the data folder.
	initdb func(data string) []*exec.Cmd
	// config completes the data folder.
	config func(data string) error
	// run starts the server.
	run func(data string, port int) *exec.Cmd
	// The server is ready once a connection to db answers sql with the version, or once ready
	// succeeds, for one that is not a database.
	db, sql string
	ready   func(*Server) (version string, err error)
}

// start runs a server of that spec in a folder called name; kind names the data folder template it
// starts with.
func start(kind, name string, sp spec) (*Server, error) {
	as, err := credential(sp.runAs)
	if err != nil {
		return nil, err
	}
	template, err := initialised(kind, sp, as)
	if err != nil {
		return nil, fmt.Errorf("testdb: initialise %s: %w", name, err)
	}
	own, err := processHome()
	if err != nil {
		return nil, fmt.Errorf("testdb: %w", err)
	}
	dir := filepath.Join(own, name)
	data := filepath.Join(dir, "data")
	if err := makeDir(dir, as); err != nil {
		return nil, err
	}
	// cp shares or copies blocks, whichever the file system supports, and keeps owners.
	if out, err := exec.Command("cp", "-a", template, data).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("testdb: copy %s: %w: %s", template, err, out)
	}
	// Another process may take the port before the server opens it.
	for try := 1; ; try++ {
		s := sp.server
		s.Host, s.Dir, s.sp, s.as = "127.0.0.1", data, &sp, as
		if s.Port, err = freePort(); err != nil {
			return nil, err
		}
		if s.proc, err = spawn(sp.run(data, s.Port), dir, as, sp.quit); err != nil {
			return nil, fmt.Errorf("testdb: start %s: %w", name, err)
		}
		s.Pid = s.proc.cmd.Process.Pid
		if err = s.proc.awaitReady(&s, &sp); err == nil {
			return &s, nil
		}
		if try == 3 {
			return nil, fmt.Errorf("testdb: start %s: %w", name, err)
		}
	}
}

// initialised returns a data folder that is ready to be copied. The first process that needs it
// creates it; it stays in the cache until the program or its settings change.
func initialised(name string, sp spec, as *syscall.Credential) (string, error) {
	info, err := os.Stat(sp.program)
	if err != nil {
		return "", err
	}
	key := sha256.New()
	fmt.Fprintln(key, templateVersion, sp.program, info.Size(), info.ModTime(), os.Getuid())
	template := filepath.Join(cacheDir(), fmt.Sprintf("data-%s-%x", name, key.Sum(nil)[:6]))
	if err := os.MkdirAll(cacheDir(), 0o755); err != nil {
		return "", err
	}
	unlock, err := home.Lock(template+".lock", true)
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(template); err == nil {
		return template, nil
	}
	building := template + ".new"
	if err := os.RemoveAll(building); err != nil {
		return "", err
	}
	if err := makeDir(building, as); err != nil {
		return "", err
	}
	temp := template + ".tmp" // the server's user may not write to the folder of this process
	if err := makeDir(temp, as); err != nil && !os.IsExist(err) {
		return "", err
	}
	defer os.RemoveAll(temp)
	for _, cmd := range sp.initdb(building) {
		cmd.Dir = building
		cmd.Env = append(cmd.Environ(), "TMPDIR="+temp)
		cmd.SysProcAttr = procAttr(as, syscall.SIGKILL)
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s: %w\n%s", cmd.Path, err, out)
		}
	}
	if err := sp.config(building); err != nil {
		return "", err
	}
	return template, os.Rename(building, template)
}

// templateVersion changes when an initdb or config function here does.
const templateVersion = 3

func makeDir(dir string, as *syscall.Credential) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if as == nil {
		return nil
	}
	return os.Chown(dir, int(as.Uid), int(as.Gid))
}

// credential returns the user that a server runs as; nil is the current user. Servers refuse to run
// as root, so root runs them as name, or as nobody.
func credential(name string) (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return nil, err
		}
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// cacheDir is home.Cache.
func cacheDir() string { return home.Cache() }

var ownHome struct {
	sync.Mutex
	dir    string
	remove func()
}

// processHome returns the folder of this process, which holds a folder for each server.
func processHome() (string, error) {
	ownHome.Lock()
	defer ownHome.Unlock()
	if ownHome.dir != "" {
		return ownHome.dir, nil
	}
	dir, remove, err := home.Make(homeDir())
	if err == nil {
		ownHome.dir, ownHome.remove = dir, remove
	}
	return dir, err
}

// memoryFor is how many bytes must be free in home.InMemory, and in memory: for all packages tested
// at a time. Servers create and remove so many files that the kernel needs half as much time there
// as on a disk, and half of the tests' time is the kernel's.
const memoryFor = 8 << 30

// homeDir returns where servers' folders are created: in memory if there is plenty of it.
func homeDir() string {
	var fs syscall.Statfs_t
	if syscall.Statfs(home.InMemory, &fs) != nil || int64(fs.Bavail)*int64(fs.Bsize) < memoryFor {
		return ""
	}
	text, _ := os.ReadFile("/proc/meminfo") // without this file, the memory size is unknown
	_, text, _ = bytes.Cut(text, []byte("MemAvailable:"))
	var kB int64
	if _, err := fmt.Sscan(string(text), &kB); err != nil || kB<<10 < memoryFor {
		return ""
	}
	return home.InMemory
}

func removeHome() {
	ownHome.Lock()
	defer ownHome.Unlock()
	if ownHome.dir != "" {
		ownHome.remove()
		ownHome.dir = ""
	}
}

// Ports that a test may release and listen on again are below the kernel's ephemeral range (from
// 32768): no other process gets them by chance.
const portsFrom, portsTo = 12000, 32000

var portN struct {
	sync.Mutex
	next int // 0: no port handed out yet
}

// Listen listens on this host, at a port that no other listener gets by chance.
func Listen() (net.Listener, error) {
	portN.Lock()
	defer portN.Unlock()
	if portN.next == 0 {
		portN.next = portsFrom + rand.IntN(portsTo-portsFrom) // each process starts at another port
	}
	for range portsTo - portsFrom {
		port := portN.next
		if portN.next++; portN.next == portsTo {
			portN.next = portsFrom
		}
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return l, nil
		}
	}
	return nil, errors.New("testdb: no port is free")
}

// FreeAddress returns an address of this host where nobody listens, and nobody will by chance.
func FreeAddress(tb testing.TB) string {
	tb.Helper()
	l, err := Listen()
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func freePort() (int, error) {
	l, err := Listen()
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// program returns the first of the paths that is an executable file; a path
// without a slash is looked up in PATH.
func program(what string, paths ...string) (string, error) {
	for _, p := range paths {
		if found, err := exec.LookPath(p); err == nil {
			return found, nil
		} else if errors.Is(err, fs.ErrPermission) {
			return "", fmt.Errorf("testdb: %w", err)
		}
	}
	return "", &missingError{what + " (" + strings.Join(paths, ", ") + ")"}
}

// output runs a client program and returns its output.
func output(cmd *exec.Cmd) (string, error) {
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, strings.TrimSpace(errs.String()))
	}
	return out.String(), nil
}
