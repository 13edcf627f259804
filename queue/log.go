package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/flow"
)

// Options of a Log. The zero value is usable.
type Options struct {
	// MaxMessage is the largest message size in bytes; default slightly less than 1 MB, so that a
	// NATS server with default settings accepts it. Larger ones cost fewer fsyncs: 64 KB with 0.3
	// ms each give at most 200 MB/s; with 1 MB the disk is the limit.
	MaxMessage int
	// MaxTransactions is how many transactions begin in a message, at most; default: as many as
	// fit.
	MaxTransactions int
	// Compress compresses messages with zstd: fewer bytes to write and send, for about 2 ms of CPU
	// per MB.
	Compress bool
	// Waiting, if not nil, is called when Append begins and when it stops waiting for room, on the
	// goroutine that called Append.
	Waiting func(bool)
}

const (
	defaultMessage = 1<<20 - 16<<10
	minMessage     = 4 << 10
	maxMessage     = 32 << 20
)

// A Log is a queue of transactions in commit order.
//
// The capture calls Begin and Append; the apply, which may be another process with its own Log,
// calls Read and Trim. All methods are safe for concurrent use.
type Log struct {
	store Store
	opt   Options
	of    uint32 // the stream that it belongs to; 0: not known

	mu     sync.Mutex // of the writer
	writes bool       // Begin was called, and no Append has failed since
	p      packer
	began  uint64 // number of the last message at Begin
	stored uint64 // and now
	open   uint64 // number of the message in which the transaction unfinished there begins

	statsMu sync.Mutex
	stats   Stats // the counters, and Full
}

// Stats is the content of a Log, and what this one has appended.
type Stats struct {
	Messages     int64 // stored; the last one stays even when everything is applied
	Bytes, Limit int64
	// The whole transactions in it are after First, up to and including Last. 0: there never were
	// any.
	First, Last uint64
	Full        bool // Append waits for room
	Narrow      bool // Limit is what the disk has room for, less than the limit of the queue
	// Since New: messages appended, their bytes, the time it took to store them, and the time that
	// Append has waited for room.
	Put      int64
	PutBytes int64
	PutTime  time.Duration
	FullTime time.Duration
}

// New creates a Log on a Store. Kind Invalid: the store is too small for messages of this size.
func New(ctx context.Context, store Store, opt Options) (*Log, error) {
	st, err := store.State(ctx)
	if err != nil {
		return nil, err
	}
	if opt.MaxMessage <= 0 {
		opt.MaxMessage = defaultMessage
	}
	opt.MaxMessage = min(opt.MaxMessage, st.MaxMessage, maxMessage)
	l := &Log{store: store, opt: opt, p: packer{max: opt.MaxMessage, most: opt.MaxTransactions}}
	if opt.MaxMessage < minMessage || st.Limit < 4*int64(opt.MaxMessage) {
		return nil, l.fail(tidemark.Invalid, "open queue", fmt.Errorf("a queue of %d bytes does not hold four messages of %d", st.Limit, opt.MaxMessage),
			"Raise the limit of the queue, or lower the size of messages, which is at least 4 KB.")
	}
	if opt.Compress {
		l.p.compress, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
		if err != nil {
			return nil, l.fail(tidemark.Bug, "open queue", err, "")
		}
	}
	return l, nil
}

// Of says which stream the log belongs to, by a random number: what it appends carries that, and a
// message of another stream is an error of Kind NotEmpty, ErrOther, in whatever method finds it,
// before anything of it is handed on or removed. 0, as without Of, means that this is not known:
// any stream's messages are read, and what is appended belongs to the stream of the last one. Call
// it before anything else.
func (l *Log) Of(stream uint32) { l.of = stream }

func (l *Log) fail(kind tidemark.Kind, op string, err error, hint string) error {
	return &tidemark.Error{Op: op, Object: l.store.Name(), Kind: kind, Hint: hint, Err: err}
}

// wrap explains an error of the store, or an invalid message.
func (l *Log) wrap(op string, err error) error {
	var own *tidemark.Error
	switch {
	case err == nil, errors.As(err, &own), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, errFormat):
		return l.fail(tidemark.Unsupported, op, err, "Let the version that wrote it apply what is there, or restart the queue from the target's position with --from-target, if the source still has its log from there.")
	case errors.Is(err, errDamaged), errors.Is(err, errChange), errors.Is(err, ErrMissing):
		return l.fail(tidemark.Corrupt, op, err, "Nothing after the damage was applied. --from-target restarts the queue from the target's position, if the source still has its log from there.")
	case errors.Is(err, ErrOther):
		return l.fail(tidemark.NotEmpty, op, ErrOther, OtherHint)
	case errors.Is(err, errTrimmed):
		return l.fail(tidemark.Lost, op, err, "Another process trims the queue: end any other apply from it. Capture again if the target has not reached that place.")
	case errors.Is(err, ErrFenced):
		return l.fail(tidemark.Lost, op, err, "Two captures run for one queue: end one of them. Nothing that this one has written is lost.")
	}
	return l.fail(tidemark.Bug, op, err, "")
}

