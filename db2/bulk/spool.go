package bulk

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"os"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/db2/drda"
	"github.com/tidemarkdb/tidemark/internal/escape"
)

// A spool is a file with the COPY text of a row that is too large for a batch. The protocol wants
// each value's length before its bytes: so the row is read twice.
type spool struct {
	file *os.File
	size int64
}

func newSpool() (*spool, error) {
	f, err := os.CreateTemp("", "tidemark-row-")
	if err != nil {
		return nil, err
	}
	_ = os.Remove(f.Name()) // it ends with the process; where open files have names, with close
	return &spool{file: f}, nil
}

func (s *spool) close() {
	if s != nil {
		s.file.Close()
		_ = os.Remove(s.file.Name())
	}
}

func (s *spool) add(data []byte) error {
	n, err := s.file.Write(data)
	s.size += int64(n)
	return err
}

// A field is where a value's text is, and how many bytes it has without its escapes.
type field struct{ from, to, plain int64 }

// fields finds the values of the row.
func (s *spool) fields() (out []field, err error) {
	src := bufio.NewReaderSize(io.NewSectionReader(s.file, 0, s.size), 256<<10)
	f := field{}
	escaped := false
	for at := int64(0); at < s.size; at++ {
		c, err := src.ReadByte()
		if err != nil {
			return nil, err
		}
		switch {
		case c == '\t' || c == '\n':
			f.to = at
			out = append(out, f)
			f = field{from: at + 1}
			escaped = false
		case c == '\\' && !escaped:
			escaped = true
		default:
			f.plain++
			escaped = false
		}
	}
	return out, nil
}

// text returns a value's text.
func (s *spool) text(f field) ([]byte, error) {
	b := make([]byte, f.to-f.from)
	_, err := s.file.ReadAt(b, f.from)
	return b, err
}

// An unescaped reads COPY text without its escapes.
type unescaped struct {
	src  *bufio.Reader
	rest []byte
}

func (u *unescaped) Read(p []byte) (int, error) {
	for len(u.rest) == 0 {
		b, err := u.src.Peek(64 << 10)
		if len(b) == 0 {
			return 0, err
		}
		if b[len(b)-1] == '\\' && len(b) > 1 && !endsEscape(b) {
			b = b[:len(b)-1] // the escape is in the next bytes
		}
		u.rest = escape.Undo(make([]byte, 0, len(b)), b)
		_, _ = u.src.Discard(len(b))
	}
	n := copy(p, u.rest)
	u.rest = u.rest[n:]
	return n, nil
}

// endsEscape reports whether the last backslash of a text is the second of two.
func endsEscape(b []byte) bool {
	return (len(b)-len(bytes.TrimRight(b, `\`)))%2 == 0
}

// writeLong writes the row of a spool.
func (k *writing) writeLong(ctx context.Context, s *spool) error {
	fields, err := s.fields()
	if err != nil {
		return err
	}
	if len(fields) != len(k.params) {
		return &tidemark.Error{Kind: tidemark.Bug, Op: "write", Object: k.object, Err: errors.New("a row has another number of values than there are columns")}
	}
	texts, lobs := make([][]byte, len(fields)), make([]*drda.Lob, len(fields))
	for i, f := range fields {
		section := io.NewSectionReader(s.file, f.from, f.to-f.from)
		if texts[i], err = s.text(field{from: f.from, to: min(f.to, f.from+2)}); err != nil {
			return err
		}
		null := f.to-f.from == 2 && string(texts[i]) == `\N`
		if p := k.params[i].Kind; !null && p == drda.ParamLobText {
			lobs[i] = &drda.Lob{Size: f.plain, Data: &unescaped{src: bufio.NewReaderSize(section, 64<<10)}}
			continue
		} else if !null && p == drda.ParamLobBytes {
			lobs[i] = &drda.Lob{Size: (f.plain - 2) / 2, Data: hex.NewDecoder(io.NewSectionReader(s.file, f.from+3, f.to-f.from-3))}
			continue
		}
		if f.to-f.from > 256<<10 {
			return &drda.ValueError{Column: i, Reason: "a value is longer than the column can be"}
		}
		if texts[i], err = s.text(f); err != nil {
			return err
		}
		if k.source[i].Type.Kind == tidemark.Timestamp {
			texts[i] = bytes.TrimSuffix(texts[i], []byte("+00"))
		}
	}
	k.sent = 1
	n, err := k.one.AddLarge(ctx, texts, lobs)
	return k.counted(n, err)
}
