package bulk

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/escape"
	"github.com/tidemarkdb/tidemark/mysql/event"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// Read emits the rows of a range, read on a lane's session. If a lane's connection breaks after
// Freeze, its frozen view is lost for good, because a server never hands out a view again: the Read
// that notices is Transient, and every later one on that lane is Lost, so that the caller gives its
// ranges to the other lanes. Values have the form that Move.To needs: a TIME for an interval column
// is an ISO 8601 interval, and for any other unchanged.
func (e *Bulk) Read(ctx context.Context, lane int, r tidemark.Read, emit func(*tidemark.Batch) error) error {
	s, err := e.reader(ctx, lane)
	if err != nil {
		return err
	}
	return e.ReadOn(ctx, s, lane, r, "", emit)
}

// ReadOn is Read on a given session; lock is appended to the SELECT.
func (e *Bulk) ReadOn(ctx context.Context, s *server.Session, lane int, r tidemark.Read, lock string, emit func(*tidemark.Batch) error) error {
	return readEach(ctx, e, s, lane, []tidemark.Read{r}, lock, emit)
}

// ReadEach is Read for several ranges, one after the other. All are requested before the first is
// answered.
func (e *Bulk) ReadEach(ctx context.Context, lane int, rs []tidemark.Read, emit func(*tidemark.Batch) error) error {
	s, err := e.reader(ctx, lane)
	if err != nil {
		return err
	}
	for len(rs) > 0 {
		n := 1
		for n < len(rs) && rs[n].Format == rs[0].Format { // a setting of the session
			n++
		}
		if err := readEach(ctx, e, s, lane, rs[:n], "", emit); err != nil {
			return err
		}
		rs = rs[n:]
	}
	return nil
}

func readEach(ctx context.Context, e *Bulk, s *server.Session, lane int, rs []tidemark.Read, lock string, emit func(*tidemark.Batch) error) error {
	streams := make([]rowStream, len(rs))
	var out []byte
	for i, r := range rs {
		cols, err := e.outCols(r.Move, r.Format)
		if err != nil {
			return err
		}
		sql, err := e.selectRows(r, cols)
		if err != nil {
			return err
		}
		if err := releaseLocks(ctx, s); err != nil {
			return e.readFailed(lane, s, r.Move.From.String(), err)
		}
		out = server.AppendCommand(out, gomysql.COM_QUERY, sql+lock)
		streams[i] = rowStream{req: r, cols: cols, emit: emit}
		streams[i].lobs(cols)
	}
	err := results(ctx, s, rs[0].Format)
	if err == nil && s.Wire == nil {
		if err = takeMore(ctx, s); err == nil {
			s.Wire = s.NewWire()
		}
	}
	if err != nil {
		return e.readFailed(lane, s, rs[0].Move.From.String(), err)
	}
	stop := s.Watch(ctx)
	t := &streams[0]
	if err = s.Wire.Commands(out); err == nil {
		for i := range streams {
			t = &streams[i]
			t.wire = s.Wire
			if err = t.run(); err != nil {
				err = abandon(e, s, t, len(streams)-1-i, err)
				break
			}
		}
	}
	if !stop() {
		s.Dead = true
		e.Kill(s.ID)
		if err == nil || server.Broken(err) {
			err = context.Cause(ctx)
		}
	}
	t.drop()
	if err == nil {
		return nil
	}
	object := t.req.Move.From.String()
	var emitted *server.EmitError
	if errors.As(err, &emitted) {
		return emitted.Err
	}
	var bad *BadValue
	if errors.As(err, &bad) {
		return &tidemark.Error{Op: "read", Object: object, Kind: tidemark.BadRow, Err: fmt.Errorf("row %s: %w", t.rowName, bad),
			Hint: "Choose how to write invalid dates: --zero-dates=null or --zero-dates=epoch."}
	}
	return e.readFailed(lane, s, object, err)
}

// reader returns the session of a reading lane. Without Freeze it is an ordinary one.
func (e *Bulk) reader(ctx context.Context, lane int) (*server.Session, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.frozen {
		if lane >= len(e.reads) { // Freeze had no connection for it
			return nil, &tidemark.Error{Op: "read", Object: e.Masked, Kind: tidemark.Transient, Err: tidemark.ErrNoConnection, Hint: e.Hint(&gomysql.MyError{Code: 1040}, tidemark.Transient)}
		}
		if s := e.reads[lane]; !s.Dead {
			return s, nil
		}
		return nil, &tidemark.Error{Kind: tidemark.Lost, Op: "read", Object: e.Masked, Err: fmt.Errorf("%w: lane %d lost its connection", tidemark.ErrSnapshotLost, lane), Hint: "The other lanes continue; if none is left, start the copy again."}
	}
	return e.laneSession(ctx, &e.reads, lane)
}

