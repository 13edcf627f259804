package bulk

import (
	"strconv"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/event"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// large appends a row that is too large for the buffer while it arrives, and emits it in pieces.
func (t *rowStream) large() error {
	if len(t.b.Data) > 0 {
		if err := t.hand(false, false); err != nil {
			return err
		}
	}
	t.rowName = "of more than 512 kB"
	if err := t.largePrefix(); err != nil {
		return err
	}
	for i := range t.cols {
		n, null, err := t.wire.Lenenc()
		switch {
		case err != nil:
			return err
		case null:
			t.b.Data = append(t.b.Data, `\N`...)
		default:
			if err := t.largeValue(&t.cols[i], n); err != nil {
				return err
			}
		}
		end := byte('\t')
		if i == len(t.cols)-1 {
			end = '\n'
		}
		t.b.Data = append(t.b.Data, end)
	}
	if err := t.wire.Ended(); err != nil {
		return err
	}
	t.b.Rows++
	t.reportCut()
	return nil
}

func (t *rowStream) largePrefix() error {
	if len(t.limited) == 0 {
		return nil
	}
	for i := range len(t.limited) + 1 {
		n, null, err := t.wire.Lenenc()
		if err != nil {
			return err
		}
		if null {
			n = 0
		}
		if err := t.gather(n); err != nil {
			return err
		}
		if i == 0 {
			t.key = append(t.key[:0], t.scratch...)
		} else {
			t.sizes[i-1], _ = strconv.ParseUint(event.AsString(t.scratch), 10, 64)
		}
	}
	return nil
}

// gather reads n bytes of a streamed row into scratch.
func (t *rowStream) gather(n uint64) error {
	t.scratch = t.scratch[:0]
	for n > 0 {
		v, err := t.wire.Stream(int(min(n, server.ReadBuffer)))
		if err != nil {
			return err
		}
		t.scratch = append(t.scratch, v...)
		n -= uint64(len(v))
	}
	return nil
}

// largeValue appends a value of a streamed row. Values of a fixed form, and the head of a geometry,
// are assembled first.
func (t *rowStream) largeValue(c *outCol, n uint64) (err error) {
	if !c.streams() || c.limit != 0 || n <= 9 {
		if err := t.gather(n); err != nil {
			return err
		}
		t.b.Data, err = c.append(t.b.Data, t.scratch)
		return err
	}
	if err := t.gather(9); err != nil {
		return err
	}
	if t.b.Data, err = c.part(t.b.Data, t.scratch, true); err != nil {
		return err
	}
	for n -= 9; n > 0; {
		v, err := t.wire.Stream(int(min(n, server.ReadBuffer)))
		if err != nil {
			return err
		}
		n -= uint64(len(v))
		if t.b.Data, err = c.part(t.b.Data, v, false); err != nil {
			return err
		}
		if len(t.b.Data) >= tidemark.PieceSize-2*server.ReadBuffer {
			if err := t.hand(true, false); err != nil {
				return err
			}
		}
	}
	return nil
}
