package bulk

import (
	"context"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// Doing returns what the sessions of the lanes on one side are doing now, as SHOW PROCESSLIST tells
// it, which every user may see of its own sessions. Of a statement that runs it tells no more than
// that: locks of rows and I/O of InnoDB look like work. Where the performance schema is on, and may
// be read, these are known from it.
func (e *Bulk) Doing(ctx context.Context, side tidemark.Side) ([]tidemark.Wait, error) {
	lanes := sessions(e, side)
	if len(lanes) == 0 {
		return nil, nil
	}
	ids := make([]string, 0, len(lanes))
	for id := range lanes {
		ids = append(ids, strconv.FormatUint(uint64(id), 10))
	}
	in := " IN (" + strings.Join(ids, ",") + ")"
	deep := e.timed.usable(ctx, e)
	sql := "SELECT ID, COMMAND, STATE, 0 FROM information_schema.PROCESSLIST WHERE ID" + in
	switch {
	case e.MariaDB:
		sql = "SELECT ID, COMMAND, STATE, TID FROM information_schema.PROCESSLIST WHERE ID" + in
	case deep:
		sql = "SELECT PROCESSLIST_ID, PROCESSLIST_COMMAND, PROCESSLIST_STATE, THREAD_OS_ID FROM performance_schema.threads WHERE PROCESSLIST_ID" + in
	}
	rows, err := e.Ask(ctx, sql)
	if err != nil {
		return nil, err
	}
	var waits map[string][]tidemark.Wait
	if deep {
		if waits, err = e.timed.since(ctx, e, in); err != nil {
			return nil, err
		}
	}
	var out []tidemark.Wait
	for _, row := range rows {
		id, _ := strconv.ParseUint(row[0], 10, 32)
		tid, _ := strconv.Atoi(row[3])
		w := tidemark.Wait{Lane: lanes[uint32(id)], Thread: tid}
		w.Kind, w.Event = kindOf(row[1], row[2])
		if len(waits[row[0]]) > 0 && w.Kind == tidemark.WaitUnknown {
			w.Share = 1
			for _, part := range waits[row[0]] {
				part.Lane = w.Lane
				part.Share = min(part.Share, w.Share)
				w.Share -= part.Share
				out = append(out, part)
			}
			if w.Share <= 0 {
				continue
			}
		}
		out = append(out, w)
	}
	return out, nil
}

// sessions returns the lanes of a side by the ID of their session.
func sessions(e *Bulk, side tidemark.Side) map[uint32]int {
	if of := e.Others[side]; of != nil {
		out := of()
		delete(out, 0) // has no session
		return out
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	lanes := e.writes
	if side == tidemark.ReadSide {
		lanes = e.reads
	}
	out := map[uint32]int{}
	for lane, s := range lanes {
		if s != nil && s.ID != 0 {
			out[s.ID] = lane
		}
	}
	return out
}

// kindOf translates a thread's command and state ("General Thread States" in the manuals of MySQL
// and MariaDB) into ours.
func kindOf(command, state string) (tidemark.WaitKind, string) {
	s := strings.ToLower(state)
	has := func(some ...string) bool {
		for _, part := range some {
			if strings.Contains(s, part) {
				return true
			}
		}
		return false
	}
	switch {
	case has("sent all binlog"):
		return tidemark.WaitNewLog, state
	case strings.HasPrefix(command, "Binlog Dump"): // it reads and sends
		return tidemark.WaitUnknown, state
	case command == "Sleep", has("from net", "to net", "from client", "to client"):
		return tidemark.WaitNetwork, state
	case has("semi-sync"):
		return tidemark.WaitStandby, state
	case has("metadata lock", "table level lock", "backup lock", "table flush", "user lock", "global read lock"):
		return tidemark.WaitLock, state
	case has("commit", "flushing relay", "binlog"): // also "Waiting for prior transaction to commit"
		return tidemark.WaitLogSync, state
	case has("waiting for"):
		return tidemark.WaitLatch, state
	}
	return tidemark.WaitUnknown, state
}
