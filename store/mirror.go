package store

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// A Mirror is a Store in several places, each of which receives everything written, at the same
// time. A place that fails is lost: it is no longer used, and the others continue without it. So
// the content of a place that is not lost is complete. An operation fails only when the last place
// fails.
//
// An object exists if any place has it; one that counts only if all places have it, only then.
// Times are those of the first place that is not lost: times of two places cannot be compared.
type Mirror struct {
	places []Store
	counts func(name string) bool // reports whether an object counts only if all places have it

	mu     sync.Mutex
	lost   []error // by place; nil: not lost
	shares []share
}

// share is what one place has done.
type share struct{ written, life, io, wait atomic.Int64 } // bytes and nanoseconds

// A Share is what one place of a Mirror or a Stripe has done. Its times are sums over all objects
// being written there: Life = IO + Wait, approximately.
type Share struct {
	Place   string        `json:"place"`
	Written int64         `json:"written"` // bytes
	Life    time.Duration `json:"life_ns"`
	IO      time.Duration `json:"io_ns"`   // writing
	Wait    time.Duration `json:"wait_ns"` // for more to write
	Lost    error         `json:"-"`       // why it was lost, if it was
}

// NewMirror makes a Mirror of at least one place. counts reports whether an object counts only if
// all places have it.
func NewMirror(places []Store, counts func(name string) bool) *Mirror {
	return &Mirror{places: places, counts: counts, lost: make([]error, len(places)), shares: make([]share, len(places))}
}

// MirrorOf returns the Mirror that s is, or nil.
func MirrorOf(s Store) *Mirror {
	m, _ := s.(*Mirror)
	return m
}

// Lose marks a place as lost. The last place stays, so that its errors become the Mirror's.
func (m *Mirror) Lose(place int, why error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	left := 0
	for _, err := range m.lost {
		if err == nil {
			left++
		}
	}
	if m.lost[place] == nil && left > 1 {
		m.lost[place] = why
	}
}

// live returns the places that are not lost.
func (m *Mirror) live() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []int
	for i, err := range m.lost {
		if err == nil {
			out = append(out, i)
		}
	}
	return out
}

// IsLost reports whether a place is lost.
func (m *Mirror) IsLost(place int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lost[place] != nil
}

// Shares returns what each place has done so far.
func (m *Mirror) Shares() []Share {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]Share, len(m.places))
	for i := range out {
		out[i] = m.shares[i].as(m.places[i].String())
		out[i].Lost = m.lost[i]
	}
	return out
}

func (s *share) as(place string) Share {
	return Share{Place: place, Written: s.written.Load(), Life: time.Duration(s.life.Load()), IO: time.Duration(s.io.Load()), Wait: time.Duration(s.wait.Load())}
}

func (m *Mirror) String() string { return joined(m.places) }

func joined(places []Store) string {
	var out []string
	for _, p := range places {
		out = append(out, p.String())
	}
	return strings.Join(out, " ")
}

func (m *Mirror) writerMemory() int64 {
	sum := int64(mirrorDepth * mirrorPiece)
	for _, p := range m.places {
		sum += WriterMemory(p)
	}
	return sum
}

// Close closes all places.
func (m *Mirror) Close() error { return closeAll(m.places) }

func closeAll(places []Store) error {
	var first error
	for _, p := range places {
		if err := p.Close(); first == nil {
			first = err
		}
	}
	return first
}

// failed records a place's error, and reports whether the others may continue without it.
func (m *Mirror) failed(ctx context.Context, place int, err error) bool {
	if ctx.Err() != nil {
		return false // it was cancelled
	}
	m.Lose(place, err)
	return m.IsLost(place)
}

// each calls do for all live places, and returns the results of those still live afterwards.
func (m *Mirror) each(ctx context.Context, do func(p Store) error) (found, missing int, err error) {
	for _, i := range m.live() {
		switch err := do(m.places[i]); {
		case err == nil:
			found++
		case tidemark.KindOf(err) == tidemark.NotFound:
			missing++
		case !m.failed(ctx, i, err):
			return found, missing, err
		}
	}
	return found, missing, nil
}

