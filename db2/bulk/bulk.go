package bulk

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/db2/schema"
	"github.com/tidemarkdb/tidemark/db2/server"
)

// A Bulk reads and writes tables on many lanes.
//
// Db2 has no snapshot that sessions could share. So the view is consistent because nothing changes:
// before the first row, each lane locks all tables in share mode (hold), and keeps them until
// Close. The view is that of the moment in which the first session had the last lock; other readers
// continue, writers to these tables wait. Rows that are not committed are never read.
//
// One session with the locks would not do: a lane's request for the table would queue behind the
// first writer that waits for that session. A lane that has the lock itself need not ask again.
type Bulk struct {
	*schema.Schema

	mu     sync.Mutex
	lanes  []*server.Session
	spare  *server.Session // one more with the locks, for Split; nil: not frozen
	splits sync.Mutex      // held while spare is in use

	writers []*server.Session // of a target, by lane
	epochs  map[string]int64  // of the runs that this process began: see Begin
}

// New creates the lanes of a server without opening them.
func New(s *schema.Schema) *Bulk { return &Bulk{Schema: s} }

// Close ends the lanes, and with them the locks.
func (e *Bulk) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range append(append(e.lanes, e.spare), e.writers...) {
		if s != nil {
			s.Close()
		}
	}
	e.writers = nil
	e.lanes, e.spare, e.KeepTables = nil, nil, nil
}

const (
	lockWait     = 30 // seconds that a session waits for a lock
	lockWaitTime = lockWait * time.Second
	lockTries    = 3 // a writer may come between two sessions, which then wait for each other
)

// Freeze opens the lanes, which will lock the tables once Describe knows them. The position says
// nothing: what changes before and after is unknown.
func (e *Bulk) Freeze(ctx context.Context, lanes int) (tidemark.Position, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	pos := tidemark.Position{Engine: e.Name()}
	if e.spare != nil {
		return pos, &tidemark.Error{Kind: tidemark.Bug, Op: "freeze", Object: e.Masked, Err: errors.New("the source is frozen already")}
	}
	var all []*server.Session
	for range lanes + 1 {
		s, err := e.patient(ctx, "freeze")
		if err != nil {
			for _, s := range all {
				s.Close()
			}
			return pos, err
		}
		all = append(all, s)
	}
	e.spare, e.lanes, e.KeepTables = all[0], all[1:], e.hold
	return pos, nil
}

// patient opens a session that waits for locks.
func (e *Bulk) patient(ctx context.Context, op string) (*server.Session, error) {
	s, err := e.Session(ctx)
	if err != nil || e.Derby() {
		return s, err
	}
	if err := s.Set(ctx, fmt.Sprintf("SET CURRENT LOCK TIMEOUT %d", lockWait)); err != nil {
		s.Close()
		return nil, e.Fail(op, e.Masked, err)
	}
	return s, nil
}

// hold locks tables in share mode, on all lanes.
func (e *Bulk) hold(ctx context.Context, tables []tidemark.TableID) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for try := 1; ; try++ {
		err := e.lock(ctx, tables)
		if tidemark.KindOf(err) != tidemark.Transient || try == lockTries {
			return err
		}
		for _, s := range append(e.lanes, e.spare) {
			if err := s.Rollback(ctx); err != nil {
				return e.Fail("lock", e.Masked, err)
			}
		}
	}
}

func (e *Bulk) lock(ctx context.Context, tables []tidemark.TableID) error {
	for _, s := range append(e.lanes, e.spare) {
		s.Bind(ctx)
	}
	for _, id := range tables {
		for _, s := range append(e.lanes, e.spare) {
			_, err := s.Exec(ctx, "LOCK TABLE "+server.QuoteTable(id)+" IN SHARE MODE")
			if err == nil {
				continue
			}
			out := e.Fail("lock", "table "+id.String(), err)
			var te *tidemark.Error
			if errors.As(out, &te) && te.Kind == tidemark.Transient {
				te.Hint = "A transaction that writes to the table is open: copy while none is, or end it."
			}
			return out
		}
	}
	return nil
}

// lane returns the session of a lane. Without Freeze it is one that is opened as needed; after it,
// one that broke has lost its locks, and is not replaced.
func (e *Bulk) lane(ctx context.Context, n int) (s *server.Session, frozen bool, err error) {
	e.mu.Lock()
	if frozen = e.spare != nil; frozen && n >= len(e.lanes) {
		e.mu.Unlock()
		return nil, true, &tidemark.Error{Kind: tidemark.Bug, Op: "read", Object: e.Masked, Err: fmt.Errorf("there is no lane %d", n)}
	}
	for n >= len(e.lanes) {
		e.lanes = append(e.lanes, nil)
	}
	s = e.lanes[n]
	e.mu.Unlock()
	switch {
	case s != nil && !s.Broken:
		s.Bind(ctx)
		return s, frozen, nil
	case frozen:
		return nil, true, &tidemark.Error{Kind: tidemark.Lost, Op: "read", Object: e.Masked, Err: fmt.Errorf("lane %d lost its locks on the source's tables with its connection", n), Hint: "The other lanes continue; if none is left, start the copy again."}
	}
	if s, err = e.Session(ctx); err != nil {
		return nil, false, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lanes[n] = s
	return s, false, nil
}
