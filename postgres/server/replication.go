package server

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/wal"
)

// AppliedPrefix is the prefix of the message with which each transaction that a stream applies
// begins: followers of this server's log recognize by it changes that came from elsewhere.
const AppliedPrefix = "tidemark.applied"

// StreamSetting is the parameter that is on in sessions which write what another server has
// written: triggers that do what its own do ask for it.
const StreamSetting = "tidemark.stream"

// MayBeReplica reports whether the session may take the role in which triggers and foreign keys do
// not act. It ends the session's transaction.
func MayBeReplica(ctx context.Context, conn *pgx.Conn) (bool, error) {
	_, refused := conn.Exec(ctx, "BEGIN; SET LOCAL session_replication_role = replica; ROLLBACK", pgx.QueryExecModeSimpleProtocol)
	if refused == nil {
		return true, nil
	}
	_, err := conn.Exec(ctx, "ROLLBACK", pgx.QueryExecModeSimpleProtocol) // others ask on this session too
	if err == nil && SQLState(refused) != "42501" {
		err = refused
	}
	return false, err
}

// AnswerRow returns the only row in the answer to a replication command.
func AnswerRow(ctx context.Context, conn *pgconn.PgConn, command string) ([][]byte, error) {
	results, err := conn.Exec(ctx, command).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(results) == 0 || len(results[0].Rows) != 1 || len(results[0].Rows[0]) < 2 {
		return nil, fmt.Errorf("a malformed answer to %s", command)
	}
	return results[0].Rows[0], nil
}

// ReplicationConn opens a session that speaks the replication protocol.
func (s *Server) ReplicationConn(ctx context.Context) (*pgconn.PgConn, error) {
	cfg := s.Config.Config.Copy()
	cfg.RuntimeParams["replication"] = "database"
	cfg.DialFunc = s.plain // a log that comes by itself answers no questions
	conn, err := pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, s.connectFailed(ctx, err)
	}
	return conn, nil
}

// SlotFailed converts a server's message about slots to an error.
func (s *Server) SlotFailed(ctx context.Context, op, slot string, err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return s.Fail(ctx, op, slot, err)
	}
	out := &tidemark.Error{Op: op, Object: slot, Err: errors.New(PlainCause(err))}
	switch pg.Code {
	case "55006":
		out.Kind, out.Hint = tidemark.Transient, "Another process reads from this slot: stop it, or wait until the server notices that it is gone."
	case "42710":
		out.Kind, out.Hint = tidemark.Exists, "Continue from it, or drop it first."
	case "42704":
		out.Kind, out.Hint = tidemark.Lost, "The slot is gone, and with it the WAL that it retained: copy again."
	case "53400":
		out.Kind, out.Hint = tidemark.Unsupported, "Raise max_replication_slots or max_wal_senders on the server, or drop unused slots."
	case "42501":
		out.Kind, out.Hint = tidemark.Forbidden, fmt.Sprintf("ALTER ROLE %s REPLICATION;", QuoteIdent(s.Config.User))
	default:
		return s.Fail(ctx, op, slot, err)
	}
	return out
}

// LogEnd returns the position up to which the server has flushed its log; on a standby, up to which
// it has received it.
func (s *Server) LogEnd(ctx context.Context) (uint64, error) {
	conn, release, err := s.Control(ctx)
	if err != nil {
		return 0, err
	}
	defer release()
	var text string
	if err := conn.QueryRow(ctx, "SELECT (CASE WHEN pg_is_in_recovery() THEN greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) ELSE pg_current_wal_flush_lsn() END)::text").Scan(&text); err != nil {
		return 0, s.Fail(ctx, "read the log's end", s.Object, err)
	}
	return wal.ParseLSN(text)
}

// LeftAt returns the position at which a timeline's history left an earlier timeline; 0 if that is
// not among its ancestors.
func LeftAt(history string, number uint32) (uint64, error) {
	left, err := wal.ParseHistory(history)
	if i := slices.IndexFunc(left, func(p tidemark.LogPlace) bool { return p.Timeline == number }); i >= 0 {
		return left[i].Place, err
	}
	return 0, err
}
