package drda

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// blockSize is how many bytes of rows a reply may have.
const blockSize = 1 << 20

// smallBlock is what every server accepts.
const smallBlock = 32767

// Rows are the rows of a query, as they come. The Conn serves nothing else until they are closed.
type Rows struct {
	c       *Conn
	section int
	block   uint32
	insid   []byte // the server's name of the query
	columns []column
	replies int  // that have begun
	asked   bool // the next reply has been asked for
	ended   bool // the server has sent the last row
	gone    bool // and has closed the query by itself
	inData  bool // the current object of the reply is a QRYDTA
	marked  bool // the last large value of this row began with a byte that says that it is not NULL

	win   []byte // rows that are not decoded yet, from pos
	pos   int
	spill []byte // memory for win, if it is not a part of the reader's

	out   []byte
	count int
	full  func(data []byte, rows int, more bool) ([]byte, error)
	limit int // bytes after which what is decoded is handed on, after a row
	piece int // and amid one
}

// Query runs a query. The rows are read by Copy.
func (c *Conn) Query(ctx context.Context, sql string) (*Rows, error) {
	r, err := c.query(ctx, sql, blockSize)
	var refused *ProtocolError
	if errors.As(err, &refused) && refused.Reply == replyNames[cpVALNSPRM] && !c.Broken {
		return c.query(ctx, sql, smallBlock)
	}
	return r, err
}

func (c *Conn) query(ctx context.Context, sql string, block uint32) (*Rows, error) {
	section, err := c.reserveSection()
	if err != nil {
		return nil, err
	}
	r := &Rows{c: c, section: section, block: block}
	done := c.watch(ctx)
	if err = done(r.open(sql)); err != nil {
		c.sections--
		return nil, err
	}
	return r, nil
}

// open sends the query, and reads the replies up to the first rows.
func (r *Rows) open(sql string) error {
	c := r.c
	if err := c.request(cpPRPSQLSTT, r.section, func(f *frames) { f.param(cpRTNSQLDA, 0xF0) }); err != nil {
		return err
	}
	if !c.Server.Derby() { // which refuses it
		c.sqlText(cpSQLATTR, "FOR READ ONLY ")
	}
	c.sqlText(cpSQLSTT, sql)
	err := c.request(cpOPNQRY, r.section, func(f *frames) {
		f.param32(cpQRYBLKSZ, r.block)
		f.param(cpQRYCLSIMP, 1)
	})
	if err != nil {
		return err
	}
	if err := c.send(); err != nil {
		return err
	}
	r.replies = 1
	var first error
	for {
		code, err := c.next()
		switch {
		case err != nil:
			return errorOf(first, err)
		case code == 0:
			if first == nil {
				first = errors.New("the server did not open the query")
			}
			return first
		}
		switch code {
		case cpOPNQRYRM:
			err = r.opened()
		case cpQRYDSC:
			if err = r.described(); err == nil && first == nil {
				return nil
			}
		default:
			err = c.other(code)
		}
		if first = errorOf(first, err); c.Broken {
			return first
		}
	}
}

func (r *Rows) opened() error {
	body, err := r.c.whole()
	if err != nil {
		return err
	}
	err = params(body, func(code uint16, v []byte) error {
		if code == cpQRYINSID {
			r.insid = append([]byte(nil), v...)
		}
		return nil
	})
	if err != nil {
		return r.c.broken(err)
	}
	return nil
}

func (r *Rows) described() error {
	body, err := r.c.whole()
	if err != nil {
		return err
	}
	described, err := parseQRYDSC(body)
	if err == nil {
		for _, d := range described {
			col, e := r.c.column(d)
			if err = e; err != nil {
				break
			}
			r.columns = append(r.columns, col)
		}
	}
	if err != nil {
		return r.c.broken(err)
	}
	return nil
}

