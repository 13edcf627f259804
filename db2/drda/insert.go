package drda

import (
	"bytes"
	"context"
	"errors"
	"io"
)

// A Statement is prepared, and has parameters for a fixed number of rows. It is valid until the
// transaction ends.
type Statement struct {
	c       *Conn
	params  []Param // of a row
	rows    int
	section int
	dsc     []byte // describes the parameters
	row     []byte // memory for their values
}

// A Lob is a value of a parameter of any length, which Add sends without holding it. Exactly Size
// bytes are read from Data.
type Lob struct {
	Size int64
	Data io.Reader
}

// Prepare collects the request to prepare a statement that has the parameters for each of so many
// rows. It is sent with the first Run; Statements of the transaction before are forgotten by
// Unprepare.
func (c *Conn) Prepare(sql string, params []Param, rows int) (*Statement, error) {
	section, err := c.reserveSection()
	if err != nil {
		return nil, err
	}
	if err := c.request(cpPRPSQLSTT, section, func(f *frames) { f.param(cpRTNSQLDA, 0xF0) }); err != nil {
		return nil, err
	}
	c.sqlText(cpSQLSTT, sql)
	return &Statement{c: c, params: params, rows: rows, section: section, dsc: appendFDODSC(nil, params, rows)}, nil
}

// Unprepare releases what Prepare reserves. No query is open.
func (c *Conn) Unprepare() { c.sections = 0 }

// Pending is how many bytes of requests are collected.
func (c *Conn) Pending() int { return len(c.out.out) }

// Drop forgets what is collected.
func (c *Conn) Drop() { c.out.reset() }

// Add collects one execution of the statement, with rows of COPY text. It returns where the rows
// end. An error is a *ValueError: then nothing is collected.
func (s *Statement) Add(text []byte) (rest []byte, err error) {
	s.row = append(s.row[:0], 0)
	var large [][]byte // values that follow
	for range s.rows {
		for i, p := range s.params {
			end := bytes.IndexAny(text, "\t\n")
			last := i == len(s.params)-1
			if end < 0 || (text[end] == '\n') != last {
				return nil, &ValueError{Column: i, Reason: "a row has another number of values than there are columns"}
			}
			v := text[:end]
			text = text[end+1:]
			if !p.large() || string(v) == null {
				s.row, err = p.appendParam(s.row, v)
			} else {
				var b []byte
				if p.Kind == ParamLobBytes {
					b, err = appendHex(nil, v)
				} else {
					b, err = appendPlain(nil, v)
				}
				s.row = be.AppendUint32(append(s.row, 0), uint32(len(b)))
				if len(b) > 0 { // nothing follows for an empty one
					large = append(large, b)
				}
			}
			if err != nil {
				err.(*ValueError).Column = i
				return nil, err
			}
		}
	}
	if err := s.head(); err != nil {
		return nil, err
	}
	f := &s.c.out
	for _, v := range large {
		f.begin(dssObject)
		m := f.open(cpEXTDTA)
		f.body = append(append(append(f.body, 0), v...), s.c.afterLarge()...)
		f.close(m)
		f.end()
	}
	return text, nil
}

// head collects the command, and its parameters but large ones.
func (s *Statement) head() error {
	f := &s.c.out
	if err := s.c.request(cpEXCSQLSTT, s.section, func(f *frames) { f.param(cpRDBCMTOK, 0xF1) }); err != nil {
		return err
	}
	f.begin(dssObject)
	m := f.open(cpSQLDTA)
	d := f.open(cpFDODSC)
	f.body = append(f.body, s.dsc...)
	f.close(d)
	d = f.open(cpFDODTA)
	f.body = append(f.body, s.row...)
	f.close(d)
	f.close(m)
	f.end()
	return nil
}

// AddLarge is Add and Run for one row with large values of any size: texts has the COPY text of
// the others, and "" where lobs has the value. It returns a *ValueError before anything is sent.
func (s *Statement) AddLarge(ctx context.Context, texts [][]byte, lobs []*Lob) (rows int64, err error) {
	s.row = append(s.row[:0], 0)
	var large []*Lob
	for i, p := range s.params {
		if l := lobs[i]; l != nil {
			if l.Size > 1<<31-1 {
				return 0, &ValueError{Column: i, Reason: "a value has more than 2 GB"}
			}
			s.row = be.AppendUint32(append(s.row, 0), uint32(l.Size))
			if l.Size > 0 {
				large = append(large, l)
			}
			continue
		}
		if s.row, err = p.appendParam(s.row, texts[i]); err != nil {
			err.(*ValueError).Column = i
			return 0, err
		}
	}
	if err := s.head(); err != nil {
		return 0, err
	}
	if f := &s.c.out; len(large) > 0 {
		f.out[f.last+3] |= dssChained | dssSameCorr
	}
	done := s.c.watch(ctx)
	for i, l := range large {
		if err := s.c.stream(l, i < len(large)-1); err != nil {
			return 0, done(s.c.broken(err))
		}
	}
	rows, err = s.c.results()
	return rows, done(err)
}

// stream sends a large value in an object of its own, after what is collected; more says that
// another follows.
func (c *Conn) stream(l *Lob, more bool) error {
	f := &c.out
	end := c.afterLarge()
	head := be.AppendUint32([]byte{0x80, 8, cpEXTDTA >> 8, cpEXTDTA & 0xFF}, uint32(l.Size+1+int64(len(end))))
	head = append(head, 0) // not NULL
	src := io.MultiReader(bytes.NewReader(head), &exactly{l.Data, l.Size}, bytes.NewReader(end))
	left := int64(len(head)) + l.Size + int64(len(end))
	kind := byte(dssObject)
	if more {
		kind |= dssChained | dssSameCorr
	}
	for first := true; left > 0; first = false {
		header := []byte{0, 0, 0xD0, kind, byte(f.corr >> 8), byte(f.corr)}
		if !first {
			header = header[:2]
		}
		n := int(min(left, int64(maxSegment-len(header))))
		left -= int64(n)
		copy(header, length(n+len(header), left > 0))
		at := len(f.out) + len(header)
		f.out = append(append(f.out, header...), make([]byte, n)...)
		if _, err := io.ReadFull(src, f.out[at:]); err != nil {
			return err
		}
		if len(f.out) > 256<<10 && left > 0 {
			if _, err := c.net.Write(f.out); err != nil {
				return err
			}
			f.out = f.out[:0]
		}
	}
	return nil
}

// afterLarge is what follows a large value: Derby's own client says there since 10.10 whether the
// value is whole.
func (c *Conn) afterLarge() []byte {
	if c.Server.Derby() && c.Server.Product >= "CSS10100" {
		return []byte{0x7F}
	}
	return nil
}

// An exactly reads left bytes: an earlier end is an error.
type exactly struct {
	src  io.Reader
	left int64
}

func (e *exactly) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n, err := e.src.Read(p[:min(int64(len(p)), e.left)])
	if e.left -= int64(n); err == io.EOF && e.left > 0 {
		return n, errors.New("a large value is shorter than was said")
	} else if err == io.EOF {
		err = nil
	}
	return n, err
}

// Run sends what is collected, and returns the number of rows that it changed. The error is the
// first; whether the server has run what came after it depends on the server, so the caller rolls
// back.
func (c *Conn) Run(ctx context.Context) (rows int64, err error) {
	done := c.watch(ctx)
	rows, err = c.results()
	return rows, done(err)
}
