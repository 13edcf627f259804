package job

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/engine"
)

// The canary's table is on the source, where transactions of ours write if its owner allows it. Its
// comment tells it from a table of others, and a lock of the session that writes to it from one
// that a copy has left that was killed.
const (
	canaryTable   = "tidemark_canary"
	canaryComment = "commits of a copy that minds the latency of its source; goes away with the copy, or with the next one"
)

// A canary is that table.
type canary struct {
	db   Database
	id   tidemark.TableID
	name string // quoted
	canarySQL
}

// canarySQL is what an engine runs for it.
type canarySQL struct {
	// clear takes the lock, and then drops the table if it is ours: its copy was killed. With the
	// lock elsewhere, or a table of others, it does nothing.
	clear  []string
	create []string // creates the table
	unlock []string // releases the lock
}

// canaries are that, by the family of the source, for a table by its quoted name.
var canaries = map[string]func(name string) canarySQL{engine.Postgres: postgresCanary, engine.MySQL: mysqlCanary}

func postgresCanary(name string) canarySQL {
	literal := "'" + strings.ReplaceAll(name, "'", "''") + "'"
	lock := "hashtextextended('tidemark canary ' || " + literal + ", 0)"
	return canarySQL{
		clear: []string{"DO $tidemark$ BEGIN IF pg_try_advisory_lock(" + lock + ") THEN IF obj_description(to_regclass(" + literal + "), 'pg_class') = '" +
			canaryComment + "' THEN DROP TABLE " + name + "; END IF; END IF; END $tidemark$"},
		create: []string{"CREATE TABLE " + name + " (n int PRIMARY KEY)", "COMMENT ON TABLE " + name + " IS '" + canaryComment + "'"},
		unlock: []string{"SELECT pg_advisory_unlock(" + lock + ")"},
	}
}

func mysqlCanary(name string) canarySQL {
	const lock = "CONCAT('tidemark canary ', MD5(DATABASE()))"
	return canarySQL{
		clear: []string{"DO GET_LOCK(" + lock + ", 0)",
			"SET @tidemark = IF(IS_USED_LOCK(" + lock + ") = CONNECTION_ID() AND EXISTS (SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '" +
				canaryTable + "' AND TABLE_COMMENT = '" + canaryComment + "'), 'DROP TABLE " + canaryTable + "', 'DO 0')",
			"PREPARE tidemark FROM @tidemark", "EXECUTE tidemark", "DEALLOCATE PREPARE tidemark"},
		create: []string{"CREATE TABLE " + name + " (n int PRIMARY KEY) COMMENT = '" + canaryComment + "'"},
		unlock: []string{"DO RELEASE_LOCK(" + lock + ")"},
	}
}

// canaryOn returns the table of a source; not ok: it cannot have one.
func canaryOn(src origin) (c canary, ok bool) {
	db, ok := src.(Database)
	if !ok || db.Default() == "" {
		return c, false
	}
	sql := canaries[engine.Family(db.Name())]
	if sql == nil {
		return c, false
	}
	c = canary{db: db, id: tidemark.TableID{Schema: db.Default(), Name: canaryTable}}
	c.name = TableName(db, c.id)
	c.canarySQL = sql(c.name)
	return c, true
}

// startCanary gives a small transaction on the source, which shows what its users feel: one that
// reads a table of the copy, or with Pace.Canary one that commits a row in a table of ours.
func startCanary(ctx context.Context, c *copying) (do func(context.Context) error, remove func(), err error) {
	type reader interface {
		Inspect(ctx context.Context, tables []tidemark.TableID) ([]tidemark.TableState, error)
	}
	if !c.spec.Pace.Canary {
		r, ok := c.src.(reader)
		if !ok || len(c.p.Moves) == 0 {
			return nil, nil, &tidemark.Error{Kind: tidemark.Unsupported, Op: "copy", Object: "--source-p99", Err: fmt.Errorf("%s cannot be asked for its latency", c.src.Name()), Hint: "Leave out --source-p99."}
		}
		one := []tidemark.TableID{c.p.Moves[len(c.p.Moves)-1].From.TableID}
		return func(ctx context.Context) error {
			_, err := r.Inspect(ctx, one)
			return err
		}, func() {}, nil
	}
	if of := c.src.Name(); canaries[engine.Family(of)] == nil {
		return nil, nil, &tidemark.Error{Kind: tidemark.Unsupported, Op: "copy", Object: "--source-canary", Err: fmt.Errorf("commits on %s are not timed", engine.Of(of).Title), Hint: "Leave out --source-canary."}
	}
	t, ok := canaryOn(c.src)
	if !ok {
		return nil, nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "copy", Object: "--source-canary", Err: fmt.Errorf("the source's URL names no database for its table"), Hint: "Name a database, or leave out --source-canary."}
	}
	if err = t.db.Exec(ctx, 0, t.clear); err == nil {
		err = t.db.Exec(ctx, 0, t.create)
	}
	if tidemark.KindOf(err) == tidemark.Exists {
		err = &tidemark.Error{Kind: tidemark.Exists, Op: "copy", Object: "table " + t.id.String(), Err: errors.New("another copy of this source uses it, or it is not of tidemark"), Hint: "Wait until that copy has ended, or leave out --source-canary."}
	}
	if err != nil {
		return nil, nil, err
	}
	n := 0
	return func(ctx context.Context) error {
			n++
			return t.db.Exec(ctx, 0, []string{fmt.Sprintf("INSERT INTO %s VALUES (%d)", t.name, n)})
		}, func() {
			_ = t.db.Exec(context.WithoutCancel(ctx), 0, append([]string{"DROP TABLE " + t.name}, t.unlock...)) // the next copy drops it
		}, nil
}

// noting gives want, and notes whether there is a table that a killed copy may have left.
func noting(want func(tidemark.TableID) bool, left *atomic.Bool) func(tidemark.TableID) bool {
	return func(id tidemark.TableID) bool {
		if id.Name == canaryTable {
			left.Store(true)
		}
		return want(id)
	}
}

// dropLeft drops the table that a killed copy has left on the source: see clear.
func dropLeft(ctx context.Context, c *copying) {
	t, ok := canaryOn(c.src)
	if !ok || !c.left.Load() {
		return
	}
	if err := t.db.Exec(ctx, 0, append(t.clear, t.unlock...)); err != nil {
		if e := (*tidemark.Error)(nil); errors.As(err, &e) && e.Err != nil {
			err = e.Err // without the statement
		}
		c.env.Event(Event{Kind: "finding", Object: "table " + t.id.String(), Text: "was left on the source by a copy that was killed, and cannot be dropped: " + err.Error() + ". Drop it as its owner."})
	}
}