// ask asks for the next reply.
func (r *Rows) ask() error {
	c := r.c
	err := c.request(cpCNTQRY, r.section, func(f *frames) {
		f.param32(cpQRYBLKSZ, r.block)
		f.param(cpQRYINSID, r.insid...)
		f.param(cpRTNEXTDTA, 2) // all of the rows' large values
	})
	if err != nil {
		return err
	}
	_, err = c.net.Write(c.out.out)
	c.out.reset()
	if err != nil {
		return c.broken(err)
	}
	r.asked = true
	return nil
}

// object returns the next object of the query's replies, asking for them as needed: from the second
// on, the next is asked for before the one before it is decoded. 0 is the end.
func (r *Rows) object() (uint16, error) {
	for {
		code, err := r.c.next()
		if err != nil || code != 0 {
			return code, err
		}
		if r.ended {
			return 0, nil
		}
		if !r.asked {
			if err := r.ask(); err != nil {
				return 0, err
			}
		}
		r.asked = false
		r.c.in.start()
		if r.replies++; r.replies > 2 {
			if err := r.ask(); err != nil {
				return 0, err
			}
		}
	}
}

// more returns the next bytes of rows, nil after the last.
func (r *Rows) more() ([]byte, error) {
	for {
		if r.inData {
			b, err := r.c.in.chunk()
			if err != nil {
				return nil, r.c.broken(err)
			}
			if b != nil {
				return b, nil
			}
			r.inData = false
		}
		if r.ended {
			return nil, nil
		}
		code, err := r.object()
		if err != nil || code == 0 {
			return nil, err
		}
		if err := r.handleObject(code); err != nil {
			return nil, err
		}
	}
}

// handleObject handles an object of the replies, other than a large value.
func (r *Rows) handleObject(code uint16) error {
	switch code {
	case cpQRYDTA:
		r.inData = true
	case cpENDQRYRM:
		r.ended, r.gone = true, true
		_, err := r.c.whole()
		return err
	case cpSQLCARD:
		ca, err := r.c.card()
		if err != nil {
			return err
		}
		if ca != nil && ca.code == 100 {
			r.ended = true
		}
		return ca.err()
	case cpEXTDTA:
		return r.c.broken(errors.New("the server sent a large value that no row has"))
	default:
		return r.c.other(code)
	}
	return nil
}

// need makes n bytes available from pos. io.EOF: there are none, and the query has ended.
func (r *Rows) need(n int) error {
	for len(r.win)-r.pos < n {
		r.keep()
		b, err := r.more()
		switch {
		case err != nil:
			return err
		case b == nil && len(r.win) == 0:
			return io.EOF
		case b == nil:
			return r.c.broken(errors.New("the server ended the query amid a row"))
		case len(r.win) == 0:
			r.win = b
		default:
			r.spill = append(r.spill, b...)
			r.win = r.spill
		}
	}
	return nil
}

// keep moves what is not decoded out of the reader's memory.
func (r *Rows) keep() {
	r.spill = append(r.spill[:0], r.win[r.pos:]...)
	r.win, r.pos = r.spill, 0
}

// bytes returns the next n bytes of rows, valid until the next call.
func (r *Rows) bytes(n int) ([]byte, error) {
	if len(r.win)-r.pos < n {
		if err := r.need(n); err != nil {
			return nil, r.amid(err)
		}
	}
	b := r.win[r.pos : r.pos+n]
	r.pos += n
	return b, nil
}

// amid is the error of an end amid a row.
func (r *Rows) amid(err error) error {
	if err == io.EOF {
		return r.c.broken(errors.New("the server ended the query amid a row"))
	}
	return err
}

// Copy appends the rows to dst as COPY text. When dst has limit bytes after a row, or piece bytes
// amid a row with large values, full takes it and returns memory for what follows; more says that
// the row continues. Copy returns what is left, and how many rows end in it.
func (r *Rows) Copy(ctx context.Context, dst []byte, limit, piece int, full func(data []byte, rows int, more bool) ([]byte, error)) (rest []byte, rows int, err error) {
	r.out, r.count, r.limit, r.piece, r.full = dst, 0, limit, piece, full
	done := r.c.watch(ctx)
	err = done(r.copy())
	return r.out, r.count, err
}

