package testdb

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// password is the same everywhere, so that tests of secret masking can search for it.
const password = "s3cret-tide"

// artifacts are the PostgreSQL versions that come from Maven, as listed in
// script/install-test-deps.sh.
var artifacts = map[int]string{13: "13.23.0", 14: "14.23.0", 16: "16.15.0", 17: "17.11.0", 18: "18.6.0"}

// postgresConf tunes for speed (nothing needs to survive a crash of the machine), and enables what
// logical and physical replication need.
const postgresConf = `
# tidemark tests
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 400
shared_buffers = 64MB
fsync = off
jit = off
wal_level = logical
min_wal_size = 32MB
max_wal_size = 256MB
max_wal_senders = 50
max_replication_slots = 50
max_prepared_transactions = 20
lc_messages = 'C'
timezone = 'UTC'
log_timezone = 'UTC'
`

// startPostgres starts a server with command-line options, on a data folder made with the initdb
// options; non-default initdb options need a kind of their own.
func startPostgres(kind, name string, major int, initdb []string, options ...string) (*Server, error) {
	bin := fmt.Sprintf("/usr/lib/postgresql/%d/bin", major)
	if v := artifacts[major]; v != "" {
		bin = filepath.Join(cacheDir(), "postgresql-"+v, "bin")
	}
	postgres, err := program(fmt.Sprintf("PostgreSQL %d", major), filepath.Join(bin, "postgres"))
	if err != nil {
		return nil, err
	}
	return start(kind, name, spec{
		server:  Server{Engine: "postgres", User: "tidemark", Password: password},
		runAs:   "postgres",
		quit:    syscall.SIGQUIT, // immediate shutdown; SIGKILL would leave shared memory behind
		program: postgres,
		initdb: func(data string) []*exec.Cmd {
			// initdb reads the password from a file that its user may open: a pipe of ours would
			// not do, but the shell, running as that user, makes one.
			return []*exec.Cmd{exec.Command("sh", append([]string{"-c", `echo ` + password + ` | "$0" "$@" --pwfile=/dev/stdin`,
				filepath.Join(bin, "initdb"), "-D", data, "-U", "tidemark", "-A", "scram-sha-256",
				"--encoding=UTF8", "--locale=C.UTF-8", "--lc-messages=C", "--no-sync"}, initdb...)...)}
		},
		config: func(data string) error {
			f, err := os.OpenFile(filepath.Join(data, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.WriteString(postgresConf)
			return err
		},
		run: func(data string, port int) *exec.Cmd {
			return exec.Command(postgres, append([]string{"-D", data, "-p", strconv.Itoa(port)}, options...)...)
		},
		db:  "postgres",
		sql: "SHOW server_version",
	})
}

// dropPostgres drops a database after ending its connections and dropping its slots, each of which
// would block the drop.
func (s *Server) dropPostgres(name string) error {
	if err := patiently(s.URL("postgres"), `
		DO $$
		DECLARE slot record;
		BEGIN
			FOR slot IN SELECT slot_name, active_pid FROM pg_replication_slots WHERE database = '`+name+`' LOOP
				PERFORM pg_terminate_backend(slot.active_pid);
				PERFORM pg_drop_replication_slot(slot.slot_name);
			END LOOP;
		END $$`); err != nil {
		return err
	}
	return patiently(s.URL("postgres"), "DROP DATABASE "+name+" WITH (FORCE)")
}

// patiently retries a statement that fails because a terminated session has not ended yet: the
// server itself waits at most five seconds.
func patiently(url, sql string) error {
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		_, err := TryQuery(url, sql)
		if pg := (*pgconn.PgError)(nil); !errors.As(err, &pg) || pg.Code != "55006" /* object_in_use */ || time.Since(begun) > 2*time.Minute {
			return err
		}
	}
}
