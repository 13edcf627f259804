package physical

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/postgres/server"
	"github.com/tidemarkdb/tidemark/postgres/wal"
)

// A LogScanner scans the log of a running server, which sends it as to a standby: the role needs
// REPLICATION, and the scan occupies one WAL sender (max_wal_senders). It creates no slot, and
// never reports anything as flushed: no commit waits for a scan as for a synchronous standby.
type LogScanner struct {
	e     *Cluster
	r     tidemark.LogRange
	until atomic.Uint64 // 0 while For runs
	last  uint64        // end of what was received
}

// ScanLog returns a scanner for a part of the server's log.
func (c *Cluster) ScanLog(r tidemark.LogRange) *LogScanner { return &LogScanner{e: c, r: r} }

// Scan reads the log to its end, as ha.Log says. Tables in the connected database appear by name,
// those of other databases by number. Kind Lost: the server has removed the requested log;
// Forbidden: the role lacks REPLICATION.
func (l *LogScanner) Scan(ctx context.Context, emit func(*tidemark.LogRecord) error) (tidemark.LogScan, error) {
	var out tidemark.LogScan
	if l.r.Until > 0 && l.r.Until <= l.r.From {
		return out, &tidemark.Error{Kind: tidemark.Invalid, Op: "scan", Object: l.e.Object, Err: fmt.Errorf("the log range from %s to %s is empty", wal.FormatLSN(l.r.From), wal.FormatLSN(l.r.Until)), Hint: "Give a later end."}
	}
	before, err := l.e.syncs(ctx)
	if err != nil {
		return out, err
	}
	conn, err := l.e.ReplicationConn(ctx)
	if err != nil {
		return out, l.e.forbidden(err)
	}
	lane := l.e.NewLane(conn)
	lane.Paced()
	defer lane.Close()
	sizes, err := askSizes(ctx, conn)
	if err != nil {
		return out, l.e.Fail(ctx, "scan", l.e.Object, err)
	}
	from, err := l.from(ctx, conn, sizes, before.at)
	if err != nil {
		return out, err
	}
	end := l.r.Until
	if end == 0 && l.r.For == 0 {
		end = before.at
	}
	l.until.Store(end)
	stream := wal.NewStream(max(from, l.r.From), l.r.Until, int(sizes.page), emitOwn(emit))
	if end == 0 || from < end {
		if err = l.follow(ctx, lane, from, stream); err != nil {
			return out, l.failed(ctx, err)
		}
	}
	if out, err = stream.Finish(); err != nil {
		return out, l.failed(ctx, err)
	}
	if err := l.e.name(ctx, out.Tables); err != nil {
		return out, err
	}
	if l.r.For > 0 {
		after, err := l.e.syncs(ctx)
		if err != nil {
			return out, err
		}
		if after.known && after.count >= before.count {
			out.Syncs, out.SyncsFrom, out.SyncsTo = after.count-before.count, before.at, after.at
		} else {
			out.Findings = append(out.Findings, "the server does not count its fsyncs of the log: it is older than 14, fsync is off, or its statistics were reset")
		}
	}
	return out, nil
}

// emitOwn marks errors of emit, which are returned unchanged.
func emitOwn(emit func(*tidemark.LogRecord) error) func(*tidemark.LogRecord) error {
	return func(r *tidemark.LogRecord) error {
		if err := emit(r); err != nil {
			return server.EmitError{Err: err}
		}
		return nil
	}
}

// logRemoved reports whether the server has removed log that it was to send. If it finds that only
// after reading, the SQLSTATE is that of an earlier error of some call, and the routine decides.
func logRemoved(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "58P01" || pg.Routine == "CheckXLogRemoved")
}

func (l *LogScanner) failed(ctx context.Context, err error) error {
	var em server.EmitError
	switch {
	case errors.As(err, &em):
		return em.Err
	case logRemoved(err):
		return &tidemark.Error{Kind: tidemark.Lost, Op: "scan", Object: l.e.Object, Err: errors.New(server.PlainCause(err)), Hint: "Begin later, scan the archive's files, or have the server keep more (wal_keep_size, or a slot)."}
	}
	return l.e.Fail(ctx, "scan", l.e.Object, err)
}

// forbidden adds a hint on what a role needs to open a session for replication.
func (c *Cluster) forbidden(err error) error {
	var own *tidemark.Error
	if errors.As(err, &own) && own.Kind == tidemark.Forbidden {
		own.Hint = fmt.Sprintf("ALTER ROLE %s REPLICATION;", server.QuoteIdent(c.Config.User))
	}
	return err
}

