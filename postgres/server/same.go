package server

import (
	"context"
	"math/rand/v2"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark"
)

// Relate reports how database b is related to this one. An advisory lock that a session of this
// database takes is visible only to sessions of the same database on the same server, whatever host
// names, sockets and poolers lead there. The system identifier is not enough, since copies of the
// files share it; it identifies a standby.
func (s *Server) Relate(ctx context.Context, b *Server) (tidemark.Kinship, error) {
	if s == b {
		return tidemark.Same, nil
	}
	one, release, err := s.Control(ctx)
	if err != nil {
		return tidemark.Apart, err
	}
	defer release()
	other, release, err := b.Control(ctx)
	if err != nil {
		return tidemark.Apart, err
	}
	defer release()
	class, object := rand.Int32(), rand.Int32()
	var locked, same bool
	x, err := withCluster(ctx, one, &locked, "SELECT pg_advisory_lock($1, $2) IS NOT NULL", class, object)
	if err != nil {
		return tidemark.Apart, s.Fail(ctx, "compare", s.Object, err)
	}
	defer one.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1, $2)", class, object) // the lock ends with the session too
	y, err := withCluster(ctx, other, &same, `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid::bigint = $1 AND objid::bigint = $2 AND objsubid = 2
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`, class, object)
	if err != nil {
		return tidemark.Apart, b.Fail(ctx, "compare", b.Object, err)
	}
	if same {
		return tidemark.Same, nil
	}
	if x.recovers != y.recovers && x.system != 0 && x.system == y.system && x.timeline == y.timeline && x.database == y.database {
		return tidemark.Standby, nil
	}
	return tidemark.Apart, nil
}

// A cluster is what the control file says about a server, and which database the session is in.
type cluster struct {
	system   int64
	timeline int32
	database uint32
	recovers bool
}

// withCluster reads it behind another query, in one round trip; the result is zero if the user may
// not read it.
func withCluster(ctx context.Context, conn *pgx.Conn, answer *bool, query string, args ...any) (c cluster, err error) {
	var both pgx.Batch
	both.Queue(query, args...)
	both.Queue(`SELECT s.system_identifier, c.timeline_id, d.oid, pg_is_in_recovery()
		FROM pg_control_system() s, pg_control_checkpoint() c, pg_database d WHERE d.datname = current_database()`)
	answers := conn.SendBatch(ctx, &both)
	if err = answers.QueryRow().Scan(answer); err == nil && answers.QueryRow().Scan(&c.system, &c.timeline, &c.database, &c.recovers) != nil {
		c = cluster{}
	}
	_ = answers.Close() // repeats an error that was seen
	return c, err
}