// Stat queries all places.
func (m *Mirror) Stat(ctx context.Context, name string) (Info, error) {
	var first *Info
	var none error
	found, missing, err := m.each(ctx, func(p Store) error {
		i, err := p.Stat(ctx, name)
		if err == nil && first == nil {
			first = &i
		}
		if tidemark.KindOf(err) == tidemark.NotFound {
			none = err
		}
		return err
	})
	switch {
	case err != nil:
		return Info{}, err
	case found == 0, missing > 0 && m.counts(name):
		return Info{}, none
	}
	return *first, nil
}

// Read reads from a place that has the object.
func (m *Mirror) Read(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	var none error
	for _, i := range m.live() {
		r, err := m.places[i].Read(ctx, name, offset, length)
		switch {
		case err == nil:
			return r, nil
		case tidemark.KindOf(err) == tidemark.NotFound:
			none = err
		case !m.failed(ctx, i, err):
			return nil, err
		}
	}
	return nil, none
}

// List lists the objects of all places, each name once.
func (m *Mirror) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		seen := map[string]int{}
		var all []Info
		places := 0
		for _, i := range m.live() {
			here, err := listed(ctx, m.places[i], prefix)
			if err != nil {
				if m.failed(ctx, i, err) {
					continue
				}
				yield(Info{}, err)
				return
			}
			places++
			for _, o := range here {
				if seen[o.Name]++; seen[o.Name] == 1 {
					all = append(all, o)
				}
			}
		}
		for _, o := range all {
			if seen[o.Name] < places && m.counts(o.Name) {
				continue
			}
			if !yield(o, nil) {
				return
			}
		}
	}
}

func listed(ctx context.Context, s Store, prefix string) (all []Info, err error) {
	for i, err := range s.List(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		all = append(all, i)
	}
	return all, nil
}

// Delete removes an object wherever it is.
func (m *Mirror) Delete(ctx context.Context, name string) error {
	var none error
	found, _, err := m.each(ctx, func(p Store) error {
		err := p.Delete(ctx, name)
		if tidemark.KindOf(err) == tidemark.NotFound {
			none = err
		}
		return err
	})
	if err == nil && found == 0 {
		return none
	}
	return err
}

// Create begins the object in all places. Each has a goroutine, which may be a few pieces behind
// the fastest. If two writers create the same new name, the first place decides; another place that
// already has the name is lost.
func (m *Mirror) Create(ctx context.Context, name string, mode Mode) (Object, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	o := &mirrorObject{m: m, ctx: ctx, cancel: cancel}
	for _, i := range m.live() {
		s := &mirrorSide{m: m, before: o.sides, place: i, pieces: make(chan *piece, mirrorDepth), done: make(chan struct{})}
		o.sides = append(o.sides, s)
		crash.Go(func() { s.run(ctx, name, mode) })
	}
	return o, nil
}

const (
	mirrorDepth = 4       // pieces waiting for a place: with those being written, an object's memory
	mirrorPiece = 1 << 20 // maximum bytes of a piece
)

// A piece is a copy of written bytes, which all places share.
type piece struct {
	bytes []byte
	users atomic.Int32
}

var pieces = sync.Pool{New: func() any { return &piece{bytes: make([]byte, 0, mirrorPiece)} }}

func (p *piece) release() {
	if p.users.Add(-1) == 0 {
		pieces.Put(p)
	}
}

type mirrorObject struct {
	m      *Mirror
	ctx    context.Context
	cancel context.CancelFunc
	sides  []*mirrorSide
	over   bool
}

// A mirrorSide writes the object in one place.
type mirrorSide struct {
	m      *Mirror
	before []*mirrorSide // the places before, which commit first if the name must be new
	place  int
	pieces chan *piece   // closed at the object's end
	commit bool          // what to do at the end; set before the channel is closed
	done   chan struct{} // closed once it has ended, with err
	err    error
	failed atomic.Bool // err is set
}

