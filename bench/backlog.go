package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark/ha/measure"
)

// A backlog holds changes waiting in the source's log. Each tool gets the same ones: for PostgreSQL
// a copy of the slot, for the others the log from a position; and a copy of the target as it was
// before.
type backlog struct {
	backlogOf
	transactions int
	rows         int    // in total
	file         string // binlog file where it starts (MySQL)
	pos          int    // and position in it
	gtid         string // of everything before it
	end          string // end of it in PostgreSQL's log
	streams      string // folder of tidemark's catalogue and queues, in their initial state
	program      string // of bench/stream
}

// A backlogOf specifies a backlog.
type backlogOf struct {
	source string // engine
	target string // engine; "": the changes are written nowhere
	rows   int
	times  int           // groups of five rows in each transaction
	delay  time.Duration // that a link adds to each round trip of tidemark to the target
	// seeds are further initial states of the target, by name: SQL that derives them from the first
	// one.
	seeds map[string][]string
}

const (
	slotKept    = "backlog" // nobody reads from it
	publication = "tidemark_main"
	seed        = "seed" // the target before any change
)

// streams are the names of tidemark's streams, with their queues. PostgreSQL's slot for a stream is
// tidemark_NAME.
var streams = []string{"main", "direct"}

var replTables = []table{
	{"account", "id:text branch:text kind:text state:text holder:text street:text city:text zip:text country:text phone:text mail:text " +
		"balance:cents credit:cents rate:text fee:cents opened:text closed:text changed:time visited:time moves:text " +
		"c1:text c2:text c3:text c4:text c5:text f1:bool f2:bool score:float tag:text note:text"},
	{"finish", "id:text"},
	{"country", "code:text"},
}

// setUpBacklog fills a source and a target, has tidemark copy the former to the latter, and then
// changes rows, five times of.times in each transaction.
func setUpBacklog(of backlogOf) func(context.Context, *bench, *arena) error {
	return func(ctx context.Context, b *bench, a *arena) (err error) {
		n := max(20, int(float64(of.rows)*b.scale))
		log := &backlog{backlogOf: of, transactions: max(2, n/5/of.times), streams: filepath.Join(b.dir, "streams"), program: filepath.Join(b.dir, "stream")}
		log.rows = log.transactions*of.times*5 - 5*of.times + 1 // the last one is the row that marks the end
		a.backlog, a.tables, a.Rows = log, replTables, int64(log.rows)
		if err := command(ctx, "go", "build", "-C", "bench", "-o", log.program, "./stream"); err != nil {
			return err
		}
		if err := b.replServers(ctx, a); err != nil {
			return err
		}
		b.say("filling the source with a backlog of %d transactions", log.transactions)
		if err := b.script("repl."+a.source.sqlSuffix())(ctx, a.source); err != nil {
			return err
		}
		if a.target != nil {
			if err := b.copyOnce(ctx, a); err != nil {
				return err
			}
		}
		if err := b.traffic(ctx, a); err != nil {
			return err
		}
		a.content, err = a.source.content(ctx, a.tables)
		a.Rows = int64(log.rows)
		return err
	}
}

// sqlSuffix is the file name suffix of an engine's workloads.
func (s *server) sqlSuffix() string {
	if s.engine == "postgres" {
		return "pg.sql"
	}
	return "mysql.sql"
}

// replServers starts source and target.
func (b *bench) replServers(ctx context.Context, a *arena) (err error) {
	log := a.backlog
	if log.source == "mysql" {
		if err := installMySQL(ctx); err != nil {
			return err
		}
	}
	var options []string
	if log.source == "postgres" {
		options = []string{"-c", "wal_level=logical"}
	}
	if a.source, err = b.scratchServer(ctx, a, log.source, options...); err != nil || log.target == "" {
		return err
	}
	var launch []string
	if log.target == "postgres" {
		launch = []string{"-c", "wal_retrieve_retry_interval=100ms"} // so that a subscription starts at once even if another has just started
	}
	if a.target, err = b.scratchServer(ctx, a, log.target, launch...); err != nil {
		return err
	}
	return a.distance(log.delay, a.target)
}

// distance puts a link in front of servers that adds this delay to each round trip.
func (a *arena) distance(delay time.Duration, servers ...*server) error {
	if delay == 0 {
		return nil
	}
	return a.behind(measure.Line{Delay: delay}, servers...)
}

// behind puts a link of its own in front of each server.
func (a *arena) behind(line measure.Line, servers ...*server) error {
	for _, s := range servers {
		p, err := measure.NewProxy("127.0.0.1:"+strconv.Itoa(s.port), line)
		if err != nil {
			return err
		}
		a.closers = append(a.closers, p)
		s.far = p.Port()
	}
	return nil
}

// copyOnce has tidemark copy the source and set up its streams, and saves the target in that state.
func (b *bench) copyOnce(ctx context.Context, a *arena) error {
	if err := os.RemoveAll(a.backlog.streams); err != nil {
		return err
	}
	if err := b.buildTidemark(ctx); err != nil {
		return err
	}
	for i, name := range streams {
		args := []string{b.tidemark, "replicate", a.source.url(database), a.target.reach(database), "--name", name, "--until", "now", "--progress", "none"}
		if i == 0 {
			args = append(args, "--queue", "durable")
		} else {
			args = append(args, "--queue", "direct", "--no-copy")
		}
		if err := b.command(ctx, []string{"TIDEMARK_STATE=" + filepath.Join(a.backlog.streams, "catalog.db")}, args...); err != nil {
			return err
		}
	}
	if err := a.target.duplicate(ctx, database, seed); err != nil {
		return err
	}
	for name, sql := range a.backlog.seeds {
		if err := a.target.duplicate(ctx, seed, name); err != nil {
			return err
		}
		if err := a.target.exec(ctx, name, sql...); err != nil {
			return err
		}
	}
	return nil
}