// copy decodes row after row.
func (r *Rows) copy() error {
	for {
		ok, err := r.begin()
		if err != nil {
			return err
		}
		if !ok {
			return nil
		}
		if err := r.row(); err != nil {
			return err
		}
		if r.count++; len(r.out) >= r.limit {
			if err := r.flush(false); err != nil {
				return err
			}
		}
	}
}

// flush hands on what has been decoded.
func (r *Rows) flush(more bool) (err error) {
	r.out, err = r.full(r.out, r.count, more)
	r.count = 0
	return err
}

// begin reads what precedes a row: what the server says of it. It reports whether there is a row.
func (r *Rows) begin() (bool, error) {
	for {
		err := r.need(1)
		if err == io.EOF {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		b := r.win[r.pos]
		r.pos++
		if b != 0xFF {
			end, err := r.card()
			if end || err != nil {
				return false, err
			}
		}
		present, err := r.bytes(1)
		if err != nil {
			return false, err
		}
		if present[0] != 0xFF {
			return true, nil
		}
	}
}

// card reads the SQLCA before a row, of which the first byte is read: an error, a warning, or the
// end of the query.
func (r *Rows) card() (end bool, err error) {
	whole := []byte{0}
	add := func(n int) []byte {
		var b []byte
		if err == nil {
			if b, err = r.bytes(n); err == nil {
				whole = append(whole, b...)
				return whole[len(whole)-n:]
			}
		}
		return make([]byte, n)
	}
	add(17)
	if add(1)[0] != 0xFF {
		add(35)
		for range 3 {
			add(int(be.Uint16(add(2))))
		}
	}
	add(1)
	if err != nil {
		return false, err
	}
	ca, err := parseSQLCA(&fields{b: whole, order: r.c.order}, r.c.text)
	if err != nil {
		return false, r.c.broken(err)
	}
	if ca.code == 100 {
		r.ended = true
		return true, nil
	}
	return false, ca.err()
}

// Close ends the query: it takes in what the server has been asked for, and closes the query unless
// the server has done so.
func (r *Rows) Close(ctx context.Context) error {
	c := r.c
	if r.section == 0 {
		return nil
	}
	c.sections--
	r.section, r.win, r.pos, r.inData = 0, nil, 0, false
	if c.Broken {
		return nil
	}
	done := c.watch(ctx)
	return done(r.drain(c.sections + 1))
}

func (r *Rows) drain(section int) error {
	c := r.c
	_ = c.rest(nil) // errors of rows that nobody wants
	if r.asked && !c.Broken {
		c.in.start()
		_ = c.rest(nil) // QRYNOPRM, after the last row
	}
	if c.Broken {
		return errors.New("the connection broke while a query was closed")
	}
	if r.gone {
		return nil
	}
	if err := c.request(cpCLSQRY, section, func(f *frames) { f.param(cpQRYINSID, r.insid...) }); err != nil {
		return err
	}
	_, err := c.results()
	var refused *ProtocolError
	if errors.As(err, &refused) && refused.Reply == replyNames[cpQRYNOPRM] {
		return nil
	}
	return err
}

// Strings runs a query with few rows, and returns them as text; NULL is nil.
func (c *Conn) Strings(ctx context.Context, sql string) ([][]*string, error) {
	r, err := c.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	const most = 256 << 20
	var all []byte
	add := func(data []byte, _ int, _ bool) ([]byte, error) {
		if all = append(all, data...); len(all) > most {
			return nil, fmt.Errorf("the server sent more than %d bytes as the result of a query of its catalogue", most)
		}
		return data[:0], nil
	}
	rest, _, err := r.Copy(ctx, nil, 64<<10, 64<<10, add)
	if e := r.Close(ctx); err == nil {
		err = e
	}
	if err != nil {
		return nil, err
	}
	return splitText(append(all, rest...)), nil
}
