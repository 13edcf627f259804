package server

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// Replication returns the state of the server and its semi-synchronous replicas. Errors:
// Unsupported (no binlog).
func (e *Server) Replication(ctx context.Context) (out tidemark.Replication, err error) {
	files, err := e.Binlogs(ctx)
	if err != nil {
		return out, err
	}
	if len(files) == 0 {
		return out, &tidemark.Error{Kind: tidemark.Unsupported, Op: "check", Object: e.Masked, Err: errors.New("the server keeps no binlog"), Hint: "Give the URL of the server that replicas follow."}
	}
	for _, f := range files {
		out.Log += float64(f.Size)
	}
	s, back, err := e.Lend(ctx)
	if err != nil {
		return out, err
	}
	defer back()
	values := map[string]string{}
	for _, sql := range []string{"SHOW GLOBAL VARIABLES LIKE 'rpl_semi_sync_%'", "SHOW GLOBAL STATUS WHERE Variable_name LIKE 'Rpl_semi_sync_%' OR Variable_name = 'Binlog_commits'"} {
		r, err := s.Query(ctx, sql)
		if err != nil {
			return out, e.Fail("check", e.Masked, err)
		}
		for i := range r.RowNumber() {
			values[strings.ToLower(Cell(r, i, 0))] = strings.Clone(Cell(r, i, 1))
		}
	}
	out.At = time.Now()
	semisync(values, &out)
	// The state's name ends with "slave" or with "replica".
	r, err := s.Query(ctx, "SELECT id, time, coalesce(upper(trim(info)) LIKE 'COMMIT%', 0) FROM information_schema.processlist WHERE state LIKE 'Waiting for semi-sync ACK%'")
	if err != nil {
		return out, e.Fail("check", e.Masked, err)
	}
	for i := range r.RowNumber() {
		id, _ := r.GetInt(i, 0)
		took, _ := r.GetFloat(i, 1)
		only, _ := r.GetInt(i, 2)
		out.Waiting = append(out.Waiting, tidemark.WaitingCommit{Session: id, Seconds: took, Only: only == 1})
	}
	return out, nil
}

// semisync reads the server's semi-sync counters, whose names have master and slave, or source and
// replica.
func semisync(values map[string]string, out *tidemark.Replication) {
	number := func(name string) int64 {
		if n, err := strconv.ParseInt(values[name], 10, 64); err == nil {
			return n
		}
		return -1
	}
	prefix := "rpl_semi_sync_master_"
	if _, ok := values["rpl_semi_sync_source_enabled"]; ok {
		prefix = "rpl_semi_sync_source_"
	}
	out.Commits, out.Waits, out.WaitSeconds = number("binlog_commits"), number(prefix+"tx_waits"), -1
	if us := number(prefix + "tx_wait_time"); us >= 0 {
		out.WaitSeconds = float64(us) / 1e6
	}
	yes, no := number(prefix+"yes_tx"), number(prefix+"no_tx")
	if out.Commits < 0 && yes >= 0 && values[prefix+"enabled"] == "ON" {
		out.Commits = yes + no
	}
	if values[prefix+"enabled"] == "ON" {
		out.Mode = values[prefix+"wait_point"]
		out.Degraded = values[prefix+"status"] != "ON"
	}
	for range number(prefix + "clients") {
		out.Standbys = append(out.Standbys, tidemark.FollowingStandby{Name: "a semi-synchronous replica", Waited: true, Write: -1, Flush: -1, Replay: -1, Behind: -1})
	}
}

// Behind returns by how many seconds a replica's applying lags behind its source's commits; -1: the
// server does not replicate.
func (e *Server) Behind(ctx context.Context) (float64, error) {
	s, back, err := e.Lend(ctx)
	if err != nil {
		return -1, err
	}
	defer back()
	r, err := s.Query(ctx, "SHOW SLAVE STATUS") // 8.4 has only SHOW REPLICA STATUS
	if err != nil {
		r, err = s.Query(ctx, "SHOW REPLICA STATUS")
	}
	if err != nil {
		return -1, e.Fail("check", e.Masked, err)
	}
	for i, f := range r.Fields {
		if name := string(f.Name); r.RowNumber() > 0 && (name == "Seconds_Behind_Master" || name == "Seconds_Behind_Source") {
			if n, err := strconv.ParseFloat(Cell(r, 0, i), 64); err == nil {
				return n, nil
			}
		}
	}
	return -1, nil
}
