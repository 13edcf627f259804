package far

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/engines"
)

// Options say where a database is opened, and how.
type Options struct {
	Dial    func(ctx context.Context, want string) (net.Conn, error) // begins a conversation with a relay
	Relay   string                                                   // its name in messages: relay HOST:PORT
	Program string                                                   // our version of tidemark; the relay must have the same
	URL     string                                                   // as the relay is to connect; with its password
	Engines engines.Options
}

// Want is what a conversation wants of a relay. The values in it are those of Go's types, of which
// another version of the program may have others: the version is part of it.
func Want(program string) string { return wantCopy + program }

const wantCopy = "copy "

// A Database is one that a relay has opened. It is an engines.Destination and a load.Pipeliner; its
// methods may be called concurrently.
type Database struct {
	opt                   Options
	session               [16]byte
	open                  bool // the relay has the session
	name, schema, version string

	mu    sync.Mutex
	free  []*line
	lines uint64
}

var _ engines.Destination = (*Database)(nil)

// Open makes a relay connect to a database. Errors are those of Dial and of engines.Open there.
func Open(ctx context.Context, opt Options) (*Database, error) {
	d := &Database{opt: opt}
	_, _ = rand.Read(d.session[:]) // it never fails
	l := d.line()
	got, err := l.attach(ctx, 0)
	if err != nil {
		return nil, err
	}
	d.open, d.name, d.schema, d.version = true, got.Name, got.Default, got.Version
	d.mu.Lock()
	defer d.mu.Unlock()
	d.free = append(d.free, l)
	return d, nil
}

// line returns one that is free.
func (d *Database) line() *line {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(d.free); n > 0 {
		l := d.free[n-1]
		d.free = d.free[:n-1]
		return l
	}
	d.lines++
	return &line{d: d, id: d.lines}
}

func (d *Database) call(ctx context.Context, req request) (*result, error) {
	return d.with(ctx, &req, nil)
}

// with carries out a call on a free line. It always gives a result, empty if there is none.
func (d *Database) with(ctx context.Context, req *request, in *rows) (*result, error) {
	l := d.line()
	res, err := l.call(ctx, req, in)
	d.mu.Lock()
	d.free = append(d.free, l)
	d.mu.Unlock()
	if res == nil {
		res = &result{}
	}
	return res, err
}

func (d *Database) warn(f tidemark.Finding) {
	if d.opt.Engines.MySQL.Warn != nil {
		d.opt.Engines.MySQL.Warn(f)
	}
}

// cut is the error of a link that broke.
func (d *Database) cut(cause error) error {
	var own *tidemark.Error
	if errors.As(cause, &own) && own.Err != nil {
		cause = own.Err
	}
	return &tidemark.Error{Kind: tidemark.Transient, Op: "reach", Object: d.opt.Relay, Err: errors.Join(errors.New("the link is down"), cause), Hint: "Check the network, and that tidemark relay runs there."}
}

// Name returns the kind of server.
func (d *Database) Name() string { return d.name }

// Default returns the schema of tables without one.
func (d *Database) Default() string { return d.schema }

// Version returns the server's version.
func (d *Database) Version() string { return d.version }

// Render returns the objects that create tables. It asks the relay, whose engine knows the server.
func (d *Database) Render(db *tidemark.Database, moves []tidemark.Move) ([]tidemark.Object, []tidemark.Finding) {
	res, err := d.call(context.Background(), request{Method: "render", DB: db, Moves: moves})
	if err != nil {
		return nil, []tidemark.Finding{{Severity: tidemark.Blocker, Kind: tidemark.KindOf(err), Object: d.opt.Relay, Text: err.Error(), Hint: tidemark.HintOf(err)}}
	}
	return res.Objects, res.Findings
}

// Inspect returns the state of tables.
func (d *Database) Inspect(ctx context.Context, tables []tidemark.TableID) ([]tidemark.TableState, error) {
	res, err := d.call(ctx, request{Method: "inspect", Tables: [3][]tidemark.TableID{tables}})
	return res.States, err
}

// Tables describes tables.
func (d *Database) Tables(ctx context.Context, names []tidemark.TableID) ([]*tidemark.Table, error) {
	res, err := d.call(ctx, request{Method: "tables", Tables: [3][]tidemark.TableID{names}})
	return res.Tables, err
}

// Defined describes tables, and what belongs to none.
func (d *Database) Defined(ctx context.Context, names []tidemark.TableID) (*tidemark.Database, error) {
	res, err := d.call(ctx, request{Method: "defined", Tables: [3][]tidemark.TableID{names}})
	return res.DB, err
}

// Preflight reports what would fail.
func (d *Database) Preflight(ctx context.Context, role string, db *tidemark.Database) ([]tidemark.Finding, error) {
	res, err := d.call(ctx, request{Method: "preflight", Text: role, DB: db})
	return res.Findings, err
}

// Access reports missing privileges.
func (d *Database) Access(ctx context.Context, read, create, fill []tidemark.TableID) ([]tidemark.Finding, error) {
	res, err := d.call(ctx, request{Method: "access", Tables: [3][]tidemark.TableID{read, create, fill}})
	return res.Findings, err
}

