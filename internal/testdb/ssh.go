package testdb

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// An SSHServer is an OpenSSH server with SFTP for tests. It runs as the user who runs the tests,
// who logs in with a key, since sshd treats service accounts as locked.
type SSHServer struct {
	*Server        // Dir is the place for files
	Key     string // the user's private key
	HostKey string // the server's public key, a line as in known_hosts without the host
	Log     string // file of OwnSSHThatTells
}

// SSH returns the OpenSSH server.
func SSH(tb testing.TB) *SSHServer {
	tb.Helper()
	return sshServer(tb, shared(tb, "ssh", func(name string) (*Server, error) { return startSSH(name, name, internalSFTP) }))
}

// OwnSSH is OwnPostgres for OpenSSH.
func OwnSSH(tb testing.TB) *SSHServer {
	tb.Helper()
	return sshServer(tb, alone(tb, "ssh", func(kind, name string) (*Server, error) { return startSSH(kind, name, internalSFTP) }))
}

// OwnSSHThatTells is OwnSSH that logs SFTP operations to SSHServer.Log.
func OwnSSHThatTells(tb testing.TB) *SSHServer {
	tb.Helper()
	program, err := program("OpenSSH's server of SFTP", "/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server")
	if err != nil {
		fail(tb, err)
	}
	return sshServer(tb, alone(tb, "ssh", func(kind, name string) (*Server, error) {
		return startSSH(kind, name, func(data string) string { return program + " -e -l VERBOSE 2>>" + sftpLog(data) })
	}))
}

func internalSFTP(string) string { return "internal-sftp" }
func sftpLog(data string) string { return data + ".sftp" }

func sshServer(tb testing.TB, s *Server) *SSHServer {
	tb.Helper()
	key, err := os.ReadFile(filepath.Join(s.Dir, "host.pub"))
	if err != nil {
		tb.Fatal(err)
	}
	return &SSHServer{Server: s, Key: filepath.Join(s.Dir, "user"), HostKey: strings.TrimSpace(string(key)), Log: sftpLog(s.Dir)}
}

func startSSH(kind, name string, sftp func(data string) string) (*Server, error) {
	sshd, err := program("OpenSSH's server", "/usr/sbin/sshd")
	if err != nil {
		return nil, err
	}
	me, err := user.Current()
	if err != nil {
		return nil, err
	}
	if me.Uid == "0" { // sshd requires an empty folder to confine itself to before login
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			return nil, err
		}
	}
	keygen := func(data, file string) *exec.Cmd {
		return exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(data, file))
	}
	return start(kind, name, spec{
		server:  Server{Engine: "sftp", User: me.Username},
		runAs:   "root",
		quit:    syscall.SIGKILL,
		program: sshd,
		initdb: func(data string) []*exec.Cmd {
			return []*exec.Cmd{keygen(data, "host"), keygen(data, "user"), exec.Command("cp", filepath.Join(data, "user.pub"), filepath.Join(data, "authorized"))}
		},
		config: func(string) error { return nil },
		run: func(data string, port int) *exec.Cmd {
			return exec.Command(sshd, "-D", "-e", "-f", "/dev/null", "-o", "ListenAddress=127.0.0.1", "-o", fmt.Sprintf("Port=%d", port), "-o", "PidFile=none",
				"-o", "HostKey="+filepath.Join(data, "host"), "-o", "AuthorizedKeysFile="+filepath.Join(data, "authorized"), "-o", "StrictModes=no", "-o", "UsePAM=no",
				"-o", "PasswordAuthentication=no", "-o", "KbdInteractiveAuthentication=no", "-o", "Subsystem=sftp "+sftp(data), "-o", "MaxStartups=100")
		},
		ready: func(s *Server) (string, error) {
			c, err := net.DialTimeout("tcp", fmt.Sprintf("%s:%d", s.Host, s.Port), 5*time.Second)
			if err != nil {
				return "", err
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(5 * time.Second))
			line, err := bufio.NewReader(c).ReadString('\n')
			return strings.TrimSpace(line), err
		},
	})
}
