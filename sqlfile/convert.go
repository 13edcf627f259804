package sqlfile

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/sqltext"
)

// ZeroDates is the treatment of MySQL's dates that are invalid elsewhere: 0000-00-00, 2024-00-00,
// 2023-02-31. LOAD DATA keeps them unchanged.
type ZeroDates uint8

const (
	ZeroError ZeroDates = iota // an Error of Kind BadRow
	ZeroNull                   // NULL
	ZeroEpoch                  // 1970-01-01
)

// ConvertOptions are the options of a Converter. The zero value is valid.
type ConvertOptions struct {
	ZeroDates ZeroDates
	// Assume names the character set of text columns whose own is unknown; "" is that of the file,
	// so that the bytes are copied.
	Assume string
	// KeepNUL lets NUL bytes in text through; the target decides.
	KeepNUL bool
	// KeepDates writes invalid dates to COPY text as they are, for a comparison with a server that
	// has them too.
	KeepDates bool
}

// A Converter turns the rows of one table into batches. One lane uses it.
//
// It reads the text of a piece once and appends to the batch meanwhile. The loop itself (run)
// copies most values: numbers, NULL, and strings whose bytes stay the same except for escapes.
// Everything else goes through literal, which parses the value's text, and put, which writes it by
// type.
//
// For LOAD DATA the bytes are those of the column's own character set, as tidemark.LoadData asks;
// for COPY text they are UTF-8 and the canonical text.
type Converter struct {
	output
	literals
	move *tidemark.Move
	opt  ConvertOptions

	open  literal        // of a row that continues in the next piece
	field int            // that open belongs to
	hexed int            // bytes of the current value that were written as hex
	zoned *time.Location // of timestamps; nil: UTC
}

// output is the batch that is being filled.
type output struct {
	format tidemark.Format
	rng    *tidemark.Range
	emit   func(*tidemark.Batch) error

	batch *tidemark.Batch // its Data is out[:n] when it is emitted
	out   []byte
	n     int
	row   int   // where the current row begins in out
	rows  int   // completed in this batch
	ends  []int // of the row's values in out, if they are written in another order
}

// literals parses the text of values in a piece.
type literals struct {
	plan       *plan   // of the current piece
	t          *Tuples // the current piece
	serverOnly string  // the hint for a value that only a server can evaluate
	scratch    []byte  // decoded bytes of a literal, not yet written
	wide       []byte  // transcoded bytes
	odd        byte    // half a byte of hex, until the other half arrives; 0: none
	tmp        []byte
}

// NewConverter creates a Converter for the rows of m.From as m.To's columns. f is LoadData or
// CopyText. m.Source names columns that all pieces have: if a piece lists fewer, give it a
// Converter of a narrower Move (Narrow).
func NewConverter(m *tidemark.Move, f tidemark.Format, opt ConvertOptions) *Converter {
	serverOnly := "Load the dump into a MySQL or MariaDB server first and copy from there."
	if f == tidemark.LoadData {
		serverOnly = "The piece can be run as SQL on the target."
	}
	return &Converter{move: m, output: output{format: f}, literals: literals{serverOnly: serverOnly}, opt: opt}
}

// Narrow returns m with only those columns that rows with this column list have. A nil list means
// all columns except invisible ones.
func Narrow(m *tidemark.Move, columns []string) *tidemark.Move {
	has := func(name string) bool {
		if columns != nil {
			return slices.ContainsFunc(columns, func(c string) bool { return strings.EqualFold(c, name) })
		}
		c := m.From.Column(name)
		return c != nil && !c.Invisible
	}
	to := m.To.Stored()
	if !slices.ContainsFunc(m.Source, func(name string) bool { return !has(name) }) {
		return m
	}
	out, table := *m, *m.To
	out.Source, table.Columns, out.Direct = nil, nil, false
	for i, name := range m.Source {
		if has(name) && i < len(to) {
			out.Source = append(out.Source, name)
			table.Columns = append(table.Columns, to[i])
		}
	}
	out.To = &table
	return &out
}

