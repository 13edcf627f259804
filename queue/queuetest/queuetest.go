// Package queuetest is the conformance suite of queue.Store, through a Log.
package queuetest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/queue"
)

// A Maker creates stores for tests.
type Maker struct {
	// New creates an empty store of so many bytes, and returns a function that opens it, also again
	// after it was closed.
	New func(tb testing.TB, limit int64) (open func() queue.Store)
	// Giant is the size in bytes of a very large transaction; RAM is how much memory it may take.
	Giant, RAM int64
	// Checks is how many random sequences of operations are tried.
	Checks int
}

// A judge is a *testing.T or a *rapid.T.
type judge interface {
	Helper()
	Logf(string, ...any)
	Errorf(string, ...any)
	Fatal(...any)
	Fatalf(string, ...any)
}

// A bench is a log under test.
type bench struct {
	judge
	ctx   context.Context
	open  func() queue.Store
	opt   queue.Options
	store queue.Store
	log   *queue.Log
}

// Run runs the suite; with -short in smaller.
func Run(t *testing.T, m Maker) {
	if testing.Short() {
		m.Giant, m.Checks = min(m.Giant, 30<<20), min(m.Checks, 2)
	}
	for _, c := range []struct {
		name  string
		limit int64
		opt   queue.Options
		run   func(*bench)
	}{
		{"gives what it got, in order", 64 << 20, queue.Options{}, order},
		{"gives what it got from small messages", 64 << 20, queue.Options{MaxMessage: 4 << 10}, order},
		{"gives what it got packed", 64 << 20, queue.Options{Compress: true}, order},
		{"resumes at every place", 64 << 20, queue.Options{MaxMessage: 8 << 10}, resume},
		{"says each relation once", 64 << 20, queue.Options{MaxMessage: 4 << 10}, relations},
		{"waits for more", 64 << 20, queue.Options{}, waits},
		{"says how it stands while it is written and read", 64 << 20, queue.Options{}, looks},
		{"continues after a restart", 64 << 20, queue.Options{MaxMessage: 16 << 10}, restart},
		{"refuses what is not after the last", 64 << 20, queue.Options{}, refuses},
		{"forgets what was trimmed, and says so", 64 << 20, queue.Options{MaxMessage: 4 << 10}, trim},
		{"knows where it begins", 64 << 20, queue.Options{}, from},
		{"pushes back when it is full", 1 << 20, queue.Options{MaxMessage: 64 << 10}, full},
		{"refuses a transaction larger than itself", 1 << 20, queue.Options{MaxMessage: 64 << 10}, tooLarge},
		{"fences an earlier writer", 64 << 20, queue.Options{}, fences},
		{"leaves another stream's messages alone", 64 << 20, queue.Options{MaxMessage: 4 << 10}, strangers},
		{"sees what an earlier writer had in flight", 64 << 20, queue.Options{}, onItsWay},
		{"continues after an abandoned append", 64 << 20, queue.Options{MaxMessage: 4 << 10}, cancelled},
		{"skips what was abandoned", 64 << 20, queue.Options{MaxMessage: 8 << 10}, givenUp},
		{"keeps what was asked last", 64 << 20, queue.Options{}, asks},
		{"carries a change larger than a message", 64 << 20, queue.Options{MaxMessage: 64 << 10}, largeChange},
		{"carries a giant in little memory", 2*m.Giant + 64<<20, queue.Options{}, func(b *bench) { giant(b, m.Giant, m.RAM) }},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			b := &bench{judge: t, ctx: ctx, open: m.New(t, c.limit), opt: c.opt}
			b.reopen()
			defer func() { b.log.Close() }()
			b.begin()
			c.run(b)
		})
	}
	t.Run("does_what_a_slice_does", func(t *testing.T) {
		checks := flag.Lookup("rapid.checks")
		was := checks.Value.String()
		if was == checks.DefValue {
			checks.Value.Set(strconv.Itoa(m.Checks))
			defer checks.Value.Set(was)
		}
		rapid.Check(t, func(r *rapid.T) { random(t, r, m) })
	})
}

