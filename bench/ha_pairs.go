package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark/ha"
	"github.com/tidemarkdb/tidemark/ha/measure"
)

// A node is a running server, whoever has started it.
type node struct {
	engine         string // postgres, mariadb or mysql
	host           string
	port           int
	user, password string
}

func (s *server) node() node {
	engine := s.engine
	if engine == "maria" {
		engine = "mariadb"
	}
	return node{engine, "127.0.0.1", s.port, account, password}
}

// A session commits with each call of commit.
type session struct {
	commit func(context.Context) error
	query  func(context.Context, string) (string, error) // the first row's columns, separated by tabs
	close  func()
}

const commitSQL = "INSERT INTO truth (v) VALUES ('the quick brown fox jumps over the lazy dog and runs away from it')"

// open opens a session; db may be "".
func (n node) open(ctx context.Context, db, settings string) (*session, error) {
	address := net.JoinHostPort(n.host, strconv.Itoa(n.port))
	if n.engine == "postgres" {
		if db == "" {
			db = "postgres"
		}
		c, err := pgx.Connect(ctx, fmt.Sprintf("postgres://%s:%s@%s/%s?sslmode=disable", n.user, n.password, address, db))
		if err != nil {
			return nil, err
		}
		if settings != "" {
			if _, err := c.Exec(ctx, settings); err != nil {
				return nil, errors.Join(err, c.Close(ctx))
			}
		}
		return &session{
			commit: func(ctx context.Context) error { _, err := c.Exec(ctx, commitSQL); return err },
			query: func(ctx context.Context, sql string) (string, error) {
				rows, err := c.Query(ctx, sql, pgx.QueryExecModeSimpleProtocol)
				if err != nil {
					return "", err
				}
				defer rows.Close()
				var out []string
				if rows.Next() {
					for _, v := range rows.RawValues() {
						out = append(out, string(v))
					}
				}
				rows.Close()
				return strings.Join(out, "\t"), rows.Err()
			},
			close: func() { _ = c.Close(context.WithoutCancel(ctx)) }, // the server may be gone
		}, nil
	}
	c, err := client.ConnectWithContext(ctx, address, n.user, n.password, db, 10*time.Second)
	if err != nil {
		return nil, err
	}
	return &session{
		commit: func(context.Context) error { _, err := c.Execute(commitSQL); return err },
		query: func(_ context.Context, sql string) (string, error) {
			r, err := c.Execute(sql)
			if err != nil || r.Resultset == nil || len(r.Values) == 0 {
				return "", err
			}
			var out []string
			for i := range r.Values[0] {
				v, err := r.GetString(0, i)
				if err != nil {
					return "", err
				}
				out = append(out, v)
			}
			return strings.Join(out, "\t"), nil
		},
		close: func() { _ = c.Close() }, // the server may be gone
	}, nil
}

// ask runs statements in a separate session, and returns the result of the last one.
func (n node) ask(ctx context.Context, db string, statements ...string) (out string, err error) {
	s, err := n.open(ctx, db, "")
	if err != nil {
		return "", err
	}
	defer s.close()
	for _, sql := range statements {
		if out, err = s.query(ctx, sql); err != nil {
			return "", fmt.Errorf("%s: %w in %.100s", n.engine, err, sql)
		}
	}
	return out, nil
}

// A replicated is a primary with a standby behind a link.
type replicated struct {
	primary, standby node
	link             *measure.Proxy
	line             measure.Line // of the link
	mode             string       // the current one
}

const truthTable = "CREATE TABLE truth (id bigint PRIMARY KEY %s, v text)"