// laneSession returns the live session of a lane, opening it if necessary; the caller holds e.mu.
func (e *Bulk) laneSession(ctx context.Context, lanes *[]*server.Session, lane int) (*server.Session, error) {
	for lane >= len(*lanes) {
		*lanes = append(*lanes, nil)
	}
	s := (*lanes)[lane]
	if s != nil && !s.Dead {
		return s, nil
	}
	e.mu.Unlock()
	s, err := e.NewSession(ctx)
	e.mu.Lock()
	if err != nil {
		return nil, err
	}
	(*lanes)[lane] = s
	return s, nil
}

// readFailed makes the error of a Read that failed on the server or the network.
func (e *Bulk) readFailed(lane int, s *server.Session, object string, err error) error {
	var my *gomysql.MyError
	if !errors.As(err, &my) {
		s.Dead = true
		s.Close()
	}
	out := e.Fail("read", object, err)
	var te *tidemark.Error
	if my != nil && my.Code == 1205 && errors.As(out, &te) {
		te.Hint = "A statement that alters the table waits for this copy, and reads queue behind it: end that statement (SHOW PROCESSLIST)."
	}
	if s.Dead && e.frozen && errors.As(out, &te) && te.Kind == tidemark.Transient && te.Hint == "" {
		te.Hint = fmt.Sprintf("Lane %d lost its snapshot of the source; the other lanes continue.", lane)
	}
	return out
}

// results sets the character set of a session's results.
func results(ctx context.Context, s *server.Session, f tidemark.Format) error {
	want := "utf8mb4"
	if f == tidemark.LoadData {
		want = "NULL"
	}
	if s.Charset == want {
		return nil
	}
	if err := s.Exec(ctx, "SET character_set_results="+want); err != nil {
		return err
	}
	s.Charset = want
	return nil
}

// sendAtOnce is how many bytes of rows the server is to send at once.
const sendAtOnce = 128 << 10

// takeMore makes the server send rows in larger pieces. The server sends when its connection buffer
// is full, whose size a session may not set: it starts at net_buffer_length (16 kB) and grows to
// the largest command received. So takeMore sends a command padded with blanks, which the server
// strips before it parses or logs it. (MariaDB 10.11, rows of 60 bytes: 0.29 us of server CPU time
// a row instead of 0.43; half or twice the size helps less.)
func takeMore(ctx context.Context, s *server.Session) error {
	r, err := s.Query(ctx, "SELECT @@max_allowed_packet")
	if err != nil {
		return err
	}
	allowed, _ := strconv.Atoi(server.Cell(r, 0, 0))
	if allowed <= 2*sendAtOnce {
		return nil
	}
	return s.Exec(ctx, "DO 0"+strings.Repeat(" ", sendAtOnce))
}

// abandon reads what the server still sends after an error, up to the end of further results, so
// that the session and its snapshot are not lost. It returns the error.
func abandon(e *Bulk, s *server.Session, t *rowStream, further int, err error) error {
	var emitted *server.EmitError
	var bad *BadValue
	var my *gomysql.MyError
	within := errors.As(err, &emitted) || errors.As(err, &bad)
	if !within && !errors.As(err, &my) {
		return err
	}
	drain := func() bool {
		done, err := s.Wire.Drain(4 << 20)
		if !done && err == nil {
			killQuery(e, s.ID)
			done, _ = s.Wire.Drain(1 << 50)
		}
		return done
	}
	ok := !within || t.ended || drain()
	for ; ok && further > 0; further-- {
		_, err := s.Wire.Columns()
		ok = errors.As(err, &my) || err == nil && drain()
	}
	if !ok {
		s.Dead = true
		s.Close()
	}
	return err
}

func killQuery(e *Bulk, id uint32) {
	s, back, err := e.Lend(context.Background())
	if err != nil {
		return
	}
	defer back()
	_ = s.Exec(context.Background(), "KILL QUERY "+strconv.FormatUint(uint64(id), 10))
}

// selectRows writes the SELECT of a range.
func (e *Bulk) selectRows(r tidemark.Read, cols []outCol) (string, error) {
	var b strings.Builder
	b.WriteString("SELECT ")
	if e.MariaDB {
		b.WriteString("SQL_NO_CACHE ")
	}
	for _, x := range lobColumns(r.Move, cols) {
		b.WriteString(x + ",")
	}
	for i, c := range cols {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(c.expr)
	}
	b.WriteString(" FROM " + server.QuoteTable(r.Move.From.TableID))
	where, err := where(r.Move, r.Range)
	if err != nil {
		return "", err
	}
	if r.Range != nil && r.Range.Part != nil {
		b.WriteString(" PARTITION (" + server.Quote(r.Range.Part.Name) + ")")
	}
	b.WriteString(forceIndex(r.Move, r.Range))
	if where != "" {
		b.WriteString(" WHERE " + where)
	}
	return b.String(), nil
}