// A plan is how to convert each value of the rows of a piece.
type plan struct {
	session *Session
	columns []string
	fields  []field
	first   int   // the first field that is written
	order   []int // output i is field order[i]; nil if they are the same
}

// A copying is how the string literals of a column are copied.
type copying uint8

const (
	slowly   copying = iota // through literal
	asLoad                  // LOAD DATA escapes
	asCopy                  // COPY escapes
	asHex                   // COPY: \\x and hex
	asDate                  // COPY: a date, with or without a time
	asNumber                // digits in quotes
)

// A field is one position of the tuples.
type field struct {
	name    string
	skip    bool // a generated column
	col     *tidemark.Column
	to      tidemark.Type
	numbers bool // numbers are copied unchanged
	strings copying
	charset string // of its values in the table; "binary" for bytes
}

// Convert turns a piece into batches of the Range and passes each to emit, which then owns it. The
// last batch of a piece has Last set; it may be empty. Parts of a long row must be converted in
// order; only the last of them ends the range.
//
// Errors have file, byte and line: Kind BadInput for text that its position does not allow, BadRow
// for a value that the format or target cannot hold, Unsupported with ErrRaw in its chain for an
// expression that only a server can evaluate. emit's errors are returned unchanged. After an error
// the range must be discarded: the emitted batches hold only some of its rows.
func (c *Converter) Convert(t *Tuples, r *tidemark.Range, emit func(*tidemark.Batch) error) error {
	c.t, c.rng, c.emit = t, r, emit
	if t.Part == 0 {
		c.reset()
		if err := c.setPlan(); err != nil {
			return err
		}
		c.begin()
	} else if c.batch == nil {
		return c.bad(0, tidemark.Bug, "a part of a row without the parts before it", "")
	}
	var err error
	if t.Verb == "COPY" {
		err = c.copyLines()
	} else {
		err = c.run(t.Data)
	}
	if err == nil && !t.More {
		err = c.flush(false, true)
	}
	if err != nil {
		c.reset()
	}
	return err
}

// reset discards a piece that was abandoned.
func (c *Converter) reset() {
	if c.batch != nil {
		c.batch.Release()
	}
	c.batch, c.out, c.n, c.rows, c.row, c.open, c.field = nil, nil, 0, 0, 0, literal{}, 0
	c.scratch, c.odd = c.scratch[:0], 0
}

// begin starts a new batch.
func (c *output) begin() {
	c.batch = tidemark.NewBatch(c.rng, c.format)
	c.out, c.n, c.rows, c.row = c.batch.Data[:cap(c.batch.Data)], 0, 0, 0
}

// flush emits the batch. more means that its last row continues.
func (c *output) flush(more, last bool) error {
	b := c.batch
	b.Data, b.Rows, b.More, b.Last = c.out[:c.n], c.rows, more, last
	c.batch, c.out = nil, nil
	if err := c.emit(b); err != nil {
		return err
	}
	if !last {
		c.begin()
	}
	return nil
}

// room makes sure that n more bytes fit.
func (c *output) room(n int) {
	if len(c.out)-c.n < n {
		c.out = larger(c.out, c.n, n)
	}
}

func larger(out []byte, n, need int) []byte {
	grown := make([]byte, max(2*len(out), n+need+4096))
	copy(grown, out[:n])
	return grown
}

// add appends bytes unchanged.
func (c *output) add(b []byte) {
	c.room(len(b))
	c.n += copy(c.out[c.n:], b)
}

// bad creates an error about the piece's byte i.
func (c *literals) bad(i int, kind tidemark.Kind, what, hint string) error {
	return c.wrap(i, kind, fmt.Errorf("%s", what), hint)
}

func (c *literals) wrap(i int, kind tidemark.Kind, err error, hint string) error {
	d := c.t.Data
	i = min(max(i, 0), len(d))
	line := c.t.Line + int64(bytes.Count(d[:i], []byte{'\n'}))
	return &tidemark.Error{Op: "read", Object: c.t.File, Kind: kind, Hint: hint,
		Err: fmt.Errorf("byte %d (line %d): table %s: %w", c.t.Offset+int64(i), line, c.t.Table, err)}
}

