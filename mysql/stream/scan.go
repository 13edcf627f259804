package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/mysql/binlog"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// A LogScanner scans the log of a running server, which sends it as to a replica: the user needs
// REPLICATION SLAVE, and REPLICATION CLIENT (MariaDB: BINLOG MONITOR). Unlike with a
// semi-synchronous replica, no commit waits for it.
type LogScanner struct {
	e     *Source
	r     tidemark.LogRange
	until atomic.Uint64 // 0 until For has elapsed
	wire  *server.Wire
	heard atomic.Int64
	sends chan struct{} // closed when the server begins to send

	before, after syncCount // at the beginning and end of For
}

// ScanLog returns a scanner for a part of the server's log, for one scan.
func (e *Source) ScanLog(r tidemark.LogRange) *LogScanner {
	return &LogScanner{e: e, r: r, sends: make(chan struct{})}
}

// Scan reads the log to its end, as ha.Log specifies. Errors: Lost (the server has removed the
// requested part), Forbidden, Invalid (no event begins at From), Unsupported (the server keeps no
// log).
func (l *LogScanner) Scan(ctx context.Context, emit func(*tidemark.LogRecord) error) (tidemark.LogScan, error) {
	out, err := l.scan(ctx, emit)
	var emitted *server.EmitError
	switch cause := context.Cause(ctx); {
	case err == nil:
		return out, nil
	case errors.As(err, &emitted):
		return out, emitted.Err
	case cause != nil:
		err = cause
	}
	var my *gomysql.MyError
	if errors.As(err, &my) && my.Code == gomysql.ER_MASTER_FATAL_ERROR_READING_BINLOG {
		return out, l.refused(my)
	}
	return out, l.e.Fail("scan", l.e.Masked, err)
}

// refused makes the error of a server that cannot send its log from a place.
func (l *LogScanner) refused(my *gomysql.MyError) error {
	out := &tidemark.Error{Op: "scan", Object: l.e.Masked, Kind: tidemark.Lost, Err: server.Said(my), Hint: "Begin later, or scan files of an archive."}
	if text := strings.ToLower(my.Message); !strings.Contains(text, "could not find") && !strings.Contains(text, "purged") {
		out.Kind, out.Hint = tidemark.Invalid, "Begin at a place where an event begins: SHOW BINLOG EVENTS lists them; offset 4 is the first of each file."
	}
	return out
}

func (l *LogScanner) scan(ctx context.Context, emit func(*tidemark.LogRecord) error) (out tidemark.LogScan, err error) {
	now, err := l.e.End(ctx)
	if err != nil {
		return out, err
	}
	file, from, err := l.from(ctx, now)
	if err != nil {
		return out, err
	}
	if l.r.Until > 0 && l.r.Until <= from {
		return out, &tidemark.Error{Kind: tidemark.Invalid, Op: "scan", Object: l.e.Masked, Err: fmt.Errorf("the log range from %s to %s is empty", server.PlaceText(from), server.PlaceText(l.r.Until)), Hint: "Give a later end."}
	}
	end := l.r.Until
	if end == 0 && l.r.For == 0 {
		end = now
	}
	l.until.Store(end)
	s := binlog.NewScanner(func(r *tidemark.LogRecord) error {
		if err := emit(r); err != nil {
			return &server.EmitError{Err: err}
		}
		return nil
	})
	s.Sent()
	if end == 0 || from < end {
		err = l.follow(ctx, s, file, uint32(from))
	}
	out = s.Result()
	switch before, after := l.before, l.after; {
	case err != nil || l.r.For == 0:
	case after.unknown != "":
		out.Findings = append(out.Findings, after.unknown)
	case after.count >= before.count:
		out.Syncs, out.SyncsFrom, out.SyncsTo = after.count-before.count, before.at, after.at
	}
	return out, err
}

// from returns the file and the place to begin at.
func (l *LogScanner) from(ctx context.Context, now uint64) (file string, from uint64, err error) {
	files, err := l.e.Binlogs(ctx)
	if err != nil {
		return "", 0, err
	}
	if len(files) == 0 {
		return "", 0, &tidemark.Error{Kind: tidemark.Unsupported, Op: "scan", Object: l.e.Masked, Err: errors.New("the server keeps no binlog"), Hint: "Start the server with log_bin."}
	}
	switch from = l.r.From; {
	case from == 0 && l.r.For > 0:
		from = now
	case from == 0:
		from = uint64(files[0].Number)<<32 | 4
	}
	at := slices.IndexFunc(files, func(f server.LogFile) bool { return f.Number == uint32(from>>32) })
	if at < 0 {
		return "", 0, &tidemark.Error{Kind: tidemark.Lost, Op: "scan", Object: l.e.Masked, Err: fmt.Errorf("the server has no file of the number %d: it has %s to %s", from>>32, files[0].Name, files[len(files)-1].Name), Hint: "Begin at one of these, or scan files of an archive."}
	}
	return files[at].Name, from, nil
}