func (s *mirrorSide) run(ctx context.Context, name string, mode Mode) {
	defer close(s.done)
	whole := false
	defer func() {
		if !whole { // it panicked
			s.err = errLost
			s.failed.Store(true)
		}
	}()
	share, begun := &s.m.shares[s.place], time.Now()
	var inIO time.Duration
	timed := func(do func() error) error {
		defer func(since time.Time) { inIO += time.Since(since) }(time.Now())
		return do()
	}
	var o Object
	s.err = timed(func() (err error) {
		o, err = s.m.places[s.place].Create(ctx, name, mode)
		return err
	})
	s.note(ctx)
	var waited time.Duration
	for {
		since := time.Now()
		p, ok := <-s.pieces
		waited += time.Since(since)
		if !ok {
			break
		}
		if s.err == nil && s.m.IsLost(s.place) { // by another object
			s.err = errLost
			s.failed.Store(true)
		}
		if s.err == nil {
			s.err = timed(func() error {
				n, err := o.Write(p.bytes)
				share.written.Add(int64(n))
				return err
			})
			s.note(ctx)
		}
		p.release()
	}
	if s.err == nil && s.commit && mode == New {
		s.err = s.decided()
	}
	if s.err == nil && s.commit {
		s.err = timed(o.Commit)
	}
	s.note(ctx)
	if o != nil {
		o.Abort() // no effect after a commit
	}
	share.life.Add(int64(time.Since(begun)))
	share.io.Add(int64(inIO))
	share.wait.Add(int64(waited))
	whole = true
}

// decided waits for the places before: the first that knows decides whether the name is new.
func (s *mirrorSide) decided() error {
	for _, b := range s.before {
		<-b.done
		if b.err == nil {
			return nil
		}
		if tidemark.KindOf(b.err) == tidemark.Exists {
			return b.err
		}
	}
	return nil
}

// note reports an error to the mirror, except that the name exists: the whole object judges that.
func (s *mirrorSide) note(ctx context.Context) {
	s.failed.Store(s.err != nil)
	if s.err != nil && s.err != errLost && ctx.Err() == nil && tidemark.KindOf(s.err) != tidemark.Exists {
		s.m.Lose(s.place, s.err)
	}
}

var errLost = &tidemark.Error{Kind: tidemark.Lost, Op: "write", Err: errors.New("this place has failed before")}

func (o *mirrorObject) Write(b []byte) (int, error) {
	for part := range slices.Chunk(b, mirrorPiece) {
		p := pieces.Get().(*piece)
		p.bytes = append(p.bytes[:0], part...)
		p.users.Store(int32(len(o.sides)))
		for n, s := range o.sides {
			select {
			case s.pieces <- p:
			case <-o.ctx.Done():
				for range o.sides[n:] {
					p.release()
				}
				return 0, o.ctx.Err()
			}
		}
	}
	for _, s := range o.sides {
		if !s.failed.Load() {
			return len(b), o.ctx.Err()
		}
	}
	return 0, o.failure() // all places have failed: continuing is pointless
}

// failure is the error of an object that no place has written.
func (o *mirrorObject) failure() error {
	o.finish(false)
	var out error
	for _, s := range o.sides {
		if out == nil || out == errLost {
			out = s.err
		}
	}
	return out
}

// finish ends all sides, and waits for them.
func (o *mirrorObject) finish(commit bool) {
	if o.over {
		return
	}
	o.over = true
	for _, s := range o.sides {
		s.commit = commit
		close(s.pieces)
	}
	for _, s := range o.sides {
		<-s.done
	}
	o.cancel()
}

func (o *mirrorObject) Commit() error {
	if o.over {
		return o.failure()
	}
	err := o.ctx.Err()
	o.finish(err == nil)
	if err != nil {
		return err
	}
	var there error
	done := false
	for _, s := range o.sides {
		done = done || s.err == nil
		if tidemark.KindOf(s.err) == tidemark.Exists && s.err != nil {
			there = s.err
		}
	}
	switch {
	case done:
		for _, s := range o.sides {
			if s.err != nil && s.err != errLost {
				o.m.Lose(s.place, s.err) // it has another object with that name
			}
		}
		return nil
	case there != nil:
		return there
	}
	return o.failure()
}

func (o *mirrorObject) Abort() {
	if o.over {
		return
	}
	o.cancel()
	o.finish(false)
}
