// Package dumped makes a dump file a side of a comparison. It hides that a file has its rows in an
// order of its own, has no ranges that could be asked for, and is read again from its beginning.
//
// A Survey collects the pieces of each table while the file is read for its definitions; a Side
// gives them as ranges, and reads them in the order of the file: one scanner, any number of lanes
// that convert.
package dumped

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// A Script is a dump file, read from front to back. A load.Script is one.
type Script interface {
	Next(ctx context.Context) (*tidemark.Piece, error)
	Convert(ctx context.Context, p *tidemark.Piece, r tidemark.Read, emit func(*tidemark.Batch) error) error
	Done(p *tidemark.Piece)
	Stamp() string // changes when the file does
	Name() string  // for messages
	Close() error
}

// ahead is how many pieces, of a few megabytes each, the scanner is ahead of the lanes.
const ahead = 2

// A Side is a dump file as a diff.Ordered.
type Side struct {
	again  func() (Script, error) // opens the file
	stamp  string
	survey *Survey

	scan *scan
	last int // the ID of the range that Advance was at

	mu   sync.Mutex
	open map[int]*tidemark.Piece // those between Advance and Read, by ID
}

// A scan is one reading of the file.
type scan struct {
	script Script
	ctx    context.Context // of the pass
	stop   context.CancelFunc
	pieces chan *tidemark.Piece
	err    error // once pieces is closed; nil at the end of the file
}

// NewSide returns the file that again opens, and that had stamp when it was surveyed.
func NewSide(again func() (Script, error), stamp string, survey *Survey) *Side {
	return &Side{again: again, stamp: stamp, survey: survey, open: map[int]*tidemark.Piece{}}
}

// Split returns the pieces of a table.
func (s *Side) Split(_ context.Context, m *tidemark.Move) ([]tidemark.Range, error) {
	if t := s.survey.tables[m.From.TableID]; t != nil {
		return t.pieces, nil
	}
	return nil, nil
}

// Advance reads the file up to a piece.
func (s *Side) Advance(ctx context.Context, r *tidemark.Range) error {
	if s.scan == nil || r.ID <= s.last || s.scan.ctx.Err() != nil {
		if err := s.rewind(ctx); err != nil {
			return err
		}
	}
	s.last = r.ID
	for {
		select {
		case p, ok := <-s.scan.pieces:
			switch {
			case !ok && s.scan.err != nil:
				return s.scan.err
			case !ok || p.ID > r.ID:
				return s.changed()
			case p.ID < r.ID:
				s.scan.script.Done(p)
				continue
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			s.open[p.ID] = p
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *Side) changed() error {
	return &tidemark.Error{Kind: tidemark.Invalid, Op: "read", Object: s.scan.script.Name(), Err: errors.New("the file was changed while it was compared"), Hint: "Compare again once the dump is complete."}
}

// rewind begins to read the file from its front.
func (s *Side) rewind(ctx context.Context) error {
	s.Close()
	script, err := s.again()
	if err != nil {
		return err
	}
	c := &scan{script: script, ctx: ctx, pieces: make(chan *tidemark.Piece, ahead)}
	s.scan, s.last = c, 0
	if script.Stamp() != s.stamp {
		close(c.pieces)
		return s.changed()
	}
	c.ctx, c.stop = context.WithCancel(ctx)
	crash.Go(c.run)
	return nil
}

// run hands on the pieces of rows until the pass ends.
func (c *scan) run() {
	defer close(c.pieces)
	for {
		p, err := c.script.Next(c.ctx)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				c.err = err
			}
			return
		}
		if p.Kind != tidemark.Rows {
			continue
		}
		select {
		case c.pieces <- p:
		case <-c.ctx.Done():
			c.script.Done(p)
			c.err = c.ctx.Err()
			return
		}
	}
}

// Read converts the piece that Advance has reached.
func (s *Side) Read(ctx context.Context, _ int, r tidemark.Read, emit func(*tidemark.Batch) error) error {
	s.mu.Lock()
	p := s.open[r.Range.ID]
	delete(s.open, r.Range.ID)
	script := s.scan.script
	s.mu.Unlock()
	if p == nil {
		return &tidemark.Error{Kind: tidemark.Bug, Op: "read", Object: r.Move.From.String(), Err: fmt.Errorf("piece %d was not reached", r.Range.ID)}
	}
	defer script.Done(p)
	return script.Convert(ctx, p, r, emit)
}

// Close ends the reading of the file.
func (s *Side) Close() {
	c := s.scan
	if c == nil {
		return
	}
	if s.scan = nil; c.stop != nil {
		c.stop()
	}
	for p := range c.pieces {
		c.script.Done(p)
	}
	c.script.Close() // it was only read
}
