package job

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/diff"
	"github.com/tidemarkdb/tidemark/internal/plainfile"
)

// A RepairSpec says what to make equal, and how.
type RepairSpec struct {
	LiveSpec
	Live    bool // rows are written meanwhile, or a stream runs
	Execute bool // otherwise the statements are only printed
	// Print receives each change that is not made, or as it is made. May be nil.
	Print func(diff.Repaired)
	Log   string // the file to which changes are written before they are committed
}

// A Repaired says what a repair has done.
type Repaired struct {
	Found   diff.Result `json:"found"` // what differed; after --execute what still does
	Execute bool        `json:"execute"`
	diff.Tally
	Log      string             `json:"log,omitempty"`
	Findings []tidemark.Finding `json:"findings,omitempty"`
	Seconds  float64            `json:"seconds"`
}

// Repair makes the target's rows equal to the source's where they differ. It only reads the source.
// After a lost connection it compares again: what it has changed is equal then. Statements that are
// only printed are printed once, so a repair that has printed some ends there.
func Repair(ctx context.Context, env Env, spec RepairSpec) (*Repaired, error) {
	started := time.Now()
	if err := needsDatabases("repair", spec.Diff, "cannot be one side of a repair: only tidemark diff compares with one", "Load it into a database, and repair from there."); err != nil {
		return nil, err
	}
	out := &Repaired{Execute: spec.Execute}
	told := false
	if tell := spec.Print; tell != nil {
		spec.Print = func(m diff.Repaired) { told = true; tell(m) }
	}
	var log *os.File
	err := env.persist(ctx, "repair", spec.Diff.RetryFor, func(there func()) error {
		v, err := openLive(ctx, env, spec.LiveSpec)
		if err != nil {
			return err
		}
		defer v.close()
		there()
		r := &repairing{living: v, spec: spec, out: out, log: log}
		err = r.repair(ctx)
		out.Findings, log = v.findings, r.log
		if err != nil && told && !spec.Execute {
			return final{err}
		}
		return err
	})
	if log != nil {
		log.Close()
	}
	out.Seconds = time.Since(started).Seconds()
	var once final
	if errors.As(err, &once) {
		err = once.error
	}
	return out, err
}

// A final error is not retried.
type final struct{ error }

func (r *repairing) repair(ctx context.Context) error {
	if r.stream && r.spec.Execute && !r.spec.Live {
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "repair", Object: "stream " + r.spec.Name, Err: errors.New("applies changes to this target, and may still bring rows that the source already has"), Hint: "Let it run and repair with --live, or remove it with tidemark replicate --remove."}
	}
	if r.spec.Execute {
		if err := notKin(ctx, "repair", r.src, r.tgt); err != nil {
			return err
		}
		if r.log == nil {
			if err := r.open(); err != nil {
				return err
			}
		}
	}
	return r.rounds(ctx)
}

type repairing struct {
	*living
	spec  RepairSpec
	out   *Repaired
	log   *os.File
	round int
}

// open makes the log of changes.
func (r *repairing) open() (err error) {
	dir, name := plainfile.Named(r.spec.Log)
	if err = dir.MkdirAll(".", 0o700); err == nil {
		r.log, err = dir.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	}
	if err != nil {
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "repair", Object: r.spec.Log, Err: err, Hint: plainfile.Hint(err, "Name a writable file with --repair-log.")}
	}
	r.out.Log = r.spec.Log
	return nil
}

// rounds finds and repairs differences, until there are none or nothing more can be done: rows that
// were locked, or rejected because of others that came later, get another round.
func (r *repairing) rounds(ctx context.Context) error {
	if err := r.first(ctx); err != nil {
		return err
	}
	if r.spec.Execute {
		release, err := r.claimTables(ctx)
		if err != nil {
			return err
		}
		defer release()
	}
	for {
		if r.spec.Live {
			if err := r.recheck(ctx); err != nil {
				return err
			}
		} else {
			r.live.Settle()
		}
		if !r.spec.Execute {
			if err := r.result(ctx); err != nil {
				return err
			}
		}
		t, err := r.live.Repair(ctx, r.from, r.to, diff.Repairing{Execute: r.spec.Execute, Tell: r.logChanges, Done: r.done})
		r.count(t)
		if err != nil || !r.spec.Execute {
			return err
		}
		rows, tables := r.live.Unsettled()
		if left := rows + tables + r.live.Differences(); left == 0 || t.Rows() == 0 && !r.again(t) {
			return r.result(ctx)
		}
		if tables > 0 {
			if err := r.first(ctx); err != nil {
				return err
			}
		}
	}
}

// again reports whether a round that has repaired nothing is followed by another one: rows that
// were locked or changed by others may be free and stable the next time.
func (r *repairing) again(t diff.Tally) bool {
	r.round++
	return t.Locked+t.Changed > 0 && r.round <= 3
}

func (r *repairing) result(ctx context.Context) (err error) {
	r.out.Found, err = r.live.Result(ctx, r.from, r.to)
	r.out.Found.Equal = r.out.Found.Equal && !missing(r.findings)
	return err
}

func (r *repairing) count(t diff.Tally) {
	o := &r.out.Tally
	o.Inserted, o.Updated, o.Deleted = o.Inserted+t.Inserted, o.Updated+t.Updated, o.Deleted+t.Deleted
	o.Unequal += t.Unequal
	o.Changed, o.Locked, o.Failed = o.Changed+t.Changed, o.Locked+t.Locked, t.Failed
}

// A logged line is a change, or the end of its batch.
type logged struct {
	Time  time.Time `json:"time"`
	Batch int       `json:"batch"`
	*diff.Repaired
	Committed bool `json:"committed,omitempty"`
}

// logChanges writes changes to the log before they are committed.
func (r *repairing) logChanges(batch int, changes []diff.Repaired) error {
	for i := range changes {
		if r.spec.Print != nil {
			r.spec.Print(changes[i])
		}
		if err := r.note(logged{Time: r.env.Time(), Batch: batch, Repaired: &changes[i]}); err != nil {
			return err
		}
	}
	return nil
}

func (r *repairing) done(batch int) error {
	return r.note(logged{Time: r.env.Time(), Batch: batch, Committed: true})
}

func (r *repairing) note(l logged) error {
	if r.log == nil {
		return nil
	}
	line, err := json.Marshal(l)
	if err == nil {
		_, err = r.log.Write(append(line, '\n'))
	}
	if err != nil {
		return &tidemark.Error{Kind: tidemark.Full, Op: "repair", Object: r.spec.Log, Err: err, Hint: "This batch was not changed. Make room for the repair log, or name another file with --repair-log."}
	}
	return nil
}
