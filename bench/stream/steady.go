package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	mysql "github.com/go-mysql-org/go-mysql/client"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A report is the part of tidemark's report that we use.
type report struct {
	Event  string
	Report struct {
		Stream struct {
			Transactions int64   `json:"trans_applied"`
			EndToEnd     latency `json:"end2end_latency"`
			Capture      latency `json:"capture_latency"`
			Queue        latency `json:"qlatency"`
			Apply        latency `json:"apply_latency"`
		}
	}
}

type latency struct{ Mean, P50, P99 float64 }

// steady starts a stream of tidemark, runs perSecond transactions of five rows a second on the
// source, ends the stream once the target has them all, and prints the latencies that tidemark
// reports, and those computed from the commit times that both servers keep.
func steady(ctx context.Context, source, target string, perSecond, transactions int, command []string) error {
	f, err := startStream(ctx, command)
	if err != nil {
		return err
	}
	defer f.kill()
	if err := f.following(ctx); err != nil {
		return err
	}
	from, err := pgx.Connect(ctx, source)
	if err != nil {
		return err
	}
	defer from.Close(ctx)
	to, err := connectTo(ctx, target)
	if err != nil {
		return err
	}
	defer to.close(ctx)
	l := &load{url: source, perSecond: perSecond, transactions: transactions}
	if err := from.QueryRow(ctx, "SELECT min(id), max(id) FROM account").Scan(&l.oldest, &l.newest); err != nil {
		return err
	}
	if l.newest-l.oldest < 2*int64(transactions) {
		return errors.New("the table is too small for so many transactions")
	}
	if err := l.run(ctx); err != nil {
		return err
	}
	if err := awaitEnd(ctx, from, to); err != nil {
		return err
	}
	time.Sleep(time.Second) // other agents, and the server's answers, may be on their way
	r, err := f.end()
	if err != nil {
		return err
	}
	if err := equal(ctx, from, to); err != nil {
		return err
	}
	figures, err := l.figures(ctx, from, to, r)
	if err != nil {
		return err
	}
	cpu := f.cmd.ProcessState.UserTime() + f.cmd.ProcessState.SystemTime()
	figures["CPU of tidemark, us a transaction"] = float64(cpu.Microseconds()) / float64(transactions)
	return printFigures(figures)
}

// A stream is a running tidemark.
type stream struct {
	cmd     *exec.Cmd
	begun   chan struct{} // closed once it follows
	done    chan struct{} // closed once it has ended
	report  report
	exitErr error
}

func startStream(ctx context.Context, command []string) (*stream, error) {
	f := &stream{cmd: exec.CommandContext(ctx, command[0], command[1:]...), begun: make(chan struct{}), done: make(chan struct{})}
	f.cmd.Stderr = os.Stderr
	out, err := f.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := f.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(f.done)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		following := false
		for lines.Scan() {
			var r report
			if json.Unmarshal(lines.Bytes(), &r) != nil {
				continue
			}
			if r.Event == "stream" && !following {
				following = true
				close(f.begun)
			}
			if r.Event == "report" {
				f.report = r
			}
		}
		f.exitErr = f.cmd.Wait()
	}()
	return f, nil
}

func (f *stream) kill() {
	_ = f.cmd.Process.Kill() // it may have ended
	<-f.done
}

// following waits until the stream follows.
func (f *stream) following(ctx context.Context) error {
	select {
	case <-f.begun:
		return nil
	case <-f.done:
		return fmt.Errorf("tidemark ended: %w", f.exitErr)
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Minute):
		return errors.New("tidemark does not follow within a minute")
	}
}

// end interrupts it as Ctrl-C does.
func (f *stream) end() (report, error) {
	if err := f.cmd.Process.Signal(syscall.SIGINT); err != nil {
		return report{}, err
	}
	<-f.done
	if f.report.Event == "" {
		return report{}, fmt.Errorf("tidemark ended without a report: %w", f.exitErr)
	}
	return f.report, nil
}

// A load is transactions at a steady rate.
type load struct {
	url                     string
	perSecond, transactions int
	oldest, newest          int64 // rows of the table before the load
	late                    time.Duration
	mu                      sync.Mutex
}

const connections = 8

