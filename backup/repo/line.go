package repo

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"unicode/utf8"
)

// A list of files is read far more often than it is written: twice by a restore, by verify, and by
// the next backup. With millions of lines, encoding/json would take longer than creating the files.
// So a special parser reads what we write ourselves, and leaves any other form to encoding/json.

// A lines reads a text line by line.
type lines struct {
	in   io.Reader
	room []byte
	left []byte // of room: read but not returned
	err  error
}

// lineMost limits how much a damaged list can make us keep: a file of 4 million extents.
const lineMost = 512 << 20

// next returns a line without its end, valid until the next call. io.EOF: there is none.
func (l *lines) next() ([]byte, error) {
	from := 0
	for {
		if n := bytes.IndexByte(l.left[from:], '\n'); n >= 0 {
			line := l.left[:from+n]
			l.left = l.left[from+n+1:]
			return line, nil
		}
		from = len(l.left)
		if l.err == io.EOF && from > 0 {
			line := l.left
			l.left = nil
			return line, nil
		}
		if l.err != nil {
			return nil, l.err
		}
		if from > lineMost {
			return nil, errors.New("the last line is truncated")
		}
		l.fill()
	}
}

// fill reads more, after what is left.
func (l *lines) fill() {
	if free := cap(l.room) - len(l.left); free < 64<<10 {
		l.room = make([]byte, max(256<<10, 2*cap(l.room)))
	}
	n := copy(l.room, l.left)
	for range 100 { // empty reads
		var k int
		k, l.err = l.in.Read(l.room[n:])
		l.left = l.room[:n+k]
		if k > 0 || l.err != nil {
			return
		}
	}
	l.err = io.ErrNoProgress
}

// A fileParser parses lines. Its results are never reused.
type fileParser struct {
	extents []Extent // room
}

func (p *fileParser) parse(line []byte) (File, error) {
	t := cursor{line}
	if f, ok := p.own(&t); ok {
		return f, nil
	}
	var f File
	err := json.Unmarshal(line, &f)
	return f, err
}

// own parses json.Marshal's form of a File; ok is false for everything else, valid or not.
func (p *fileParser) own(t *cursor) (f File, ok bool) {
	if !t.skip("{") {
		return f, false
	}
	for first := true; !t.skip("}"); first = false {
		if !first && !t.skip(",") || !p.key(t, &f) {
			return f, false
		}
	}
	return f, len(t.b) == 0
}

// key parses a key and its value.
func (p *fileParser) key(t *cursor, f *File) (ok bool) {
	var n uint64
	switch {
	case t.skip(`"path":`):
		var s string
		s, ok = t.string()
		f.Path = Path(s)
	case t.skip(`"type":`):
		f.Type, ok = t.string()
	case t.skip(`"size":`):
		n, ok = t.number(1<<63 - 1)
		f.Size = int64(n)
	case t.skip(`"mode":`):
		n, ok = t.number(1<<32 - 1)
		f.Mode = uint32(n)
	case t.skip(`"mtime":`):
		negative := t.skip("-")
		n, ok = t.number(1<<63 - 1)
		if f.MTime = int64(n); negative {
			f.MTime = -f.MTime
		}
	case t.skip(`"crc":`):
		n, ok = t.number(1<<32 - 1)
		f.CRC = uint32(n)
	case t.skip(`"extents":[`):
		ok = p.parseExtents(t, f)
	case t.skip(`"blocks":{"page_size":`):
		var size, truncate uint64
		size, ok = t.number(1<<31 - 1)
		ok = ok && t.skip(`,"truncate":`)
		if ok {
			truncate, ok = t.number(1<<63 - 1)
		}
		ok = ok && t.skip("}")
		f.Blocks = &Blocks{PageSize: int(size), Truncate: int64(truncate)}
	}
	return ok
}

func (p *fileParser) parseExtents(t *cursor, f *File) bool {
	p.extents = p.extents[:0]
	for first := true; !t.skip("]"); first = false {
		if !first && !t.skip(",") {
			return false
		}
		// [at,length,skip,[pack,offset,stored,plain,crc,number,codec]]
		var v [10]uint64
		for i, before := range [len(v)]string{"[", ",", ",", ",[", ",", ",", ",", ",", ",", ","} {
			most := uint64(1<<32 - 1)
			switch i {
			case 0, 4, 8:
				most = 1<<63 - 1
			case 9:
				most = 1<<8 - 1
			}
			var ok bool
			if !t.skip(before) {
				return false
			}
			if v[i], ok = t.number(most); !ok {
				return false
			}
		}
		if !t.skip("]]") {
			return false
		}
		p.extents = append(p.extents, Extent{At: int64(v[0]), Length: uint32(v[1]), Skip: uint32(v[2]),
			Ref: Ref{Pack: uint32(v[3]), Offset: int64(v[4]), Stored: uint32(v[5]), Plain: uint32(v[6]), CRC: uint32(v[7]), Number: v[8], Codec: uint8(v[9])}})
	}
	f.Extents = slices.Clone(p.extents)
	return true
}

// A cursor holds the rest of a line.
type cursor struct{ b []byte }

func (t *cursor) skip(s string) bool {
	if len(t.b) < len(s) || string(t.b[:len(s)]) != s {
		return false
	}
	t.b = t.b[len(s):]
	return true
}

// string parses one without escapes.
func (t *cursor) string() (string, bool) {
	if !t.skip(`"`) {
		return "", false
	}
	n := bytes.IndexByte(t.b, '"')
	if n < 0 || bytes.IndexByte(t.b[:n], '\\') >= 0 || !utf8.Valid(t.b[:n]) {
		return "", false
	}
	s := string(t.b[:n])
	t.b = t.b[n+1:]
	return s, true
}

// number parses an integer of at most most; it must end where JSON's does.
func (t *cursor) number(most uint64) (v uint64, ok bool) {
	n := 0
	for n < len(t.b) && n < 19 && t.b[n] >= '0' && t.b[n] <= '9' {
		v = v*10 + uint64(t.b[n]-'0')
		n++
	}
	if n == 0 || n > 1 && t.b[0] == '0' || v > most || n < len(t.b) && t.b[n] != ',' && t.b[n] != ']' && t.b[n] != '}' {
		return 0, false
	}
	t.b = t.b[n:]
	return v, true
}