// reopen closes the log and its store, if open, and opens both.
func (b *bench) reopen() {
	b.Helper()
	if b.log != nil {
		if err := b.log.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.store = b.open()
	log, err := queue.New(b.ctx, b.store, b.opt)
	if err != nil {
		b.Fatal(err)
	}
	b.log = log
}

func (b *bench) begin() (place, end uint64) {
	b.Helper()
	place, end, err := b.log.Begin(b.ctx, 0)
	if err != nil {
		b.Fatal(err)
	}
	return place, end
}

func (b *bench) append(txs ...*change.Tx) {
	b.Helper()
	if err := b.log.Append(b.ctx, keep(txs)); err != nil {
		b.Fatal(err)
	}
}

// appendSome appends txs, at of them at a time.
func (b *bench) appendSome(txs []*change.Tx, at int) {
	b.Helper()
	for len(txs) > 0 {
		n := min(at, len(txs))
		b.append(txs[:n]...)
		txs = txs[n:]
	}
}

var errEnough = errors.New("enough")

// read reads after the place after, until the transaction at place until has arrived.
func (b *bench) read(after, until uint64) []*change.Tx {
	b.Helper()
	if until <= after {
		return nil
	}
	var out []*change.Tx
	err := b.log.Read(b.ctx, after, func(tx *change.Tx) error {
		out = append(out, tx)
		if !tx.More && tx.Place >= until {
			return errEnough
		}
		return nil
	})
	if err != errEnough {
		b.Fatalf("reading from %d to %d: %v", after, until, err)
	}
	return out
}

// wantKind checks an error's kind and text, and that it has a hint unless it is Transient or Bug.
func (b *bench) wantKind(err error, kind tidemark.Kind, text string) {
	b.Helper()
	if tidemark.KindOf(err) != kind || !strings.Contains(err.Error(), text) {
		b.Fatalf("the error is %v (%v); one of kind %v with %q was expected", err, tidemark.KindOf(err), kind, text)
	}
	if kind != tidemark.Transient && kind != tidemark.Bug && tidemark.HintOf(err) == "" {
		b.Fatalf("the error %v has no hint", err)
	}
}

func order(b *bench) {
	s := newSource(1)
	txs := s.some(300)
	b.appendSome(txs, 37)
	equal(b, flat(b, b.read(0, s.place)), flat(b, txs))
	st, err := b.log.Stats(b.ctx)
	if err != nil || st.Last != s.place || st.First != 0 || st.Messages == 0 || st.Bytes == 0 || st.Put != st.Messages || st.PutTime == 0 {
		b.Fatalf("stats %+v, %v; the last transaction is at %d", st, err, s.place)
	}
}

func resume(b *bench) {
	s := newSource(2)
	txs := s.some(60)
	b.appendSome(txs, 7)
	want := flat(b, txs)
	n := 0
	for _, tx := range txs {
		if tx.More {
			continue
		}
		n++
		equal(b, flat(b, b.read(tx.Place, s.place)), want[n:])
		equal(b, flat(b, b.read(tx.Place-1, s.place)), want[n-1:])
	}
}

// relations: each relation reaches the reader once, although every message has it.
func relations(b *bench) {
	s := newSource(3)
	var want int
	s.rnd = rand.New(rand.NewPCG(3, 3))
	for i := range 200 {
		txs := s.next(1, 3, 300)
		for rest := txs[0].Changes; len(rest) > 0; {
			c, next, _ := change.Next(rest)
			if rest = next; c.Kind == tidemark.RelationChange {
				want++
			}
		}
		if i == 100 {
			s.restart() // all are sent again, unchanged
			want += 4
		}
		b.append(txs...)
	}
	got := 0
	for _, tx := range b.read(0, s.place) {
		for rest := tx.Changes; len(rest) > 0; {
			c, next, err := change.Next(rest)
			if err != nil {
				b.Fatal(err)
			}
			if rest = next; c.Kind == tidemark.RelationChange {
				got++
			}
		}
	}
	if got == 0 || got > want {
		b.Fatalf("%d relations came, and %d were in the stream", got, want)
	}
}

func waits(b *bench) {
	s := newSource(4)
	var all []*change.Tx
	var parts [][]*change.Tx
	ends := map[uint64]bool{}
	for range 6 {
		part := s.some(5)
		parts, all = append(parts, part), append(all, part...)
		ends[s.place] = true
	}
	b.append(parts[0]...)
	reached, done := make(chan struct{}), make(chan error, 1)
	var got []*change.Tx
	ctx, cancel := context.WithCancel(b.ctx)
	go func() {
		done <- b.log.Read(ctx, 0, func(tx *change.Tx) error {
			got = append(got, tx)
			if !tx.More && ends[tx.Place] {
				reached <- struct{}{}
			}
			return nil
		})
	}()
	await := func() {
		select {
		case <-reached:
		case err := <-done:
			b.Fatalf("the read ended: %v", err)
		}
	}
	await()
	took := time.Hour
	for _, part := range parts[1:] { // at least one concurrently: a machine may have no time for it
		begun := time.Now()
		b.append(part...)
		await()
		took = min(took, time.Since(begun))
	}
	if took > 2*time.Second {
		b.Errorf("what was appended was read %v later", took)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		b.Fatalf("a read that was ended gives %v", err)
	}
	equal(b, flat(b, got), flat(b, all))
}

// looks polls the state of the log while one goroutine appends and another reads.
func looks(b *bench) {
	s := newSource(19)
	var txs []*change.Tx
	parts := make([][]*change.Tx, 100)
	for i := range parts {
		parts[i] = s.some(1)
		txs = append(txs, parts[i]...)
	}
	end := s.place
	appended, looked := make(chan error, 1), make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < len(parts) && err == nil; i++ {
			err = b.log.Append(b.ctx, keep(parts[i]))
		}
		appended <- err
	}()
	go func() {
		for last := uint64(0); last < end; {
			st, err := b.log.Stats(b.ctx)
			if err == nil && st.Last < last {
				err = fmt.Errorf("it ended at %d, and then at %d", last, st.Last)
			}
			if err != nil {
				looked <- err
				return
			}
			last = st.Last
		}
		looked <- nil
	}()
	equal(b, flat(b, b.read(0, end)), flat(b, txs))
	for who, c := range map[string]chan error{"append": appended, "look": looked} {
		if err := <-c; err != nil {
			b.Errorf("%s: %v", who, err)
		}
	}
}

