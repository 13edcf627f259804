package testdb

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

const versityVersion = "1.8.0" // as in script/install-test-deps.sh

// S3 returns the S3 server: versitygw on a folder, with User and Password as its keys. Each folder
// in Dir is a bucket.
func S3(tb testing.TB) *Server {
	tb.Helper()
	return shared(tb, "s3", func(name string) (*Server, error) { return startS3(name, name) })
}

func startS3(kind, name string) (*Server, error) {
	gateway, err := program("versitygw", filepath.Join(cacheDir(), "versitygw-"+versityVersion, "versitygw"))
	if err != nil {
		return nil, err
	}
	return start(kind, name, spec{
		server:  Server{Engine: "s3", User: "tidemark", Password: password},
		runAs:   "nobody",
		quit:    syscall.SIGKILL,
		program: gateway,
		initdb:  func(string) []*exec.Cmd { return nil },
		config:  func(string) error { return nil },
		run: func(data string, port int) *exec.Cmd {
			cmd := exec.Command(gateway, "--port", fmt.Sprintf("127.0.0.1:%d", port), "--quiet", "posix", data)
			cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY_ID=tidemark", "ROOT_SECRET_ACCESS_KEY="+password)
			return cmd
		},
		ready: func(s *Server) (string, error) {
			c, err := net.DialTimeout("tcp", fmt.Sprintf("%s:%d", s.Host, s.Port), 5*time.Second)
			if err != nil {
				return "", err
			}
			return "versitygw " + versityVersion, c.Close()
		},
	})
}