// raw returns the error for an expression that only a server can evaluate.
func (c *literals) raw(i int, what string) error {
	return c.wrap(i, tidemark.Unsupported, fmt.Errorf("%s: %w", what, ErrRaw), c.serverOnly)
}

// setPlan determines how to convert each value; pieces of the same session and columns share the
// plan.
func (c *Converter) setPlan() error {
	t := c.t
	if c.plan != nil && c.plan.session == t.Session && slices.Equal(c.plan.columns, t.Columns) && (c.plan.columns == nil) == (t.Columns == nil) {
		return nil
	}
	p := &plan{session: t.Session, columns: t.Columns}
	from := c.move.From
	var cols []*tidemark.Column
	if t.Columns == nil {
		for i := range from.Columns {
			if !from.Columns[i].Invisible {
				cols = append(cols, &from.Columns[i])
			}
		}
	}
	for _, name := range t.Columns {
		i := slices.IndexFunc(from.Columns, func(c tidemark.Column) bool { return strings.EqualFold(c.Name, name) })
		if i < 0 {
			return c.bad(0, tidemark.BadInput, "there is no column "+name, "Check that the target's table has the columns that it had when the dump was made.")
		}
		cols = append(cols, &from.Columns[i])
	}
	to := c.move.To.Stored()
	for _, col := range cols {
		f := field{name: col.Name, col: col, skip: true}
		if i := slices.Index(c.move.Source, col.Name); i >= 0 && i < len(to) {
			f.skip, f.to = false, to[i].Type
			c.setField(&f)
		}
		p.fields = append(p.fields, f)
	}
	p.first = slices.IndexFunc(p.fields, func(f field) bool { return !f.skip })
	if err := c.setOrder(p); err != nil {
		return err
	}
	var err error
	if c.zoned, err = zone(t.Session.TimeZone); err != nil {
		return c.wrap(0, tidemark.Unsupported, err, "Make the dump with --tz-utc, which is mysqldump's default.")
	}
	c.plan = p
	c.ends = make([]int, len(p.fields))
	return nil
}

// setOrder determines whether values are written in the order in which they are read.
func (c *Converter) setOrder(p *plan) error {
	last, sorted := -1, true
	for _, name := range c.move.Source {
		i := slices.IndexFunc(p.fields, func(f field) bool { return f.name == name && !f.skip })
		if i < 0 {
			return c.bad(0, tidemark.Unsupported, "its rows do not have the column "+name, "Leave the column out of the copy, or let it have a default.")
		}
		p.order = append(p.order, i)
		sorted = sorted && i > last
		last = i
	}
	if sorted {
		p.order = nil
	}
	return nil
}

// setField chooses how a column's values are written.
func (c *Converter) setField(f *field) {
	t := f.col.Type
	file := c.t.Session.Charset
	switch own := charsetName(t.Charset); {
	case t.Kind == tidemark.JSON || t.Kind == tidemark.UUID:
		f.charset = "utf8mb4"
	case !isText(t.Kind):
		f.charset = "binary"
	case own != "":
		f.charset = own
	case f.to.Charset != "":
		f.charset = charsetName(f.to.Charset)
	case c.opt.Assume != "":
		f.charset = charsetName(c.opt.Assume)
	default:
		f.charset = file
	}
	if c.format == tidemark.LoadData {
		f.numbers = t.Kind != tidemark.Bit && t.Kind != tidemark.Enum && t.Kind != tidemark.Set && t.Kind != tidemark.Year
		if file == f.charset || file == "binary" || f.charset == "binary" {
			f.strings = asLoad
		}
		return
	}
	boolean := t.Kind == tidemark.Bool || f.to.Kind == tidemark.Bool
	switch {
	case boolean:
	case isText(t.Kind):
		f.numbers = t.Kind != tidemark.Enum && t.Kind != tidemark.Set
		if file == "utf8mb4" || file == "binary" && f.charset == "utf8mb4" {
			f.strings = asCopy
		}
	case t.Kind.Bytes():
		f.strings = asHex
	case t.Kind == tidemark.Int || t.Kind == tidemark.Decimal || t.Kind == tidemark.Float || t.Kind == tidemark.Year:
		f.numbers, f.strings = true, asNumber
	case t.Kind == tidemark.Date || t.Kind == tidemark.DateTime || t.Kind == tidemark.Timestamp:
		f.strings = asDate
	}
}