func restart(b *bench) {
	s := newSource(5)
	var txs []*change.Tx
	for range 4 {
		more := s.some(20)
		b.appendSome(more, 3)
		txs = append(txs, more...)
		b.reopen()
		if place, end := b.begin(); place != s.place || end != s.place+1 {
			b.Fatalf("after a restart the last transaction is at %d and ends at %d; it is at %d", place, end, s.place)
		}
		s.restart()
	}
	equal(b, flat(b, b.read(0, s.place)), flat(b, txs))
}

func refuses(b *bench) {
	s := newSource(6)
	txs := s.next(1, 2, 10)
	b.append(txs...)
	b.wantKind(b.log.Append(b.ctx, keep(txs)), tidemark.Bug, "not after the last one")
	b.wantKind(b.log.Append(b.ctx, keep(s.next(1, 1, 1))), tidemark.Bug, "without Begin")
	b.begin()
	b.wantKind(b.log.Append(b.ctx, keep(s.next(1, 1, 1))), tidemark.Bug, "has not described")
	b.begin()
	s.restart()
	half := s.next(2, 1, 1)[:1]
	b.append(half...)
	b.wantKind(b.log.Append(b.ctx, keep(s.next(1, 1, 1))), tidemark.Bug, "has not ended")
	equal(b, flat(b, b.read(0, txs[0].Place)), flat(b, txs))
}

