package physical

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// Replication reads the state of the server and its standbys. Errors: Forbidden (the role may not
// see what other sessions do), Unsupported (the server is a standby itself).
func (c *Cluster) Replication(ctx context.Context) (out tidemark.Replication, err error) {
	conn, release, err := c.Control(ctx)
	if err != nil {
		return out, err
	}
	defer release()
	var standby, sees bool
	err = conn.QueryRow(ctx, "SELECT pg_is_in_recovery(), pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')").Scan(&standby, &sees)
	switch {
	case err != nil:
		return out, c.Fail(ctx, "check", c.Object, err)
	case standby:
		return out, &tidemark.Error{Kind: tidemark.Unsupported, Op: "check", Object: c.Object, Err: errors.New("the server is a standby"), Hint: "Give the primary's URL: it knows what its standbys have."}
	case !sees:
		return out, &tidemark.Error{Kind: tidemark.Forbidden, Op: "check", Object: c.Object, Err: errors.New("the role does not see what other sessions wait for"), Hint: "GRANT pg_monitor TO " + server.QuoteIdent(c.Config.User) + ";"}
	}
	// Only transactions that write get numbers (and their subtransactions): pg_stat_database counts
	// readers too, and with a delay.
	var names string
	err = conn.QueryRow(ctx, `SELECT clock_timestamp(), pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8, pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
		current_setting('synchronous_commit'), current_setting('synchronous_standby_names')`).Scan(&out.At, &out.Log, &out.Commits, &out.Mode, &names)
	if err != nil {
		return out, c.Fail(ctx, "check", c.Object, err)
	}
	out.Waits, out.WaitSeconds = -1, -1
	if names == "" || out.Mode == "local" || out.Mode == "off" {
		out.Mode = ""
	}
	rows, err := conn.Query(ctx, `SELECT pid, greatest(0, extract(epoch FROM clock_timestamp() - query_start))::float8, query ~* '^\s*(commit|end)\M'
		FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND state = 'active'`)
	if err == nil {
		out.Waiting, err = pgx.CollectRows(rows, pgx.RowToStructByPos[tidemark.WaitingCommit])
	}
	if err != nil {
		return out, c.Fail(ctx, "check", c.Object, err)
	}
	// The server reports no lag for a standby that has applied everything.
	rows, err = conn.Query(ctx, `SELECT application_name, sync_state IN ('sync', 'quorum'), coalesce(extract(epoch FROM write_lag), -1)::float8, coalesce(extract(epoch FROM flush_lag), -1)::float8,
		coalesce(extract(epoch FROM replay_lag), CASE WHEN replay_lsn >= pg_current_wal_flush_lsn() THEN 0 END, -1)::float8, coalesce(pg_wal_lsn_diff(pg_current_wal_flush_lsn(), replay_lsn), -1)::float8
		FROM pg_stat_replication WHERE state IN ('streaming', 'catchup') ORDER BY 1, pid`)
	if err == nil {
		out.Standbys, err = pgx.CollectRows(rows, pgx.RowToStructByPos[tidemark.FollowingStandby])
	}
	return out, c.Fail(ctx, "check", c.Object, err)
}
