package bulk

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// A watcher is a session of its own that looks at what the others are doing.
type watcher struct {
	mu   sync.Mutex
	lane *server.Lane
}

// Doing returns what the sessions of the lanes on one side are doing now. A lane without a session,
// or whose session the user may not see, has none. Parallel workers count for their leader, which
// itself only waits for them.
func (b *Bulk) Doing(ctx context.Context, side tidemark.Side) ([]tidemark.Wait, error) {
	lanes := b.sessions(side)
	if len(lanes) == 0 {
		return nil, nil
	}
	sql := strings.Builder{}
	sql.WriteString("SELECT coalesce(leader_pid, pid), pid, state, wait_event_type, wait_event FROM pg_stat_activity WHERE coalesce(leader_pid, pid) IN (")
	comma := ""
	for pid := range lanes {
		sql.WriteString(comma + strconv.FormatUint(uint64(pid), 10))
		comma = ","
	}
	sql.WriteString(")")
	rows, err := b.queryWatcher(ctx, sql.String())
	if err != nil {
		err = b.Fail(ctx, "look at sessions", b.Object, err)
		var own *tidemark.Error
		if errors.As(err, &own) && own.Kind == tidemark.Forbidden {
			own.Hint = "GRANT SELECT ON pg_stat_activity TO " + server.QuoteIdent(b.Config.User) + ";"
		}
		return nil, err
	}
	var out []tidemark.Wait
	worked := map[int]bool{} // lanes whose parallel workers are in out
	for _, row := range rows {
		leader, _ := strconv.ParseUint(string(row[0]), 10, 32)
		pid, _ := strconv.Atoi(string(row[1]))
		lane := lanes[uint32(leader)]
		w := tidemark.Wait{Lane: lane, Thread: pid}
		w.Kind, w.Event = kindOf(string(row[2]), string(row[3]), string(row[4]))
		switch {
		case uint64(pid) != leader:
			if !worked[lane] { // instead of what the leader does, which waits, or works like them
				worked[lane] = true
				out = slices.DeleteFunc(out, func(w tidemark.Wait) bool { return w.Lane == lane })
			}
			out = append(out, w)
		case !worked[lane]:
			out = append(out, w)
		}
	}
	return out, nil
}

// sessions returns the lanes of a side by the process of their session.
func (b *Bulk) sessions(side tidemark.Side) map[uint32]int {
	if of := b.Others[side]; of != nil {
		out := of()
		delete(out, 0) // has no session
		return out
	}
	out := map[uint32]int{}
	add := func(l *lane) {
		if pid := l.PID(); pid != 0 {
			out[pid] = l.id
		}
	}
	if side == tidemark.ReadSide {
		b.readersMu.Lock()
		defer b.readersMu.Unlock()
		for _, l := range b.readers {
			add(l)
		}
		return out
	}
	b.lanesMu.Lock()
	defer b.lanesMu.Unlock()
	for _, lanes := range []map[int]*lane{b.writers, b.execs} {
		for _, l := range lanes {
			add(l)
		}
	}
	return out
}

// queryWatcher queries in the watcher's session.
func (b *Bulk) queryWatcher(ctx context.Context, sql string) ([][][]byte, error) {
	w := &b.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lane == nil {
		w.lane = b.NewLane(nil)
	}
	if err := w.lane.Open(ctx); err != nil {
		return nil, err
	}
	return w.lane.Query(ctx, sql)
}

// Unwatch closes the session with which Doing and Gauges look; they open it again.
func (b *Bulk) Unwatch() {
	b.watcher.mu.Lock()
	defer b.watcher.mu.Unlock()
	if b.watcher.lane != nil {
		b.watcher.lane.Close()
	}
}

// kindOf translates PostgreSQL's wait events ("Monitoring Database Activity" in its manual) into
// ours.
func kindOf(state, kind, event string) (tidemark.WaitKind, string) {
	name := kind + ":" + event
	switch {
	case state != "active" && state != "idle in transaction" && state != "idle" && state != "idle in transaction (aborted)":
		return tidemark.WaitUnknown, state // of other users' sessions
	case kind == "" && state == "active":
		return tidemark.WaitCPU, ""
	case kind == "":
		return tidemark.WaitNetwork, state
	}
	switch kind {
	case "Client", "Activity":
		if strings.EqualFold(event, "WalSenderWaitForWAL") || event == "WalSenderMain" {
			return tidemark.WaitNewLog, name
		}
		if strings.EqualFold(event, "WaitForStandbyConfirmation") { // synchronized_standby_slots, 17 and later
			return tidemark.WaitStandby, name
		}
		return tidemark.WaitNetwork, name
	case "Lock":
		if event == "extend" { // another session makes the file longer: nobody's lock that users know
			return tidemark.WaitLatch, name
		}
		return tidemark.WaitLock, name
	case "BufferPin", "Buffer":
		return tidemark.WaitLatch, name
	case "Timeout":
		return tidemark.WaitThrottle, name
	case "LWLock":
		switch event {
		case "WALWrite": // another session writes or syncs the log for both
			return tidemark.WaitLogSync, name
		case "WALInsert", "WALBufMapping":
			return tidemark.WaitLogWrite, name
		}
		return tidemark.WaitLatch, name
	case "IPC":
		if event == "SyncRep" {
			return tidemark.WaitStandby, name
		}
		return tidemark.WaitUnknown, name
	case "IO":
		return ioKind(event), name
	}
	return tidemark.WaitUnknown, name
}

// ioKind is kindOf of I/O events.
func ioKind(event string) tidemark.WaitKind {
	lower := strings.ToLower(event)
	wal := strings.HasPrefix(event, "WAL") || strings.HasPrefix(lower, "wal")
	switch {
	case strings.HasPrefix(event, "BufFile") || strings.HasPrefix(event, "ReorderBuffer"): // of a large transaction
		return tidemark.WaitTemp
	case wal && strings.Contains(event, "Sync"):
		return tidemark.WaitLogSync
	case wal && strings.Contains(event, "Read"):
		return tidemark.WaitDataRead
	case wal:
		return tidemark.WaitLogWrite
	case strings.Contains(event, "Read") || strings.HasSuffix(event, "Prefetch"):
		return tidemark.WaitDataRead
	default: // writes, extensions, syncs and truncations of data files and their maps
		return tidemark.WaitDataWrite
	}
}