// logSizes are the sizes of the server's WAL segments and pages, in bytes.
type logSizes struct{ segment, page uint64 }

// askSizes reads them in a replication session.
func askSizes(ctx context.Context, conn *pgconn.PgConn) (g logSizes, err error) {
	row, err := server.AnswerRow(ctx, conn, "SELECT pg_size_bytes(current_setting('wal_segment_size')), current_setting('wal_block_size')")
	if err != nil {
		return g, err
	}
	_, err = fmt.Sscan(string(row[0])+" "+string(row[1]), &g.segment, &g.page)
	return g, err
}

// from returns where to begin reading: the beginning of a segment, which has what the reader needs
// to know.
func (l *LogScanner) from(ctx context.Context, conn *pgconn.PgConn, g logSizes, now uint64) (uint64, error) {
	switch {
	case l.r.From > 0:
		return l.r.From / g.segment * g.segment, nil
	case l.r.For > 0:
		l.r.From = now
		return now / g.segment * g.segment, nil
	}
	row, err := server.AnswerRow(ctx, conn, "IDENTIFY_SYSTEM")
	if err != nil {
		return 0, l.e.Fail(ctx, "scan", l.e.Object, err)
	}
	var timeline uint32
	if _, err := fmt.Sscan(string(row[1]), &timeline); err != nil {
		return 0, l.e.Fail(ctx, "scan", l.e.Object, err)
	}
	return l.e.oldestLog(ctx, timeline, g.segment)
}

// oldestLog returns where the first segment begins that the server still has of a timeline.
func (c *Cluster) oldestLog(ctx context.Context, timeline uint32, segment uint64) (uint64, error) {
	control, release, err := c.Control(ctx)
	if err != nil {
		return 0, err
	}
	defer release()
	var oldest string
	err = control.QueryRow(ctx, "SELECT coalesce(min(name COLLATE \"C\"), '') FROM pg_ls_waldir() WHERE name ~ ('^' || lpad(upper(to_hex($1::bigint)), 8, '0') || '[0-9A-F]{16}$')", timeline).Scan(&oldest)
	if err != nil {
		if server.SQLState(err) == "42501" {
			return 0, &tidemark.Error{Kind: tidemark.Forbidden, Op: "scan", Object: c.Object, Err: errors.New(server.PlainCause(err)), Hint: fmt.Sprintf("GRANT pg_monitor TO %s; or give the position from which to scan.", server.QuoteIdent(c.Config.User))}
		}
		return 0, c.Fail(ctx, "scan", c.Object, err)
	}
	at, ok := wal.ParseName(oldest, int(segment))
	if !ok {
		return 0, &tidemark.Error{Kind: tidemark.Lost, Op: "scan", Object: c.Object, Err: errors.New("the server has no log")}
	}
	return at.Place, nil
}

// OldestLog returns the oldest log position that the server still has of its current timeline.
func (c *Cluster) OldestLog(ctx context.Context) (at tidemark.LogPlace, err error) {
	conn, err := c.ReplicationConn(ctx)
	if err != nil {
		return at, c.forbidden(err)
	}
	defer conn.Close(context.WithoutCancel(ctx)) // unused from here on
	row, err := server.AnswerRow(ctx, conn, "IDENTIFY_SYSTEM")
	if err != nil {
		return at, c.Fail(ctx, "look at the log", c.Object, err)
	}
	if _, err := fmt.Sscan(string(row[1]), &at.Timeline); err != nil {
		return at, c.Fail(ctx, "look at the log", c.Object, err)
	}
	sizes, err := askSizes(ctx, conn)
	if err != nil {
		return at, c.Fail(ctx, "look at the log", c.Object, err)
	}
	at.Place, err = c.oldestLog(ctx, at.Timeline, sizes.segment)
	return at, err
}