// forceIndex makes the server read a range of the primary key by that index: by its own estimate it
// may rather read the whole table for each of a few large ranges.
func forceIndex(m *tidemark.Move, r *tidemark.Range) string {
	if r == nil || m.From.Key == nil || len(r.Columns) > len(m.From.Key.Parts) || len(r.Lower)+len(r.Upper)+len(r.Values) == 0 {
		return ""
	}
	for i, c := range r.Columns {
		if p := m.From.Key.Parts[i]; p.Column != c || p.Prefix != 0 {
			return ""
		}
	}
	return " FORCE INDEX (PRIMARY)"
}

// lobColumns are the extra columns that limited LOB mode selects before all others: the row's key,
// if one of its values is cut, and the size of each such value.
func lobColumns(m *tidemark.Move, cols []outCol) []string {
	var cut, sizes []string
	for _, c := range cols {
		if c.limit != 0 {
			over := fmt.Sprintf("OCTET_LENGTH(%s)>%d", server.Quote(c.name), c.limit)
			cut = append(cut, over)
			sizes = append(sizes, fmt.Sprintf("IF(%s,OCTET_LENGTH(%s),NULL)", over, server.Quote(c.name)))
		}
	}
	if len(cut) == 0 {
		return nil
	}
	key := make([]string, 0, 4)
	for _, name := range keyColumns(m.From) {
		key = append(key, "IFNULL(CONVERT("+server.Quote(name)+" USING utf8mb4),'NULL')")
	}
	return append([]string{"IF(" + strings.Join(cut, " OR ") + ",CONCAT_WS(','," + strings.Join(key, ",") + "),NULL)"}, sizes...)
}

// keyColumns are the columns that identify a row to a person: those of the key, or of a unique
// index, or the first three.
func keyColumns(t *tidemark.Table) []string {
	if t.Key != nil {
		if names := t.Key.Columns(); names != nil {
			return names
		}
	}
	for i := range t.Indexes {
		if names := t.Indexes[i].Columns(); t.Indexes[i].Unique && names != nil {
			return names
		}
	}
	names := make([]string, 0, 3)
	for _, c := range t.Columns {
		if len(names) < 3 {
			names = append(names, c.Name)
		}
	}
	return names
}

// A rowStream turns the rows of one SELECT into batches.
type rowStream struct {
	wire *server.Wire
	req  tidemark.Read
	cols []outCol
	emit func(*tidemark.Batch) error
	b    *tidemark.Batch

	ended bool // all rows are read

	limited []int    // indexes of the columns with a limit
	sizes   []uint64 // of the values that are cut in this row, in that order; 0 not cut
	key     []byte   // of this row, if it has such values

	scratch []byte // a value of a streamed row that must be complete
	rowName string // of an unreadable row, for the message
}

func (t *rowStream) lobs(cols []outCol) {
	for i, c := range cols {
		if c.limit != 0 {
			t.limited = append(t.limited, i)
		}
	}
	t.sizes = make([]uint64, len(t.limited))
}

func (t *rowStream) drop() {
	if t.b != nil {
		t.b.Release()
		t.b = nil
	}
}

// hand emits the batch and begins another.
func (t *rowStream) hand(more, last bool) error {
	b := t.b
	b.More, b.Last = more, last
	t.b = nil
	if err := t.emit(b); err != nil {
		return &server.EmitError{Err: err}
	}
	if !last {
		t.b = tidemark.NewBatch(t.req.Range, t.req.Format)
	}
	return nil
}

// run reads the answer to the SELECT.
func (t *rowStream) run() error {
	want := len(t.cols)
	if len(t.limited) > 0 {
		want += 1 + len(t.limited)
	}
	n, err := t.wire.Columns()
	if err != nil {
		return err
	}
	if n != want {
		return server.ErrMalformed
	}
	t.b = tidemark.NewBatch(t.req.Range, t.req.Format)
	for {
		p, whole, err := t.wire.Next()
		if err != nil {
			return err
		}
		switch {
		case !whole:
			if err := t.large(); err != nil {
				return err
			}
		case server.IsEOF(p):
			t.ended = true
			return t.hand(false, true)
		case len(p) > 0 && p[0] == server.PacketErr:
			return server.ErrorIn(p)
		default:
			if err := t.row(p); err != nil {
				return err
			}
		}
		if len(t.b.Data) >= tidemark.BatchSize {
			if err := t.hand(false, false); err != nil {
				return err
			}
		}
	}
}