// LargestValue returns the largest value that the database accepts, and how to raise that.
func (d *Database) LargestValue(ctx context.Context, bytes bool) (most int64, remedy string, err error) {
	res, err := d.call(ctx, request{Method: "largest", Bytes: bytes})
	return int64(res.Number), res.Text, err
}

// Look looks for the lock of another database.
func (d *Database) Look(ctx context.Context, l engines.Lock) (engines.Sight, error) {
	res, err := d.call(ctx, request{Method: "look", Lock: l})
	return res.Sight, err
}

// Waits reports what sessions wait for.
func (d *Database) Waits(ctx context.Context) ([]tidemark.Finding, error) {
	res, err := d.call(ctx, request{Method: "waits"})
	return res.Findings, err
}

// RoundTrip returns that of a call: to the relay, and from there to the server.
func (d *Database) RoundTrip(ctx context.Context) (time.Duration, error) {
	res, err := d.call(ctx, request{Method: "round trip"})
	least := time.Hour
	for range 3 {
		if err != nil {
			return 0, err
		}
		began := time.Now()
		_, err = d.call(ctx, request{Method: "ping"})
		least = min(least, time.Since(began))
	}
	return least + res.Took, err
}

// Exec runs the statements of an object.
func (d *Database) Exec(ctx context.Context, lane int, sql []string) error {
	_, err := d.call(ctx, request{Method: "exec", Lane: lane, SQL: [][]string{sql}})
	return err
}

// ExecEach runs those of several. What the relay does not answer is unknown.
func (d *Database) ExecEach(ctx context.Context, lane int, objects [][]string, done func(object int, took time.Duration)) {
	res, err := d.call(ctx, request{Method: "exec each", Lane: lane, SQL: objects})
	if err != nil {
		return
	}
	for _, m := range res.Made {
		done(m.Object, m.Took)
	}
}

// Release closes a lane's session at the relay.
func (d *Database) Release(lane int) {
	_, _ = d.call(context.Background(), request{Method: "release", Lane: lane}) // the session's end does it too
}

// Write sends batches, which the relay commits with their marker.
func (d *Database) Write(ctx context.Context, lane int, w tidemark.Write, take func() (*tidemark.Batch, error)) (tidemark.Written, error) {
	in := &rows{take: take, reject: w.Reject}
	req := request{Method: "write", Lane: lane, Rejects: w.Reject != nil}
	w.Reject = nil
	req.Write = &w
	res, err := d.with(ctx, &req, in)
	return res.Written, err
}

// Begin creates the marker table.
func (d *Database) Begin(ctx context.Context, run string) error {
	_, err := d.call(ctx, request{Method: "begin", Run: run})
	return err
}

// Marks lists the ranges of a run that are there.
func (d *Database) Marks(ctx context.Context, run string) ([]tidemark.Mark, error) {
	res, err := d.call(ctx, request{Method: "marks", Run: run})
	return res.Marks, err
}

// Forget removes marks.
func (d *Database) Forget(ctx context.Context, run string, ranges []int) error {
	_, err := d.call(ctx, request{Method: "forget", Run: run, Ranges: ranges, All: ranges == nil})
	return err
}

// Clear empties or drops tables.
func (d *Database) Clear(ctx context.Context, tables []tidemark.TableID, drop bool) error {
	_, err := d.call(ctx, request{Method: "clear", Tables: [3][]tidemark.TableID{tables}, Drop: drop})
	return err
}

// DropClaim releases what a run has claimed.
func (d *Database) DropClaim(ctx context.Context, run string) error {
	_, err := d.call(ctx, request{Method: "drop claim", Run: run})
	return err
}

// Claim begins a claim, whose lock the relay holds while the session lives.
func (d *Database) Claim(ctx context.Context, run string) (tidemark.Claim, error) {
	res, err := d.call(ctx, request{Method: "claim", Run: run})
	if err != nil {
		return nil, err
	}
	return &claim{d, res.Number}, nil
}

// A claim is one that the relay has.
type claim struct {
	d      *Database
	number uint64
}

func (c *claim) Take(ctx context.Context, tables []tidemark.TableID) (others []tidemark.Claimant, renewed int, err error) {
	res, err := c.d.call(ctx, request{Method: "claim take", Claim: c.number, Tables: [3][]tidemark.TableID{tables}})
	return res.Others, int(res.Number), err
}

func (c *claim) Release(ctx context.Context, run string, tables []tidemark.TableID) error {
	_, err := c.d.call(ctx, request{Method: "claim release", Claim: c.number, Run: run, Tables: [3][]tidemark.TableID{tables}})
	return err
}

func (c *claim) Drop(ctx context.Context) error {
	_, err := c.d.call(ctx, request{Method: "claim drop", Claim: c.number})
	return err
}

func (c *claim) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	_, _ = c.d.call(ctx, request{Method: "claim close", Claim: c.number}) // the session's end does it too
}

// closeTime is how long the end of a session may take.
const closeTime = 10 * time.Second

// Close ends the session.
func (d *Database) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	_, err := d.call(ctx, request{Method: "close"})
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.free {
		l.close()
	}
	d.free = nil
	return err
}
