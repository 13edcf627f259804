package bulk

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// timed is what the performance schema has measured of sessions: how long each has waited for files
// so far. See "Performance Schema Wait Event Summary Tables" in MySQL's manual.
type timed struct {
	mu    sync.Mutex
	asked bool
	on    bool
	sums  map[[2]string]float64 // picoseconds by session and event
	at    map[string]time.Time  // of a session's sums
}

// usable reports whether the performance schema is on and may be read.
func (t *timed) usable(ctx context.Context, e *Bulk) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.asked {
		t.asked = true
		rows, err := e.Ask(ctx, "SELECT @@performance_schema")
		if err == nil && len(rows) == 1 && rows[0][0] == "1" {
			_, err = e.Ask(ctx, filesOf+" IN (0)")
			t.on = err == nil
		}
		t.sums, t.at = map[[2]string]float64{}, map[string]time.Time{}
	}
	return t.on
}

const (
	filesOf = "SELECT t.PROCESSLIST_ID, s.EVENT_NAME, s.SUM_TIMER_WAIT FROM performance_schema.threads t JOIN performance_schema.events_waits_summary_by_thread_by_event_name s USING (THREAD_ID)" +
		" WHERE s.EVENT_NAME LIKE 'wait/io/file/%' AND s.SUM_TIMER_WAIT > 0 AND t.PROCESSLIST_ID"
	rowLocksOf = "SELECT DISTINCT t.PROCESSLIST_ID FROM performance_schema.data_lock_waits w JOIN performance_schema.threads t ON t.THREAD_ID = w.REQUESTING_THREAD_ID WHERE t.PROCESSLIST_ID"
)

// since returns what sessions waited for since the last call, by session: shares of that time.
func (t *timed) since(ctx context.Context, e *Bulk, in string) (map[string][]tidemark.Wait, error) {
	rows, err := e.Ask(ctx, filesOf+in)
	if err != nil {
		return nil, err
	}
	out := map[string][]tidemark.Wait{}
	t.mu.Lock()
	now := time.Now()
	seen := map[string]bool{}
	for _, row := range rows {
		key := [2]string{row[0], row[1]}
		sum, _ := strconv.ParseFloat(row[2], 64)
		grown, before := sum-t.sums[key], t.at[row[0]]
		t.sums[key] = sum
		seen[row[0]] = true
		if before.IsZero() || grown <= 0 {
			continue
		}
		share := min(1, grown/1e12/now.Sub(before).Seconds())
		out[row[0]] = append(out[row[0]], tidemark.Wait{Kind: fileKind(row[1]), Event: row[1][strings.LastIndexByte(row[1], '/')+1:], Share: share})
	}
	for id := range seen {
		t.at[id] = now
	}
	t.mu.Unlock()
	if e.MariaDB { // it has no data_lock_waits
		return out, nil
	}
	locked, err := e.Ask(ctx, rowLocksOf+in)
	if err != nil {
		return nil, err
	}
	for _, row := range locked {
		out[row[0]] = []tidemark.Wait{{Kind: tidemark.WaitLock, Event: "row lock", Share: 1}}
	}
	return out, nil
}

// fileKind translates an instrument of files.
func fileKind(event string) tidemark.WaitKind {
	switch name := event[strings.LastIndexByte(event, '/')+1:]; name {
	case "innodb_log_file", "binlog", "binlog_index": // writes and syncs are one sum
		return tidemark.WaitLogSync
	case "innodb_dblwr_file":
		return tidemark.WaitDataWrite
	case "innodb_temp_file", "io_cache", "temptable":
		return tidemark.WaitTemp
	}
	return tidemark.WaitDisk
}
