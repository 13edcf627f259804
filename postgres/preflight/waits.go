package preflight

import (
	"context"
	"fmt"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// waitsSQL lists the locks that our sessions wait for, and the sessions that hold them.
const waitsSQL = `SELECT DISTINCT coalesce(l.relation::regclass::text, 'a lock of type ' || l.locktype), b.pid, coalesce(b.usename::text, ''), coalesce(b.application_name, ''), coalesce(b.state, 'of another user'), coalesce(b.application_name = current_setting('application_name'), false)
	FROM unnest($1::int[]) ours(pid) JOIN pg_locks l ON l.pid = ours.pid AND NOT l.granted
	CROSS JOIN unnest(pg_blocking_pids(ours.pid)) holds(pid) JOIN pg_stat_activity b ON b.pid = holds.pid
	WHERE b.pid <> ALL ($1::int[]) ORDER BY 1, 2`

// A wait is a lock that our sessions wait for, and the session that holds it.
type wait struct {
	Lock        string
	PID         int32
	User        string
	Application string
	State       string
	Ours        bool // by its application name: of this process or another
}

// Waits reports the locks that this Engine's sessions wait for, and the other sessions that hold
// them. It opens its own session, since all others may be waiting.
func (c *Checks) Waits(ctx context.Context) ([]tidemark.Finding, error) {
	pids := c.PIDs()
	conn, err := c.Connect(ctx)
	if err != nil {
		return nil, err
	}
	defer server.CloseConn(conn)
	defer c.ForgetPID(conn.PgConn().PID())
	found, err := server.Rows[wait](ctx, conn, waitsSQL, pids)
	if err != nil {
		return nil, c.Fail(ctx, "look for locks", c.Object, err)
	}
	var out []tidemark.Finding
	for _, w := range found {
		hint := fmt.Sprintf("End that session, if it is a process that hangs: SELECT pg_terminate_backend(%d);", w.PID)
		if w.Ours {
			hint = "It is a session of Tidemark: wait until that run ends, or stop its process (tidemark runs lists the runs)."
		}
		out = append(out, tidemark.Finding{Severity: tidemark.Warning, Object: w.Lock, Hint: hint,
			Text: fmt.Sprintf("a lock on it is held by session %d (user %s, application %q, %s)", w.PID, w.User, w.Application, w.State)})
	}
	return out, nil
}
