package mysql

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// A preparedTx is a transaction of XA that waits for its commit.
type preparedTx struct {
	tx *tidemark.Tx
}

// xa takes the statements of XA that do not begin one.
func (s *Stream) xa(ctx context.Context, st stmt, at time.Time) error {
	if err := s.implied(at); err != nil {
		return err
	}
	switch st.verb {
	case "COMMIT":
		p := s.waiting[st.name]
		if p == nil {
			found, err := s.findPrepared(ctx, st.name)
			if err != nil {
				return err
			}
			p = found
		}
		delete(s.waiting, st.name)
		if p.tx != nil {
			s.tx = p.tx
			g := &s.group
			s.tx.Place, s.tx.GTID, s.tx.Time = g.place, g.gtid, g.time
			s.unsay() // its own description of tables may come from before later ones
		}
		return s.commit(ctx)
	case "ROLLBACK":
		delete(s.waiting, st.name)
		s.endGroup()
	}
	return nil // END, and what MariaDB calls PREPARE
}

// prepare takes the event that ends the first half of a transaction of XA: its changes
// wait in memory for the second.
func (s *Stream) prepare(ctx context.Context, body []byte) error {
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

func (s *Stream) boundPrepared(size int) error {
	for _, p := range s.waiting {
		if p.tx != nil {
			size += len(p.tx.Changes)
		}
	}
	if size <= maxPrepared {
		return nil
	}
	return tidemark.Errorf(tidemark.Unsupported, "follow", s.group.name(), fmt.Sprintf("prepared transactions of XA have more than %d MB of changes that wait for their commit", maxPrepared>>20),
		"Look for prepared transactions that nobody ends (XA RECOVER on the source).")
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
	files, err := s.e.binlogs(ctx)
	if err != nil {
		return nil, err
	}
	for i := len(files) - 1; i >= 0; i-- {
		if files[i].number > s.file {
			continue
		}
		found, err := s.searchFile(ctx, files[i], xid)
		if found != nil || err != nil {
			return found, err
		}
	}
	return nil, tidemark.Errorf(tidemark.Lost, "follow", s.group.name(), "the log has the commit of a prepared transaction (XA), but not its changes any more", "Copy again, and let the source keep its log longer.")
}

// searchFile looks in one file, as far as to where this stream is.
func (s *Stream) searchFile(ctx context.Context, f logFile, xid string) (*preparedTx, error) {
	other := s.e.newStream(s.name, f.name, uint64(f.number)<<32|4)
	other.only, other.old, other.oldOf, other.keep, other.links = s.only, s.old, s.oldOf, s.keep, s.links
	other.base, other.journal.history, other.journal.columns = s.base, s.journal.history, s.journal.columns
	other.zero, other.seek = s.zero, &seeking{xid: xid, until: min(s.eventPlace, uint64(f.number+1)<<32)}
	if err := other.connect(ctx, false); err != nil {
		return nil, err
	}
	defer other.Close()
	if err := other.Run(ctx, func(*tidemark.Tx) error { return nil }); !errors.Is(err, errFound) {
		return nil, err
	}
	return other.waiting[xid], nil
}

// A seeking is what a stream is for that looks for a prepared transaction, or only at
// statements.
type seeking struct {
	xid   string
	until uint64
	heard func(st stmt, sql string) // instead: gets all statements
}

// passes reports whether the group under way is none that is looked for.
func (s *Stream) passes() bool {
	return s.seek != nil && (s.seek.heard != nil || s.group.xid != s.seek.xid)
}
