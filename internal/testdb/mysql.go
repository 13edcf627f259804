package testdb

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

const mysqlVersion = "8.0.33" // as in script/install-test-deps.sh

func mysqlDist() string { return filepath.Join(cacheDir(), "mysql-"+mysqlVersion) }

// commonOptions are options for speed, and those that a binlog reader needs.
func commonOptions(data string, port int) []string {
	return []string{
		"--datadir=" + data,
		"--port=" + strconv.Itoa(port),
		"--bind-address=127.0.0.1",
		"--skip-name-resolve",
		"--tmpdir=" + filepath.Dir(data), // a starting server removes other servers' temporary files from a shared folder
		"--socket=" + filepath.Join(filepath.Dir(data), "socket"),
		"--pid-file=" + filepath.Join(filepath.Dir(data), "pid"),
		"--init-file=" + filepath.Join(data, initFile),
		"--server-id=" + strconv.Itoa(port),
		"--log-bin=binlog",
		"--binlog-format=ROW",
		"--binlog-row-metadata=FULL",
		"--sync-binlog=0",
		"--max-binlog-size=16M", // following from a GTID reads its binlog file from the beginning
		"--log-bin-trust-function-creators=1",
		"--local-infile=1",
		"--max-connections=400",
		"--max-allowed-packet=64M",
		"--innodb-buffer-pool-size=64M",
		"--innodb-flush-log-at-trx-commit=0",
		"--character-set-server=utf8mb4",
		"--default-time-zone=+00:00",
	}
}

// initFile creates the account that tests use; with skip-name-resolve it differs from
// root@localhost. It stays out of the binlog.
const initFile = "tidemark-init.sql"

func writeInitFile(create string) func(data string) error {
	return func(data string) error {
		// Every server needs its own uuid: without this file it generates one.
		if err := os.RemoveAll(filepath.Join(data, "auto.cnf")); err != nil {
			return err
		}
		sql := "SET sql_log_bin = 0;\n" + create + "\nGRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;\n"
		return os.WriteFile(filepath.Join(data, initFile), []byte(sql), 0o644)
	}
}

func startMariaDB(kind, name string, options ...string) (*Server, error) {
	mariadbd, err := program("MariaDB", "/usr/sbin/mariadbd", "mariadbd")
	if err != nil {
		return nil, err
	}
	install, err := program("MariaDB", "mariadb-install-db")
	if err != nil {
		return nil, err
	}
	return start(kind, name, spec{
		server:  Server{Engine: "mariadb", User: "root", Password: password},
		runAs:   "mysql",
		quit:    syscall.SIGKILL,
		program: mariadbd,
		initdb: func(data string) []*exec.Cmd {
			return []*exec.Cmd{exec.Command(install, "--no-defaults", "--datadir="+data,
				"--auth-root-authentication-method=normal", "--skip-test-db", "--innodb-log-file-size=32M")}
		},
		config: writeInitFile("CREATE USER IF NOT EXISTS root@'127.0.0.1';\n" +
			"SET PASSWORD FOR root@'127.0.0.1' = PASSWORD('" + password + "');"),
		run: func(data string, port int) *exec.Cmd {
			return exec.Command(mariadbd, append(append([]string{"--no-defaults"}, append(commonOptions(data, port),
				"--innodb-log-file-size=32M",
				"--innodb-flush-method=nosync",
				"--gtid-strict-mode=ON",
				"--performance-schema=OFF",
				"--collation-server=utf8mb4_general_ci", // as Debian configures it
			)...), options...)...)
		},
		sql: "SELECT version()",
	})
}

func startMySQL(kind, name string, extra ...string) (*Server, error) {
	dist := mysqlDist()
	mysqld, err := program("MySQL "+mysqlVersion, filepath.Join(dist, "bin", "mysqld"))
	if err != nil {
		return nil, err
	}
	options := func(data string) []string {
		return []string{"--no-defaults", "--basedir=" + dist, "--lc-messages-dir=" + filepath.Join(dist, "share"),
			"--innodb-redo-log-capacity=64M", "--datadir=" + data}
	}
	return start(kind, name, spec{
		server:  Server{Engine: "mysql", User: "root", Password: password},
		runAs:   "mysql",
		quit:    syscall.SIGKILL,
		program: mysqld,
		initdb: func(data string) []*exec.Cmd {
			return []*exec.Cmd{exec.Command(mysqld, append(options(data), "--initialize-insecure")...)}
		},
		config: writeInitFile("CREATE USER IF NOT EXISTS root@'127.0.0.1';\n" +
			"ALTER USER root@'127.0.0.1' IDENTIFIED BY '" + password + "';"),
		run: func(data string, port int) *exec.Cmd {
			return exec.Command(mysqld, append(append(options(data), append(commonOptions(data, port),
				"--gtid-mode=ON",
				"--enforce-gtid-consistency=ON",
				"--mysqlx=OFF",
				// Users of caching_sha2_password must send the password itself at their first
				// login, which needs more than a plain connection: tests of that create such users.
				"--default-authentication-plugin=mysql_native_password",
				"--innodb-flush-method=nosync",
				"--innodb-log-writer-threads=OFF", // they busy-wait
				"--secure-file-priv=NULL",
			)...), extra...)...)
		},
		sql: "SELECT version()",
	})
}

// dropMySQL drops a database after killing its connections, whose locks would block the drop.
func (s *Server) dropMySQL(name string) error {
	kill, err := TryQuery(s.URL(""), "SELECT concat('KILL ', id) FROM information_schema.processlist WHERE db = '"+name+"'")
	if err != nil {
		return err
	}
	for _, sql := range lines(kill) {
		_, _ = TryQuery(s.URL(""), sql) // it may have disconnected already
	}
	if _, err = TryQuery(s.URL(""), "SET lock_wait_timeout = 300; DROP DATABASE "+name); err != nil {
		return fmt.Errorf("%w (another transaction may be open on it)", err)
	}
	return nil
}
