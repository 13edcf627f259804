package job

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/tidemarkdb/tidemark"
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
}

// canaryOn returns the table of a source; not ok: it cannot have one.
func canaryOn(src origin) (c canary, ok bool) {
	db, ok := src.(Database)
	if !ok || db.Default() == "" {
		return c, false
	}
	c = canary{db: db, id: tidemark.TableID{Schema: db.Default(), Name: canaryTable}}
	c.name = TableName(db, c.id)
	return c, true
}

func (c canary) mysql() bool { return tidemark.Family(c.db.Name()) == "mysql" }

// lock is the expression of the lock's name, or with PostgreSQL of its number.
func (c canary) lock() string {
	if c.mysql() {
		return "CONCAT('tidemark canary ', MD5(DATABASE()))"
	}
	return "hashtextextended('tidemark canary ' || " + c.literal() + ", 0)"
}

// literal is the table's name as a string of PostgreSQL.
func (c canary) literal() string { return "'" + strings.ReplaceAll(c.name, "'", "''") + "'" }

// clear takes the lock, and then drops the table if it is ours: its copy was killed. With the lock
// elsewhere, or a table of others, it does nothing.
func (c canary) clear() []string {
	if c.mysql() {
		return []string{"DO GET_LOCK(" + c.lock() + ", 0)",
			"SET @tidemark = IF(IS_USED_LOCK(" + c.lock() + ") = CONNECTION_ID() AND EXISTS (SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '" +
				canaryTable + "' AND TABLE_COMMENT = '" + canaryComment + "'), 'DROP TABLE " + canaryTable + "', 'DO 0')",
			"PREPARE tidemark FROM @tidemark", "EXECUTE tidemark", "DEALLOCATE PREPARE tidemark"}
	}
	return []string{"DO $tidemark$ BEGIN IF pg_try_advisory_lock(" + c.lock() + ") THEN IF obj_description(to_regclass(" + c.literal() + "), 'pg_class') = '" +
		canaryComment + "' THEN DROP TABLE " + c.name + "; END IF; END IF; END $tidemark$"}
}

// create creates the table.
func (c canary) create() []string {
	create := "CREATE TABLE " + c.name + " (n int PRIMARY KEY)"
	if c.mysql() {
		return []string{create + " COMMENT = '" + canaryComment + "'"}
	}
	return []string{create, "COMMENT ON TABLE " + c.name + " IS '" + canaryComment + "'"}
}

// unlock releases the lock.
func (c canary) unlock() []string {
	if c.mysql() {
		return []string{"DO RELEASE_LOCK(" + c.lock() + ")"}
	}
	return []string{"SELECT pg_advisory_unlock(" + c.lock() + ")"}
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
	t, ok := canaryOn(c.src)
	if !ok {
		return nil, nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "copy", Object: "--source-canary", Err: fmt.Errorf("the source's URL names no database for its table"), Hint: "Name a database, or leave out --source-canary."}
	}
	if err = t.db.Exec(ctx, 0, t.clear()); err == nil {
		err = t.db.Exec(ctx, 0, t.create())
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
			_ = t.db.Exec(context.WithoutCancel(ctx), 0, append([]string{"DROP TABLE " + t.name}, t.unlock()...)) // the next copy drops it
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
	if err := t.db.Exec(ctx, 0, append(t.clear(), t.unlock()...)); err != nil {
		if e := (*tidemark.Error)(nil); errors.As(err, &e) && e.Err != nil {
			err = e.Err // without the statement
		}
		c.env.Event(Event{Kind: "finding", Object: "table " + t.id.String(), Text: "was left on the source by a copy that was killed, and cannot be dropped: " + err.Error() + ". Drop it as its owner."})
	}
}
