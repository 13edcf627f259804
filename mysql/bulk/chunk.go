package bulk

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/escape"
	"github.com/tidemarkdb/tidemark/mysql/event"
	"github.com/tidemarkdb/tidemark/mysql/schema"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// Publish does nothing: the log has the changes of all tables.
func (e *Bulk) Publish(context.Context, string, *tidemark.Move) error { return nil }

// Chunk reads rows of a move's table, starting at a key, in a snapshot of its own: at least one
// row, and until the limit of rows or bytes is reached. The snapshot includes every transaction
// that a stream emitted before Chunk was called, even though the log can deliver changes before
// they are visible.
//
// Errors: Unsupported (no primary key), Transient.
func (e *Bulk) Chunk(ctx context.Context, _ string, m *tidemark.Move, from []string, rows int, bytes int64) (*change.Chunk, error) {
	object := m.From.String()
	shown, err := e.Show(ctx, m.From.TableID)
	if err != nil {
		return nil, e.Fail("load", object, err)
	}
	r := &chunkReader{most: rows, limit: bytes}
	if err := r.describe(e, m.From.TableID, shown); err != nil {
		return nil, err
	}
	s, err := e.reader(ctx, 0)
	if err != nil {
		return nil, e.Fail("load", object, err)
	}
	if err := e.snapshotNow(ctx, s); err != nil {
		return nil, e.Fail("load", object, err)
	}
	err = e.ReadOn(ctx, s, 0, tidemark.Read{Move: r.move, Format: tidemark.CopyText}, r.sql(from), r.add)
	r.chunk.Whole = err == nil && len(r.chunk.Rows) < rows
	if err == errChunkFull {
		err = nil
	}
	if !s.Dead {
		if cerr := s.Exec(ctx, "COMMIT"); err == nil {
			err = e.Fail("load", object, cerr)
		}
	}
	var my *gomysql.MyError
	renamed := errors.As(err, &my) && my.Code == gomysql.ER_BAD_FIELD_ERROR
	if renamed || tidemark.KindOf(err) == tidemark.Lost { // the table was altered since it was described
		err = &tidemark.Error{Op: "load", Object: object, Kind: tidemark.Transient, Err: err}
	}
	r.chunk.Last = r.last()
	return &r.chunk, err
}

// errChunkFull ends a chunk that is large enough.
var errChunkFull = errors.New("the chunk is full")

// A chunkReader turns the rows of a table into tuples.
type chunkReader struct {
	chunk change.Chunk
	move  *tidemark.Move // all columns that the stream emits, in the stream's form
	order []*tidemark.Column
	most  int
	limit int64

	size int64
	rest []byte // an incomplete row
}

// describe determines the columns to read and their order.
func (r *chunkReader) describe(e *Bulk, id tidemark.TableID, shown *schema.Shown) (err error) {
	if len(shown.Columns) == 0 {
		return &tidemark.Error{Kind: tidemark.NotFound, Op: "load", Object: id.String(), Err: errors.New("is no longer on the source")}
	}
	if r.chunk.Relation, err = change.ParseRelation(event.TableOf(id, shown, e.MariaDB).Relation[1:]); err != nil {
		return err
	}
	r.chunk.Relation.ID = event.RelationID(r.chunk.Relation.Append(nil))
	from := &tidemark.Table{TableID: id, Columns: shown.Columns}
	r.move = &tidemark.Move{From: from, To: from}
	for _, c := range r.chunk.Relation.Columns {
		r.move.Source = append(r.move.Source, c.Name)
	}
	for _, name := range shown.Key {
		c := from.Column(name)
		at := slices.Index(r.move.Source, name)
		if c != nil && c.Generated == "ROW END" {
			continue // of a system-versioned table, of which only the current rows are read
		}
		if !shown.Primary || at < 0 {
			r.order = nil
			break
		}
		r.chunk.Key, r.order = append(r.chunk.Key, at), append(r.order, c)
	}
	if len(r.order) == 0 {
		return &tidemark.Error{Kind: tidemark.Unsupported, Op: "load", Object: id.String(), Err: errors.New("has no primary key, by which it could be read in chunks"), Hint: "Load it yourself: tidemark sub start " + id.String() + " --no-load"}
	}
	return nil
}

// sql returns what follows the table's name in the SELECT.
func (r *chunkReader) sql(from []string) string {
	var where string
	names := make([]string, len(r.order))
	for i, c := range r.order {
		names[i] = server.Quote(c.Name)
	}
	if len(from) == len(r.order) {
		cols, bound := slices.Clone(r.order), slices.Clone(from)
		for i, c := range cols {
			if number, ok := ordinal(c.Type, from[i]); ok {
				cols[i], bound[i] = &tidemark.Column{Name: c.Name, Type: tidemark.Type{Kind: tidemark.Int}}, number
			}
		}
		where = " WHERE " + compare(cols, bound, ">", ">=")
	}
	return " FORCE INDEX (PRIMARY)" + where + " ORDER BY " + strings.Join(names, ",") + " LIMIT " + strconv.Itoa(r.most)
}