// buildTidemark builds the program unless it exists.
func (b *bench) buildTidemark(ctx context.Context) error {
	if _, err := os.Stat(b.tidemark); err == nil {
		return nil
	}
	return command(ctx, "go", "build", "-o", b.tidemark, "./cmd/tidemark")
}

// duplicate creates a copy of a database.
func (s *server) duplicate(ctx context.Context, from, to string) error {
	if s.engine == "postgres" {
		return s.exec(ctx, "", "DROP DATABASE IF EXISTS "+to+" WITH (FORCE)", "CREATE DATABASE "+to+" TEMPLATE "+from)
	}
	tables, err := s.query(ctx, "", "SELECT table_name FROM information_schema.tables WHERE table_schema = '"+from+"'")
	if err != nil {
		return err
	}
	sql := "DROP DATABASE IF EXISTS " + to + "; CREATE DATABASE " + to + ";\n"
	for _, t := range strings.Fields(tables) {
		sql += fmt.Sprintf("CREATE TABLE %[1]s.%[3]s LIKE %[2]s.%[3]s; INSERT INTO %[1]s.%[3]s SELECT * FROM %[2]s.%[3]s;\n", to, from, t)
	}
	return s.exec(ctx, "", sql, "RESET MASTER")
}

// traffic creates the backlog.
func (b *bench) traffic(ctx context.Context, a *arena) (err error) {
	log := a.backlog
	if err := b.script("repl-traffic."+a.source.sqlSuffix())(ctx, a.source); err != nil {
		return err
	}
	call := fmt.Sprintf("CALL traffic(%d, %d)", log.transactions-1, log.times)
	finish := "INSERT INTO finish VALUES (1)"
	if a.source.engine == "postgres" {
		if err := a.source.exec(ctx, database, "SELECT pg_copy_logical_replication_slot('tidemark_main', '"+slotKept+"')",
			"SET synchronous_commit = off; SELECT setseed(0.5); "+call, finish, "VACUUM ANALYZE"); err != nil {
			return err
		}
		log.end, err = a.source.query(ctx, "", "SELECT pg_current_wal_insert_lsn()")
		return err
	}
	place, err := a.source.query(ctx, "", "SHOW MASTER STATUS")
	if err != nil {
		return err
	}
	f := strings.Fields(place)
	if len(f) < 2 {
		return fmt.Errorf("unexpected master status %q", place)
	}
	log.file = f[0]
	if log.pos, err = strconv.Atoi(f[1]); err != nil {
		return err
	}
	before := map[string]string{"maria": "SELECT @@gtid_binlog_pos", "mysql": "SELECT replace(@@gtid_executed, '\\n', '')"}
	if log.gtid, err = a.source.query(ctx, "", before[a.source.engine]); err != nil {
		return err
	}
	// While it fills, nothing needs to reach the disk.
	return a.source.exec(ctx, database, "SET @f = @@global.innodb_flush_log_at_trx_commit, @s = @@global.sync_binlog; SET GLOBAL innodb_flush_log_at_trx_commit = 0; SET GLOBAL sync_binlog = 0;\n"+
		"CALL maker.traffic("+fmt.Sprint(log.transactions-1, ", ", log.times)+");\nSET GLOBAL innodb_flush_log_at_trx_commit = @f; SET GLOBAL sync_binlog = @s;", finish)
}

// rewind returns source and target to their state before the backlog.
func (a *arena) rewind(from string) func(context.Context) error {
	return func(ctx context.Context) error {
		if a.target != nil {
			if err := a.target.dropSubscription(ctx); err != nil {
				return err
			}
			if err := a.target.duplicate(ctx, from, database); err != nil {
				return err
			}
		}
		if a.source.engine != "postgres" {
			return nil
		}
		if err := a.source.dropSlots(ctx); err != nil {
			return err
		}
		for _, name := range streams {
			if err := a.source.exec(ctx, database, "SELECT pg_copy_logical_replication_slot('"+slotKept+"', 'tidemark_"+name+"')"); err != nil {
				return err
			}
		}
		return nil
	}
}

// dropSlots drops tidemark's slots. A reader that has just ended may still hold one for a moment.
func (s *server) dropSlots(ctx context.Context) error {
	return s.exec(ctx, database, `DO $$BEGIN FOR i IN 1..100 LOOP EXIT WHEN NOT EXISTS (SELECT FROM pg_replication_slots WHERE active); PERFORM pg_sleep(0.1); END LOOP; END$$`,
		`SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name LIKE 'tidemark\_%'`)
}

func (s *server) dropSubscription(ctx context.Context) error {
	if s.engine != "postgres" {
		return nil
	}
	out, err := s.query(ctx, database, "SELECT 1 FROM pg_subscription")
	if err != nil || out == "" {
		return err
	}
	return s.exec(ctx, database, "ALTER SUBSCRIPTION native DISABLE", "ALTER SUBSCRIPTION native SET (slot_name = NONE)", "DROP SUBSCRIPTION native")
}

// command runs a program with its own log and environment.
func (b *bench) command(ctx context.Context, env []string, args ...string) error {
	log := filepath.Join(b.dir, "logs", "setup.log")
	if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil {
		return err
	}
	out, err := os.Create(log)
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err := runStep(ctx, step{args: args, env: env}, nil, out); err != nil {
		return fmt.Errorf("%w: %s", err, lastLines(log))
	}
	return nil
}
