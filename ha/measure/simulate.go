package measure

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/ha"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// A SimSpec specifies which log the primary of a simulation ships, and how.
type SimSpec struct {
	Mode   string // see simModes
	Engine string // of AFTER_SYNC and AFTER_COMMIT: mysql ("") or mariadb
	Peer   string // the standby's HOST or HOST:PORT; "": a standby in this process
	Line   Line   // added on the way there
	Secret string `json:"-"` // of the standby's Listen, if it has one

	Dir   string   // where the log is written; "": nowhere, which takes no time
	Disk  *ha.Disk // simulated instead: its writes take as long as this disk's
	Force bool     // also where there are database files

	Sizes      Sizes         // of flushes, in Db2's modes; of commits in the others
	Committers int           // in the other modes; 0: 8
	Think      time.Duration // of each committer, between two commits
	Time       time.Duration // 0: 10 s; it ends earlier with ctx
	Count      int64         // of flushes or commits; 0: no limit
	Target     float64       // bytes a second at most; 0: no limit

	Buffer     int           // of both sockets, in bytes; 0: left alone
	Receive    int64         // what the standby of a Db2 mode can hold unwritten; 0: 4 flushes
	SyncRelay  bool          // MySQL, MariaDB: the standby's write is on disk before it acknowledges
	ApplyDelay time.Duration // remote_apply: from on disk to applied

	Standby StandbySpec // the standby in this process; for one elsewhere without a folder, how long its writes take
}

// Sizes are the sizes in a synthetic log: all Fixed bytes, or distributed like Spread, evenly
// within each of its bands and then scaled to its mean.
type Sizes struct {
	Fixed  int
	Spread *ha.Distribution
}

// draw returns a function that draws sizes, the same ones each time; fixed is the default.
func (z Sizes) draw(fixed int) func() int {
	fixed = cmp.Or(z.Fixed, fixed)
	if z.Spread == nil || z.Spread.Count == 0 {
		return func() int { return fixed }
	}
	bands := slices.Clone(z.Spread.Buckets)
	var upTo []float64
	var all, sum float64
	for i := range bands {
		b := &bands[i]
		b.From, b.To = max(b.From, z.Spread.Min), min(b.To, z.Spread.Max)
		all += float64(b.Count)
		sum += float64(b.Count) * (b.From + b.To) / 2
		upTo = append(upTo, all)
	}
	scale := 1.0
	if sum > 0 {
		scale = z.Spread.Mean * all / sum
	}
	random := rand.New(rand.NewPCG(1, 2))
	return func() int {
		i, _ := slices.BinarySearch(upTo, random.Float64()*all)
		b := bands[min(i, len(bands)-1)]
		return min(max(1, int(scale*(b.From+random.Float64()*(b.To-b.From))+0.5)), maxPayload)
	}
}

// A simMode is a way in which a primary waits for its standby.
type simMode struct {
	name   string
	engine string
	rule   simRule
	means  string
}

type simRule uint8

const (
	// Db2: one log writer, which ships its flushes one after the other.
	shipAfterWrite simRule = iota // writes, ships, and waits until the standby has written
	shipAndWrite                  // both at once, and waits until the standby has received
	shipNoWait                    // both at once, and waits until TCP has taken it
	shipBehind                    // ships what was written, in its own units
	// The others: committers, whose commits a log writer flushes together; flushed log is shipped
	// meanwhile.
	waitNothing // for the standby
	waitWritten
	waitSynced
	waitApplied
	waitJoined // groups commit one after the other; those flushed meanwhile continue together
	waitHeld   // the same, but the next group is flushed and then held, each separately
)

var simModes = []simMode{
	{"SYNC", "db2", shipAfterWrite, "on both disks, one after the other"},
	{"NEARSYNC", "db2", shipAndWrite, "on the primary's disk and in the standby's memory"},
	{"ASYNC", "db2", shipNoWait, "on the primary's disk and handed to TCP"},
	{"SUPERASYNC", "db2", shipBehind, "on the primary's disk; the standby catches up, commits do not wait for it"},
	{"local", "postgres", waitNothing, "on the primary's disk; commits do not wait for the standby"},
	{"remote_write", "postgres", waitWritten, "on the primary's disk, then written by the standby"},
	{"on", "postgres", waitSynced, "on the primary's disk, then on the standby's"},
	{"remote_apply", "postgres", waitApplied, "on both disks, and applied by the standby"},
	{"AFTER_COMMIT", "mysql", waitWritten, "on the primary's disk, then written by the replica, one commit at a time"},
	{"AFTER_SYNC", "mysql", waitJoined, "on the primary's disk, then written by the replica, one group after the other"},
}

// SimModes returns the names of the modes that can be simulated.
func SimModes() (names []string) {
	for _, m := range simModes {
		names = append(names, m.name)
	}
	return names
}

// IsFlushMode reports whether a mode flushes one piece after the other, without committers.
func IsFlushMode(name string) bool {
	m, err := simModeOf(name, "")
	return err == nil && m.serial()
}

