package apply

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"

	"github.com/tidemarkdb/tidemark/postgres/server"
)

// Unfence is what undoes Fence, as one line of SQL. In a session on that database the statement
// alone would be refused as read-only.
func (t *Target) Unfence() string { return server.Unfence(t.Config.Database) }

// Fence makes the database read-only for all new sessions, and ends the sessions of others.
func (t *Target) Fence(ctx context.Context) error {
	conn, release, err := t.Control(ctx)
	if err != nil {
		return err
	}
	defer release()
	db := server.QuoteIdent(t.Config.Database)
	if _, err := conn.Exec(ctx, "ALTER DATABASE "+db+" SET default_transaction_read_only = on", pgx.QueryExecModeSimpleProtocol); err != nil {
		return t.FailGrant(ctx, "fence", t.Config.Database, err, "the ownership of database "+db)
	}
	const others = `FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid() AND application_name <> 'tidemark'`
	for start := time.Now(); ; {
		var left int
		if err := conn.QueryRow(ctx, "SELECT count(*) FROM (SELECT pg_terminate_backend(pid) "+others+") x").Scan(&left); err != nil {
			return t.FailGrant(ctx, "fence", t.Config.Database, err, "the role pg_signal_backend")
		}
		if left == 0 {
			return nil
		}
		if time.Since(start) > 30*time.Second {
			return &tidemark.Error{Kind: tidemark.Transient, Op: "fence", Object: t.Config.Database, Err: fmt.Errorf("%d other sessions do not end", left), Hint: "End them by hand and try again; new sessions are already read-only."}
		}
		if err := flow.Sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}
