package physical

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/postgres/server"
	"github.com/tidemarkdb/tidemark/postgres/wal"
)

// A course is what a Receiver receives in one session, of one timeline.
//
// The reader fills a segment while the keeper emits the previous one: two buffers of a segment's
// size are all the memory used. If the keeper is slow the reader waits, and with it the server; the
// reporter meanwhile tells the server that we are alive.
type course struct {
	r        *Receiver
	lane     *server.Lane
	timeline uint32
	start    uint64
	take     taker
	reports  server.Reporter

	next uint64 // place of the segment to open next
	bufs int    // buffers allocated so far
	free chan []byte

	mu   sync.Mutex
	open *tidemark.LogFile // being filled: its Bytes grow

	full  chan *tidemark.LogFile
	scan  *wal.Stream
	last  int64  // the latest commit in the segment that is being scanned
	given uint64 // end of what was emitted
}

const (
	buffers = 2
	// lastWords is how long storing the received data may take once Run has to end.
	lastWords = 30 * time.Second
)

// stream receives from a place on. nil: the timeline has ended, or all that was wanted has arrived.
func (r *Receiver) stream(ctx context.Context, l *server.Lane, slot string, at tidemark.LogPlace, take taker) error {
	reading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	release, err := l.Raw(reading)
	if err != nil {
		return err
	}
	defer release()
	defer l.Abandon()
	command := "START_REPLICATION "
	if slot != "" {
		command += "SLOT " + server.QuoteIdent(slot) + " "
	}
	if err := l.Send(fmt.Sprintf("%sPHYSICAL %s TIMELINE %d", command, wal.FormatLSN(at.Place), at.Timeline)); err != nil {
		return err
	}
	if err := l.Begun(); err != nil {
		return err
	}
	c := &course{r: r, lane: l, timeline: at.Timeline, start: at.Place, take: take, reports: server.NewReporter(), next: at.Place, given: at.Place,
		full: make(chan *tidemark.LogFile, 1), free: make(chan []byte, buffers)}
	c.scan = wal.NewStream(at.Place, 0, r.page, func(rec *tidemark.LogRecord) error {
		if rec.Ended == tidemark.Committed {
			c.last = max(c.last, rec.Time)
		}
		return nil
	})
	return c.run(ctx, reading, stop)
}

// run is stream once the server sends. ctx is the caller's, reading the reader's; stop ends
// reading.
func (c *course) run(ctx, reading context.Context, stop context.CancelCauseFunc) error {
	r, socket := c.r, c.lane.Conn.Conn()
	r.mu.Lock()
	r.linked, r.pid = true, c.lane.PID()
	r.wake = func() {
		_, _ = socket.Write(server.StatusMessage(c.start, 0, true)) // the reader notices a broken connection too
	}
	r.mu.Unlock()
	r.opt.Event(fmt.Sprintf("receiving timeline %d from %s", c.timeline, wal.FormatLSN(c.start)), nil)
	reporting, quiet := context.WithCancel(context.WithoutCancel(ctx))
	keeping, forget := context.WithCancel(reporting)
	defer forget()
	defer crash.OnDone(ctx, func() { crash.After(lastWords, forget) })()
	var reporter, keeper crash.Group
	reporter.Go(func() { c.reports.Run(reporting, socket, c.status, func(error) {}) })
	keeper.Go(func() { c.keep(keeping, stop) })
	next, err := c.read(reading)
	close(c.full)
	keeper.Wait()
	quiet()
	reporter.Wait()
	if ctx.Err() != nil { // so the server need not send again, or keep, what was taken last
		_ = socket.SetDeadline(time.Now().Add(time.Second))
		_, _ = socket.Write(c.status())
	}
	if cause := context.Cause(reading); cause != nil {
		return cause
	}
	if err == nil && next.Timeline != 0 {
		r.ends[next.Timeline] = next.Place / r.size * r.size
		r.opt.Event(fmt.Sprintf("timeline %d ends at %s, and timeline %d continues", c.timeline, wal.FormatLSN(next.Place), next.Timeline), nil)
	}
	return err
}

// status returns the message that reports our position.
func (c *course) status() []byte {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	if c.r.safe.Place == c.start {
		return server.StatusMessage(c.r.at.Place, 0, false)
	}
	return server.StatusMessage(c.r.at.Place, c.r.safe.Place, false)
}

