package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/flow"
)

// Options of a Log. The zero value is good.
type Options struct {
	// MaxMessage is how many bytes a message has at most; default 1 MB less a bit, so that
	// it passes a NATS server with default settings. Larger ones cost fewer fsyncs: one
	// of 64 KB with 0.3 ms each gives at most 200 MB/s, one of 1 MB is bound by the disk.
	MaxMessage int
	// MaxTransactions is how many begin in a message at most; default: as many as fit.
	MaxTransactions int
	// Compress packs messages with zstd: less to write and to send, for about 2 ms of
	// CPU per MB.
	Compress bool
	// Waiting, if not nil, is called when Append begins and when it ends to wait for room,
	// on the goroutine that called Append.
	Waiting func(bool)
}

const (
	defaultMessage = 1<<20 - 16<<10
	minMessage     = 4 << 10
	maxMessage     = 32 << 20
)

// A Log is a queue of transactions in the order of their commits.
//
// Begin and Append are for the one who captures; Read and Trim for the one who applies,
// who may be in another process with a Log of his own. All methods may be called at once.
type Log struct {
	store Store
	opt   Options

	mu     sync.Mutex // of the writer
	writes bool       // Begin has been, and no Append has failed since
	p      packer
	began  uint64 // number of the last message when Begin looked
	stored uint64 // and now
	open   uint64 // and of that in which a transaction that is unfinished there begins

	statsMu sync.Mutex
	stats   Stats // what counts up, and Full
}

// Stats is what a Log holds, and what this one has appended to it.
type Stats struct {
	Messages     int64 // stored; the last one stays when all of it is applied
	Bytes, Limit int64
	// Behind First, up to and with Last the whole transactions in it lie. 0: there never were any.
	First, Last uint64
	Full        bool // Append waits for room
	// Since New: messages appended, their bytes, the time that it took to store them, and
	// the time that Append has waited for room.
	Put      int64
	PutBytes int64
	PutTime  time.Duration
	FullTime time.Duration
}

// New makes a Log of what a Store holds. Kind Invalid: the store is too small for
// messages of this size.
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
			"Raise the limit of the queue, or lower the size of messages, which is 4 KB at least.")
	}
	if opt.Compress {
		l.p.compress, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
		if err != nil {
			return nil, l.fail(tidemark.Bug, "open queue", err, "")
		}
	}
	return l, nil
}

func (l *Log) fail(kind tidemark.Kind, op string, err error, hint string) error {
	return &tidemark.Error{Op: op, Object: l.store.Name(), Kind: kind, Hint: hint, Err: err}
}

// wrap words an error of the store, or of a message that is not what it should be.
func (l *Log) wrap(op string, err error) error {
	var own *tidemark.Error
	switch {
	case err == nil, errors.As(err, &own), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, errFormat):
		return l.fail(tidemark.Unsupported, op, err, "Let the version that wrote it apply what is there, or begin the queue anew from where the target is, with --from-target, if the source still has its log from there.")
	case errors.Is(err, errDamaged), errors.Is(err, errChange), errors.Is(err, ErrMissing):
		return l.fail(tidemark.Corrupt, op, err, "Nothing behind the damage was applied. --from-target begins the queue anew from where the target is, if the source still has its log from there.")
	case errors.Is(err, errTrimmed):
		return l.fail(tidemark.Lost, op, err, "Somebody else trims the queue: end what else applies from it. Capture again if the target has not reached that place.")
	case errors.Is(err, ErrFenced):
		return l.fail(tidemark.Lost, op, err, "Two captures run for one queue: end one of them. Nothing of this one's was lost that it had put there.")
	}
	return l.fail(tidemark.Bug, op, err, "")
}

// errTrimmed is a message that is missing because it was before the first one when it was
// looked for.
var errTrimmed = errors.New("it was trimmed")