func simModeOf(name, engine string) (simMode, error) {
	i := slices.IndexFunc(simModes, func(m simMode) bool { return strings.EqualFold(m.name, name) })
	if i < 0 {
		return simMode{}, &tidemark.Error{Kind: tidemark.Invalid, Op: "simulate", Object: name, Err: errors.New("is not a mode"), Hint: "Choose one of " + strings.Join(SimModes(), ", ") + "."}
	}
	m := simModes[i]
	if engine == "mariadb" && m.engine == "mysql" {
		if m.engine = engine; m.rule == waitJoined {
			m.rule = waitHeld
		}
	} else if engine != "" && engine != m.engine {
		return simMode{}, &tidemark.Error{Kind: tidemark.Invalid, Op: "simulate", Object: name, Err: errors.New("is not a mode of " + engine), Hint: "Choose a mode of " + engine + ": this is one of " + m.engine + "."}
	}
	return m, nil
}

func (m simMode) serial() bool { return m.rule <= shipBehind }

// A SimReport is the result of a simulation. Times are seconds.
type SimReport struct {
	Mode     string  `json:"mode"`
	Engine   string  `json:"engine"`
	Means    string  `json:"a_commit_is"`
	Peer     string  `json:"standby"`
	Added    *Line   `json:"added,omitempty"` // on the way there, by a proxy of ours
	Seconds  float64 `json:"seconds"`
	Stopped  bool    `json:"stopped,omitempty"` // before its planned end
	Bytes    int64   `json:"bytes"`
	Rate     float64 `json:"bytes_per_second"`
	Flushes  int64   `json:"flushes"`
	Commits  int64   `json:"commits,omitempty"`
	FlushOf  Spread  `json:"flush_bytes"`
	Flush    Spread  `json:"flush_seconds"`            // from one flush's beginning until the log writer is free for the next
	Write    Spread  `json:"write_seconds"`            // part of it: the primary's disk
	Ship     Spread  `json:"shipping_seconds"`         // from the first byte sent to the event that the mode waits for
	Commit   *Spread `json:"commit_seconds,omitempty"` // from the request until the committer may continue
	Idle     float64 `json:"idle_seconds,omitempty"`   // of Db2's log writer, to keep to the target rate
	Sends    int64   `json:"send_calls"`
	Sent     int64   `json:"sent_bytes"`
	Congests Spread  `json:"congestion_seconds"` // how long the kernel's buffer was full, each time

	Sending   int         `json:"send_buffer_bytes"` // as the kernel reports it; 0: unknown
	Receiving int         `json:"receive_buffer_bytes"`
	TCP       *TCPState   `json:"tcp,omitempty"`
	OnStandby ShipReport  `json:"on_the_standby"`
	Workers   flow.Report `json:"workers"`
}

// A ShipReport is the standby's final report.
type ShipReport struct {
	Bytes   int64       `json:"bytes"`
	Seconds float64     `json:"seconds"` // from the first frame until everything was written
	Rate    float64     `json:"bytes_per_second"`
	Frames  int64       `json:"frames"`
	Write   Spread      `json:"write_seconds"` // to disk
	FrameOf Spread      `json:"frame_bytes"`
	Workers flow.Report `json:"workers"`
}

// shipTerms is what the primary sends to the standby first.
type shipTerms struct {
	Mode       string        `json:"mode"`
	Engine     string        `json:"engine"`
	Receive    int64         `json:"receive,omitempty"`
	SyncRelay  bool          `json:"sync_relay,omitempty"`
	ApplyDelay time.Duration `json:"apply_delay,omitempty"`
	Disk       *ha.Disk      `json:"disk,omitempty"` // of a standby without a folder
}

// A simulation is the primary.
type simulation struct {
	SimSpec
	mode   simMode
	l      *link
	log    *simLog
	group  *flow.Group
	size   func() int
	begin  time.Time
	over   chan struct{} // closed when no further flush or commit may begin
	report *SimReport

	flushOf, flush, ship, commit []float64
}

