package sqlfile

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// all reads every statement of a text.
func all(tb testing.TB, r io.Reader, opt Options) []*Statement {
	tb.Helper()
	out, err := read(r, opt)
	if err != nil {
		tb.Fatalf("%v (%s)", err, tidemark.HintOf(err))
	}
	return out
}

func read(r io.Reader, opt Options) (out []*Statement, err error) {
	s := NewScanner(r, opt)
	for {
		st, err := s.Next(context.Background())
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out = append(out, st)
	}
}

// move makes the Move that copies a table unchanged.
func move(t *tidemark.Table) *tidemark.Move {
	m := &tidemark.Move{From: t, To: t, Direct: true}
	for _, c := range t.Stored() {
		m.Source = append(m.Source, c.Name)
	}
	return m
}

// convert returns the joined text of converted pieces, and the number of rows.
func convert(m *tidemark.Move, f tidemark.Format, opt ConvertOptions, pieces ...*Tuples) (string, int, error) {
	var out bytes.Buffer
	rows, lasts, more := 0, 0, false
	c := NewConverter(Narrow(m, pieces[0].Columns), f, opt)
	for _, t := range pieces {
		err := c.Convert(t, nil, func(b *tidemark.Batch) error {
			if more && b.Rows == 0 && !b.More {
				return errors.New("a continued row has not ended")
			}
			out.Write(b.Data)
			rows += b.Rows
			if more = b.More; b.Last {
				lasts++
			}
			b.Release()
			return nil
		})
		if err != nil {
			return out.String(), rows, err
		}
		if !t.More && lasts == 0 || t.More && lasts > 0 {
			return "", 0, errors.New("Last does not end the piece")
		}
		if !t.More {
			lasts = 0
		}
	}
	return out.String(), rows, nil
}