func trim(b *bench) {
	s := newSource(7)
	txs := s.some(200)
	b.appendSome(txs, 11)
	before, err := b.log.Stats(b.ctx)
	if err != nil {
		b.Fatal(err)
	}
	var low uint64
	var rest []*change.Tx // after low
	for i, tx := range txs {
		if i > len(txs)/2 && !tx.More && low == 0 {
			low, rest = tx.Place, txs[i+1:]
		}
	}
	want := flat(b, txs)[len(flat(b, txs[:len(txs)-len(rest)])):]
	for _, l := range []uint64{0, txs[0].Place, low, low - 5, low} {
		if err := b.log.Trim(b.ctx, l); err != nil {
			b.Fatal(err)
		}
	}
	after, err := b.log.Stats(b.ctx)
	if err != nil || after.Bytes > before.Bytes*2/3 || after.Bytes < before.Bytes/4 || after.Messages >= before.Messages || after.First == 0 || after.First > low {
		b.Fatalf("half of the transactions were trimmed: before %+v, now %+v, %v", before, after, err)
	}
	equal(b, flat(b, b.read(low, s.place)), want)
	err = b.log.Read(b.ctx, after.First-1, func(*change.Tx) error { return nil })
	b.wantKind(err, tidemark.Lost, "it begins after position")

	if err := b.log.Trim(b.ctx, s.place+100); err != nil {
		b.Fatal(err)
	}
	if after, err = b.log.Stats(b.ctx); err != nil || after.Messages != 1 {
		b.Fatalf("when all is trimmed there is %+v, %v", after, err)
	}
	b.reopen()
	if place, _ := b.begin(); place != s.place {
		b.Fatalf("when all is trimmed the last transaction is at %d, and was at %d", place, s.place)
	}
	s.restart()
	more := s.some(10)
	last := txs[len(txs)-1].Place
	b.append(more...)
	equal(b, flat(b, b.read(last, s.place)), flat(b, more))
}

func from(b *bench) {
	place, end, err := b.log.Begin(b.ctx, 900)
	if err != nil || place != 899 || end != 900 {
		b.Fatalf("an empty log that begins at 900 continues after %d, at %d, %v", place, end, err)
	}
	s := newSource(8)
	txs := s.some(3)
	b.append(txs...)
	equal(b, flat(b, b.read(899, s.place)), flat(b, txs))
	equal(b, flat(b, b.read(0, s.place)), flat(b, txs))
	err = b.log.Read(b.ctx, 898, func(*change.Tx) error { return nil })
	b.wantKind(err, tidemark.Lost, "it begins after position 899, and the target is at 898")
}