// follow feeds the stream with what the server sends, up to until.
func (l *LogScanner) follow(ctx context.Context, lane *server.Lane, from uint64, stream *wal.Stream) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	release, err := lane.Raw(ctx)
	if err != nil {
		return err
	}
	defer release()
	defer lane.Abandon()
	if err := lane.Send("START_REPLICATION PHYSICAL " + wal.FormatLSN(from)); err != nil {
		return err
	}
	if err := lane.Begun(); err != nil {
		return err
	}
	l.last = from
	if l.until.Load() == 0 {
		timer := crash.After(l.r.For, func() {
			end, err := l.e.LogEnd(ctx)
			if err == nil {
				l.until.Store(end)
				_, err = lane.Conn.Conn().Write(server.StatusMessage(0, 0, true)) // an idle server sends nothing unasked
			}
			if err != nil {
				cancel(err)
			}
		})
		defer timer.Stop()
	}
	err = l.read(lane, stream)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (l *LogScanner) read(lane *server.Lane, stream *wal.Stream) error {
	for {
		if end := l.until.Load(); end > 0 && l.last >= end || stream.Over() {
			return nil
		}
		m, over, err := lane.ReadLog()
		switch {
		case err != nil || over:
			return err // without an error the server was promoted, and its timeline ends here
		case m.Asks:
			if _, err := lane.Conn.Conn().Write(server.StatusMessage(l.last, 0, false)); err != nil {
				return err
			}
		case len(m.Data) > 0 && m.At != l.last:
			return fmt.Errorf("the server sent the log from %s instead of %s", wal.FormatLSN(m.At), wal.FormatLSN(l.last))
		}
		l.last += uint64(len(m.Data))
		if _, err := stream.Write(m.Data); err != nil {
			return err
		}
	}
}

// A syncCount is how often the server has synced its log up to a place.
type syncCount struct {
	at    uint64
	count int64
	known bool
}

// syncs reads the server's count. Sessions report theirs about once a second, so it lags by that
// much. With wal_sync_method = open_* each write is a sync, but counts as a write only.
func (c *Cluster) syncs(ctx context.Context) (s syncCount, err error) {
	if s.at, err = c.LogEnd(ctx); err != nil || c.Major < 14 {
		return s, err
	}
	conn, release, err := c.Control(ctx)
	if err != nil {
		return s, err
	}
	defer release()
	counted := "SELECT wal_sync, wal_write FROM pg_stat_wal"
	if c.Major >= 18 {
		counted = "SELECT sum(fsyncs), sum(writes) FROM pg_stat_io WHERE object = 'wal' AND context = 'normal'"
	}
	err = conn.QueryRow(ctx, `SELECT coalesce(CASE WHEN current_setting('wal_sync_method') LIKE 'open%' THEN writes ELSE syncs END, 0)::bigint, current_setting('fsync') = 'on'
		FROM (`+counted+`) AS c (syncs, writes)`).Scan(&s.count, &s.known)
	return s, c.Fail(ctx, "scan", c.Object, err)
}

// name replaces tablespace, database and file numbers by table names, as far as the files are in
// this database.
func (c *Cluster) name(ctx context.Context, tables []string) error {
	conn, release, err := c.Control(ctx)
	if err != nil {
		return err
	}
	defer release()
	rows, err := conn.Query(ctx, `
		SELECT CASE WHEN c.relisshared THEN '1664/0/' ELSE coalesce(nullif(c.reltablespace, 0), d.dattablespace) || '/' || d.oid || '/' END || pg_relation_filenode(c.oid),
			CASE
				WHEN o.oid IS NOT NULL THEN o.relnamespace::regnamespace || '.' || quote_ident(o.relname) || ' (TOAST)'
				WHEN i.indrelid IS NOT NULL THEN c.relnamespace::regnamespace || '.' || quote_ident(c.relname) || ' (index)'
				ELSE c.relnamespace::regnamespace || '.' || quote_ident(c.relname) END
		FROM pg_class c
		JOIN pg_database d ON d.datname = current_database()
		LEFT JOIN pg_index i ON i.indexrelid = c.oid
		LEFT JOIN pg_class o ON o.reltoastrelid IN (c.oid, i.indrelid) AND o.reltoastrelid <> 0
		WHERE pg_relation_filenode(c.oid) IS NOT NULL`)
	if err != nil {
		return c.Fail(ctx, "scan", c.Object, err)
	}
	names := map[string]string{}
	for rows.Next() {
		var number, name string
		if err := rows.Scan(&number, &name); err != nil {
			return c.Fail(ctx, "scan", c.Object, err)
		}
		names[number] = name
	}
	for i, t := range tables {
		if name := names[t]; name != "" {
			tables[i] = name
		}
	}
	return c.Fail(ctx, "scan", c.Object, rows.Err())
}