var statements = map[string]string{
	"i": "INSERT INTO account SELECT a.* FROM account($1::bigint) a",
	"u": "UPDATE account SET balance = balance + 1, moves = moves + 1, changed = changed + interval '1 minute' WHERE id = $1::bigint",
	"d": "DELETE FROM account WHERE id = $1::bigint",
}

// run does transaction n at its time n/perSecond, or as soon after as it can.
func (l *load) run(ctx context.Context) error {
	start := time.Now().Add(200 * time.Millisecond) // by then all are connected
	errs := make([]error, connections)
	var all sync.WaitGroup
	for c := range connections {
		all.Go(func() { errs[c] = l.session(ctx, c, start) })
	}
	all.Wait()
	took, due := time.Since(start), time.Duration(l.transactions)*time.Second/time.Duration(l.perSecond)
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Printf("%d transactions in %.2f s; at most %v late\n", l.transactions, took.Seconds(), l.late)
	if took > due+due/50+100*time.Millisecond {
		return fmt.Errorf("the source did not keep up: %v for what was to take %v", took, due)
	}
	return nil
}

func (l *load) session(ctx context.Context, c int, start time.Time) error {
	conn, err := pgconn.Connect(ctx, l.url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for name, sql := range statements {
		if _, err := conn.Prepare(ctx, name, sql, nil); err != nil {
			return err
		}
	}
	var late time.Duration
	for n := c; n < l.transactions; n += connections {
		due := start.Add(time.Duration(n) * time.Second / time.Duration(l.perSecond))
		time.Sleep(time.Until(due))
		late = max(late, time.Since(due))
		if err := l.transaction(ctx, conn, int64(n), c); err != nil {
			return err
		}
	}
	l.mu.Lock()
	l.late = max(l.late, late)
	l.mu.Unlock()
	return nil
}

// transaction inserts a row, updates three that are neither new nor about to be deleted, and
// deletes one, all in one round trip, which makes it a transaction. Each connection updates its own
// rows, so none waits for another.
func (l *load) transaction(ctx context.Context, conn *pgconn.PgConn, n int64, c int) error {
	p := conn.StartPipeline(ctx)
	send := func(name string, id int64) {
		p.SendQueryPrepared(name, [][]byte{strconv.AppendInt(nil, id, 10)}, nil, nil)
	}
	send("i", l.newest+1+n)
	first := l.oldest + int64(l.transactions)
	for range 3 {
		send("u", first+rand.Int64N((l.newest-first)/connections)*connections+int64(c))
	}
	send("d", l.oldest+n)
	err := p.Sync()
	for err == nil {
		var r any
		if r, err = p.GetResults(); err != nil || r == nil {
			break
		}
		if reader, ok := r.(*pgconn.ResultReader); ok {
			var tag pgconn.CommandTag
			if tag, err = reader.Close(); err == nil && tag.RowsAffected() != 1 {
				err = fmt.Errorf("%s: %d rows", tag, tag.RowsAffected())
			}
		}
	}
	return errors.Join(err, p.Close())
}

// awaitEnd writes a row to the source, and waits until the target has it.
func awaitEnd(ctx context.Context, from *pgx.Conn, to end) error {
	var id int
	if err := from.QueryRow(ctx, "INSERT INTO finish SELECT coalesce(max(id), 0) + 1 FROM finish RETURNING id").Scan(&id); err != nil {
		return err
	}
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(10 * time.Millisecond) {
		n, err := to.text(ctx, fmt.Sprintf("SELECT concat(count(*)) FROM finish WHERE id = %d", id))
		if err != nil || n == "1" {
			return err
		}
	}
	return errors.New("the target does not have all within a minute")
}

// An end is a connection to the target.
type end struct {
	pg *pgx.Conn
	my *mysql.Conn // or to MySQL or MariaDB
}

func connectTo(ctx context.Context, rawURL string) (end, error) {
	if strings.HasPrefix(rawURL, "postgres:") {
		conn, err := pgx.Connect(ctx, rawURL)
		return end{pg: conn}, err
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		return end{}, err
	}
	secret, _ := u.User.Password()
	conn, err := mysql.Connect(u.Host, u.User.Username(), secret, strings.TrimPrefix(u.Path, "/"))
	return end{my: conn}, err
}

func (e end) close(ctx context.Context) {
	if e.pg != nil {
		e.pg.Close(ctx)
	} else {
		e.my.Close()
	}
}

// text runs a query of one text.
func (e end) text(ctx context.Context, sql string) (out string, err error) {
	if e.pg != nil {
		err = e.pg.QueryRow(ctx, sql).Scan(&out)
		return out, err
	}
	r, err := e.my.Execute(sql)
	if err != nil {
		return "", err
	}
	return r.GetString(0, 0)
}

// equal compares both sides.
func equal(ctx context.Context, from *pgx.Conn, to end) error {
	sum := "SELECT concat(count(*), ' ', sum(hashtext(a::text))) FROM account a"
	if to.my != nil {
		sum = "SELECT concat(count(*), ' ', sum(id), ' ', sum(id * moves), ' ', sum(balance * moves), ' ', sum(id * extract(minute FROM changed))) FROM account"
	}
	want, err := end{pg: from}.text(ctx, sum)
	if err != nil {
		return err
	}
	got, err := to.text(ctx, sum)
	if err == nil && got != want {
		err = fmt.Errorf("the target differs: rows and sums are %s, not %s", got, want)
	}
	return err
}

// figures returns tidemark's latencies, and those computed from commit times if both servers keep
// them, in milliseconds.
func (l *load) figures(ctx context.Context, from *pgx.Conn, to end, r report) (map[string]float64, error) {
	s := r.Report.Stream
	if s.Transactions < int64(l.transactions) {
		return nil, fmt.Errorf("the report has %d transactions, not %d", s.Transactions, l.transactions)
	}
	if parts := s.Capture.Mean + s.Queue.Mean + s.Apply.Mean; parts < 0.99*s.EndToEnd.Mean-0.02 || parts > 1.01*s.EndToEnd.Mean+0.02 {
		return nil, fmt.Errorf("the split does not add up: %.3f + %.3f + %.3f ms are not %.3f ms", s.Capture.Mean, s.Queue.Mean, s.Apply.Mean, s.EndToEnd.Mean)
	}
	out := map[string]float64{
		"end to end, mean ms": s.EndToEnd.Mean, "end to end, p50 ms": s.EndToEnd.P50, "end to end, p99 ms": s.EndToEnd.P99,
		"of it capture, mean ms": s.Capture.Mean, "of it queue, mean ms": s.Queue.Mean, "of it apply, mean ms": s.Apply.Mean,
		"load, latest ms": float64(l.late.Microseconds()) / 1000,
	}
	if to.pg == nil {
		return out, nil // the server keeps no commit times
	}
	return out, l.addCommits(ctx, from, to.pg, out)
}

// addCommits adds the latencies computed from the commit times of the inserted rows.
func (l *load) addCommits(ctx context.Context, from, to *pgx.Conn, out map[string]float64) error {
	var at [2][]int64
	for i, conn := range []*pgx.Conn{from, to} {
		rows, err := conn.Query(ctx, "SELECT (extract(epoch FROM pg_xact_commit_timestamp(xmin)) * 1000000)::bigint FROM account WHERE id > $1 ORDER BY id", l.newest)
		if err != nil {
			return err
		}
		if at[i], err = pgx.CollectRows(rows, pgx.RowTo[int64]); err != nil {
			return err
		}
	}
	if len(at[0]) != l.transactions || len(at[1]) != l.transactions {
		return fmt.Errorf("%d and %d new rows, not %d", len(at[0]), len(at[1]), l.transactions)
	}
	took := make([]float64, l.transactions)
	var mean float64
	for n := range took {
		took[n] = float64(at[1][n]-at[0][n]) / 1000
		mean += took[n] / float64(l.transactions)
	}
	steadily := slices.Clone(took[min(l.perSecond, l.transactions/2):])
	slices.Sort(took)
	slices.Sort(steadily)
	quantile := func(of []float64, q float64) float64 { return of[int(q*float64(len(of)-1)+0.5)] }
	out["commit to commit, mean ms"], out["commit to commit, p50 ms"], out["commit to commit, p99 ms"] = mean, quantile(took, 0.5), quantile(took, 0.99)
	out["commit to commit, p99 ms after a second"] = quantile(steadily, 0.99)
	return nil
}
