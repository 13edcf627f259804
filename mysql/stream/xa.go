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

// A preparedTx is an XA transaction that waits for its commit.
type preparedTx struct {
	tx *change.Tx
}

// xa processes the XA statements that do not begin a transaction.
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
			s.unsay() // its table descriptions may be older than ones emitted since
		}
		return s.commit(ctx)
	case "ROLLBACK":
		delete(s.waiting, st.Name)
		return s.drop(ctx)
	}
	return nil // END, and what MariaDB calls PREPARE
}

// prepare processes the event that ends the first half of an XA transaction: its changes wait in
// memory for the second.
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
	s.unsay() // its table descriptions are emitted after what follows
	return s.drop(ctx)
}

// maxPrepared limits the memory of prepared XA transactions, in bytes.
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
	return &tidemark.Error{Kind: tidemark.Unsupported, Op: "follow", Object: s.group.name(), Err: fmt.Errorf("prepared XA transactions have more than %d MB of changes that wait for their commit", maxPrepared>>20), Hint: "Look for prepared transactions that nobody ends (XA RECOVER on the source)."}
}

// errFound ends a search.
var errFound = errors.New("found")

// findPrepared searches the log before the current place for an XA transaction whose first half an
// earlier stream read: this stream began after it. It searches the files from newest to oldest.
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
	return nil, &tidemark.Error{Kind: tidemark.Lost, Op: "follow", Object: s.group.name(), Err: errors.New("the log has the commit of a prepared XA transaction, but no longer its changes"), Hint: "Copy again, and let the source keep its log longer."}
}

// searchFile searches one file, up to the stream's place.
func (s *Stream) searchFile(ctx context.Context, f server.LogFile, xid string) (*preparedTx, error) {
	other := s.e.newStream(s.name, f.Name, uint64(f.Number)<<32|4)
	other.scope = s.scope
	other.base, other.journal.history, other.journal.columns = s.base, s.journal.history, s.journal.columns
	other.seek = &seeking{xid: xid, until: min(s.eventPlace, uint64(f.Number+1)<<32)}
	if err := other.search(ctx); err != nil {
		return nil, err
	}
	return other.waiting[xid], nil
}

// A seeking configures a stream that only looks for a prepared transaction, or only at statements
// and GTIDs.
type seeking struct {
	xid   string
	until uint64
	heard func(st history.Statement, sql string) // if set, receives all statements instead
	begun func(gtid string)                      // if set, is called as each group begins
}

// search reads the log for what seek says, up to its end. It is the stream's only use.
func (s *Stream) search(ctx context.Context) error {
	if err := s.connect(ctx, false); err != nil {
		return err
	}
	defer s.Close()
	if err := s.Run(ctx, func(*change.Tx) error { return nil }); !errors.Is(err, errFound) {
		return err
	}
	return nil
}

// passes reports whether to ignore the current group in a search.
func (s *assembly) passes() bool {
	return s.seek != nil && (s.seek.heard != nil || s.group.xid != s.seek.xid)
}