// Simulate ships a synthetic log to a standby and waits for it as a mode does. When ctx ends, it
// finishes and reports what was begun. Errors: those of dialLink and MeasureDisk.
func Simulate(ctx context.Context, spec SimSpec) (*SimReport, error) {
	m, err := simModeOf(spec.Mode, spec.Engine)
	if err != nil {
		return nil, err
	}
	spec.Time, spec.Committers = cmp.Or(spec.Time, 10*time.Second), cmp.Or(spec.Committers, 8)
	s := &simulation{SimSpec: spec, mode: m, over: make(chan struct{}), report: &SimReport{Mode: m.name, Engine: m.engine, Means: m.means}}
	fixed := 1 << 10
	if m.serial() {
		fixed = 16 * ha.Page
	}
	s.size = spec.Sizes.draw(fixed)
	// ctx ends the shipping, not the connection, unless shipping does not end.
	hard, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	early := crash.OnDone(ctx, kill)
	if s.log, err = openSimLog(hard, simPlace{dir: spec.Dir, name: "primary", engine: m.engine, disk: spec.Disk, force: spec.Force}); err != nil {
		return nil, err
	}
	defer s.log.close()
	way, err := connectTo(hard, spec.Peer, spec.Secret, spec.Line, &s.Standby)
	if err != nil {
		return nil, err
	}
	defer way.end()
	s.report.Peer, s.report.Added = way.name, way.added
	receive := cmp.Or(spec.Receive, 4*int64(cmp.Or(spec.Sizes.Fixed, fixed)))
	if s.l, err = dialLink(hard, way.addr, hello{Purpose: "ship", Buffer: spec.Buffer, Ship: &shipTerms{Mode: m.name, Engine: m.engine,
		Receive: receive, SyncRelay: spec.SyncRelay, ApplyDelay: spec.ApplyDelay, Disk: spec.Standby.Disk}, secret: spec.Secret}); err != nil {
		return nil, err
	}
	defer s.l.close()
	if !early() { // it has ended already
		return nil, cancelled(ctx, "simulate")
	}
	defer crash.OnDone(ctx, func() { crash.After(15*time.Second, kill) })()
	if err := s.run(ctx, hard); err != nil {
		return nil, linkError(hard, s.report.Peer, err)
	}
	return s.report, nil
}

// run ships until the time is over, the count is reached, or ctx ends.
func (s *simulation) run(ctx, hard context.Context) error {
	s.begin = time.Now()
	timer := crash.After(s.Time, sync.OnceFunc(func() { close(s.over) })) // nothing more may begin
	defer timer.Stop()
	defer crash.OnDone(ctx, func() { timer.Reset(0) })()
	s.group = flow.NewGroup(hard)
	defer closeOnFailure(s.group, s.l.c)()
	if s.mode.serial() {
		s.serial()
	} else {
		s.committing()
	}
	err := s.group.Wait()
	if err != nil {
		return err
	}
	out := s.report
	out.Seconds = time.Since(s.begin).Seconds()
	out.Stopped = ctx.Err() != nil
	out.TCP = s.l.w.state()
	out.Sending, _ = s.l.w.buffers()
	out.Receiving = s.l.granted.Granted
	out.Sends, out.Sent = s.l.w.calls, s.l.w.bytes
	s.l.c.SetDeadline(time.Now().Add(idleTime))
	if err := s.l.reply(&out.OnStandby); err != nil {
		return err
	}
	out.Workers = flow.Merge(mergeManyWorkers(s.group.Report()), out.OnStandby.Workers)
	out.Rate = float64(out.Bytes) / out.Seconds
	out.FlushOf, out.Flush, out.Ship = summarize(s.flushOf), summarize(s.flush), summarize(s.ship)
	out.Write, out.Congests = summarize(s.log.times), summarize(seconds(s.l.w.full))
	if !s.mode.serial() {
		commits := summarize(s.commit)
		out.Commit, out.Commits = &commits, int64(commits.N)
	}
	return nil
}

func (s *simulation) isOver() bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}

// pace waits until so many bytes in total may have been logged.
func (s *simulation) pace(ctx context.Context, c *flow.Clock, bytes int64) error {
	if s.Target <= 0 {
		return nil
	}
	wait := time.Until(s.begin.Add(time.Duration(float64(bytes) / s.Target * float64(time.Second))))
	if wait <= 0 {
		return nil
	}
	defer func(since time.Time) {
		if s.mode.serial() { // with many committers it would not be anybody's time
			s.report.Idle += time.Since(since).Seconds()
		}
	}(time.Now())
	return s.sleep(ctx, c, wait)
}

// sleep waits, but not beyond the end.
func (s *simulation) sleep(ctx context.Context, c *flow.Clock, d time.Duration) error {
	defer c.Enter(c.Enter(flow.WaitWork))
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.over:
	case <-t.C:
	}
	return nil
}

// mergeManyWorkers merges the workers of a role into one line if there are very many.
func mergeManyWorkers(r flow.Report) flow.Report {
	for i := range r.Roles {
		if role := &r.Roles[i]; len(role.Workers) > 16 {
			role.Workers = []flow.Times{role.Sum()}
		}
	}
	return r
}

// awaitEnd sends the bye and reads acks until the last one, which means that everything has
// arrived.
func (s *simulation) awaitEnd(c *flow.Clock) error {
	s.l.c.SetDeadline(time.Now().Add(drainTime))
	if err := s.l.send(byeFrame, 0); err != nil {
		return err
	}
	defer c.Enter(c.Enter(flow.WaitBuffer))
	for {
		a, err := s.l.ack()
		if err != nil {
			return err
		}
		if a.number == lastAck {
			return nil
		}
	}
}

// drainTime is the limit for what is still in flight at the end.
const drainTime = 5 * time.Minute

// lastAck is the number of the ack to a bye.
const lastAck = 1<<64 - 1

func appendSample(v []float64, x float64) []float64 {
	if len(v) < 5*keptSamples {
		v = append(v, x)
	}
	return v
}
