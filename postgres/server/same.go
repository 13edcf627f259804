package server

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark"
)

// A Sight is what a database sees of another one's advisory lock.
type Sight struct {
	Held    bool    // somebody in this database has that lock: they are the same database
	Cluster Cluster // who this server is
}

// Look reports whether a session of this database has the advisory lock of these two numbers.
func (s *Server) Look(ctx context.Context, class, object int32) (out Sight, err error) {
	conn, release, err := s.Control(ctx)
	if err != nil {
		return out, err
	}
	defer release()
	out.Cluster, err = withCluster(ctx, conn, &out.Held, `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid::bigint = $1 AND objid::bigint = $2 AND objsubid = 2
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`, class, object)
	return out, s.Fail(ctx, "compare", s.Object, err)
}

// Relate reports how database b, whose Look is given, is related to this one. An advisory lock that
// a session of this database takes is visible only to sessions of the same database on the same
// server, whatever host names, sockets and poolers lead there. The system identifier is not enough,
// since copies of the files share it; it identifies a standby.
func (s *Server) Relate(ctx context.Context, look func(ctx context.Context, class, object int32) (Sight, error)) (tidemark.Kinship, error) {
	one, release, err := s.Control(ctx)
	if err != nil {
		return tidemark.Apart, err
	}
	defer release()
	class, object := rand.Int32(), rand.Int32()
	var locked bool
	x, err := withCluster(ctx, one, &locked, "SELECT pg_advisory_lock($1, $2) IS NOT NULL", class, object)
	if err != nil {
		return tidemark.Apart, s.Fail(ctx, "compare", s.Object, err)
	}
	defer one.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1, $2)", class, object) // the lock ends with the session too
	there, err := look(ctx, class, object)
	if err != nil {
		return tidemark.Apart, err
	}
	if there.Held {
		return tidemark.Same, nil
	}
	if y := there.Cluster; x.Recovers != y.Recovers && x.System != 0 && x.System == y.System && x.Timeline == y.Timeline && x.Database == y.Database {
		return tidemark.Standby, nil
	}
	return tidemark.Apart, nil
}

// Identity distinguishes databases, also of one server: two of different identities are different,
// while copies of a server's files have the same; "" if the user may not read it.
func (s *Server) Identity(ctx context.Context) (string, error) {
	conn, release, err := s.Control(ctx)
	if err != nil {
		return "", err
	}
	defer release()
	var reached bool
	c, err := withCluster(ctx, conn, &reached, "SELECT true")
	if err != nil || c.System == 0 {
		return "", s.Fail(ctx, "identify", s.Object, err)
	}
	return fmt.Sprintf("postgres %d %d", c.System, c.Database), nil
}

// A Cluster is what the control file says about a server, and which database the session is in.
type Cluster struct {
	System   int64
	Timeline int32
	Database uint32
	Recovers bool
}

// withCluster reads it behind another query, in one round trip; the result is zero if the user may
// not read it.
func withCluster(ctx context.Context, conn *pgx.Conn, answer *bool, query string, args ...any) (c Cluster, err error) {
	var both pgx.Batch
	both.Queue(query, args...)
	both.Queue(`SELECT s.system_identifier, c.timeline_id, d.oid, pg_is_in_recovery()
		FROM pg_control_system() s, pg_control_checkpoint() c, pg_database d WHERE d.datname = current_database()`)
	answers := conn.SendBatch(ctx, &both)
	if err = answers.QueryRow().Scan(answer); err == nil && answers.QueryRow().Scan(&c.System, &c.Timeline, &c.Database, &c.Recovers) != nil {
		c = Cluster{}
	}
	_ = answers.Close() // repeats an error that was seen
	return c, err
}
