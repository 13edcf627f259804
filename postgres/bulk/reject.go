package bulk

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// rejectStep is how many rows are tried together after a bad one was found; each success doubles
// it, so that a few bad rows cost little, and many do not cause the rest to be sent over and over.
const rejectStep = 64

// rejecting loads batch by batch, each under a savepoint, and splits batches that the server
// refuses. The server reports the row of a COPY that failed; if it does not, halving finds it. Only
// a refused value is a bad row: any other error ends the range.
func (c *copyIn) rejecting(ctx context.Context) error {
	release, err := c.l.Raw(ctx)
	if err != nil {
		c.l.Close()
		return c.fail(ctx, err)
	}
	defer release()
	s := &sieve{copyIn: c, ctx: ctx, mark: c.before + "SAVEPOINT tidemark; "}
	for last := false; !last; {
		var u unit
		u, last, err = c.takeUnit()
		if err == nil {
			err = s.load(u.data)
			u.release()
		}
		if err != nil {
			return s.stop(err)
		}
	}
	c.count = c.out.Rows
	if err := c.l.Send(s.mark + c.finishSQL()); err != nil {
		c.l.Abandon()
		return c.fail(ctx, err)
	}
	return c.committed(ctx, c.l.Answer())
}

// A unit is a list of batches that together hold whole rows.
type unit struct {
	batches []*tidemark.Batch
	data    [][]byte
}

func (u *unit) release() {
	for _, b := range u.batches {
		b.Release()
	}
}

func (c *copyIn) takeUnit() (u unit, last bool, err error) {
	for {
		b, err := c.take()
		if err != nil {
			u.release()
			return unit{}, false, err
		}
		c.out.Bytes += int64(len(b.Data))
		u.batches = append(u.batches, b)
		if len(b.Data) > 0 {
			u.data = append(u.data, b.Data)
		}
		if !b.More || b.Last {
			return u, b.Last, nil
		}
	}
}

// A sieve loads good rows and rejects bad ones.
type sieve struct {
	*copyIn
	ctx  context.Context
	mark string // statements that bring the session to a savepoint; sent with the next command
	dead bool   // the session is unusable
}

// stop ends the transaction because of err.
func (s *sieve) stop(err error) error {
	if s.dead {
		s.l.Abandon()
	} else {
		s.rollback(s.ctx)
	}
	return err
}

// load loads rows, as one COPY if possible.
func (s *sieve) load(data [][]byte) error {
	if len(data) == 0 {
		return nil
	}
	rows, err := s.try(data)
	if err == nil {
		s.out.Rows += rows
		return nil
	}
	if !server.BadRow(err) {
		return s.fail(s.ctx, err)
	}
	all := data[0]
	if len(data) > 1 {
		all = bytes.Join(data, nil)
	}
	return s.sift(all, rowEnds(all, s.w.Format), err)
}

// sift loads the rows of data that the server accepts. ends are the offsets of the rows' ends; err
// is the server's error for all of them together.
func (s *sieve) sift(data []byte, ends []int, err error) error {
	part := func(from, to int) []byte { // rows from to to-1
		start := 0
		if from > 0 {
			start = ends[from-1]
		}
		return data[start:ends[to-1]]
	}
	for i, step, until := 0, len(ends), 0; i < len(ends); {
		to := min(i+step, len(ends))
		if until > i {
			to = min(to, until) // stop before the row that is known to be bad
		}
		var rows int64
		if err == nil {
			rows, err = s.try([][]byte{part(i, to)})
		}
		if err == nil {
			s.out.Rows += rows
			i, step = to, 2*step
			if to == until {
				step = rejectStep
			}
			continue
		}
		if !server.BadRow(err) {
			return s.fail(s.ctx, err)
		}
		switch bad := badLine(err); {
		case bad == 1 || to-i == 1:
			if rerr := s.reject(part(i, i+1), err); rerr != nil {
				return rerr
			}
			i, step = i+1, rejectStep
		case bad > 1 && bad <= to-i:
			until, step = i+bad-1, bad-1
		default:
			step = (to - i) / 2
		}
		err = nil
	}
	return nil
}

func (s *sieve) reject(row []byte, why error) error {
	if s.w.Format != tidemark.CopyBinary {
		row = bytes.TrimSuffix(row, []byte("\n"))
	}
	s.out.Rejected++
	return s.w.Reject(row, server.PlainCause(why))
}

// try sends rows as one COPY under the savepoint.
func (s *sieve) try(data [][]byte) (rows int64, err error) {
	if err := s.send(data); err != nil {
		s.dead = true
		return 0, err
	}
	a := s.l.Answer()
	s.dead = a.Broken
	if a.Err == nil && a.Tag == "" {
		a.Err, s.dead = errors.New("the server did not answer to COPY"), true
	}
	if a.Err != nil {
		s.mark = "ROLLBACK TO SAVEPOINT tidemark; "
		return 0, a.Err
	}
	s.mark = "RELEASE SAVEPOINT tidemark; SAVEPOINT tidemark; "
	return a.Rows(), nil
}

func (s *sieve) send(data [][]byte) error {
	if err := s.l.Send(s.mark + s.copySQL()); err != nil {
		return err
	}
	var tail []byte
	if s.w.Format == tidemark.CopyBinary {
		tail = binaryTail
		if err := s.l.SendData(binaryHead); err != nil {
			return err
		}
	}
	for _, d := range data {
		if err := s.l.SendData(d); err != nil {
			return err
		}
	}
	return s.l.SendDone(tail, "")
}

// badLine returns the row, from 1, that COPY's error names; 0 if it names none.
func badLine(err error) int {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return 0
	}
	m := server.CopyWhere.FindStringSubmatch(pg.Where)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1]) // the expression matches digits only
	return n
}

// rowEnds returns the offsets at which whole rows end.
func rowEnds(data []byte, format tidemark.Format) []int {
	var ends []int
	if format != tidemark.CopyBinary {
		for at := 0; at < len(data); {
			n := bytes.IndexByte(data[at:], '\n')
			if n < 0 {
				n = len(data) - at - 1
			}
			at += n + 1
			ends = append(ends, at)
		}
		return ends
	}
	for at := 0; at+2 <= len(data); {
		fields := int(int16(binary.BigEndian.Uint16(data[at:])))
		at += 2
		for range fields {
			n := int(int32(binary.BigEndian.Uint32(data[at:])))
			at += 4 + max(n, 0)
		}
		ends = append(ends, at)
	}
	return ends
}
