package described

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/queue"
)

// errFound ends the reading of a queue.
var errFound = errors.New("found")

// Head waits until a queue has messages, and gives what the first one says: the log position from
// which the queue has the source's changes, and the description. Kind Lost: it is no longer there.
func Head(ctx context.Context, log *queue.Log, stream string) (place uint64, text []byte, err error) {
	err = log.Read(ctx, 0, func(tx *change.Tx) error {
		place = tx.End
		if text = in(tx); text == nil || tx.End != tx.Place+1 {
			return &tidemark.Error{Kind: tidemark.Lost, Op: "apply", Object: stream, Err: errors.New("the beginning of the queue is gone"), Hint: "Start the capture again: tidemark capture --anew."}
		}
		return errFound // and no more is read
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return place, text, err
}

// Owner gives what a queue says of the stream that it belongs to; nil: nothing, at least not soon.
func Owner(ctx context.Context, log *queue.Log) (who *Stream) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	st, err := log.Stats(ctx)
	if err != nil || st.Last == 0 {
		return nil
	}
	n := 0
	_ = log.Read(ctx, 0, func(tx *change.Tx) error { // it helps to understand another error
		if text := in(tx); text != nil {
			if d, err := Parse(text); err == nil && d.Stream != nil {
				who = d.Stream
				return errFound
			}
		}
		if n++; n >= 1000 || !tx.More && tx.Place >= st.Last {
			return errFound
		}
		return nil
	})
	return who
}

// Taken says whose messages a queue has, of which a new stream should be the first, and what can be
// done; "": it has none. source is the identity of the new stream's, and where its --queue.
func Taken(ctx context.Context, log *queue.Log, source, where string) (text, hint string, err error) {
	st, err := log.Stats(ctx)
	if err != nil || st.Messages == 0 {
		return "", "", err
	}
	text, hint = "its queue "+tidemark.MaskURL(where)+" has messages of another stream", "Choose another --name or --queue. Nothing was changed."
	if !strings.Contains(where, "://") {
		hint = "Choose another --name, or another folder with --queue-dir. Nothing was changed."
	}
	if who := Owner(ctx, log); who != nil {
		text += ", " + who.String()
		if source != "" && source == who.Server {
			hint = "It is from this source: continue it with the catalogue that knows it (--state), choose another --name, or use --anew to discard its messages and begin again."
		}
	}
	return text, hint, nil
}

// Removable reports whether a queue may be removed with a stream: it is that of id, or damaged, or,
// where no catalogue knows the stream, it says that it comes from this source.
func Removable(ctx context.Context, log *queue.Log, id uint32, known bool, source string) bool {
	log.Of(id)
	if st, err := log.Stats(ctx); known || err != nil || st.Messages == 0 {
		return known && !errors.Is(err, queue.ErrOther)
	}
	who := Owner(ctx, log)
	return who != nil && source != "" && source == who.Server
}

// in gives the description at the beginning of a transaction; nil: there is none.
func in(tx *change.Tx) []byte {
	c, _, err := change.Next(tx.Changes)
	if err != nil {
		return nil
	}
	m, err := change.ParseLogicalMessage(c.Body)
	if err != nil || m.Prefix != change.TablesPrefix {
		return nil
	}
	return slices.Clone(m.Data)
}
