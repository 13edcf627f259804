// Package workload writes transactions into tables of its own, at a rate that the user sets, and
// measures what the server makes of them: to see what a stream, a backup or a server can carry. It
// hides how rows are made, and which session changes which rows: each has rows of its own, so that
// sessions do not wait for each other's locks. Start with Run.
package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/engine"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/job/sampled"
)

// A Spec is the load that is wanted.
type Spec struct {
	URL         string
	Connections int
	Tables      int
	Rows        int      // changes a transaction
	Mix         [3]int   // shares of inserts, updates and deletes
	Columns     int      // of each table, besides its key
	Types       []string // of the columns, in turn
	Rate        float64  // transactions a second, of all connections; 0: as many as the server takes
	For         time.Duration
	Keep        bool // leave the tables
	Again       bool // use tables that an earlier load has left
}

// A Report is what came of it.
type Report struct {
	Verb         string          `json:"verb"`
	Seconds      float64         `json:"seconds"`
	Transactions int64           `json:"transactions"`
	PerSecond    float64         `json:"per_second"`
	Asked        float64         `json:"asked_per_second,omitempty"`
	Inserted     int64           `json:"inserted"`
	Updated      int64           `json:"updated"`
	Deleted      int64           `json:"deleted"`
	RowsSecond   float64         `json:"rows_per_second"`
	Failed       int64           `json:"failed"`          // transactions that the server rolled back
	Error        string          `json:"error,omitempty"` // the last reason of these
	Latency      sampled.Latency `json:"latency"`         // of a transaction; with a rate, from when it was due
	Late         int64           `json:"late,omitempty"`  // that began more than a second after they were due
	Tables       []string        `json:"tables"`          // that are left
	Each         []SecondOfLoad  `json:"each_second"`
}

// A SecondOfLoad is one second of it.
type SecondOfLoad struct {
	Second       int     `json:"second"`
	Transactions int64   `json:"transactions"`
	P99          float64 `json:"p99"` // milliseconds
}

// Tables of a load are ours by their comment.
const (
	tableName = "tidemark_load_"
	comment   = "table of tidemark load: it may be dropped"
)

// lateAfter is from when a transaction counts as late.
const lateAfter = time.Second

// A running load.
type running struct {
	spec Spec
	db   job.Database
	dialect
	tables []tidemark.TableID
	names  []string // quoted

	mu    sync.Mutex
	rep   Report
	all   flow.Histogram
	each  []*flow.Histogram
	began time.Time
}

// Run writes until the time is over, or ctx ends: that is no error. It records a run of the verb
// load.
func Run(ctx context.Context, env job.Env, spec Spec) (string, *Report, error) {
	if err := spec.check(); err != nil {
		return "", nil, err
	}
	db, err := env.Open(ctx, spec.URL)
	if err != nil {
		return "", nil, err
	}
	defer db.Close()
	sql, ok := dialects[engine.Family(db.Name())]
	if !ok {
		return "", nil, &tidemark.Error{Kind: tidemark.Unsupported, Op: "load", Object: tidemark.MaskURL(spec.URL), Err: fmt.Errorf("transactions for %s are not written", engine.Of(db.Name()).Title), Hint: "Give the URL of a PostgreSQL, MySQL or MariaDB database."}
	}
	r := &running{spec: spec, db: db, dialect: sql}
	run, err := env.Record(ctx, "load", tidemark.MaskURL(spec.URL), "", r.progress, func(ctx context.Context) (any, error) {
		err := r.do(ctx)
		r.finish()
		return &r.rep, err
	})
	return run, &r.rep, err
}

func (s Spec) check() error {
	if s.Mix[0]+s.Mix[1]+s.Mix[2] <= 0 || s.Mix[0] == 0 {
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "load", Object: "--mix", Err: errors.New("rows that nobody inserts cannot be changed"), Hint: "Give a share of inserts too, such as 50:30:20."}
	}
	return nil
}

// progress is the run's progress, for the catalogue.
func (r *running) progress() catalog.Work {
	r.mu.Lock()
	defer r.mu.Unlock()
	return catalog.Work{Phase: "load", Unit: "transactions", Done: r.rep.Transactions, Left: -1}
}

func (r *running) do(ctx context.Context) (err error) {
	if err := r.create(ctx); err != nil {
		return err
	}
	defer func() {
		if r.spec.Keep {
			for _, t := range r.tables {
				r.rep.Tables = append(r.rep.Tables, t.String())
			}
			return
		}
		if derr := r.db.Clear(context.WithoutCancel(ctx), r.tables, true); err == nil {
			err = derr
		}
	}()
	r.began = time.Now()
	timed, cancel := context.WithDeadline(ctx, r.began.Add(r.spec.For))
	defer cancel()
	g := flow.NewGroup(timed)
	for n := range r.spec.Connections {
		g.Go("Session", func(ctx context.Context, c *flow.Clock) error { return r.session(ctx, timed, n) })
	}
	err = g.Wait()
	if timed.Err() != nil && (err == nil || tidemark.KindOf(err) == tidemark.Cancelled || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) {
		err = nil // it ends so
	}
	return err
}