// get reads a message.
func (l *Log) get(ctx context.Context, seq uint64) (*message, error) {
	var m *message
	b, err := l.store.Get(ctx, seq)
	switch {
	case err == nil:
		if m, err = parse(b); err == nil && m.seq != seq {
			err = fmt.Errorf("it has the number %d: %w", m.seq, errDamaged)
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

// last gives the header and the checksum of the last message, or nothing if there never
// was one.
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

// Begin begins to append, and says behind which transaction the capture goes on: the Place
// and the End of the last whole one in the log. In a log that was never written to, end
// is from, where the stream of the capture begins, and place the one before it; the log
// takes note, and can tell a reader who asks for what was before it that this is not there.
//
// Whoever appended before gets an error of Kind Lost as soon as this one has appended. Until
// then it is this one who may find that there is more: what a process that was killed had on
// its way arrives whenever it does. That is of Kind Transient, and Begin has to look again.
// A transaction of which the log has only the first pieces is given up, and has to come
// again from its first piece; and relations have to come again before they are used.
func (l *Log) Begin(ctx context.Context, from uint64) (place, end uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writes = false
	last, sum, err := l.last(ctx)
	if err != nil {
		return 0, 0, l.wrap("append to", err)
	}
	if last.seq == 0 {
		last.whole, last.end = max(from, 1)-1, from
	}
	l.p.begin(last, sum, rand.Uint64())
	l.began, l.stored, l.open, l.writes = last.seq, last.seq, 0, true
	return last.whole, last.end, nil
}

// Append puts transactions, or pieces of them, behind what is there, in the order of their
// commits. They are durable when it returns. While the log is full it waits, and drops
// nothing; a transaction that is larger than the whole log is an error of Kind Full.
//
// After an error nobody knows how much of txs is in the log: Begin says it. Kind Lost:
// another Log has begun to append. Transient: it has appended since this one began; see Begin.
func (l *Log) Append(ctx context.Context, txs []*change.Tx) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.writes {
		return l.fail(tidemark.Bug, "append to", errors.New("Append without Begin"), "")
	}
	l.writes = false // until this one has gone well
	l.p.hint = 0
	for _, tx := range txs {
		l.p.hint += entrySize + len(tx.GTID) + len(tx.Origin) + len(tx.Changes)
	}
	for _, tx := range txs {
		if err := l.p.add(tx); err != nil {
			return l.fail(tidemark.Bug, "append to", err, "")
		}
	}
	switch err := l.put(ctx, l.p.take()); {
	case errors.Is(err, ErrFenced) && l.stored == l.began:
		return l.fail(tidemark.Transient, "append to", fmt.Errorf("there is more in it than when this capture began: %w", err), "")
	case err != nil:
		return l.wrap("append to", err)
	}
	l.writes = true
	return nil
}

// put stores messages, and waits for room where there is none.
func (l *Log) put(ctx context.Context, messages [][]byte) error {
	var full time.Time // since when
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
			return err
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
			case st.Bytes+need <= st.Limit:
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

// How long Append waits before it asks a full store again.
const (
	shortPause = 5 * time.Millisecond
	longPause  = 200 * time.Millisecond
)

// waits says that Append waits for room, or has waited for so long.
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

// checkStuck finds a full log that will never have room: it holds nothing but the
// beginning of a transaction, which can be applied only when its end is there too.
func (l *Log) checkStuck(st State) error {
	if l.open == 0 || st.First < l.open {
		return nil
	}
	return l.fail(tidemark.Full, "append to", fmt.Errorf("the transaction at place %d is larger than the whole queue of %d bytes", l.p.place, st.Limit),
		"Raise the limit of the queue above the largest transaction.")
}

// Trim forgets the transactions up to the Place low, message by message: what stands in
// one with a later transaction stays, as does the last message of all.
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

// find gives the message in which the first transaction behind the Place after begins;
// if there is none, the number behind the last.
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
		if !errors.Is(err, errTrimmed) { // which may happen while we look
			break
		}
	}
	return seq, st, err
}

// search gives the first of the messages from first to last for which yes is true, last+1
// if it is true for none. From one for which it is true on it is true for all. Messages
// near first are found fastest.
func (l *Log) search(ctx context.Context, first, last uint64, yes func(*message) bool) (uint64, error) {
	lo, hi := first, last+1 // false before lo; true from hi on
	for step := uint64(1); lo < hi; {
		at := lo + step - 1
		if step == 0 || at >= hi {
			step = 0 // from here on by halves
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

// Stats says what there is.
func (l *Log) Stats(ctx context.Context) (Stats, error) {
	st, err := l.store.State(ctx)
	if err != nil {
		return Stats{}, err
	}
	l.statsMu.Lock()
	s := l.stats
	l.statsMu.Unlock()
	s.Bytes, s.Limit = st.Bytes, st.Limit
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

// Close ends the use of the log and of its store.
func (l *Log) Close() error { return l.store.Close() }

// Ask leaves a text for whoever appends, of up to 4,000 bytes, in place of the one before: in a
// queue things go one way only.
func (l *Log) Ask(ctx context.Context, text []byte) error { return l.store.Ask(ctx, text) }

// Asked gives the text that was left last; nil: there is none.
func (l *Log) Asked(ctx context.Context) ([]byte, error) { return l.store.Asked(ctx) }
