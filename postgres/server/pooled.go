package server

import (
	"context"
	"errors"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark"
)

// enter makes the leader's settings, and lets later sessions make theirs, unless a pooler gives one
// session of the server to several clients. Through such a pool our settings would be missing for
// some of our own statements, and they would stay in sessions of other programs, which no longer
// find their tables then (search_path). So nothing is set before that is known.
func (s *Server) enter(ctx context.Context) error {
	size, pid, err := place(ctx, s.lead)
	if err != nil {
		return s.connectFailed(ctx, err) // a pooler has answered the login before it has a session
	}
	s.BlockSize = size
	if pid != s.lead.PgConn().PID() { // a pooler invents cancel keys
		if err := s.refuseSharedSessions(ctx, pid); err != nil {
			return err
		}
	}
	s.entered = true
	if _, err = s.lead.Exec(ctx, SessionSQL(s.Major), pgx.QueryExecModeSimpleProtocol); err != nil {
		return s.Fail(ctx, "connect", s.Object, err)
	}
	return nil
}

// place asks for the server's block size and the process of the session. pgx's own queries would
// refuse a session whose settings are not made yet: one without standard_conforming_strings.
func place(ctx context.Context, conn *pgx.Conn) (blockSize int64, pid uint32, err error) {
	results, err := conn.PgConn().Exec(ctx, "SELECT current_setting('block_size'), pg_backend_pid()").ReadAll()
	if err != nil {
		return 0, 0, err
	}
	if len(results) != 1 || len(results[0].Rows) != 1 || len(results[0].Rows[0]) != 2 {
		return 0, 0, errors.New("the answer to the first question has no row")
	}
	blockSize, _ = strconv.ParseInt(string(results[0].Rows[0][0]), 10, 64)
	id, err := strconv.ParseUint(string(results[0].Rows[0][1]), 10, 32)
	return blockSize, uint32(id), err
}

// refuseSharedSessions detects a pooler that gives the leader's session of the server to other
// clients between two transactions. The next transaction of the leader, or of another client, then
// gets the session freed last, or (server_round_robin) the one that is free for longest: one client
// gets two, or two get the same, also if other programs use the pool.
func (s *Server) refuseSharedSessions(ctx context.Context, pid uint32) error {
	other, err := s.Connect(ctx)
	if err != nil {
		return err
	}
	defer CloseConn(other)
	of := map[*pgx.Conn]uint32{s.lead: pid}
	for _, conn := range []*pgx.Conn{other, s.lead, s.lead, other, other, s.lead} {
		_, pid, err := place(ctx, conn)
		if err != nil {
			return s.connectFailed(ctx, err)
		}
		if of[conn] == 0 {
			of[conn] = pid
		}
		if of[conn] != pid || of[other] == of[s.lead] {
			return &tidemark.Error{Kind: tidemark.Unsupported, Op: "connect", Object: s.Object, Err: errors.New("a pooler in between gives each transaction another session of the server"), Hint: "Give the server's own address, or that of a pool with pool_mode = session: snapshots and settings do not survive the other modes."}
		}
	}
	return nil
}