// attachPostgres creates the table, and makes the standby, which already replicates, stream through
// a link; its name becomes standby.
func attachPostgres(ctx context.Context, primary, standby node) (*replicated, error) {
	d, err := measure.NewProxy(net.JoinHostPort(primary.host, strconv.Itoa(primary.port)), measure.Line{})
	if err != nil {
		return nil, err
	}
	r := &replicated{primary: primary, standby: standby, link: d}
	info := fmt.Sprintf("host=127.0.0.1 port=%d user=%s password=%s application_name=standby", d.Port(), primary.user, primary.password)
	if _, err := standby.ask(ctx, "", "ALTER SYSTEM SET primary_conninfo = '"+info+"'", "SELECT pg_reload_conf()"); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	_, err = primary.ask(ctx, "", "CREATE DATABASE truth", "ALTER SYSTEM SET synchronous_standby_names = 'standby'", "SELECT pg_reload_conf()")
	if err == nil {
		_, err = primary.ask(ctx, "truth", fmt.Sprintf("SET synchronous_commit = local; "+truthTable, "GENERATED ALWAYS AS IDENTITY"))
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return r, r.await(ctx, "the standby", func() (bool, error) {
		state, err := primary.ask(ctx, "", "SELECT sync_state FROM pg_stat_replication WHERE application_name = 'standby'")
		return state == "sync", err
	})
}

// attachMaria creates the table, and makes the replica, which is empty, follow through a link.
func attachMaria(ctx context.Context, primary, replica node) (*replicated, error) {
	d, err := measure.NewProxy(net.JoinHostPort(primary.host, strconv.Itoa(primary.port)), measure.Line{})
	if err != nil {
		return nil, err
	}
	r := &replicated{primary: primary, standby: replica, link: d}
	change := []string{fmt.Sprintf("CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=%d, MASTER_USER='%s', MASTER_PASSWORD='%s', MASTER_USE_GTID=slave_pos", d.Port(), primary.user, primary.password),
		"SET GLOBAL rpl_semi_sync_slave_enabled = 1", "START SLAVE"}
	if primary.engine == "mysql" {
		change = []string{fmt.Sprintf("CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=%d, SOURCE_USER='%s', SOURCE_PASSWORD='%s', SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1", d.Port(), primary.user, primary.password),
			"SET GLOBAL rpl_semi_sync_replica_enabled = 1", "START REPLICA"}
	}
	_, err = primary.ask(ctx, "", "RESET MASTER", fmt.Sprintf("SET GLOBAL %s_timeout = 600000", r.semisync()))
	if err == nil {
		_, err = replica.ask(ctx, "", append([]string{"RESET MASTER"}, change...)...)
	}
	if err == nil {
		_, err = primary.ask(ctx, "", "CREATE DATABASE truth")
	}
	if err == nil {
		_, err = primary.ask(ctx, "truth", fmt.Sprintf(truthTable, "AUTO_INCREMENT"))
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return r, nil
}

func (r *replicated) semisync() string {
	if r.primary.engine == "mysql" {
		return "rpl_semi_sync_source"
	}
	return "rpl_semi_sync_master"
}

// await polls until so returns true.
func (r *replicated) await(ctx context.Context, what string, so func() (bool, error)) error {
	var last error
	for begun := time.Now(); time.Since(begun) < 2*time.Minute; {
		is, err := so()
		if is {
			return nil
		}
		last = err
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return fmt.Errorf("%s of %s does not come: %w", what, r.primary.engine, orNone(last))
}

func orNone(err error) error {
	if err == nil {
		return errors.New("no error")
	}
	return err
}

// set makes commits wait as a mode requires, and returns the settings for new sessions.
func (r *replicated) set(ctx context.Context, mode string) (settings string, err error) {
	if r.primary.engine == "postgres" {
		return "SET synchronous_commit = " + mode, r.caughtUp(ctx)
	}
	if mode == r.mode {
		return "", r.caughtUp(ctx)
	}
	name, status := r.semisync(), "Rpl_semi_sync_master_status"
	if r.primary.engine == "mysql" {
		status = "Rpl_semi_sync_source_status"
	}
	if mode == "async" {
		if _, err := r.primary.ask(ctx, "", "SET GLOBAL "+name+"_enabled = 0"); err != nil {
			return "", err
		}
	} else {
		if _, err := r.primary.ask(ctx, "", "SET GLOBAL "+name+"_wait_point = '"+mode+"'", "SET GLOBAL "+name+"_enabled = 1"); err != nil {
			return "", err
		}
		if err := r.await(ctx, "semi-sync", func() (bool, error) {
			on, err := r.primary.ask(ctx, "", "SHOW GLOBAL STATUS LIKE '"+status+"'")
			return on == status+"\tON", err
		}); err != nil {
			return "", err
		}
	}
	r.mode = mode
	return "", r.caughtUp(ctx)
}

// caughtUp waits until the standby has applied everything, so that it does not use the processors
// for earlier work.
func (r *replicated) caughtUp(ctx context.Context) error {
	if r.primary.engine == "postgres" {
		return r.await(ctx, "the end of replay", func() (bool, error) {
			end, err := r.primary.ask(ctx, "", "SELECT pg_current_wal_flush_lsn() <= replay_lsn FROM pg_stat_replication WHERE application_name = 'standby'")
			return end == "t", err
		})
	}
	count := "SELECT coalesce(max(id), 0) FROM truth"
	end, err := r.primary.ask(ctx, "truth", count)
	if err != nil {
		return err
	}
	return r.await(ctx, "the end of replay", func() (bool, error) {
		at, err := r.standby.ask(ctx, "truth", count)
		return at == end, err
	})
}

// place returns the length of the primary's log, in bytes.
func (r *replicated) place(ctx context.Context) (float64, error) {
	sql, last := "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn", 0
	if r.primary.engine != "postgres" {
		sql, last = "SHOW MASTER STATUS", 1
	}
	row, err := r.primary.ask(ctx, "", sql)
	if err != nil {
		return 0, err
	}
	columns := strings.Split(row, "\t")
	return strconv.ParseFloat(columns[min(last, len(columns)-1)], 64)
}

// A measured is the result of measuring clients.
type measured struct {
	Rate      float64 `json:"commits_per_second"`
	P50       float64 `json:"p50_seconds"`
	P99       float64 `json:"p99_seconds"`
	Commits   int     `json:"commits"`
	quantiles []ha.Quantile
}

// measure has clients commit for a time, after a warm-up, with a pause before each commit.
func (r *replicated) measure(ctx context.Context, settings string, clients int, pause, warm, length time.Duration, into *pool) error {
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		all   []float64
		first error
	)
	sessions := make([]*session, clients)
	for i := range sessions {
		var err error
		if sessions[i], err = r.primary.open(ctx, "truth", settings); err != nil {
			return err
		}
		defer sessions[i].close()
	}
	begin := time.Now().Add(warm)
	end := begin.Add(length)
	for _, s := range sessions {
		wg.Go(func() {
			var own []float64
			var err error
			for begun := time.Now(); begun.Before(end) && err == nil; {
				if pause > 0 {
					time.Sleep(pause)
					begun = time.Now()
				}
				err = s.commit(ctx)
				now := time.Now()
				if now.After(begin) && now.Before(end) {
					own = append(own, now.Sub(begun).Seconds())
				}
				begun = now
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, own...)
			first = errors.Join(first, err)
		})
	}
	wg.Wait()
	if first != nil || len(all) == 0 {
		return fmt.Errorf("%d commits: %w", len(all), orNone(first))
	}
	into.times, into.seconds = append(into.times, all...), into.seconds+length.Seconds()
	return nil
}

// pingInto measures round trips of a small message, through an otherwise idle link like this one.
func (r *replicated) pingInto(times *[]float64, count int) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			_, _ = io.Copy(c, c) // until the peer closes it
			c.Close()
		}
	}()
	d, err := measure.NewProxy(l.Addr().String(), measure.Line{Delay: r.line.Delay})
	if err != nil {
		return err
	}
	defer d.Close()
	c, err := net.Dial("tcp", d.Addr())
	if err != nil {
		return err
	}
	defer c.Close()
	message := make([]byte, 48)
	for range count {
		begun := time.Now()
		if _, err := c.Write(message); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, message); err != nil {
			return err
		}
		*times = append(*times, time.Since(begun).Seconds())
		time.Sleep(time.Millisecond) // an occasional ping, as on an idle link
	}
	return nil
}

// basebackup creates a standby of a PostgreSQL server, in a folder, and starts it.
func basebackup(ctx context.Context, primary *server, dir string, options ...string) (*server, error) {
	s := &server{engine: "postgres", dir: dir}
	as, err := s.credential()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if as != nil {
		if err := os.Chown(dir, int(as.Uid), int(as.Gid)); err != nil {
			return nil, err
		}
	}
	cmd := exec.CommandContext(ctx, postgresBin+"/pg_basebackup", "-d", primary.url("postgres"), "-D", filepath.Join(dir, "data"), "-R", "-c", "fast", "-X", "stream")
	cmd.Dir, cmd.SysProcAttr = dir, procAttr(as, syscall.SIGKILL)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("pg_basebackup: %w: %s", err, out)
	}
	return serve(ctx, "postgres", dir, options...)
}