// read reads what the server sends. next is where the log continues when the timeline ends.
func (c *course) read(ctx context.Context) (next tidemark.LogPlace, err error) {
	for at := c.start; ; {
		if c.r.enough(at) {
			return next, nil
		}
		m, over, err := c.lane.ReadLog()
		switch {
		case err != nil:
			return next, err
		case over:
			return c.turn()
		case len(m.Data) > 0 && m.At != at:
			return next, fmt.Errorf("the server sent the log from %s instead of %s", wal.FormatLSN(m.At), wal.FormatLSN(at))
		}
		for data := m.Data; len(data) > 0; {
			n, err := c.fill(ctx, data)
			if err != nil {
				return next, err
			}
			data = data[n:]
		}
		at += uint64(len(m.Data))
		c.r.came(tidemark.LogPlace{Timeline: c.timeline, Place: at}, m.End)
		if m.Asks {
			server.Signal(c.reports.Asked)
		}
	}
}

// fill puts bytes into the open segment, as many as it has room for.
func (c *course) fill(ctx context.Context, data []byte) (int, error) {
	if c.open == nil {
		if err := c.begin(ctx); err != nil {
			return 0, err
		}
	}
	c.mu.Lock()
	f := c.open
	n := min(len(data), f.Size-len(f.Bytes))
	f.Bytes = append(f.Bytes, data[:n]...)
	if f.Whole() {
		c.open = nil
	}
	c.mu.Unlock()
	if !f.Whole() {
		return n, nil
	}
	select {
	case c.full <- f:
		return n, nil
	case <-ctx.Done():
		return n, context.Cause(ctx)
	}
}

