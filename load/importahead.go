package load

import (
	"context"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
)

// A table of a script costs some round trips before its rows can move: those that look at what the
// target has, and the one that creates it. So the scanner reads small tables ahead, with their
// rows, has the target asked about all of them at once, and creates them in one pipeline. What was
// read then has its turn as if it had just been read: an error is reported where it belongs in the
// file, and a table that was not created has its own attempt.

// aheadBytes bounds the text that is read ahead, and maxAhead its tables.
const aheadBytes = 4 << 20

// readingAhead is what was read of a script and has not had its turn.
type readingAhead struct {
	pieces []*tidemark.Piece
	err    error                       // of the script, after them
	tables map[*tidemark.Piece]settled // answers of the Settler, until their turn
}

type settled struct {
	Settled
	err error
}

// next returns the next piece of the script.
func (im *importing) next(ctx context.Context, c *flow.Clock) (*tidemark.Piece, error) {
	a := &im.ahead
	if len(a.pieces) == 0 && a.err == nil {
		p, err := im.script.Next(ctx)
		if err != nil || p.Kind != tidemark.Define {
			return p, err
		}
		im.together(ctx, c, im.readAhead(ctx, p))
	}
	if len(a.pieces) == 0 {
		return nil, a.err
	}
	p := a.pieces[0]
	a.pieces = a.pieces[1:]
	return p, nil
}

// readAhead reads from a table on, and returns the tables that may be created before what comes
// between them.
func (im *importing) readAhead(ctx context.Context, p *tidemark.Piece) (tables []*tidemark.Piece) {
	a := &im.ahead
	a.pieces, tables = []*tidemark.Piece{p}, []*tidemark.Piece{p}
	for bytes := p.Bytes; !p.Long && bytes < aheadBytes && len(tables) < maxAhead; bytes += p.Bytes {
		if p, a.err = im.script.Next(ctx); a.err != nil {
			break
		}
		a.pieces = append(a.pieces, p)
		if p.Kind != tidemark.Rows && !im.settle.Ahead(p) {
			break
		}
		if p.Kind == tidemark.Define {
			tables = append(tables, p)
		}
	}
	return tables
}

// together settles and creates tables, up to the first that fails.
func (im *importing) together(ctx context.Context, c *flow.Clock, tables []*tidemark.Piece) {
	if len(tables) < 2 {
		return
	}
	defer c.Enter(c.Enter(flow.IO))
	n, forget := im.settle.Foresee(ctx, tables)
	defer forget()
	tables = tables[:n]
	im.ahead.tables = make(map[*tidemark.Piece]settled, len(tables))
	var ids []tidemark.TableID
	var objects []*tidemark.Object
	for _, p := range tables {
		s, err := im.settle.Table(ctx, p)
		im.ahead.tables[p] = settled{s, err}
		if err != nil {
			break
		}
		for i := range s.Before {
			if o := &s.Before[i]; !im.built[o.ID] {
				objects, ids = append(objects, o), append(ids, s.Move.To.TableID)
			}
		}
	}
	if im.settle.Creating(ctx, ids) != nil {
		return // each table reports it
	}
	made := make(map[*tidemark.Object]bool, len(objects))
	im.run.inPipeline(ctx, im.run.opt.ScriptLane(), objects, func(i int, took time.Duration) {
		made[objects[i]] = true
		_ = im.run.madeBefore(ctx, objects[i], nil, took) // it returns the error that it was given
	})
	for p, s := range im.ahead.tables {
		var left []tidemark.Object
		for i := range s.Before {
			if o := &s.Before[i]; !made[o] {
				left = append(left, *o)
			}
		}
		s.Before = left
		im.ahead.tables[p] = s
	}
}