// ordinal returns the number by which the server orders a value whose text sorts differently.
func ordinal(t tidemark.Type, text string) (string, bool) {
	var n uint64
	switch t.Kind {
	case tidemark.Enum:
		n = uint64(slices.Index(t.Labels, text) + 1)
	case tidemark.Set:
		for label := range strings.SplitSeq(text, ",") {
			if i := slices.Index(t.Labels, label); i >= 0 {
				n |= 1 << i
			}
		}
	case tidemark.Bit:
		var err error
		if n, err = strconv.ParseUint(text, 2, 64); err != nil {
			return "", false
		}
	default:
		return "", false
	}
	return strconv.FormatUint(n, 10), true
}

// add adds rows of COPY text.
func (r *chunkReader) add(b *tidemark.Batch) error {
	defer b.Release()
	data := b.Data
	if b.More || len(r.rest) > 0 {
		r.rest = append(r.rest, b.Data...)
		if b.More {
			return nil
		}
		data, r.rest = r.rest, nil
	}
	for len(data) > 0 {
		n := bytes.IndexByte(data, '\n')
		if n < 0 {
			return server.ErrMalformed
		}
		row, err := copiedTuple(data[:n], len(r.move.Source))
		if err != nil {
			return err
		}
		data = data[n+1:]
		r.chunk.Rows = append(r.chunk.Rows, row)
		r.size += int64(len(row))
	}
	if r.size >= r.limit && len(r.chunk.Rows) > 1 && !b.Last {
		return errChunkFull
	}
	return nil
}

// last returns the key of the last row.
func (r *chunkReader) last() (key []string) {
	if len(r.chunk.Rows) == 0 {
		return nil
	}
	vals := r.chunk.Rows[len(r.chunk.Rows)-1].Values(nil)
	for _, i := range r.chunk.Key {
		key = append(key, string(vals[i].Data))
	}
	return key
}

// copiedTuple creates a tuple from a row of COPY text without its newline.
func copiedTuple(row []byte, n int) (change.Tuple, error) {
	dst := binary.BigEndian.AppendUint16(make([]byte, 0, len(row)+4*n+2), uint16(n))
	for i := range n {
		value, rest, more := bytes.Cut(row, []byte{'\t'})
		if more != (i < n-1) {
			return nil, server.ErrMalformed
		}
		if row = rest; string(value) == `\N` {
			dst = append(dst, change.NullValue)
			continue
		}
		dst = append(dst, change.TextValue, 0, 0, 0, 0)
		at := len(dst)
		dst = escape.Undo(dst, value)
		binary.BigEndian.PutUint32(dst[at-4:], uint32(len(dst)-at))
	}
	return dst, nil
}

// snapshotNow begins a transaction whose snapshot includes everything that is in the log now.
// Servers write a transaction to the log, and send it to replicas, before it becomes visible.
//
//   - MariaDB reports the log position of a snapshot.
//   - MySQL with GTIDs reports which transactions are in progress: those that are in the log
//     but not yet visible still own their GTID.
//   - Otherwise Freeze's lock keeps commits out, and waits for those under way.
func (e *Bulk) snapshotNow(ctx context.Context, s *server.Session) error {
	if err := toRead(ctx, s); err != nil {
		return err
	}
	if e.MariaDB {
		return e.snapshotBehind(ctx, s)
	}
	r, err := s.Query(ctx, "SELECT @@GLOBAL.gtid_mode")
	switch {
	case err != nil:
		return err
	case server.Cell(r, 0, 0) == "ON":
		if err := e.visible(ctx, s); err != nil {
			return err
		}
		return s.Exec(ctx, startSnapshot)
	case e.Options.Lock == server.LockNone:
		return &tidemark.Error{Kind: tidemark.Unsupported, Op: "load", Object: e.Masked, Err: errors.New("without GTIDs (gtid_mode=ON) commits must be blocked for a moment, and --lock none forbids it"), Hint: "Allow a lock on the source (--lock), or load the table yourself."}
	}
	f := &freezing{e: e, all: []*server.Session{s}, once: true}
	_, err = f.locked(ctx)
	if f.lock != nil {
		f.lock.Close()
	}
	return err
}