// row appends a row that is in the buffer. This is the hot path: no calls for digits, one for text.
func (t *rowStream) row(p []byte) error {
	at := 0
	if len(t.limited) > 0 {
		var err error
		if at, err = t.prefix(p); err != nil {
			return err
		}
	}
	dst := t.b.Data
	for i := range t.cols {
		if at >= len(p) {
			return server.ErrMalformed
		}
		c := &t.cols[i]
		n := int(p[at])
		at++
		if n >= server.ValueNull {
			if n == server.ValueNull {
				dst = append(dst, '\\', 'N', '\t')
				continue
			}
			long, size := server.LenencInt(p[at-1:])
			if size == 0 || long > uint64(len(p)) {
				return server.ErrMalformed
			}
			n, at = int(long), at-1+size
		}
		if n > len(p)-at {
			return server.ErrMalformed
		}
		v := p[at : at+n : at+n]
		at += n
		switch c.shape {
		case asIs:
			dst = append(dst, v...)
		case escaped:
			if c.limit != 0 {
				v = c.cut(v)
			}
			dst = escape.Append(dst, v, c.esc)
		default:
			var err error
			if dst, err = c.append(dst, v); err != nil {
				return t.refuse(p, err)
			}
		}
		dst = append(dst, '\t')
	}
	dst[len(dst)-1] = '\n'
	t.b.Data = dst
	t.b.Rows++
	t.reportCut()
	return nil
}

// prefix reads the columns of limited LOB mode and returns where the row's own columns begin.
func (t *rowStream) prefix(p []byte) (int, error) {
	at := 0
	t.key = t.key[:0]
	for i := range len(t.limited) + 1 {
		if at >= len(p) {
			return 0, server.ErrMalformed
		}
		v := p[at:at]
		if p[at] == server.ValueNull {
			at++
		} else {
			n, size := server.LenencInt(p[at:])
			if size == 0 || n > uint64(len(p)-at-size) {
				return 0, server.ErrMalformed
			}
			v = p[at+size : at+size+int(n)]
			at += size + int(n)
		}
		if i == 0 {
			t.key = append(t.key, v...)
		} else {
			t.sizes[i-1], _ = strconv.ParseUint(event.AsString(v), 10, 64)
		}
	}
	return at, nil
}

// reportCut reports the values of the row that were cut.
func (t *rowStream) reportCut() {
	for i, size := range t.sizes {
		if size != 0 && t.req.Cut != nil {
			t.req.Cut(string(t.key), t.cols[t.limited[i]].name, int64(size))
		}
	}
}

// refuse rejects a row with a bad value, or names the row for the error.
func (t *rowStream) refuse(p []byte, err error) error {
	t.rowName = t.describe(p)
	var bad *BadValue
	if t.req.Reject == nil || !errors.As(err, &bad) {
		return err
	}
	var raw []byte
	for _, v := range t.values(p) {
		if v == nil {
			raw = append(raw, `\N`...)
		}
		raw = append(escape.Append(raw, v, &escape.Copy), '\t')
	}
	raw[len(raw)-1] = '\n'
	if err := t.req.Reject(raw, bad.Error()); err != nil {
		return &server.EmitError{Err: err}
	}
	return nil
}

// values splits a row, as the server sent it, into values; nil is NULL.
func (t *rowStream) values(p []byte) [][]byte {
	out := make([][]byte, 0, len(t.cols))
	at := 0
	if len(t.limited) > 0 {
		at, _ = t.prefix(p)
	}
	for len(out) < len(t.cols) && at < len(p) {
		if p[at] == server.ValueNull {
			at++
			out = append(out, nil)
			continue
		}
		n, size := server.LenencInt(p[at:])
		if size == 0 || n > uint64(len(p)-at-size) {
			break
		}
		out = append(out, p[at+size:at+size+int(n):at+size+int(n)])
		at += size + int(n)
	}
	return out
}

// describe names a row by the values of its key.
func (t *rowStream) describe(p []byte) string {
	key := keyColumns(t.req.Move.From)
	parts := make([]string, 0, len(key))
	for i, v := range t.values(p) {
		value := "NULL"
		if v != nil {
			value = strconv.Quote(string(v[:min(len(v), 40)]))
		}
		for _, k := range key {
			if k == t.cols[i].name {
				parts = append(parts, k+"="+value)
			}
		}
	}
	if len(parts) == 0 {
		return "without a key"
	}
	return strings.Join(parts, ", ")
}
