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
	var size string
	var pid uint32
	if err := s.lead.QueryRow(ctx, "SELECT current_setting('block_size'), pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&size, &pid); err != nil {
		return s.connectFailed(ctx, err) // a pooler has answered the login before it has a session
	}
	s.BlockSize, _ = strconv.ParseInt(size, 10, 64)
	if pid != s.lead.PgConn().PID() { // a pooler invents cancel keys
		if err := s.refuseSharedSessions(ctx, pid); err != nil {
			return err
		}
	}
	s.entered = true
	if _, err := s.lead.Exec(ctx, SessionSQL(s.Major), pgx.QueryExecModeSimpleProtocol); err != nil {
		return s.Fail(ctx, "connect", s.Object, err)
	}
	return nil
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
		var pid uint32
		if err := conn.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&pid); err != nil {
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