// snapshotBehind takes snapshots until one includes everything that is in MariaDB's log now.
func (e *Bulk) snapshotBehind(ctx context.Context, s *server.Session) error {
	r, err := s.Query(ctx, e.ShowPosition())
	if err != nil {
		return err
	}
	file, offset := strings.Clone(server.Cell(r, 0, 0)), strings.Clone(server.Cell(r, 0, 1))
	want := server.PlaceOf(file + ":" + offset)
	return e.insisting(ctx, func(long bool) (string, error) {
		if err := s.Exec(ctx, startSnapshot); err != nil {
			return "", err
		}
		at, err := snapshotPosition(ctx, s)
		if err == nil && at == "" {
			err = &tidemark.Error{Kind: tidemark.Unsupported, Op: "load", Object: e.Masked, Err: errors.New("the server does not report the log position of a snapshot"), Hint: "Load the table yourself."}
		}
		if err != nil || server.PlaceOf(at) >= want {
			return "", err
		}
		if long { // after a snapshot's position there may be events that are not transactions
			was, pos, _ := strings.Cut(at, ":")
			r, err := s.Query(ctx, "SELECT BINLOG_GTID_POS("+server.Literal(was)+","+pos+")=BINLOG_GTID_POS("+server.Literal(file)+","+offset+")")
			if err != nil || server.Cell(r, 0, 0) == "1" {
				return "", err
			}
		}
		return "snapshots are from " + at + " of the log, which ends at " + file + ":" + offset, nil
	})
}

// visible waits until every transaction that owns a GTID now is committed.
func (e *Bulk) visible(ctx context.Context, s *server.Session) error {
	var waited map[string]bool
	return e.insisting(ctx, func(bool) (string, error) {
		r, err := s.Query(ctx, "SELECT @@GLOBAL.gtid_owned")
		if err != nil {
			return "", err
		}
		owned := ownedGTIDs(server.Cell(r, 0, 0))
		if waited == nil {
			waited = owned
		}
		maps.DeleteFunc(waited, func(one string, _ bool) bool { return !owned[one] })
		if len(waited) == 0 {
			return "", nil
		}
		return fmt.Sprintf("transactions are not committed: %s", strings.Join(slices.Sorted(maps.Keys(waited)), ", ")), nil
	})
}

// ownedGTIDs parses gtid_owned, UUID:1#thread:2#thread,UUID:TAG:3#thread, into GTIDs, each with its
// thread.
func ownedGTIDs(text string) map[string]bool {
	out := map[string]bool{}
	uuid, tag := "", ""
	for _, word := range strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(":, \n", c) }) {
		switch {
		case strings.Contains(word, "#"):
			out[uuid+":"+tag+word] = true
		case len(word) == 36:
			uuid, tag = word, ""
		default:
			tag = word + ":"
		}
	}
	return out
}

// insisting retries until nothing is in the way, for at most Options.LockWait. long: it has been
// trying for more than 100 ms.
func (e *Bulk) insisting(ctx context.Context, try func(long bool) (inTheWay string, err error)) error {
	for began := time.Now(); ; {
		took := time.Since(began)
		why, err := try(took > 100*time.Millisecond)
		switch {
		case err != nil || why == "":
			return err
		case took > e.Options.LockWait:
			return &tidemark.Error{Kind: tidemark.Transient, Op: "load", Object: e.Masked, Err: errors.New(why)}
		}
		if err := flow.Sleep(ctx, 2*time.Millisecond); err != nil {
			return err
		}
	}
}

// markRoom is the number of places after the end of a transaction that no other transaction uses:
// the next one's place follows the event with its GTID, which is longer.
const markRoom = 36

// Mark finds an unused place at the end of the log, greater than above. If all of them are used,
// because nothing was written for a while, the server starts a new log file.
//
// Errors: Forbidden (RELOAD, for that file).
func (e *Bulk) Mark(ctx context.Context, above uint64) (mark change.LogMark, err error) {
	s, back, err := e.Lend(ctx)
	if err != nil {
		return mark, e.Fail("load", "place in the log", err)
	}
	defer back()
	for range 2 {
		end, err := e.LogEnd(ctx, s)
		if err != nil {
			return mark, e.Fail("load", "place in the log", err)
		}
		// There is always one in between: a place is larger than the end of the transaction before
		// it.
		if mark = (change.LogMark{Place: max(end+1, above+2), From: end}); mark.Place <= end+markRoom {
			return mark, nil
		}
		var my *gomysql.MyError
		if err := s.Exec(ctx, "FLUSH BINARY LOGS"); errors.As(err, &my) && server.Kinds[my.Code] == tidemark.Forbidden {
			return mark, &tidemark.Error{Kind: tidemark.Forbidden, Op: "load", Object: e.Masked, Err: errors.New("the source is idle, and the role may not start a new log file, which the load then needs: " + my.Message), Hint: "GRANT RELOAD ON *.* TO " + e.Grantee() + ", or load the table while something is written."}
		} else if err != nil {
			return mark, e.Fail("load", "place in the log", err)
		}
	}
	return mark, &tidemark.Error{Kind: tidemark.Lost, Op: "load", Object: e.Masked, Err: errors.New("the log has positions that an earlier load used: it was reset"), Hint: "Copy again."}
}
