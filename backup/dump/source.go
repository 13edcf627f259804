package dump

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
)

// A Source provides a backup's rows to a load.Run: a range is a run of objects of one table,
// FromBlock to ToBlock among the table's objects.
//
// The batch that ends a range is emitted only after all of the range's objects were read to their
// ends and verified; so the transaction that loads them is not committed otherwise.
type Source struct {
	*Dump
	// Convert returns a function that converts batches from LOAD DATA text to COPY text and emits
	// them. Each range has its own converter.
	Convert func(r tidemark.Read, emit func(*tidemark.Batch) error) func(*tidemark.Batch) error

	lock *repo.Lock
	of   map[tidemark.TableID]*kept
}

// kept is a table's part of the backup.
type kept struct {
	columns []string
	rows    []*Rows
	n       int64
	bytes   int64
}

// NewSource makes a Source.
func NewSource(d *Dump) *Source {
	s := &Source{Dump: d, of: map[tidemark.TableID]*kept{}}
	for i := range d.Moves {
		s.of[d.Moves[i].From.TableID] = &kept{columns: d.Moves[i].Source}
	}
	for i := range d.Rows {
		k := s.of[d.Moves[d.Rows[i].Move].From.TableID]
		k.rows = append(k.rows, &d.Rows[i])
		k.n += d.Rows[i].Rows
		k.bytes += d.Rows[i].Bytes
	}
	return s
}

// Kept returns the format of all rows.
func (s *Source) Kept() tidemark.Format { return s.Format }

// Freeze marks the backup as in use: prune keeps it until Close.
func (s *Source) Freeze(ctx context.Context, _ int) (tidemark.Position, error) {
	at := s.Position
	at.Stamp = s.m.ID // it never changes
	lock, err := s.r.Lock(ctx, repo.LockSpec{Purpose: "restore", Needs: []string{s.m.ID}})
	if err != nil {
		return at, err
	}
	s.lock = lock
	return at, nil
}

// Close releases the backup.
func (s *Source) Close() error {
	if s.lock != nil {
		s.lock.Release()
		s.lock = nil
	}
	return nil
}

// Describe returns the database as it was, with the wanted tables.
func (s *Source) Describe(_ context.Context, want func(tidemark.TableID) bool) (*tidemark.Database, error) {
	db := *s.Database
	db.Tables = nil
	for _, t := range s.Database.Tables {
		if want != nil && !want(t.TableID) {
			continue
		}
		if k := s.of[t.TableID]; k != nil {
			own := *t
			own.Rows, own.Bytes = k.n, k.bytes // no estimates
			t = &own
		}
		db.Tables = append(db.Tables, t)
	}
	return &db, nil
}

// Split divides a move into runs of objects that have about as much text as it requests.
func (s *Source) Split(_ context.Context, m *tidemark.Move) ([]tidemark.Range, error) {
	refuse := func(why, hint string) error {
		return &tidemark.Error{Kind: tidemark.Unsupported, Op: "restore", Object: m.From.String(), Err: errors.New(why), Hint: hint}
	}
	k := s.of[m.From.TableID]
	switch {
	case k == nil:
		return nil, refuse("the backup has its definition only, without rows", "Leave it out with --exclude "+m.From.String())
	case len(m.Filter) > 0 || m.Lob.Mode == tidemark.LimitedLob:
		return nil, refuse("a restore cannot filter rows or truncate values", "Restore the whole table, then copy from there with the rule.")
	case !slices.Equal(k.columns, m.Source):
		return nil, refuse("a restore cannot leave out or reorder columns", "Restore the whole table, then copy from there with the rule.")
	}
	var out []tidemark.Range
	for i, rows := range k.rows {
		if n := len(out) - 1; n >= 0 && m.Split.Kind != tidemark.SplitPartitions && samePart(out[n].Part, rows.Range.Part) &&
			(m.Split.Kind == tidemark.SplitNone || m.Split.Target <= 0 || out[n].Bytes+rows.Bytes <= m.Split.Target) {
			out[n].ToBlock++
			out[n].Rows += rows.Rows
			out[n].Bytes += rows.Bytes
			continue
		}
		out = append(out, tidemark.Range{Kind: tidemark.Blocks, Part: rows.Range.Part, FromBlock: int64(i), ToBlock: int64(i) + 1, Rows: rows.Rows, Bytes: rows.Bytes})
	}
	if out == nil {
		out = []tidemark.Range{{Kind: tidemark.Blocks}}
	}
	return out, nil
}

func samePart(a, b *tidemark.Part) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Name == b.Name && a.Parent == b.Parent && a.Table == b.Table
}

// Read emits the rows of a range. Kind Corrupt: an object differs from what was written.
func (s *Source) Read(ctx context.Context, _ int, r tidemark.Read, emit func(*tidemark.Batch) error) error {
	if s.lock != nil {
		if err := context.Cause(s.lock.Context()); err != nil {
			return err
		}
	}
	if r.Format != s.Format {
		if s.Convert == nil || s.Format != tidemark.LoadData || r.Format != tidemark.CopyText {
			return &tidemark.Error{Kind: tidemark.Bug, Op: "read", Object: r.Move.From.String(), Err: fmt.Errorf("the backup has %s instead of %s", s.Format, r.Format)}
		}
		emit = s.Convert(r, emit)
	}
	k := s.of[r.Move.From.TableID]
	if k == nil || r.Range.FromBlock < 0 || r.Range.FromBlock > r.Range.ToBlock || r.Range.ToBlock > int64(len(k.rows)) {
		return &tidemark.Error{Kind: tidemark.Bug, Op: "read", Object: r.Move.From.String(), Err: errors.New("the backup does not have that range")}
	}
	held := tidemark.NewBatch(r.Range, s.Format) // the next one to emit
	for _, rows := range k.rows[r.Range.FromBlock:r.Range.ToBlock] {
		var err error
		if held, err = s.object(ctx, rows, held, emit); err != nil {
			if held != nil {
				held.Release()
			}
			return err
		}
	}
	held.Last = true
	return emit(held)
}

// object emits the held batch and all batches of an object but the last, which it holds.
func (s *Source) object(ctx context.Context, rows *Rows, held *tidemark.Batch, emit func(*tidemark.Batch) error) (*tidemark.Batch, error) {
	f, err := s.frames(ctx, rows)
	if err != nil {
		return held, err
	}
	defer f.close()
	var n, size int64
	for {
		b := tidemark.NewBatch(held.Range, s.Format)
		if b.Data, err = f.next(b.Data); err != nil {
			b.Release()
			break
		}
		b.Rows = bytes.Count(b.Data, newline) // newlines within values are escaped
		b.More = !bytes.HasSuffix(b.Data, newline)
		n, size = n+int64(b.Rows), size+int64(len(b.Data))
		if len(held.Data) == 0 {
			held.Release()
		} else if err := emit(held); err != nil {
			b.Release()
			return nil, err
		}
		held = b
	}
	if err != io.EOF {
		return held, err
	}
	if n != rows.Rows || size != rows.Bytes || held.More {
		return held, s.damaged(rows.Path, fmt.Errorf("it has %d rows and %d bytes instead of %d and %d", n, size, rows.Rows, rows.Bytes))
	}
	return held, nil
}

var newline = []byte{'\n'}
