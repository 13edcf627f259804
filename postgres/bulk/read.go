package bulk

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// Read emits the rows of a range as COPY returns them. A lane that has lost its session reconnects
// and joins the snapshot again; if the snapshot is gone too, Kind is Lost. An error of emit ends
// the session, because more rows are in flight.
func (v *Reader) Read(ctx context.Context, lane int, r tidemark.Read, emit func(*tidemark.Batch) error) error {
	return v.ReadEach(ctx, lane, []tidemark.Read{r}, emit)
}

// ReadEach is Read for several ranges, in order: all of them are requested at once.
func (v *Reader) ReadEach(ctx context.Context, lane int, rs []tidemark.Read, emit func(*tidemark.Batch) error) error {
	v.readersMu.Lock()
	var l = laneAt(v.readers, lane)
	v.readersMu.Unlock()
	if l == nil {
		return &tidemark.Error{Kind: tidemark.Bug, Op: "read", Object: v.Object, Err: fmt.Errorf("there is no lane %d", lane)}
	}
	qs, err := v.rangeQueries(ctx, rs)
	if err != nil {
		return err
	}
	for try := 0; ; try++ {
		if err := l.join(ctx, len(qs)); err != nil {
			return err
		}
		emitted, err := l.copyOut(ctx, qs, emit)
		if err == nil {
			break
		}
		var foreign notPlain
		if errors.As(err, &foreign) {
			v.noteForeign(foreign.table)
			if emitted {
				return err
			}
			if qs, err = v.rangeQueries(ctx, rs); err != nil {
				return err
			}
			continue
		}
		if emitted || try > 0 || l.Conn != nil || tidemark.KindOf(err) != tidemark.Transient {
			return err
		}
		// The session had ended while it was idle, and nothing has been emitted.
	}
	for _, q := range qs {
		if q.r.Cut != nil && q.cutSQL != "" {
			if err := l.reportCuts(ctx, q, q.r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (v *Reader) rangeQueries(ctx context.Context, rs []tidemark.Read) ([]*rangeQuery, error) {
	qs := make([]*rangeQuery, len(rs))
	for i, r := range rs {
		var err error
		if qs[i], err = v.rangeQuery(ctx, r); err != nil {
			return nil, err
		}
	}
	return qs, nil
}

func laneAt(lanes []*lane, i int) *lane {
	if i < 0 || i >= len(lanes) {
		return nil
	}
	return lanes[i]
}

// notPlain means that the server accepts COPY of a query only: a foreign table that no Split of
// this Engine has seen.
type notPlain struct{ table tidemark.TableID }

func (e notPlain) Error() string { return e.table.String() + " is not an ordinary table" }

// ReadNow reads as Read does, but on the caller's session and with the rows' current values; lock
// keeps them unchanged until the session's transaction ends.
func (v *Reader) ReadNow(ctx context.Context, session *server.Lane, r tidemark.Read, lock bool, emit func(*tidemark.Batch) error) error {
	q, err := v.rangeQuery(ctx, r)
	if err != nil {
		return err
	}
	if lock {
		q.copySQL = strings.TrimSuffix(q.copySQL, ") TO STDOUT") + " FOR UPDATE) TO STDOUT"
	}
	if err := session.Open(ctx); err != nil {
		return err
	}
	_, err = (&lane{Lane: session, s: v.Server}).copyOut(ctx, []*rangeQuery{q}, emit)
	if foreign := (notPlain{}); errors.As(err, &foreign) {
		v.noteForeign(foreign.table)
	}
	return err
}

// copyOut runs the COPYs and fills batches from their messages. It reports whether it has emitted
// any.
func (l *lane) copyOut(ctx context.Context, qs []*rangeQuery, emit func(*tidemark.Batch) error) (emitted bool, err error) {
	release, err := l.Raw(ctx)
	if err != nil {
		l.Close()
		return false, l.s.Fail(ctx, "read", qs[0].object, err)
	}
	defer release()
	sql := make([]string, len(qs))
	for i, q := range qs {
		sql[i] = q.copySQL
	}
	err = l.Send(sql...)
	for i, q := range qs {
		f := &filler{r: q.r, emit: emit, b: tidemark.NewBatch(q.r.Range, q.r.Format)}
		var a server.Answer
		if err == nil {
			a, err = l.receive(f)
		}
		ahead := len(qs) - i - 1
		if err == nil {
			if err = f.finish(); err != nil && ahead > 0 {
				l.Abandon()
			}
			if err != nil {
				return true, err
			}
			emitted = true
			continue
		}
		f.b.Release()
		emitted = emitted || f.emitted
		if pg, ok := err.(*pgconn.PgError); ok && !a.Broken {
			// The transaction failed, but the session lives: it joins the view again.
			l.joined = false
			for range ahead { // they fail too
				if l.Answer().Broken {
					l.Abandon()
					break
				}
			}
			if pg.Code == "42809" && q.plain {
				return emitted, notPlain{q.table}
			}
			return emitted, l.s.FailGrant(ctx, "read", q.object, pg, q.grant)
		}
		l.Abandon()
		if em, ok := err.(server.EmitError); ok {
			return true, em.Err
		}
		return emitted, l.s.Fail(ctx, "read", q.object, err)
	}
	return true, nil
}

// receive reads messages until the server is ready again. Its loop is the hot path of a copy: one
// look at a message's header and one append per row.
func (l *lane) receive(f *filler) (a server.Answer, err error) {
	binaryHead := f.r.Format == tidemark.CopyBinary
	for {
		kind, n, err := l.Head()
		if err != nil {
			return a, err
		}
		if kind != 'd' {
			if l.Other(&a, kind, n) {
				return a, a.Err
			}
			continue
		}
		if binaryHead {
			skipped, err := l.skipHeader()
			if err != nil {
				return a, err
			}
			if n -= skipped; n < 0 {
				return a, errors.New("the header of COPY's binary format is longer than its message")
			}
			binaryHead = false
			if n == 0 {
				continue
			}
		}
		if l.Holds(n) {
			row, err := l.Body(n)
			if err != nil {
				return a, err
			}
			if n == 2 && f.r.Format == tidemark.CopyBinary && row[0] == 0xff && row[1] == 0xff {
				continue // the trailer
			}
			if f.r.Format == tidemark.CopyText && (n == 0 || row[n-1] != '\n') {
				return a, errors.New("a row in COPY's text format has no end")
			}
			if err := f.row(row); err != nil {
				return a, server.EmitError{Err: err}
			}
			continue
		}
		if err := f.giant(l, n); err != nil {
			return a, err
		}
	}
}

// skipHeader consumes the signature, flags and extension of COPY's binary format, which precede the
// first row in its message.
func (l *lane) skipHeader() (int, error) {
	head, err := l.Peek(19)
	if err != nil {
		return 0, err
	}
	ext := int(binary.BigEndian.Uint32(head[15:]))
	if string(head[:11]) != "PGCOPY\n\xff\r\n\x00" || ext > 1024 {
		return 0, fmt.Errorf("not COPY's binary format")
	}
	_, err = l.Body(19 + ext)
	return 19 + ext, err
}

// A filler puts rows into batches and emits them when they are full.
type filler struct {
	r       tidemark.Read
	emit    func(*tidemark.Batch) error
	b       *tidemark.Batch
	emitted bool
}

func (f *filler) row(p []byte) error {
	b := f.b
	b.Data = append(b.Data, p...)
	b.Rows++
	if len(b.Data) >= tidemark.BatchSize {
		return f.flush()
	}
	return nil
}

func (f *filler) flush() error {
	b := f.b
	f.b, f.emitted = tidemark.NewBatch(f.r.Range, f.r.Format), true
	return f.emit(b)
}

// giant reads a row of n bytes directly from the socket into batches, in pieces if it is larger
// than a batch may be.
func (f *filler) giant(l *lane, n int) error {
	if f.b.Rows > 0 && len(f.b.Data)+n > tidemark.PieceSize {
		if err := f.flush(); err != nil {
			return server.EmitError{Err: err}
		}
	}
	for n > 0 {
		old := len(f.b.Data)
		size := min(n, tidemark.PieceSize-old)
		f.b.Data = grow(f.b.Data, size)
		if err := l.Take(f.b.Data[old:]); err != nil {
			return err
		}
		n -= size
		if n > 0 {
			f.b.More = true
			if err := f.flush(); err != nil {
				return server.EmitError{Err: err}
			}
		}
	}
	f.b.Rows++
	if err := f.flush(); err != nil {
		return server.EmitError{Err: err}
	}
	return nil
}

// grow extends b by n bytes, allocating no more memory than needed.
func grow(b []byte, n int) []byte {
	if len(b)+n <= cap(b) {
		return b[:len(b)+n]
	}
	out := make([]byte, len(b)+n)
	copy(out, b)
	return out
}

func (f *filler) finish() error {
	f.b.Last = true
	return f.emit(f.b.Shrink())
}

// A rangeQuery is how a range is read.
type rangeQuery struct {
	r       tidemark.Read
	object  string // in messages
	grant   string // the privilege that may be missing
	table   tidemark.TableID
	plain   bool // copySQL copies the table itself
	copySQL string
	cutSQL  string   // lists the rows with values that limited LOB mode shortens
	cutCols []string // columns whose lengths cutSQL returns after the key
}

// rangeQuery builds the statements of one range.
func (v *Reader) rangeQuery(ctx context.Context, r tidemark.Read) (*rangeQuery, error) {
	m := r.Move
	table := sourceTable(m, r.Range)
	q := &rangeQuery{r: r, table: table, object: server.QuoteTable(table), grant: "SELECT ON TABLE " + server.QuoteTable(table)}
	options := " TO STDOUT"
	if r.Format == tidemark.CopyBinary {
		options += " (FORMAT binary)"
	}
	if r.Format == tidemark.LoadData {
		return nil, &tidemark.Error{Kind: tidemark.Bug, Op: "read", Object: q.object, Err: errors.New("PostgreSQL does not support the format " + r.Format.String())}
	}
	where, err := WhereSQL(m, r.Range)
	if err != nil {
		return nil, err
	}
	if m.From.Form == tidemark.LargeObjects {
		source, err := v.largeObjectSQL(ctx, where)
		q.object, q.grant = "large objects", ""
		q.copySQL = "COPY (" + source + ")" + options
		return q, err
	}
	list, plain, err := v.selectList(q, r)
	if err != nil {
		return nil, err
	}
	// COPY of a table as it is saves the executor's part of a query, but works on ordinary tables
	// only.
	if ordinary := m.From.Form == tidemark.Ordinary || m.From.Form == tidemark.Partition || r.Range.Part != nil; ordinary && plain && where == "" && !v.foreign(table) {
		if list != "" {
			list = " (" + list + ")"
		}
		q.copySQL, q.plain = "COPY "+server.QuoteTable(table)+list+options, true
		return q, nil
	}
	q.copySQL = "COPY (SELECT " + list + FromSQL(m, r.Range, where) + ")" + options
	if len(q.cutCols) > 0 {
		q.cutSQL = cutSQL(q, r, where)
	}
	return q, nil
}

// sourceTable returns what a range is read from: the table of the move or one of its leaves.
func sourceTable(m *tidemark.Move, r *tidemark.Range) tidemark.TableID {
	if r.Part != nil && r.Part.Table.Name != "" {
		return r.Part.Table
	}
	return m.From.TableID
}

// FromSQL returns " FROM ... WHERE ..." for the rows of a range.
func FromSQL(m *tidemark.Move, r *tidemark.Range, where string) string {
	from := " FROM "
	if m.From.Form == tidemark.Ordinary || r.Part != nil {
		from += "ONLY " // children by inheritance are separate tables
	}
	from += server.QuoteTable(sourceTable(m, r))
	if where != "" {
		from += " WHERE " + where
	}
	return from
}

// selectList returns the expressions of a move's columns, and whether they are just the columns.
func (v *Reader) selectList(q *rangeQuery, r tidemark.Read) (list string, plain bool, err error) {
	plain = true
	var exprs []string
	for _, c := range r.Move.Columns() {
		expr := server.QuoteIdent(c.Name)
		plain = plain && c.Generated == "" // COPY of a table refuses generated columns
		switch {
		case c.Type.Kind == tidemark.Money && !r.Move.Direct && r.Format == tidemark.CopyText:
			expr, plain = expr+"::numeric", false // without the currency sign
		case c.Type.Native == `"char"` && v.Major < 15 && r.Format == tidemark.CopyText:
			expr, plain = charExpr(expr), false
		case r.Move.Lob.Mode == tidemark.LimitedLob && cuttable(&c):
			if r.Format != tidemark.CopyText {
				return "", false, &tidemark.Error{Kind: tidemark.Bug, Op: "read", Object: q.object, Err: errors.New("limited LOB mode needs the text format")}
			}
			q.cutCols = append(q.cutCols, c.Name)
			expr, plain = cutExpr(&c, r.Move.Lob.MaxBytes), false
		}
		exprs = append(exprs, expr)
	}
	return strings.Join(exprs, ", "), plain, nil
}

// charExpr writes a "char" beyond ASCII as servers since 15 do; older ones return the bare byte,
// which is invalid text in any multibyte encoding.
func charExpr(c string) string {
	return fmt.Sprintf(`CASE WHEN %[1]s::int >= 0 THEN %[1]s::text ELSE '\' || ((%[1]s::int & 255) >> 6) || ((%[1]s::int >> 3) & 7) || (%[1]s::int & 7) END`, c)
}

// WhereSQL returns the condition of a range together with the move's filters.
func WhereSQL(m *tidemark.Move, r *tidemark.Range) (string, error) {
	filter, err := FilterSQL(m)
	if err != nil {
		return "", err
	}
	var bound string
	switch r.Kind {
	case tidemark.Blocks:
		// Block numbers have 32 bits, as in the type tid.
		bound = fmt.Sprintf("ctid >= '(%d,0)'::tid", r.FromBlock)
		if r.ToBlock >= 0 {
			bound += fmt.Sprintf(" AND ctid < '(%d,0)'::tid", r.ToBlock)
		}
	case tidemark.Keys:
		if bound, err = keysSQL(m, r); err != nil {
			return "", err
		}
	case tidemark.Listed:
		if bound, err = ListedSQL(m, r); err != nil {
			return "", err
		}
	}
	switch {
	case filter == "":
		return bound, nil
	case bound == "":
		return filter, nil
	}
	return "(" + bound + ") AND " + filter, nil
}

// keysSQL returns the condition of a range of keys. Rows are compared as PostgreSQL orders them, by
// the first column that differs. A row with a NULL among the columns has no order, so these rows
// get a condition of their own: they are in the range that has Nulls, and in no other.
func keysSQL(m *tidemark.Move, r *tidemark.Range) (string, error) {
	var cols, isNull, notNull []string
	for _, name := range r.Columns {
		if m.From.Column(name) == nil {
			return "", noColumn(m, name)
		}
		col := server.QuoteIdent(name)
		cols = append(cols, col)
		isNull = append(isNull, col+" IS NULL")
		notNull = append(notNull, col+" IS NOT NULL")
	}
	row := "(" + strings.Join(cols, ", ") + ")"
	var conds []string
	for _, b := range []struct {
		op     string
		values []string
	}{{" >= ", r.Lower}, {" < ", r.Upper}} {
		if b.values == nil {
			continue
		}
		if len(b.values) != len(r.Columns) {
			return "", &tidemark.Error{Kind: tidemark.Invalid, Op: "split", Object: server.QuoteTable(m.From.TableID), Err: fmt.Errorf("a boundary has %d values for %d columns", len(b.values), len(r.Columns)), Hint: "Give one value for each column."}
		}
		var values []string
		for i, v := range b.values {
			values = append(values, typed(v, m.From.Column(r.Columns[i])))
		}
		conds = append(conds, row+b.op+"("+strings.Join(values, ", ")+")")
	}
	switch {
	case r.Nulls && len(conds) == 0:
		return "", nil
	case r.Nulls:
		return strings.Join(isNull, " OR ") + " OR (" + strings.Join(conds, " AND ") + ")", nil
	}
	return strings.Join(append(notNull, conds...), " AND "), nil
}

// ListedSQL returns the condition that selects the listed rows.
func ListedSQL(m *tidemark.Move, r *tidemark.Range) (string, error) {
	rows := make([]string, len(r.Values))
	for i, values := range r.Values {
		if len(values) != len(r.Columns) {
			return "", &tidemark.Error{Kind: tidemark.Bug, Op: "read", Object: server.QuoteTable(m.From.TableID), Err: errors.New("a row's key does not have one value per column")}
		}
		conds := make([]string, len(values))
		for j, v := range values {
			c := m.From.Column(r.Columns[j])
			if c == nil {
				return "", noColumn(m, r.Columns[j])
			}
			conds[j] = equals(c, v)
		}
		rows[i] = strings.Join(conds, " AND ")
	}
	return strings.Join(rows, " OR "), nil
}

// cuttable reports whether limited LOB mode shortens a column: only those without their own limit.
func cuttable(c *tidemark.Column) bool {
	switch c.Type.Kind {
	case tidemark.Text, tidemark.Blob, tidemark.JSON, tidemark.XML:
		return true
	case tidemark.Varchar, tidemark.Varbinary:
		return c.Type.Length == 0
	}
	return false
}

// cutExpr cuts a value to its first max bytes, or fewer so that no character is split.
func cutExpr(c *tidemark.Column, max int64) string {
	col := server.QuoteIdent(c.Name)
	if c.Type.Kind.Bytes() {
		return fmt.Sprintf("substring(%s from 1 for %d)", col, max)
	}
	// A byte 10xxxxxx continues a character. The cut is before byte number max (from 0), or before
	// the start of the character that contains this byte.
	text := col + "::text"
	cut := "CASE"
	for i := range min(3, max) {
		cut += fmt.Sprintf(" WHEN get_byte(s.b, %[1]d) & 192 <> 128 THEN %[1]d", max-i)
	}
	cut += fmt.Sprintf(" ELSE %d END", max-min(3, max))
	return fmt.Sprintf(`CASE WHEN octet_length(convert_to(left(%[1]s, %[2]d + 1), 'UTF8')) > %[2]d THEN
		(SELECT convert_from(substring(s.b from 1 for %[3]s), 'UTF8') FROM (SELECT convert_to(left(%[1]s, %[2]d + 1), 'UTF8')) s(b))
		ELSE %[1]s END`, text, max, cut)
}

// cutSQL lists the key and lengths of rows that have a value to shorten.
func cutSQL(q *rangeQuery, r tidemark.Read, where string) string {
	m := r.Move
	var lengths, long []string
	for _, name := range q.cutCols {
		c := m.From.Column(name)
		length := "octet_length(" + server.QuoteIdent(name)
		if !c.Type.Kind.Bytes() {
			length += "::text"
		}
		length += ")"
		lengths = append(lengths, length)
		long = append(long, fmt.Sprintf("%s > %d", length, m.Lob.MaxBytes))
	}
	var key []string
	if m.From.Key != nil {
		key = m.From.Key.Columns()
	}
	if len(key) == 0 {
		for _, c := range m.Columns()[:min(3, len(m.Columns()))] {
			key = append(key, c.Name)
		}
	}
	for i, name := range key {
		key[i] = "coalesce(left(" + server.QuoteIdent(name) + "::text, 200), '\\N')"
	}
	cond := strings.Join(long, " OR ")
	if where != "" {
		cond = "(" + where + ") AND (" + cond + ")"
	}
	return "SELECT concat_ws(', ', " + strings.Join(key, ", ") + "), " + strings.Join(lengths, ", ") + FromSQL(m, r.Range, cond)
}

// reportCuts reports each value that was shortened, read from the same view.
func (l *lane) reportCuts(ctx context.Context, q *rangeQuery, r tidemark.Read) error {
	rows, err := l.Query(ctx, q.cutSQL)
	if err != nil {
		l.joined = false
		return l.s.Fail(ctx, "read", q.object, err)
	}
	for _, row := range rows {
		for i, name := range q.cutCols {
			var n int64
			for _, d := range row[i+1] {
				n = n*10 + int64(d-'0')
			}
			if n > r.Move.Lob.MaxBytes {
				r.Cut(string(row[0]), name, n)
			}
		}
	}
	return nil
}