// create creates the tables, or takes those of an earlier load. Tables of others stay as they are.
func (r *running) create(ctx context.Context) error {
	schema := r.db.Default()
	if schema == "" {
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "load", Object: tidemark.MaskURL(r.spec.URL), Err: errors.New("the URL names no database"), Hint: "Name one: the load creates its tables there."}
	}
	var all []tidemark.TableID
	for i := range r.spec.Tables {
		all = append(all, tidemark.TableID{Schema: schema, Name: fmt.Sprint(tableName, i+1)})
	}
	there, err := r.db.Tables(ctx, all)
	if err != nil {
		return err
	}
	for _, t := range there {
		switch {
		case t.Comment != comment:
			return &tidemark.Error{Kind: tidemark.Exists, Op: "load", Object: "table " + t.String(), Err: errors.New("it exists, and is no table of a load"), Hint: "Nothing was changed. Rename that table, or name another database."}
		case !r.spec.Again:
			return &tidemark.Error{Kind: tidemark.Exists, Op: "load", Object: "table " + t.String(), Err: errors.New("an earlier load has left it, or another one is running"), Hint: "Drop it first with --again, if no other load is running."}
		}
	}
	if len(there) > 0 {
		ids := make([]tidemark.TableID, len(there))
		for i, t := range there {
			ids[i] = t.TableID
		}
		if err := r.db.Clear(ctx, ids, true); err != nil {
			return err
		}
	}
	for _, t := range all {
		name := job.TableName(r.db, t)
		if err := r.db.Exec(ctx, 0, r.definition(name)); err != nil {
			return err
		}
		r.tables, r.names = append(r.tables, t), append(r.names, name)
	}
	return nil
}

// Kinds are the kinds of columns.
var Kinds = []string{"int", "bigint", "decimal", "text", "long", "time"}

// A dialect is the SQL of an engine.
type dialect struct {
	types      map[string]string // by kind
	commenting string            // follows a table's definition; "": a statement does
	begin, end []string          // around the statements of a transaction, if Exec does not make one of them
	failed     []string          // after a transaction that failed
}

var dialects = map[string]dialect{
	engine.Postgres: {types: map[string]string{"int": "integer", "bigint": "bigint", "decimal": "numeric(12,2)", "text": "varchar(64)", "long": "text", "time": "timestamp(3)"}},
	engine.MySQL: {types: map[string]string{"int": "int", "bigint": "bigint", "decimal": "decimal(12,2)", "text": "varchar(64)", "long": "text", "time": "datetime(3)"},
		commenting: " COMMENT='" + comment + "'", begin: []string{"START TRANSACTION"}, end: []string{"COMMIT"},
		failed: []string{"ROLLBACK"}}, // where the server has not done so
}

func (r *running) definition(name string) []string {
	columns := []string{"id bigint PRIMARY KEY"}
	for i := range r.spec.Columns {
		columns = append(columns, fmt.Sprintf("c%d %s", i+1, r.types[r.kind(i)]))
	}
	sql := "CREATE TABLE " + name + " (" + strings.Join(columns, ", ") + ")"
	if r.commenting != "" {
		return []string{sql + r.commenting}
	}
	return []string{sql, "COMMENT ON TABLE " + name + " IS '" + comment + "'"}
}

func (r *running) kind(column int) string { return r.spec.Types[column%len(r.spec.Types)] }

// A writer is a session with rows of its own: its keys are numbers that leave a remainder of its
// number by the number of sessions.
type writer struct {
	*running
	rnd  *rand.Rand
	n    int
	next int64
	live [][]int64 // keys, by table
}

// A change is a statement, and what it does to the keys of the session once it is committed.
type change struct {
	sql  string
	kind int // 0 insert, 1 update, 2 delete
	at   int // table
	key  int64
}

// session writes transactions until ctx or its time ends.
func (r *running) session(ctx, timed context.Context, n int) error {
	w := &writer{running: r, rnd: rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), uint64(n))), n: n, live: make([][]int64, len(r.names))}
	pause := time.Duration(0)
	if r.spec.Rate > 0 {
		pause = time.Duration(float64(r.spec.Connections) / r.spec.Rate * float64(time.Second))
	}
	due := r.began.Add(pause * time.Duration(n) / time.Duration(max(r.spec.Connections, 1)))
	for timed.Err() == nil {
		if pause > 0 {
			if flow.Sleep(timed, time.Until(due)) != nil {
				return nil
			}
		} else {
			due = time.Now()
		}
		changes := w.changes()
		late := time.Since(due) > lateAfter
		err := r.db.Exec(ctx, n, w.transaction(changes))
		if timed.Err() != nil {
			return nil // it may be committed or not: it is not counted
		}
		if err != nil {
			if kind := tidemark.KindOf(err); kind != tidemark.Transient {
				return err
			}
			if len(r.dialect.failed) > 0 {
				_ = r.db.Exec(ctx, n, r.dialect.failed)
			}
			r.failed(err)
			due = due.Add(pause)
			continue
		}
		w.done(changes)
		r.count(changes, time.Since(due), late)
		due = due.Add(pause)
	}
	return nil
}