// follow feeds the scanner with what the server sends, up to until.
func (l *LogScanner) follow(ctx context.Context, s *binlog.Scanner, file string, pos uint32) error {
	session, err := l.e.replica(ctx)
	if err != nil {
		return err
	}
	defer l.e.Kill(session.ID)
	defer session.Close()
	defer crash.OnDone(ctx, func() { _ = session.Conn.Close() })()
	l.wire = server.NewWire(&heardConn{session.Conn, &l.heard})
	flags := uint16(0)
	if l.e.MariaDB {
		flags = server.DumpAll
	}
	if err := l.wire.DumpFrom(file, max(pos, 4), flags); err != nil {
		return err
	}
	if l.until.Load() > 0 {
		return l.read(s)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var watch crash.Group
	watch.Go(func() {
		if err := l.watch(ctx); err != nil {
			cancel(err)
			_ = session.Conn.Close()
		}
	})
	err = l.read(s)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	cancel(nil)
	watch.Wait()
	return err
}

// watch measures syncs for the duration For, and sets the place where the log ends then. It starts
// when the server begins to send: MySQL counts opening the log as an operation too.
func (l *LogScanner) watch(ctx context.Context) (err error) {
	select {
	case <-l.sends:
	case <-ctx.Done():
		return nil
	}
	if l.before, err = l.e.syncs(ctx); err != nil {
		return err
	}
	select {
	case <-time.After(l.r.For):
	case <-ctx.Done():
		return nil
	}
	l.after, err = l.e.syncs(ctx)
	l.until.Store(l.after.at) // a heartbeat arrives within a second
	return err
}

func (l *LogScanner) read(s *binlog.Scanner) error {
	for first := true; ; first = false {
		if end := l.until.Load(); end > 0 && s.Place() >= end {
			return nil
		}
		p, whole, err := l.wire.Next()
		if err != nil {
			return err
		}
		if first {
			close(l.sends)
		}
		if err := logPacket(p); err != nil {
			return err
		}
		switch {
		case len(p) < 6:
			return server.ErrMalformed
		case p[5] == eventHeartbeat || p[5] == eventHeartbeat2:
		case whole:
			err = s.Sized(p[1:])
		default:
			in := &packetReader{w: l.wire, left: 1}
			var first [1]byte // the packet's own
			if _, err := io.ReadFull(in, first[:]); err != nil {
				return err
			}
			in.left = 1 << 32
			if err = s.Large(in); err == nil {
				err = l.wire.Ended()
			}
		}
		if err != nil {
			return s.Where(err)
		}
	}
}

// A syncCount is how often the server has synced its log up to a place in it.
type syncCount struct {
	at      uint64
	count   int64
	unknown string // why the count is unknown
}

// syncs reads how often the server has synced its log. MariaDB counts groups of commits, and
// sync_binlog is how many groups share one sync; MySQL's instruments count operations on the file,
// in which syncs are among those that are neither reads nor writes.
func (e *Source) syncs(ctx context.Context) (c syncCount, err error) {
	if c.at, err = e.End(ctx); err != nil {
		return c, err
	}
	rows, err := e.Ask(ctx, "SELECT @@global.sync_binlog")
	if err != nil {
		return c, e.Fail("scan", e.Masked, err)
	}
	every, err := strconv.ParseInt(rows[0][0], 10, 64)
	if err != nil || every == 0 {
		c.unknown = "The server does not sync its log itself (sync_binlog = 0): what it would sync was not counted."
		return c, nil
	}
	if e.MariaDB {
		rows, err = e.Ask(ctx, "SHOW GLOBAL STATUS LIKE 'Binlog_group_commits'")
	} else {
		rows, err = e.Ask(ctx, "SELECT '', COUNT_MISC FROM performance_schema.file_summary_by_event_name WHERE EVENT_NAME = 'wait/io/file/sql/binlog'")
		every = 1
	}
	if err == nil && len(rows) == 1 {
		c.count, err = strconv.ParseInt(rows[0][1], 10, 64)
		c.count /= every
	}
	if err != nil || len(rows) != 1 {
		c.unknown = "How often the server synced its log could not be read (performance_schema)."
	}
	return c, nil
}
