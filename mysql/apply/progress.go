package apply

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/apply/resolve"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// progressDDL creates the progress table, next to the marker table. Each agent has a row, which it
// writes last in the transaction that holds the rows it applied. Places are the source's, so that
// progress outlives the queue. Every row is true when it is written: the stream's low is the
// greatest of all rows. done are the places above low that the agent has committed, each as its
// distance from the one before, the first from low.
//
// A capture from this server leaves out transactions that touch the table.
const (
	progressDDL = " (queue varchar(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, agent int NOT NULL, epoch bigint NOT NULL, low bigint unsigned NOT NULL, " +
		"done mediumtext CHARACTER SET ascii NOT NULL, at timestamp(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), " +
		"PRIMARY KEY (queue, agent)) ENGINE=InnoDB COMMENT='how far tidemark has applied streams; goes away with them'"
)

// BeginApply begins a new epoch of a stream with this many agents, and returns how far the stream
// was applied. It waits for an agent of an earlier epoch whose commit is under way; later ones are
// refused.
func (e *Target) BeginApply(ctx context.Context, queue string, agents int) (p change.Progress, err error) {
	name, err := e.OwnTable(ctx, server.ProgressName)
	if err != nil {
		return p, err
	}
	err = e.OnSession(ctx, "begin apply", queue, func(s *server.Session) error {
		if _, err := s.Query(ctx, "SELECT 1 FROM "+name+" LIMIT 0"); server.IsCode(err, 1146) {
			err = s.Exec(ctx, "CREATE TABLE IF NOT EXISTS "+name+progressDDL)
			if err != nil {
				return e.Fail("make progress table", name, err)
			}
		}
		if p, err = newApply(ctx, s, name, queue, agents); err != nil && !s.Dead {
			_ = s.Exec(context.WithoutCancel(ctx), "ROLLBACK") // the first error is the one to report
		}
		return err
	})
	return p, err
}

// newApply replaces the rows of the agents, in a transaction.
func newApply(ctx context.Context, s *server.Session, name, queue string, agents int) (p change.Progress, err error) {
	// The row of agent -1 serializes processes that begin the same stream.
	for _, sql := range []string{"SET TRANSACTION ISOLATION LEVEL READ COMMITTED", "START TRANSACTION",
		"INSERT INTO " + name + " (queue, agent, epoch, low, done) VALUES (" + server.Literal(queue) + ",-1,0,0,'') ON DUPLICATE KEY UPDATE epoch=epoch"} {
		if err := s.Exec(ctx, sql); err != nil {
			return p, err
		}
	}
	r, err := s.Query(ctx, "SELECT epoch, low, done FROM "+name+" WHERE queue="+server.Literal(queue)+" FOR UPDATE")
	if err != nil {
		return p, err
	}
	rows := make([]change.Progress, r.RowNumber())
	for i := range rows {
		rows[i].Epoch, _ = r.GetInt(i, 0)
		rows[i].Low, _ = r.GetUint(i, 1)
		if rows[i].Done, err = parsePlaces(rows[i].Low, server.Cell(r, i, 2)); err != nil {
			return p, err
		}
	}
	p = resolve.Begin(rows, time.Now())
	// What earlier agents had done above Low becomes the row of an extra agent that does nothing:
	// its places disappear as Low passes them, and the row with the next epoch.
	insert := fmt.Appendf(nil, "INSERT INTO %s (queue, agent, epoch, low, done) VALUES ", name)
	for agent := -1; agent < agents; agent++ {
		if agent >= 0 {
			insert = append(insert, ',')
		}
		insert = fmt.Appendf(insert, "(%s,%d,%d,%d,'", server.Literal(queue), agent, p.Epoch, p.Low)
		if agent < 0 {
			insert = appendPlaces(insert, p.Low, p.Done)
		}
		insert = append(insert, "')"...)
	}
	for _, sql := range []string{"DELETE FROM " + name + " WHERE queue=" + server.Literal(queue), string(insert), "COMMIT"} {
		if err := s.Exec(ctx, sql); err != nil {
			return p, err
		}
	}
	return p, nil
}

// appendPlaces appends those of the ascending places that are above low.
func appendPlaces(dst []byte, low uint64, places []uint64) []byte {
	first := true
	for _, place := range places {
		if place <= low {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, place-low, 10)
		low, first = place, false
	}
	return dst
}

func parsePlaces(low uint64, s string) (out []uint64, err error) {
	for one := range strings.SplitSeq(s, ",") {
		if s == "" {
			break
		}
		n, err := strconv.ParseUint(one, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("the progress table holds %q", one)
		}
		low += n
		out = append(out, low)
	}
	return out, nil
}

// EndApply deletes the progress of a stream. The last stream drops the progress table.
func (e *Target) EndApply(ctx context.Context, queue string) error {
	name, err := e.OwnTable(ctx, server.ProgressName)
	if err != nil {
		return err
	}
	return e.OnSession(ctx, "end apply", queue, func(s *server.Session) error {
		err := s.Exec(ctx, "DELETE FROM "+name+" WHERE queue = "+server.Literal(queue))
		if server.IsCode(err, 1146) {
			return nil
		}
		if err != nil {
			return err
		}
		r, err := s.Query(ctx, "SELECT 1 FROM "+name+" LIMIT 1")
		if err != nil || r.RowNumber() > 0 {
			return err
		}
		return s.Exec(ctx, "DROP TABLE "+name)
	})
}

// Applied returns the place up to which each stream into this database is applied.
func (e *Target) Applied(ctx context.Context) (map[string]change.Progress, error) {
	name, err := e.OwnTable(ctx, server.ProgressName)
	if tidemark.KindOf(err) == tidemark.Invalid {
		return nil, nil // the URL names no database, and none has such a table
	}
	if err != nil {
		return nil, err
	}
	out := map[string]change.Progress{}
	err = e.OnSession(ctx, "read progress", name, func(s *server.Session) error {
		r, err := s.Query(ctx, "SELECT queue, MAX(epoch), MAX(low) FROM "+name+" GROUP BY queue")
		if server.IsCode(err, 1146) {
			return nil
		}
		if err != nil {
			return err
		}
		for i := range r.RowNumber() {
			epoch, err := r.GetInt(i, 1)
			if err != nil {
				return err
			}
			low, err := r.GetUint(i, 2)
			if err != nil {
				return err
			}
			out[server.Cell(r, i, 0)] = change.Progress{Epoch: epoch, Low: low}
		}
		return nil
	})
	return out, err
}