// errTrimmed means that a message is missing because it was already before the first one.
var errTrimmed = errors.New("it was trimmed")

// get reads a message.
func (l *Log) get(ctx context.Context, seq uint64) (*message, error) {
	var m *message
	b, err := l.store.Get(ctx, seq)
	switch {
	case err == nil:
		if m, err = parse(b); err == nil && m.seq != seq {
			err = fmt.Errorf("it has the number %d: %w", m.seq, errDamaged)
		} else if err == nil && l.of != 0 && m.stream != l.of {
			err = ErrOther
		}
	case errors.Is(err, ErrMissing):
		if st, e := l.store.State(ctx); e == nil && seq < st.First {
			err = errTrimmed
		}
	}
	if err != nil {
		return nil, fmt.Errorf("message %d: %w", seq, err)
	}
	return m, nil
}

// last returns the header and the checksum of the last message; zero if there never was one.
func (l *Log) last(ctx context.Context) (header, uint64, error) {
	st, err := l.store.State(ctx)
	if err != nil || st.Last == 0 {
		return header{}, 0, err
	}
	m, err := l.get(ctx, st.Last)
	if err != nil {
		return header{}, 0, err
	}
	return m.header, m.sum, nil
}

// Begin begins to append, and returns the transaction after which the capture continues: the Place
// and the End of the last whole one in the log. In a log that was never written to, end is from,
// where the capture's stream begins, and place the one before it; the log records this, so a reader
// that asks for an earlier place gets an error.
//
// An earlier writer gets an error of Kind Lost once this one has appended. Until then this one may
// find more messages: those that a killed process had in flight may still arrive. That is an error
// of Kind Transient, and requires another Begin. A transaction of which the log has only the first
// pieces is abandoned, and must come again from its first piece; relations must come again before
// they are used.
func (l *Log) Begin(ctx context.Context, from uint64) (place, end uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writes = false
	last, sum, err := l.last(ctx)
	if err != nil {
		return 0, 0, l.wrap("append to", err)
	}
	if last.seq == 0 {
		last.whole, last.end, last.stream = max(from, 1)-1, from, l.of
	}
	l.p.begin(last, sum, rand.Uint64())
	l.began, l.stored, l.open, l.writes = last.seq, last.seq, 0, true
	return last.whole, last.end, nil
}

// Append appends transactions, or pieces of them, in commit order. They are durable when it
// returns. While the log or its disk is full it waits, and drops nothing; a transaction that is
// larger than the whole log is an error of Kind Full. So is a disk that the Store finds full only
// when it writes: a NoRoom.
//
// After an error it is unknown how much of txs is in the log: Begin finds out. Kind Lost: another
// Log has begun to append. Transient: it has appended since this one began; see Begin.
func (l *Log) Append(ctx context.Context, txs []*change.Tx) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.writes {
		return l.fail(tidemark.Bug, "append to", errors.New("Append without Begin"), "")
	}
	l.writes = false // until this one has succeeded
	l.p.hint = 0
	for _, tx := range txs {
		l.p.hint += entrySize + len(tx.GTID) + len(tx.Origin) + len(tx.Changes)
	}
	for _, tx := range txs {
		if err := l.p.add(tx); err != nil {
			return l.fail(tidemark.Bug, "append to", err, "")
		}
	}
	switch err := l.put(ctx, l.p.drain()); {
	case errors.Is(err, ErrFenced) && l.stored == l.began:
		return l.fail(tidemark.Transient, "append to", fmt.Errorf("there is more in it than when this capture began: %w", err), "")
	case err != nil:
		return l.wrap("append to", err)
	}
	l.writes = true
	return nil
}