// changes draws a transaction.
func (w *writer) changes() (out []change) {
	shares := w.spec.Mix[0] + w.spec.Mix[1] + w.spec.Mix[2]
	for range w.spec.Rows {
		at := w.rnd.IntN(len(w.names))
		draw := w.rnd.IntN(shares)
		live := w.live[at]
		switch {
		case draw < w.spec.Mix[0] || len(live) == 0:
			key := w.next*int64(w.spec.Connections) + int64(w.n)
			w.next++
			out = append(out, change{w.insert(at, key), 0, at, key})
		case draw < w.spec.Mix[0]+w.spec.Mix[1]:
			key := live[w.rnd.IntN(len(live))]
			out = append(out, change{w.update(at, key), 1, at, key})
		default:
			i := w.rnd.IntN(len(live))
			key := live[i]
			live[i] = live[len(live)-1]
			w.live[at] = live[:len(live)-1]
			out = append(out, change{fmt.Sprintf("DELETE FROM %s WHERE id = %d", w.names[at], key), 2, at, key})
		}
	}
	return out
}

// done keeps the keys of what was inserted. Keys of deletes that failed are not used again.
func (w *writer) done(changes []change) {
	for _, c := range changes {
		if c.kind == 0 {
			w.live[c.at] = append(w.live[c.at], c.key)
		}
	}
}

func (w *writer) transaction(changes []change) []string {
	var out []string
	for _, c := range changes {
		out = append(out, c.sql)
	}
	return slices.Concat(w.begin, out, w.end)
}

func (w *writer) insert(at int, key int64) string {
	values := []string{fmt.Sprint(key)}
	for i := range w.spec.Columns {
		values = append(values, w.value(i))
	}
	return "INSERT INTO " + w.names[at] + " VALUES (" + strings.Join(values, ", ") + ")"
}

func (w *writer) update(at int, key int64) string {
	i := w.rnd.IntN(max(w.spec.Columns, 1))
	return fmt.Sprintf("UPDATE %s SET c%d = %s WHERE id = %d", w.names[at], i+1, w.value(i), key)
}

// value is a random value of a column: letters and digits, which need no escaping.
func (w *writer) value(column int) string {
	switch w.kind(column) {
	case "int":
		return fmt.Sprint(w.rnd.Int32())
	case "bigint":
		return fmt.Sprint(w.rnd.Int64())
	case "decimal":
		return fmt.Sprintf("%d.%02d", w.rnd.IntN(1e8), w.rnd.IntN(100))
	case "time":
		return "'" + time.UnixMilli(1.7e12+w.rnd.Int64N(1e11)).UTC().Format("2006-01-02 15:04:05.000") + "'"
	case "long":
		return "'" + w.text(400+w.rnd.IntN(800)) + "'"
	}
	return "'" + w.text(8+w.rnd.IntN(57)) + "'"
}

func (w *writer) text(n int) string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789 "
	out := make([]byte, n)
	for i := range out {
		out[i] = letters[w.rnd.IntN(len(letters))]
	}
	return string(out)
}

func (r *running) failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rep.Failed++
	r.rep.Error = tidemark.MaskText(err.Error())
}

// count counts a transaction that is committed.
func (r *running) count(changes []change, took time.Duration, late bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rep.Transactions++
	if late {
		r.rep.Late++
	}
	for _, c := range changes {
		switch c.kind {
		case 0:
			r.rep.Inserted++
		case 1:
			r.rep.Updated++
		default:
			r.rep.Deleted++
		}
	}
	r.all.Add(took)
	second := int(time.Since(r.began).Seconds())
	for len(r.each) <= second {
		r.each = append(r.each, &flow.Histogram{})
	}
	r.each[second].Add(took)
}

// finish works out rates and latencies.
func (r *running) finish() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rep.Verb = "load"
	if r.began.IsZero() {
		return
	}
	millis := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	r.rep.Seconds = min(time.Since(r.began), r.spec.For).Seconds()
	r.rep.Asked = r.spec.Rate
	if r.rep.Seconds > 0 {
		r.rep.PerSecond = float64(r.rep.Transactions) / r.rep.Seconds
		r.rep.RowsSecond = float64(r.rep.Inserted+r.rep.Updated+r.rep.Deleted) / r.rep.Seconds
	}
	r.rep.Latency = sampled.Latency{Mean: millis(r.all.Mean()), P50: millis(r.all.Quantile(0.5)), P99: millis(r.all.Quantile(0.99)), Max: millis(r.all.Max())}
	for i, h := range r.each {
		r.rep.Each = append(r.rep.Each, SecondOfLoad{i, h.Count(), millis(h.Quantile(0.99))})
	}
}
