package bulk

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// A Bulk reads and writes the rows of tables, many at a time and on many lanes. Its methods may be
// called concurrently, but each lane by one goroutine at a time.
type Bulk struct {
	*server.Server
	*Reader

	target targetFacts

	busy atomic.Int32 // calls of Write and Exec in progress

	lanesMu sync.Mutex
	writers map[int]*lane
	execs   map[int]*lane

	watcher watcher
	// Others are the sides whose sessions are not lanes: each returns whose they are, by their
	// process. For Doing.
	Others map[tidemark.Side]func() map[uint32]int
}

// A Reader reads a database in one snapshot, which all of its lanes share.
type Reader struct {
	*server.Server

	start    slotStart
	foreigns foreignTables

	readersMu sync.Mutex
	readers   []*lane
}

// NewBulk creates a Bulk of a server, which verifies each new session of the server.
func NewBulk(s *server.Server) *Bulk {
	b := &Bulk{Server: s, Reader: &Reader{Server: s}, writers: map[int]*lane{}, execs: map[int]*lane{}, Others: map[tidemark.Side]func() map[uint32]int{}}
	s.OnConnect(b.verify)
	return b
}

// Close ends its sessions.
func (b *Bulk) Close() {
	b.Reader.Close()
	b.Unwatch()
	b.lanesMu.Lock()
	defer b.lanesMu.Unlock()
	for _, l := range b.writers {
		l.Close()
	}
	for _, l := range b.execs {
		l.Close()
	}
}

// Close ends its sessions, and with them the snapshot.
func (v *Reader) Close() {
	v.readersMu.Lock()
	defer v.readersMu.Unlock()
	for _, l := range v.readers {
		l.Close()
	}
	v.start.end()
}

// A lane is a Lane with its number and the state of its session.
type lane struct {
	*server.Lane
	s  *server.Server
	id int
	// joined is set while a reading lane is inside the frozen view.
	joined bool
	reads  int  // ranges read since it joined
	shared bool // max_parallel_maintenance_workers is 0: see shareWorkers
}

// newLane creates a lane that opens its sessions itself; ready prepares each of them for the lane's
// work.
func newLane(s *server.Server, id int, ready func(context.Context, *lane) error) *lane {
	l := &lane{Lane: s.NewLane(nil), s: s, id: id}
	l.Ready = func(ctx context.Context) error {
		l.joined, l.shared = false, false
		return ready(ctx, l)
	}
	return l
}