// isText reports whether values of this kind are text in a character set.
func isText(k tidemark.TypeKind) bool {
	switch k {
	case tidemark.Char, tidemark.Varchar, tidemark.Text, tidemark.Enum, tidemark.Set, tidemark.JSON, tidemark.UUID, tidemark.Other, tidemark.XML:
		return true
	}
	return false
}

// run converts the rows of a piece, or its part of a long row.
func (c *Converter) run(d []byte) error {
	i, k := 0, 0
	inside := c.t.Part > 0
	if inside {
		k = c.field
		var err error
		if i, err = c.resume(d); err != nil || c.open.kind != noLiteral {
			return err
		}
		if i, k, err = c.between(d, i, k); err != nil {
			return err
		}
		inside = k >= 0
	}
	for {
		if !inside {
			for i < len(d) && (d[i] == ',' || sqltext.IsSpace(d[i])) {
				i++
			}
			switch {
			case i >= len(d):
				return nil
			case d[i] != '(':
				j := c.blank(d, i)
				if i == j {
					return c.bad(i, tidemark.BadInput, "expected a row, found "+snippet(d[i:]), hintBroke)
				}
				i = j
				continue
			}
			i++
			k, c.row = 0, c.n
		}
		inside = false
		var err error
		if i, k, err = c.values(d, i, k); err != nil || c.open.kind != noLiteral {
			return err
		}
		if err := c.endRow(i, k); err != nil {
			return err
		}
	}
}

// endRow ends a row of which k values were read.
func (c *Converter) endRow(i, k int) error {
	if k != len(c.plan.fields) {
		return c.bad(i, tidemark.BadInput, fmt.Sprintf("a row has %d values, the table takes %d", k, len(c.plan.fields)), hintBroke)
	}
	if c.plan.order != nil {
		c.reorder()
	}
	c.room(1)
	c.out[c.n] = '\n'
	c.n++
	c.rows++
	if c.n >= tidemark.BatchSize {
		return c.spill(false)
	}
	return nil
}

// spill emits the batch at the end of a row or, with more, of a part of one. The buffered part of a
// long row is split into batches of PieceSize.
func (c *Converter) spill(more bool) error {
	if c.n <= tidemark.PieceSize {
		return c.flush(more, false)
	}
	ended := 1
	if more {
		ended = 0
	}
	rest := bytes.Clone(c.out[c.row:c.n])
	if c.n, c.rows = c.row, c.rows-ended; c.n > 0 {
		if err := c.flush(false, false); err != nil {
			return err
		}
	}
	for c.rows = 0; len(rest) > tidemark.PieceSize; rest = rest[tidemark.PieceSize:] {
		c.add(rest[:tidemark.PieceSize])
		if err := c.flush(true, false); err != nil {
			return err
		}
	}
	c.add(rest)
	c.rows = ended
	return c.flush(more, false)
}

// reorder puts the values of the last row into the target's order.
func (c *Converter) reorder() {
	c.tmp = append(c.tmp[:0], c.out[c.row:c.n]...)
	c.n = c.row
	for i, k := range c.plan.order {
		if i > 0 {
			c.room(1)
			c.out[c.n] = '\t'
			c.n++
		}
		start := 0
		if k > 0 {
			start = c.ends[k-1]
		}
		v := c.tmp[start:c.ends[k]]
		if len(v) > 0 && v[0] == '\t' { // a tab inside a value is escaped
			v = v[1:]
		}
		c.add(v)
	}
}