// put stores messages, and waits for room if necessary.
func (l *Log) put(ctx context.Context, messages [][]byte) error {
	var full time.Time // when it became full
	defer func() {
		if !full.IsZero() {
			l.waits(false, time.Since(full))
		}
	}()
	pause := shortPause
	for len(messages) > 0 {
		begun := time.Now()
		n, err := l.store.Put(ctx, l.stored+1, messages)
		if n > 0 {
			l.stored, l.open = l.stored+uint64(n), openOf(messages[n-1])
			l.count(messages[:n], time.Since(begun))
			messages, pause = messages[n:], shortPause
		}
		switch {
		case err == nil:
			continue
		case !errors.Is(err, ErrFull):
			return WithoutRoom(err)
		}
		if full.IsZero() {
			full = time.Now()
			l.waits(true, 0)
		}
		for need := int64(len(messages[0])); need > 0; pause = min(2*pause, longPause) {
			if err := flow.Sleep(ctx, pause); err != nil {
				return err
			}
			st, err := l.store.State(ctx)
			switch {
			case err != nil:
				return err
			case st.Bytes+need <= st.room():
				need = 0 // worth another attempt
			default:
				if err := l.checkStuck(st); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// How long Append waits before it tries a full store again.
const (
	shortPause = 5 * time.Millisecond
	longPause  = 200 * time.Millisecond
)

// waits records that Append begins to wait for room, or for how long it has waited.
func (l *Log) waits(begins bool, took time.Duration) {
	l.statsMu.Lock()
	l.stats.Full = begins
	l.stats.FullTime += took
	l.statsMu.Unlock()
	if l.opt.Waiting != nil {
		l.opt.Waiting(begins)
	}
}

func (l *Log) count(messages [][]byte, took time.Duration) {
	l.statsMu.Lock()
	defer l.statsMu.Unlock()
	l.stats.PutTime += took
	l.stats.Put += int64(len(messages))
	for _, b := range messages {
		l.stats.PutBytes += int64(len(b))
	}
}

// checkStuck detects a full log that will never have room: it contains only the beginning of a
// transaction, which cannot be applied without its end. On a full disk somebody else may make room.
func (l *Log) checkStuck(st State) error {
	if l.open == 0 || st.First < l.open || st.narrow() {
		return nil
	}
	return l.fail(tidemark.Full, "append to", fmt.Errorf("the transaction at position %d is larger than the whole queue of %d bytes", l.p.place, st.Limit),
		"Raise the limit of the queue above the largest transaction.")
}

// Trim removes the transactions up to the Place low, message by message: a message that also has a
// later transaction stays, as does the last message.
func (l *Log) Trim(ctx context.Context, low uint64) error {
	const op = "trim"
	seq, st, err := l.find(ctx, low)
	if err != nil {
		return l.wrap(op, err)
	}
	if seq = min(seq, st.Last); seq <= st.First {
		return nil
	}
	return l.wrap(op, l.store.Purge(ctx, seq))
}

// find returns the message in which the first transaction after the Place after begins; if there is
// none, the number after the last message.
func (l *Log) find(ctx context.Context, after uint64) (seq uint64, st State, err error) {
	for range 3 {
		if st, err = l.store.State(ctx); err != nil {
			return 0, st, err
		}
		seq, err = l.search(ctx, st.First, st.Last, func(m *message) bool { return m.whole > after })
		if err == nil && seq > st.First {
			var before *message
			if before, err = l.get(ctx, seq-1); err == nil && before.open > 0 {
				seq = before.open
			}
		}
		if !errors.Is(err, errTrimmed) { // which may happen during the search
			break
		}
	}
	return seq, st, err
}

// search returns the first of the messages from first to last for which yes is true, last+1 if it
// is true for none. Once true, it is true for all later ones. Messages near first are found
// fastest.
func (l *Log) search(ctx context.Context, first, last uint64, yes func(*message) bool) (uint64, error) {
	lo, hi := first, last+1 // false before lo; true from hi on
	for step := uint64(1); lo < hi; {
		at := lo + step - 1
		if step == 0 || at >= hi {
			step = 0 // binary search from here on
			at = lo + (hi-lo)/2
		}
		m, err := l.get(ctx, at)
		switch {
		case err != nil:
			return 0, err
		case yes(m):
			hi, step = at, 0
		default:
			lo, step = at+1, 2*step
		}
	}
	return lo, nil
}

// Stats returns the present content and the counters.
func (l *Log) Stats(ctx context.Context) (Stats, error) {
	st, err := l.store.State(ctx)
	if err != nil {
		return Stats{}, err
	}
	l.statsMu.Lock()
	s := l.stats
	l.statsMu.Unlock()
	s.Bytes, s.Limit, s.Narrow = st.Bytes, st.room(), st.narrow()
	if st.First > st.Last {
		return s, nil
	}
	s.Messages = int64(st.Last - st.First + 1)
	first, err := l.get(ctx, st.First)
	if errors.Is(err, errTrimmed) {
		first, err = l.get(ctx, st.Last)
	}
	if err != nil {
		return s, l.wrap("read", err)
	}
	last, err := l.get(ctx, st.Last)
	if err != nil {
		return s, l.wrap("read", err)
	}
	s.First, s.Last = first.after, last.whole
	return s, nil
}

// Folder returns where a Store of this process keeps its files, without symbolic links; "" if it
// has none.
func (l *Log) Folder() string {
	s, ok := l.store.(interface{ Folder() string })
	if !ok || s.Folder() == "" {
		return ""
	}
	real, err := filepath.EvalSymlinks(s.Folder())
	if err != nil {
		return ""
	}
	real, _ = filepath.Abs(real) // fails only without a current folder
	return real
}

// Full reports whether Append waits for room.
func (l *Log) Full() bool {
	l.statsMu.Lock()
	defer l.statsMu.Unlock()
	return l.stats.Full
}

// Close closes the log and its store.
func (l *Log) Close() error { return l.store.Close() }

// Ask leaves a text of up to 4,000 bytes for the writer, replacing an earlier one: the queue itself
// has only one direction.
func (l *Log) Ask(ctx context.Context, text []byte) error { return l.store.Ask(ctx, text) }

// Asked returns the text that was left last; nil: there is none.
func (l *Log) Asked(ctx context.Context) ([]byte, error) { return l.store.Asked(ctx) }
