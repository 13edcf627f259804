// Package advise reads texts of Db2 from files and from standard input, and gives what the advisor
// says of them. It hides how many listings are kept, and what is wrong with a text that has none.
package advise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/advisor"
	"github.com/tidemarkdb/tidemark/db2/text"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// Options tell what to say of texts.
type Options struct {
	Stdin io.Reader // for the name -
	Last  int       // how many listings of each kind are explained
	Facts advisor.Db2Facts
}

// compared is how many listings of each kind are kept at least, so that one can be compared with
// those before it. More are read, and forgotten.
const compared = 100

// Read explains the last listings of texts, in the order in which they stand there. left is how
// many were not explained. Texts that are Db2's but have nothing to explain are findings, if others
// have.
func Read(ctx context.Context, names []string, o Options) (out []advisor.Diagnosis, left int, notes []tidemark.Finding, err error) {
	var k keeper
	k.most = max(o.Last, compared)
	for _, name := range names {
		before := k.n
		seen, err := k.file(ctx, name, o.Stdin)
		if err != nil {
			return nil, 0, nil, err
		}
		if k.n == before {
			err := nothing(name, seen)
			if len(names) == 1 || tidemark.KindOf(err) != tidemark.Empty {
				return nil, 0, nil, err
			}
			notes = append(notes, tidemark.Finding{Severity: tidemark.Note, Object: name, Text: "has no listing to explain"})
		}
	}
	all := k.all()
	diagnoses := advisor.ExplainDb2(all, o.Facts)
	if len(diagnoses) == 0 {
		return nil, 0, nil, empty(names[0], "has nothing that tells what limits", "db2pd -agents tells something only together with db2pd -edus. "+known)
	}
	given := map[string]int{}
	for _, d := range slices.Backward(diagnoses) {
		if kind := kindOf(d.Of); given[kind] < o.Last {
			given[kind]++
			out = append(out, d)
		} else {
			left++
		}
	}
	slices.Reverse(out)
	return out, left + k.forgotten, notes, nil
}

// kindOf puts what comes from the same listings together.
func kindOf(of string) string {
	if of == string(text.Restore) {
		return string(text.Backup)
	}
	return of
}

// A keeper keeps the last listings of each kind.
type keeper struct {
	most      int
	n         int // so far
	forgotten int
	kinds     [6][]numbered
}

type numbered struct {
	n int
	l text.Listing
}

func (k *keeper) add(l text.Listing) {
	kind := 5
	for i, is := range []bool{l.Stats != nil, l.Spaces != nil, l.Utility != nil, l.EDUs != nil, l.HADR != nil} {
		if is {
			kind = i
		}
	}
	k.n++
	kept := append(k.kinds[kind], numbered{k.n, l})
	if len(kept) > k.most {
		kept[0] = numbered{} // so that its memory is free
		kept = kept[1:]
		k.forgotten++
	}
	k.kinds[kind] = kept
}

func (k *keeper) all() (out []text.Listing) {
	var all []numbered
	for _, kind := range k.kinds {
		all = append(all, kind...)
	}
	slices.SortFunc(all, func(a, b numbered) int { return a.n - b.n })
	for _, x := range all {
		out = append(out, x.l)
	}
	return out
}

// file reads one text. The reading may wait for a terminal or a pipe, and ctx does not.
func (k *keeper) file(ctx context.Context, name string, stdin io.Reader) (text.Seen, error) {
	in, written := stdin, time.Now()
	if name == "-" {
		name = "standard input"
	} else {
		f, err := os.Open(name)
		if err != nil {
			return text.Seen{}, unread(name, err)
		}
		defer f.Close()
		st, err := f.Stat()
		if err == nil && st.IsDir() {
			err = errors.New("is a folder")
		}
		if err != nil {
			return text.Seen{}, unread(name, err)
		}
		in, written = f, st.ModTime()
	}
	type result struct {
		seen text.Seen
		err  error
	}
	done := make(chan result, 1)
	crash.Go(func() {
		seen, err := text.Read(stopping{ctx, in}, func(l text.Listing) {
			l.File, l.Written = name, clock(written)
			k.add(l)
		})
		done <- result{seen, err}
	})
	select {
	case r := <-done:
		if r.err != nil {
			return r.seen, unread(name, r.err)
		}
		return r.seen, nil
	case <-ctx.Done():
		return text.Seen{}, &tidemark.Error{Op: "read", Object: name, Kind: tidemark.Cancelled, Err: context.Cause(ctx)}
	}
}

// clock is a time as Db2 prints it: what the clock shows, without a zone.
func clock(t time.Time) time.Time {
	t = t.Local()
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
}

// stopping ends a reading when ctx ends.
type stopping struct {
	ctx context.Context
	in  io.Reader
}

func (s stopping) Read(to []byte) (int, error) {
	if s.ctx.Err() != nil {
		return 0, context.Cause(s.ctx)
	}
	return s.in.Read(to)
}

func unread(name string, err error) error {
	e := tidemark.FileError("read", name, "Name a text file of Db2's, or - for standard input.", err)
	if e.Kind == tidemark.Forbidden {
		e.Hint = "Let this user read it: db2diag.log belongs to the instance owner."
	}
	return e
}

// known lists what is read.
const known = "It reads db2diag.log (statistics of backups and restores), LIST UTILITIES SHOW DETAIL, LIST TABLESPACES SHOW DETAIL, db2pd -edus, -agents and -hadr."

func empty(name, what, hint string) error {
	return &tidemark.Error{Op: "read", Object: name, Kind: tidemark.Empty, Hint: hint, Err: errors.New(what)}
}

// nothing tells what is wrong with a text that has no listing.
func nothing(name string, s text.Seen) error {
	if name == "-" {
		name = "standard input"
	}
	invalid := func(what, hint string) error {
		return &tidemark.Error{Op: "read", Object: name, Kind: tidemark.Invalid, Hint: hint, Err: errors.New(what)}
	}
	switch {
	case s.Binary:
		return invalid("is not a text", "If it is compressed, unpack it first (gzip -dc FILE | tidemark advise -). "+known)
	case s.Language:
		return invalid("is in another language than English", "Print it in English, by LANG=C (on Linux and AIX: export LANG=C; db2 terminate) before the command.")
	case s.Brief:
		return invalid("has no figures", "Print it with SHOW DETAIL: db2 list tablespaces show detail, db2 list utilities show detail.")
	case s.Pd:
		return invalid("is of db2pd -utilities", "Give the output of db2 list utilities show detail instead: it has the same figures with their names.")
	case s.Records > 0:
		return empty(name, fmt.Sprintf("has %d records of db2diag.log and no statistics of a backup or restore among them", s.Records),
			"Db2 writes them after each backup and restore that succeeds, at DIAGLEVEL 3 and 4; on 9.7 and 10.1 before FP2, after db2set DB2_BAR_STATS=YES and a restart. Older logs may be in db2diag.N.log.")
	case s.Lines == 0:
		return invalid("is empty", known)
	}
	return invalid("has nothing that is known", known)
}

// ParseClock reads a time as a user writes it, without a zone.
func ParseClock(v string) (time.Time, error) {
	for _, layout := range []string{time.DateTime, "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02-15.04.05", "01/02/2006 15:04:05"} {
		if t, err := time.Parse(layout, v); err == nil {
			return t, nil
		}
	}
	return time.Time{}, errors.New("must be a time such as 2026-11-21 19:30:00")
}
