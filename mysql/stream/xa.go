package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/mysql/history"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// A preparedTx is a transaction of XA that waits for its commit.
type preparedTx struct {
	tx *change.Tx
}

// xa takes the statements of XA that do not begin one.
func (s *decoder) xa(ctx context.Context, st history.Statement, at time.Time) error {
	if err := s.implied(at); err != nil {
		return err
	}
	switch st.Verb {
	case "COMMIT":
		p := s.waiting[st.Name]
		if p == nil {
			found, err := s.earlier(ctx, st.Name)
			if err != nil {
				return err
			}
			p = found
		}
		delete(s.waiting, st.Name)
		if p.tx != nil {
			s.tx = p.tx
			g := &s.group
			s.tx.Place, s.tx.GTID, s.tx.Time = g.place, g.gtid, g.time
			s.unsay() // its own description of tables may come from before later ones
		}
		return s.commit(ctx)
	case "ROLLBACK":
		delete(s.waiting, st.Name)
		s.endGroup()
	}
	return nil // END, and what MariaDB calls PREPARE
}

// prepare takes the event that ends the first half of a transaction of XA: its changes
// wait in memory for the second.
func (s *decoder) prepare(ctx context.Context, body []byte) error {
	if len(body) > 0 && body[0] != 0 { // committed in one phase
		s.prepared = nil
		return s.commit(ctx)
	}
	p := s.prepared
	if p == nil {
		p = &preparedTx{}
	}
	if p.tx = s.tx; p.tx != nil {
		if err := s.boundPrepared(len(p.tx.Changes)); err != nil {
			return err
		}
	}
	s.waiting[s.group.xid] = p
	s.unsay() // what it says of tables comes later than what follows
	s.endGroup()
	return nil
}

// maxPrepared bounds what prepared transactions of XA hold.
const maxPrepared = 256 << 20

func (s *assembly) boundPrepared(size int) error {
	for _, p := range s.waiting {
		if p.tx != nil {
			size += len(p.tx.Changes)
		}
	}
	if size <= maxPrepared {
		return nil
	}
	return &tidemark.Error{Kind: tidemark.Unsupported, Op: "follow", Object: s.group.name(), Err: fmt.Errorf("prepared transactions of XA have more than %d MB of changes that wait for their commit", maxPrepared>>20), Hint: "Look for prepared transactions that nobody ends (XA RECOVER on the source)."}
}

// errFound ends a search.
var errFound = errors.New("found")

// findPrepared looks in the log before here for a transaction of XA whose first half was
// read by an earlier stream: this one began behind it. The files are searched from the
// newest to the oldest.
func (s *Stream) findPrepared(ctx context.Context, xid string) (*preparedTx, error) {
	if s.seek != nil {
		return &preparedTx{}, nil
	}
	files, err := s.e.Binlogs(ctx)
	if err != nil {
		return nil, err
	}
	for i := len(files) - 1; i >= 0; i-- {
		if files[i].Number > s.file {
			continue
		}
		found, err := s.searchFile(ctx, files[i], xid)
		if found != nil || err != nil {
			return found, err
		}
	}
	return nil, &tidemark.Error{Kind: tidemark.Lost, Op: "follow", Object: s.group.name(), Err: errors.New("the log has the commit of a prepared transaction (XA), but not its changes any more"), Hint: "Copy again, and let the source keep its log longer."}
}

// searchFile looks in one file, as far as to where this stream is.
func (s *Stream) searchFile(ctx context.Context, f server.LogFile, xid string) (*preparedTx, error) {
	other := s.e.newStream(s.name, f.Name, uint64(f.Number)<<32|4)
	other.scope = s.scope
	other.base, other.journal.history, other.journal.columns = s.base, s.journal.history, s.journal.columns
	other.seek = &seeking{xid: xid, until: min(s.eventPlace, uint64(f.Number+1)<<32)}
	if err := other.connect(ctx, false); err != nil {
		return nil, err
	}
	defer other.Close()
	if err := other.Run(ctx, func(*change.Tx) error { return nil }); !errors.Is(err, errFound) {
		return nil, err
	}
	return other.waiting[xid], nil
}

// A seeking is what a stream is for that looks for a prepared transaction, or only at
// statements.
type seeking struct {
	xid   string
	until uint64
	heard func(st history.Statement, sql string) // instead: gets all statements
}

// passes reports whether the group under way is none that is looked for.
func (s *assembly) passes() bool {
	return s.seek != nil && (s.seek.heard != nil || s.group.xid != s.seek.xid)
}
