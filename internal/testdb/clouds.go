package testdb

import (
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// As in script/install-test-deps.sh.
const (
	azuriteVersion = "3.33.0"
	fakeGCSVersion = "1.56.1"
)

// Azure returns Azurite, Microsoft's own Azure Blob Storage server for tests. User is the account,
// Password its key. Containers are below http://Host:Port/User.
func Azure(tb testing.TB) *Server {
	tb.Helper()
	return shared(tb, "azure", func(name string) (*Server, error) {
		main := filepath.Join(cacheDir(), "azurite-"+azuriteVersion, "node_modules", "azurite", "dist", "src", "blob", "main.js")
		if _, err := os.Stat(main); err != nil {
			return nil, &missingError{"Azurite " + azuriteVersion + " (" + main + ")"}
		}
		node, err := program("Node.js", "/usr/bin/node", "node")
		if err != nil {
			return nil, err
		}
		key := base64.StdEncoding.EncodeToString([]byte(password))
		return startCloud(name, main, Server{Engine: "azure", User: "tidemark", Password: key}, func(data string, port int) *exec.Cmd {
			cmd := exec.Command(node, main, "--silent", "--skipApiVersionCheck", "--blobHost", "127.0.0.1", "--blobPort", fmt.Sprint(port), "--location", data)
			cmd.Env = append(os.Environ(), "AZURITE_ACCOUNTS=tidemark:"+key)
			return cmd
		})
	})
}

// GCS returns fake-gcs-server, a Google Cloud Storage server that requires no login. It keeps
// objects in memory.
func GCS(tb testing.TB) *Server {
	tb.Helper()
	return shared(tb, "gcs", func(name string) (*Server, error) {
		server, err := program("fake-gcs-server", filepath.Join(cacheDir(), "fake-gcs-server-"+fakeGCSVersion, "fake-gcs-server"))
		if err != nil {
			return nil, err
		}
		return startCloud(name, server, Server{Engine: "gcs"}, func(_ string, port int) *exec.Cmd {
			at := fmt.Sprintf("127.0.0.1:%d", port)
			return exec.Command(server, "-scheme", "http", "-host", "127.0.0.1", "-port", fmt.Sprint(port), "-public-host", at, "-external-url", "http://"+at, "-backend", "memory", "-log-level", "error")
		})
	})
}

// startCloud starts a server that needs only an empty folder and is ready once it listens.
func startCloud(name, program string, server Server, run func(data string, port int) *exec.Cmd) (*Server, error) {
	return start(name, name, spec{
		server:  server,
		runAs:   "nobody",
		quit:    syscall.SIGKILL,
		program: program,
		initdb:  func(string) []*exec.Cmd { return nil },
		config:  func(string) error { return nil },
		run:     run,
		ready: func(s *Server) (string, error) {
			c, err := net.DialTimeout("tcp", fmt.Sprintf("%s:%d", s.Host, s.Port), 5*time.Second)
			if err != nil {
				return "", err
			}
			return server.Engine, c.Close()
		},
	})
}