// begin opens the next segment, in a free buffer.
func (c *course) begin(ctx context.Context) error {
	var buf []byte
	if c.bufs < buffers {
		c.bufs++
		buf = make([]byte, 0, c.r.size)
	} else {
		select {
		case buf = <-c.free:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	f := &tidemark.LogFile{Name: wal.SegmentName(c.timeline, c.next, uint32(c.r.size)), Timeline: c.timeline, Place: c.next, Bytes: buf, Size: int(c.r.size)}
	c.next += c.r.size
	c.mu.Lock()
	c.open = f
	c.mu.Unlock()
	return nil
}

// turn reads the server's message at the end of a timeline: where the log continues.
func (c *course) turn() (next tidemark.LogPlace, err error) {
	if _, err := c.lane.Conn.Conn().Write([]byte{'c', 0, 0, 0, 4}); err != nil {
		return next, err
	}
	for {
		kind, n, err := c.lane.Head()
		if err != nil {
			return next, err
		}
		if kind == 'D' {
			body, err := c.lane.Body(n)
			if err != nil {
				return next, err
			}
			if next, err = parseTurn(body); err != nil {
				return next, err
			}
			continue
		}
		var a server.Answer
		if done := c.lane.Other(&a, kind, n); done || a.Err != nil {
			if a.Err == nil && next.Timeline == 0 {
				a.Err = errors.New("the server ended the stream without saying where its log continues")
			}
			return next, a.Err
		}
	}
}

// parseTurn reads a row of two texts: the next timeline, and the place where it begins.
func parseTurn(row []byte) (next tidemark.LogPlace, err error) {
	var columns [2]string
	wrong := fmt.Errorf("a malformed end of a timeline: %.40q", row)
	if len(row) < 2 || binary.BigEndian.Uint16(row) != 2 {
		return next, wrong
	}
	row = row[2:]
	for i := range columns {
		if len(row) < 4 || uint64(binary.BigEndian.Uint32(row)) > uint64(len(row)-4) {
			return next, wrong
		}
		n := 4 + int(binary.BigEndian.Uint32(row))
		columns[i], row = string(row[4:n]), row[n:]
	}
	n, err := strconv.ParseUint(columns[0], 10, 32)
	if err != nil || n == 0 {
		return next, wrong
	}
	next.Timeline = uint32(n)
	next.Place, err = wal.ParseLSN(columns[1])
	return next, err
}

// keep emits what the reader has filled, one file at a time, and finally what there is of the open
// segment.
func (c *course) keep(ctx context.Context, stop context.CancelCauseFunc) {
	var tick <-chan time.Time
	if c.r.opt.Partial > 0 {
		t := time.NewTicker(c.r.opt.Partial)
		defer t.Stop()
		tick = t.C
	}
	var err error
	for more := true; more && err == nil; {
		select {
		case f, ok := <-c.full:
			if more = ok; ok {
				err = c.keepWhole(ctx, f)
			}
		case <-tick:
			err = c.keepOpen(ctx)
		}
	}
	if err == nil {
		err = c.keepOpen(ctx)
	}
	if err != nil {
		stop(err)
	}
}

func (c *course) keepWhole(ctx context.Context, f *tidemark.LogFile) error {
	if err := c.check(f); err != nil {
		return err
	}
	c.last = 0
	if _, err := c.scan.Write(f.Bytes); err != nil {
		return err
	}
	f.Damage, f.LastCommit = c.scan.Damage(), c.last
	if err := c.handOn(ctx, f); err != nil {
		return err
	}
	c.r.mu.Lock()
	c.r.ends[c.timeline] = f.End()
	c.r.mu.Unlock()
	c.free <- f.Bytes[:0]
	return nil
}

// keepOpen emits what there is of the open segment, if it has grown.
func (c *course) keepOpen(ctx context.Context) error {
	c.mu.Lock()
	if c.open == nil || c.open.End() <= c.given {
		c.mu.Unlock()
		return nil
	}
	f := *c.open // the reader appends after these bytes
	c.mu.Unlock()
	if err := c.check(&f); err != nil {
		return err
	}
	return c.handOn(ctx, &f)
}

func (c *course) handOn(ctx context.Context, f *tidemark.LogFile) error {
	if err := c.take(ctx, f); err != nil {
		return server.EmitError{Err: err}
	}
	c.given = f.End()
	c.r.took(tidemark.LogPlace{Timeline: c.timeline, Place: c.given})
	server.Signal(c.reports.Freed)
	return nil
}

// check compares a segment's header with the expected one.
func (c *course) check(f *tidemark.LogFile) error {
	h, err := wal.ParseSegment(f.Bytes)
	if err != nil {
		return err
	}
	var wrong string
	switch {
	case h.Place != f.Place:
		wrong = "the one at " + wal.FormatLSN(h.Place)
	case strconv.FormatUint(h.System, 10) != c.r.system:
		wrong = fmt.Sprintf("of the server with the system identifier %d, and not %s", h.System, c.r.system)
	case h.Size != f.Size:
		wrong = fmt.Sprintf("one of %d bytes, and not %d", h.Size, f.Size)
	case h.Timeline > f.Timeline:
		wrong = fmt.Sprintf("of timeline %d", h.Timeline)
	default:
		return nil
	}
	return &tidemark.Error{Kind: tidemark.BadInput, Op: "receive", Object: f.Name, Err: errors.New("the server sent a segment whose header says " + wrong), Hint: "The file of that name in the server's pg_wal is damaged."}
}

// enough reports whether all that was wanted has arrived.
func (r *Receiver) enough(at uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.until > 0 && at >= r.until
}

const (
	markEvery = 20 * time.Millisecond
	mostMarks = 1024
)

// came records what has arrived, and where the server's log ended then.
func (r *Receiver) came(at tidemark.LogPlace, end uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at = at
	if end = max(end, at.Place); end <= r.end && len(r.marks) > 0 || end <= r.safe.Place {
		return
	}
	r.end = max(r.end, end)
	now, n := time.Now(), len(r.marks)
	if n > 0 && now.Sub(r.marks[n-1].seen) < markEvery {
		r.marks[n-1].place = end // makes a little of it seem older than it is
		return
	}
	if n == mostMarks {
		for i := range mostMarks / 2 {
			r.marks[i] = mark{r.marks[2*i+1].place, r.marks[2*i].seen}
		}
		r.marks = r.marks[:mostMarks/2]
	}
	r.marks = append(r.marks, mark{end, now})
}

// took records what was taken.
func (r *Receiver) took(safe tidemark.LogPlace) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.safe = safe
	n := 0
	for n < len(r.marks) && r.marks[n].place <= safe.Place {
		n++
	}
	r.marks = append(r.marks[:0], r.marks[n:]...)
}
