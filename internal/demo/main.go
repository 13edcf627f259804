// Command demo is the tour that `make demo` runs. It starts two database servers of its own, and
// moves a shop in use from one to the other: a copy and a stream that are killed and resumed, a
// cutover, damage that is found and repaired, and a backup that is restored to a point in time. The
// old server is MariaDB if that is installed, else PostgreSQL. At the end it queries the servers
// and counts what was lost and duplicated. It needs only Go and the package registry. It stops what
// it starts and removes what it writes, except for PostgreSQL's programs in a cache.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	if os.Getenv(serverEnv) != "" {
		serve()
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := begun(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// A tour holds what its steps share.
type tour struct {
	dir, bin  string
	old, new  *server
	work      *workload
	board     board
	began     time.Time
	processes []*process
}

func begun(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "tidemark-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	t := &tour{dir: dir, bin: filepath.Join(dir, "tidemark"), began: time.Now()}
	defer t.close()
	os.Setenv("TIDEMARK_STATE", filepath.Join(dir, "state", "catalog.db"))
	newPassword()
	for _, step := range []func(context.Context) error{t.prepare, t.move, t.follow, t.cutOver, t.repair, t.restore} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	t.board.print(time.Since(t.began))
	return nil
}

func (t *tour) close() {
	for _, p := range t.processes {
		p.end()
	}
	if t.work != nil {
		t.work.stop()
	}
	for _, s := range []*server{t.old, t.new} {
		if s != nil {
			s.stop()
		}
	}
}

// prepare builds tidemark and starts the servers.
func (t *tour) prepare(ctx context.Context) (err error) {
	heading(1, "Two servers, and a shop that is open")
	if err := command(ctx, "go", "build", "-o", t.bin, "./cmd/tidemark").Run(); err != nil {
		return err
	}
	if err := leaveRoot(t.dir); err != nil {
		return err
	}
	engine := "postgres"
	if server, install := mariaDB(); server != "" && install != "" {
		engine = "mariadb"
	}
	if t.new, err = start(ctx, "postgres", filepath.Join(t.dir, "new")); err != nil {
		return err
	}
	if t.old, err = start(ctx, engine, filepath.Join(t.dir, "old")); err != nil {
		return err
	}
	if err := fill(ctx, t.old); err != nil {
		return err
	}
	note("The old server is %s, the new one %s; passwords are in the environment. From now on %d sessions order and pay on the old one.", t.old.title(), t.new.title(), sessions)
	t.board.from, t.board.to = t.old.title(), t.new.title()
	t.work = begin(ctx, t.old)
	return nil
}

// move copies, is killed halfway, and resumes.
func (t *tour) move(ctx context.Context) error {
	heading(2, "Copy the shop, and kill -9 in the middle")
	p, err := t.run(ctx, t.stream("--monitor-interval", "1s")...)
	if err != nil {
		return err
	}
	db, err := t.new.connect(ctx)
	if err != nil {
		return err
	}
	defer db.close()
	if err := p.until(ctx, "copy", func() (is bool, err error) {
		err = db.texts(ctx, "SELECT (count(*) > 0)::text FROM pg_stat_progress_copy WHERE tuples_processed > 60000", func(s string) { is = s == "true" })
		return is, err
	}); err != nil {
		return err
	}
	p.kill9()
	t.board.kills++
	note("The same command resumes the copy. Complete tables are kept.")
	if p, err = t.run(ctx, t.stream("--monitor-interval", "1s")...); err != nil {
		return err
	}
	return p.until(ctx, "stream", t.caughtUp(ctx, p))
}

// follow kills the stream while it works, and resumes it.
func (t *tour) follow(ctx context.Context) error {
	heading(3, "Follow the changes, and kill -9 again")
	p := t.processes[len(t.processes)-1]
	p.kill9()
	t.board.kills++
	p, err := t.run(ctx, t.stream("--monitor-interval", "1s")...)
	if err != nil {
		return err
	}
	if err := p.until(ctx, "stream", t.caughtUp(ctx, p)); err != nil {
		return err
	}
	if t.board.latency, err = latency(ctx, t.old, t.new); err != nil {
		return err
	}
	if err := t.show(ctx, 0, "status"); err != nil {
		return err
	}
	text := "Measured from outside"
	if t.old.engine == "mariadb" {
		text = "MariaDB records commit times in whole seconds, so latencies computed from its log are up to 1 s too long. Measured from outside"
	}
	note("%s, a committed row is visible on the new server after %.1f ms (median of %d).", text, milliseconds(t.board.latency), probes)
	return nil
}

// stream returns the command line of the stream, which is the same each time.
func (t *tour) stream(options ...string) []string {
	return append([]string{"replicate", t.old.url, t.new.url}, options...)
}

// cutOver stops the shop, and proves that the new server has everything.
func (t *tour) cutOver(ctx context.Context) error {
	heading(4, "Cut over")
	if err := t.work.stop(); err != nil {
		return err
	}
	stopped := time.Now()
	t.board.transactions = t.work.trans.Load()
	t.work = nil
	note("The sessions end. Then Ctrl-C stops the stream.")
	t.processes[len(t.processes)-1].end()
	if err := t.show(ctx, 0, "cutover", t.old.url, t.new.url); err != nil {
		return err
	}
	t.board.cutover = time.Since(stopped)
	if err := t.show(ctx, 0, t.stream("--remove")...); err != nil {
		return err
	}
	var err error
	if t.board.counted, err = counted(ctx, t.old, t.new, slices.Sorted(maps.Keys(keys))...); err != nil {
		return err
	}
	note("All keys as both servers list them: %s rows, %d lost, %d doubled.", grouped(t.board.counted.rows), t.board.counted.lost, t.board.counted.doubled)
	return t.limits(ctx)
}

// repair damages three rows on the new server, and has tidemark find and repair them.
func (t *tour) repair(ctx context.Context) error {
	heading(5, "Damage three rows, and repair them")
	for _, sql := range []string{
		"UPDATE stock SET s_quantity = s_quantity + 1 WHERE s_w_id = 1 AND s_i_id = 4711",
		"DELETE FROM order_line WHERE ol_w_id = 1 AND ol_d_id = 7 AND ol_o_id = 42 AND ol_number = 1",
		"INSERT INTO item VALUES (100001, 'Nobody ordered this', 1, NULL)",
	} {
		if err := t.execute(ctx, sql); err != nil {
			return err
		}
	}
	var err error
	if t.board.repaired, err = t.differing(ctx); err != nil {
		return err
	}
	if err := t.show(ctx, 1, "diff", t.old.url, t.new.url); err != nil {
		return err
	}
	if err := t.show(ctx, 0, "repair", t.old.url, t.new.url, "--execute"); err != nil {
		return err
	}
	if err := t.show(ctx, 0, "diff", t.old.url, t.new.url); err != nil {
		return err
	}
	if t.board.damaged, err = t.differing(ctx); err == nil && t.board.damaged > 0 {
		err = fmt.Errorf("%d rows still differ", t.board.damaged)
	}
	return err
}

// differing queries both servers for the rows that step 5 damages.
func (t *tour) differing(ctx context.Context) (int, error) {
	c, err := counted(ctx, t.old, t.new, "item", "order_line")
	if err != nil {
		return 0, err
	}
	n := c.lost + c.doubled
	var values [2]string
	for i, s := range []*server{t.old, t.new} {
		if values[i], err = one(ctx, s, "SELECT concat(s_quantity) FROM stock WHERE s_w_id = 1 AND s_i_id = 4711"); err != nil {
			return 0, err
		}
	}
	if values[0] != values[1] {
		n++
	}
	return n, nil
}

// restore backs up the new server, loses rows, and restores them to the moment before.
func (t *tour) restore(ctx context.Context) error {
	heading(6, "Back up, lose rows, and restore to the moment before")
	repo, restored := filepath.Join(t.dir, "repo"), filepath.Join(t.dir, "restored")
	if err := t.show(ctx, 0, "backup", t.new.url, repo); err != nil {
		return err
	}
	archive, err := t.run(ctx, "archive", t.new.url, repo, "--slot", "demo", "--slot-use", "make", "--partial", "1s", "-q")
	if err != nil {
		return err
	}
	if err := t.execute(ctx, fmt.Sprintf("INSERT INTO warehouse VALUES (%d, 'opened', 0.1, 0)", warehouses+1)); err != nil {
		return err
	}
	var moment, rows string
	if rows, err = one(ctx, t.new, "SELECT count(*)::text FROM order_line"); err != nil {
		return err
	}
	if moment, err = one(ctx, t.new, "SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')"); err != nil {
		return err
	}
	if err := sleep(ctx, 100*time.Millisecond); err != nil {
		return err
	}
	note("It is %s; order_line has %s rows. Now the mishap:", moment, groupedText(rows))
	if err := t.execute(ctx, "DELETE FROM order_line"); err != nil {
		return err
	}
	if err := sleep(ctx, 1500*time.Millisecond); err != nil { // until it is archived
		return err
	}
	archive.end()
	if err := t.show(ctx, 0, "restore", repo, filepath.Join(restored, "data"), "--to", moment); err != nil {
		return err
	}
	s, err := start(ctx, "postgres", restored)
	if err != nil {
		return err
	}
	defer s.stop()
	got, err := one(ctx, s, "SELECT count(*) || ' ' || (SELECT count(*) FROM warehouse) FROM order_line")
	if err != nil {
		return err
	}
	if want := fmt.Sprintf("%s %d", rows, warehouses+1); got != want {
		return fmt.Errorf("the restored server has %s rows of order_line and warehouse, not %s", got, want)
	}
	note("The restored server is started. order_line has %s rows again, and the warehouse that was opened after the backup is there.", groupedText(rows))
	t.board.moment, t.board.back = moment, groupedText(rows)
	return nil
}

func (t *tour) execute(ctx context.Context, sql string) error {
	db, err := t.new.connect(ctx)
	if err != nil {
		return err
	}
	defer db.close()
	fmt.Printf("\nnew=> %s;\n", wrapped(sql, 7))
	return db.exec(ctx, sql)
}

func heading(n int, text string) {
	line := fmt.Sprintf("== %d/6  %s ", n, text)
	fmt.Printf("\n%s%s\n", line, strings.Repeat("=", max(0, 78-len(line))))
}

// note prints a paragraph.
func note(format string, args ...any) { fmt.Printf("\n%s\n", wrapped(fmt.Sprintf(format, args...), 0)) }
