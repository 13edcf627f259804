package stream

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/event"
)

// rows processes a row event: of kind insert, update or delete.
func (s *decoder) rows(ctx context.Context, kind tidemark.ChangeKind, form event.RowForm, body []byte) error {
	r := &event.Reader{Rest: body}
	number := r.Uint(6)
	r.Take(2) // flags
	if form.Version == 2 {
		r.Take(int(r.Uint(2)) - 2) // about partitions
	}
	n := r.Lenenc()
	if number == 0xffffff && n == 0 {
		return nil // it only ends a statement
	}
	t := s.maps[number]
	if t == nil {
		if s.tx == nil && !s.open {
			return nil
		}
		return errors.New("a row event without its TABLE_MAP")
	}
	if t.Skip {
		if t.Marker {
			s.mark()
		}
		return nil
	}
	if n != len(t.Columns) {
		return event.ErrEvent
	}
	present := [2][]byte{r.Take((n + 7) / 8), nil}
	if kind == tidemark.UpdateChange {
		present[1] = r.Take((n + 7) / 8)
	}
	if r.Bad {
		return event.ErrEvent
	}
	p := r.Rest
	if form.Packed {
		var err error
		if p, err = event.Unpack(p); err != nil {
			return err
		}
	}
	s.addRelation(t)
	for len(p) > 0 {
		tx := s.piece()
		changes, rest, err := t.Row(tx.Changes, &s.images, kind, form, present, p)
		if err != nil {
			return s.rowFailed(t, err)
		}
		if len(rest) == len(p) {
			return event.ErrEvent
		}
		if len(changes) > len(tx.Changes) {
			tx.Changes = changes
			tx.Rows++
		}
		p = rest
		if len(tx.Changes) >= tidemark.PieceSize {
			if err := s.cutPiece(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *assembly) rowFailed(t *event.Table, err error) error {
	var own *tidemark.Error
	if errors.As(err, &own) {
		return err
	}
	return &tidemark.Error{Op: "follow", Object: t.ID.String(), Kind: tidemark.Unsupported, Err: fmt.Errorf("transaction %s, at %s: %w", s.group.name(), s.placeName(s.eventPlace), err),
		Hint: "Its rows in the log cannot be read."}
}