func full(b *bench) {
	var waiting atomic.Int32
	b.opt.Waiting = func(begins bool) {
		if begins {
			waiting.Add(1)
		} else {
			waiting.Add(100)
		}
	}
	b.reopen()
	b.begin()
	s := newSource(9)
	var txs []*change.Tx
	for range 40 {
		txs = append(txs, s.next(1, 20, 4000)...) // about 40 KB each
	}
	done := make(chan error, 1)
	go func() {
		for _, tx := range keep(txs) {
			if err := b.log.Append(b.ctx, []*change.Tx{tx}); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for waiting.Load() == 0 {
		select {
		case err := <-done:
			b.Fatalf("1.6 MB went into a queue of 1 MB: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	st, err := b.log.Stats(b.ctx)
	if err != nil || !st.Full || st.Bytes > 1<<20 || st.Limit != 1<<20 {
		b.Fatalf("a full queue says %+v, %v", st, err)
	}
	var got []*change.Tx
	err = b.log.Read(b.ctx, 0, func(tx *change.Tx) error {
		got = append(got, tx)
		if tx.Place == s.place && !tx.More {
			return errEnough
		}
		if tx.More {
			return nil
		}
		return b.log.Trim(b.ctx, tx.Place)
	})
	if err != errEnough {
		b.Fatal(err)
	}
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	equal(b, flat(b, got), flat(b, txs))
	if st, err = b.log.Stats(b.ctx); err != nil || st.Full || st.FullTime == 0 || waiting.Load() < 101 {
		b.Fatalf("a queue that was full says %+v, %v", st, err)
	}

	ctx, cancel := context.WithTimeout(b.ctx, 300*time.Millisecond)
	defer cancel()
	for err == nil {
		err = b.log.Append(ctx, s.next(1, 20, 4000))
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		b.Fatalf("a wait for room that was ended gives %v", err)
	}
}

func tooLarge(b *bench) {
	s := newSource(10)
	b.append(s.next(1, 1, 10)...)
	var err error
	for i := 0; err == nil; i++ {
		txs := s.next(2, 20, 4000)[:1]
		txs[0].Place = 5000
		if err = b.log.Append(b.ctx, txs); err == nil && i > 40 {
			b.Fatal("1.6 MB of one transaction went into a queue of 1 MB")
		}
		if i == 5 {
			if err := b.log.Trim(b.ctx, s.place); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.wantKind(err, tidemark.Full, "the transaction at position 5000 is larger than the whole queue of 1048576 bytes")
}

func largeChange(b *bench) {
	s := newSource(13)
	described := s.describe()
	first := s.some(3)
	first[0].Changes = append(described, first[0].Changes...)
	txs := s.next(3, 2, 100)
	s.add(txs[1], 1, 3<<20)
	s.add(txs[1], 2, 100)
	last := s.some(3)
	b.append(first...)
	for _, tx := range txs {
		b.append(tx)
	}
	b.append(last...)
	want := flat(b, append(append(first, txs...), last...))
	equal(b, flat(b, b.read(0, s.place)), want)
	equal(b, flat(b, b.read(txs[0].Place, s.place)), want[4:])
}

// giant: a transaction much larger than the memory that it may take.
func giant(b *bench, size, ram int64) {
	s := newSource(14)
	first := s.next(1, 1, 10)
	first[0].Changes = append(s.describe(), first[0].Changes...)
	template := s.next(2, 2000, 4000)[0] // about 4 MB
	b.append(first...)
	var peak atomic.Uint64
	runtime.GC()
	base := heap()
	stop := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
				runtime.GC() // measure only memory in use
				peak.Store(max(peak.Load(), heap()))
			}
		}
	}()
	var appended, rows int64
	for appended < size {
		tx := *template
		tx.Place = 9000
		appended += int64(len(tx.Changes))
		rows += int64(tx.Rows)
		if appended >= size {
			tx.More, tx.End = false, 9001
		}
		if err := b.log.Append(b.ctx, []*change.Tx{&tx}); err != nil {
			b.Fatal(err)
		}
	}
	var read, readRows int64
	err := b.log.Read(b.ctx, first[0].Place, func(tx *change.Tx) error {
		read += int64(len(tx.Changes))
		readRows += int64(tx.Rows)
		if !tx.More {
			return errEnough
		}
		return nil
	})
	close(stop)
	<-stopped
	if err != errEnough || read < appended || readRows != rows {
		b.Fatalf("%d bytes and %d rows of %d and %d were read: %v", read, readRows, appended, rows, err)
	}
	used := int64(peak.Load()) - int64(base)
	b.Logf("a transaction of %d MB took %d MB of memory", size>>20, used>>20)
	if used > ram {
		b.Errorf("more than %d MB", ram>>20)
	}
}

// heap returns what the last collection has found in use; what was allocated since then is not in
// it, however long ago that was on a busy machine.
func heap() uint64 {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	return live[0].Value.Uint64()
}
