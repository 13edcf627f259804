package testdb

import (
	_ "embed"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// derbyVersions are those in script/install-test-deps.sh: 10.8 is the last that IBM's driver speaks
// to.
var derbyVersions = map[int]string{8: "10.8.3.0", 16: "10.16.1.1"}

// Db2's catalogue in views. They are in each of Derby's databases.
//
//go:embed testdata/catluw.sql
var catluw string

// Derby returns the Apache Derby server of version 10.8 (minor 8) or 10.16. It speaks Db2's
// protocol and much of its SQL: a stand-in, since no Db2 server can be had for tests. User app has
// the password of all servers, and a schema of its name.
func Derby(tb testing.TB, minor int) *Server {
	tb.Helper()
	return shared(tb, fmt.Sprintf("derby-%d", minor), func(name string) (*Server, error) { return startDerby(name, name, minor, false) })
}

// OwnDerby is OwnPostgres for Derby. With TLS it requires that, from the first byte.
func OwnDerby(tb testing.TB, minor int, withTLS bool) *Server {
	tb.Helper()
	kind := fmt.Sprintf("derby-%d", minor)
	if withTLS {
		kind += "-tls"
	}
	return alone(tb, kind, func(kind, name string) (*Server, error) { return startDerby(kind, name, minor, withTLS) })
}

// derbyEmpty is the database that others are copies of.
const derbyEmpty = "EMPTY"

func startDerby(kind, name string, minor int, withTLS bool) (*Server, error) {
	version := derbyVersions[minor]
	dir := filepath.Join(cacheDir(), "derby-"+version)
	jar := filepath.Join(dir, "derby.jar")
	if _, err := os.Stat(jar); err != nil {
		return nil, &missingError{"Apache Derby " + version + " (" + jar + ")"}
	}
	run := func(data string, args ...string) *exec.Cmd {
		cmd := exec.Command("java", append([]string{"-cp", dir + "/*", "-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dderby.system.home=" + data,
			"-Dderby.stream.error.file=" + filepath.Join(data, "derby.log")}, args...)...)
		cmd.Dir = data
		return cmd
	}
	sp := spec{
		server:  Server{Engine: "db2", User: "app", Password: password},
		runAs:   "nobody",
		quit:    syscall.SIGKILL,
		program: jar,
		initdb: func(data string) []*exec.Cmd {
			script := "connect 'jdbc:derby:" + derbyEmpty + ";create=true;user=app;password=" + password + "';\n" + catluw +
				"\nconnect 'jdbc:derby:" + derbyEmpty + ";shutdown=true;user=app;password=" + password + "';\nexit;\n"
			// ij does not stop at errors, and 08006 is how a database says that it has shut down.
			const heard = `out=$(printf '%s' "$0" | "$@") && ! printf '%s\n' "$out" | grep ERROR | grep -v 08006`
			ij := exec.Command("sh", append([]string{"-c", heard, script}, run(data, "org.apache.derby.tools.ij").Args...)...)
			properties := "derby.connection.requireAuthentication=true\nderby.authentication.provider=BUILTIN\nderby.user.app=" + password +
				"\nderby.user.guest=" + password + "\nderby.system.durability=test\nderby.locks.waitTimeout=120\n"
			cmds := []*exec.Cmd{exec.Command("sh", "-c", `printf '%s' "$0" >derby.properties`, properties), ij}
			if withTLS {
				cmds = append(cmds, exec.Command("keytool", "-genkeypair", "-keystore", filepath.Join(data, "keys"), "-storetype", "PKCS12", "-storepass", password,
					"-keyalg", "EC", "-groupname", "secp256r1", "-dname", "CN=tidemark", "-ext", "san=ip:127.0.0.1", "-validity", "3650"),
					exec.Command("keytool", "-exportcert", "-rfc", "-keystore", filepath.Join(data, "keys"), "-storepass", password, "-file", filepath.Join(data, "ca.pem")))
			}
			return cmds
		},
		config: checkDerby,
		run: func(data string, port int) *exec.Cmd {
			args := []string{"org.apache.derby.drda.NetworkServerControl", "start", "-h", "127.0.0.1", "-p", fmt.Sprint(port), "-noSecurityManager"}
			if withTLS {
				args = append([]string{"-Djavax.net.ssl.keyStore=" + filepath.Join(data, "keys"), "-Djavax.net.ssl.keyStorePassword=" + password}, args...)
				args = append(args, "-ssl", "basic")
			}
			return run(data, args...)
		},
		ready: func(s *Server) (string, error) {
			c, err := net.DialTimeout("tcp", fmt.Sprintf("%s:%d", s.Host, s.Port), 5*time.Second)
			if err != nil {
				return "", err
			}
			return version, c.Close()
		},
	}
	return start(kind, name, sp)
}

// checkDerby looks for the database: ij may end without an error and without one.
func checkDerby(data string) error {
	if _, err := os.Stat(filepath.Join(data, derbyEmpty, "service.properties")); err != nil {
		return fmt.Errorf("ij made no database: %w", err)
	}
	return nil
}

// newDerby makes a database as a copy of the empty one, which no server has opened.
func (s *Server) newDerby(name string) error {
	cp := exec.Command("cp", "-a", filepath.Join(s.Dir, derbyEmpty), filepath.Join(s.Dir, name))
	if out, err := cp.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// loadDerby feeds an SQL script to Derby's own client, which does not stop at errors, but prints
// them.
func loadDerby(raw string, r io.Reader) error {
	sql, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	out, err := ij(raw, string(sql))
	if i := strings.Index(out, "ERROR "); err == nil && i >= 0 {
		err = fmt.Errorf("%.500s", out[i:])
	}
	return err
}

// DerbyText returns the rows of a query as Derby's own client prints them, a line each, with the
// values separated by | and without the blanks around them.
func DerbyText(tb testing.TB, raw, query string) string {
	tb.Helper()
	out, err := ij(raw, "maximumdisplaywidth 1000;\n"+query+";\n")
	if err != nil || strings.Contains(out, "ERROR ") {
		fail(tb, fmt.Errorf("testdb: %v\nin %s\n%.1000s", err, query, out))
	}
	_, out, _ = strings.Cut(out, "\n---") // under the names of the columns
	_, out, _ = strings.Cut(out, "\n")
	end := strings.LastIndex(out, "selected")
	if end < 0 {
		fail(tb, fmt.Errorf("testdb: no rows of %s", query))
	}
	rows := strings.Split(strings.TrimSpace(out[:strings.LastIndex(out[:end], "\n")+1]), "\n")
	for i, row := range rows {
		values := strings.Split(row, "|")
		for j := range values {
			values[j] = strings.TrimSpace(values[j])
		}
		rows[i] = strings.Join(values, "|")
	}
	return strings.TrimSpace(strings.Join(rows, "\n"))
}

// ij runs a script in Derby's own client, and returns what that prints. The newer client speaks to
// both servers.
func ij(raw, sql string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return "", err
	}
	password, _ := u.User.Password()
	cmd := exec.Command("java", "-cp", filepath.Join(cacheDir(), "derby-"+derbyVersions[16])+"/*", "-XX:TieredStopAtLevel=1", "-Dderby.stream.error.file=/dev/null",
		"-Dderby.ui.codeset=UTF-8", "-Dfile.encoding=UTF-8", "org.apache.derby.tools.ij")
	cmd.Dir = os.TempDir()
	cmd.Stdin = strings.NewReader(fmt.Sprintf("connect 'jdbc:derby://%s%s;user=%s;password=%s';\n%s\nexit;\n", u.Host, u.Path, u.User.Username(), password, sql))
	out, err := cmd.CombinedOutput()
	return string(out), err
}
