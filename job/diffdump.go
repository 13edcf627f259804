package job

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/define"
	"github.com/tidemarkdb/tidemark/diff"
	"github.com/tidemarkdb/tidemark/diff/dumped"
	"github.com/tidemarkdb/tidemark/engine"
)

// A dumpDiff is a dump file and the database with which it is compared: as if the file had been
// copied there, on whichever side the file is.
type dumpDiff struct {
	im     *importJob
	live   Database
	side   *dumped.Side
	survey dumped.Survey
	db     *tidemark.Database // what the file defines
	moves  []tidemark.Move
}

// openDumpDiff opens both, and reads the file for its definitions and for where its rows are.
func openDumpDiff(ctx context.Context, env Env, spec DiffSpec) (*dumpDiff, error) {
	file, url := spec.Source, spec.Target
	if spec.Files[1] {
		file, url = url, file
	}
	if spec.Files[0] && spec.Files[1] {
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "diff", Object: file, Err: errors.New("two dump files cannot be compared with each other"), Hint: "Load one of them into a database, and compare that with the other file."}
	}
	im, err := openImport(ctx, env, CopySpec{Source: file, Target: url, Rules: spec.Rules, TargetSchema: spec.TargetSchema}, spec.Dump)
	if err != nil {
		return nil, err
	}
	d := &dumpDiff{im: im, live: im.tgt.(Database)}
	if err := d.inspect(ctx, env, spec); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func (d *dumpDiff) close() {
	if d.side != nil {
		d.side.Close()
	}
	d.im.close()
}

func (d *dumpDiff) inspect(ctx context.Context, env Env, spec DiffSpec) error {
	im, stamp := d.im, d.im.dump.Stamp()
	if stamp == "" {
		return &tidemark.Error{Kind: tidemark.Unsupported, Op: "diff", Object: im.dump.Name(), Err: errors.New("a comparison reads the dump several times, and a pipe can be read once"), Hint: "Write it to a file first."}
	}
	v, alike := d.live.(versioner)
	alike = alike && engine.Of(d.live.Name()).RunsDumps
	if k, ok := d.live.(dateKeeper); ok {
		k.DatesAsWritten()
	}
	im.dump.Compare(alike)
	d.side = dumped.NewSide(func() (dumped.Script, error) {
		dump, err := im.again()
		if err != nil {
			return nil, err
		}
		if alike {
			dump.For(d.live.Name(), v.Version())
		}
		dump.Compare(alike)
		return dump, nil
	}, stamp, &d.survey)
	if env.Watch != nil {
		env.Phase("reading the dump's definitions")
	}
	s, err := im.survey(ctx, false, d.survey.See)
	if err == nil {
		err = s.placeDatabases()
	}
	if err != nil {
		return err
	}
	if len(s.tables) == 0 {
		return &tidemark.Error{Kind: tidemark.Empty, Op: "diff", Object: im.dump.Name(), Err: errors.New("it has no tables, or the rules select none"), Hint: "Check that it is the right file, and check --include and --exclude."}
	}
	d.db = im.database(s.tables, s.native)
	var found []tidemark.Finding
	if d.moves, found, err = ApplyRules(spec.Rules, d.db, im.end, d.live, spec.TargetSchema); err != nil {
		return err
	}
	im.find(found)
	im.find(im.dump.Findings())
	for i := range d.moves {
		if err := im.whole(&d.moves[i]); err != nil {
			return &tidemark.Error{Kind: tidemark.Unsupported, Op: "diff", Object: d.moves[i].From.String(), Err: errors.New("the rows of a file cannot be filtered, and its values cannot be truncated"), Hint: "Leave the rule out, or load the file into a database and compare with that."}
		}
	}
	return nil
}

// diffDump is diffOnce with a dump file on one side.
func diffDump(ctx context.Context, env Env, spec DiffSpec, equal map[tidemark.TableID]diff.TableResult, there func()) (diff.Result, []tidemark.Finding, error) {
	d, err := openDumpDiff(ctx, env, spec)
	if err != nil {
		return diff.Result{}, nil, err
	}
	defer d.close()
	pairs, findings, err := d.pairs(ctx, spec)
	if err != nil {
		return diff.Result{}, findings, err
	}
	if err := freezeAll(ctx, &spec, d.live); err != nil {
		return diff.Result{}, findings, err
	}
	there()
	opt := diffOptions(spec, "file", d.live.Name())
	var src, tgt diff.Side = d.side, d.live
	if spec.Files[1] {
		src, tgt = tgt, src
		opt.SourceEngine, opt.TargetEngine = opt.TargetEngine, opt.SourceEngine
	}
	result, err := comparePairs(ctx, env, src, tgt, pairs, opt, equal)
	result.Equal = result.Equal && !missing(findings)
	return result, findings, err
}

// pairs finds the table of the database for each of the file.
func (d *dumpDiff) pairs(ctx context.Context, spec DiffSpec) ([]diff.Pair, []tidemark.Finding, error) {
	role := "target"
	if spec.Files[1] {
		role = "source"
	}
	var findings []tidemark.Finding
	for _, f := range d.im.p.Findings {
		if f.Severity >= tidemark.Warning {
			findings = append(findings, f)
		}
	}
	moves := make([]tidemark.Move, len(d.moves))
	for i := range d.moves {
		keep, more, err := d.survey.Narrow(&d.moves[i])
		if err != nil {
			return nil, nil, err
		}
		moves[i] = onlyColumns(&d.moves[i], keep)
		findings = append(findings, more...)
	}
	pairs, lacking, err := pairMoves(ctx, d.live, role, moves)
	findings = append(findings, lacking...)
	if err != nil {
		return nil, findings, err
	}
	for i := range pairs {
		p := &pairs[i]
		if len(p.Key) == 0 && p.Source.From.Key == nil {
			p.Key = keyOf(p.Target) // a file may add its keys after its rows
		}
		if spec.Files[1] {
			p.Source, p.Target = p.Target, p.Source
		}
	}
	if spec.Files[1] {
		more, err := d.undumped(ctx, spec)
		return pairs, append(findings, more...), err
	}
	return pairs, findings, nil
}

// onlyColumns returns the move with these of its columns.
func onlyColumns(m *tidemark.Move, keep []int) tidemark.Move {
	if len(keep) == len(m.Source) {
		return *m
	}
	to, out, table := m.To.Stored(), *m, *m.To
	out.Source, table.Columns, out.Direct = nil, nil, false
	for _, i := range keep {
		out.Source, table.Columns = append(out.Source, m.Source[i]), append(table.Columns, to[i])
	}
	out.To = &table
	return out
}

// undumped lists the tables of a source that the file should have, and has not.
func (d *dumpDiff) undumped(ctx context.Context, spec DiffSpec) (findings []tidemark.Finding, err error) {
	from, filled := map[string]string{}, map[tidemark.TableID]bool{}
	for i := range d.moves {
		id := ClipID(d.live, d.moves[i].To.TableID)
		from[id.Schema], filled[id] = d.moves[i].From.Schema, true
	}
	db, err := d.live.Describe(ctx, func(id tidemark.TableID) bool {
		schema, known := from[id.Schema]
		return known && !filled[id] && spec.Rules.Wants(tidemark.TableID{Schema: schema, Name: id.Name})
	})
	if err != nil {
		return nil, err
	}
	for _, t := range db.Tables {
		if _, known := from[t.Schema]; !known || filled[t.TableID] || t.Ours() || t.Form == tidemark.Partition || t.Form == tidemark.View || t.Form == tidemark.Foreign || t.Form == tidemark.LargeObjects {
			continue
		}
		findings = append(findings, tidemark.Finding{Severity: tidemark.Blocker, Kind: tidemark.NotFound, Object: "table " + t.String(), Text: "is not in the dump file"})
	}
	return findings, nil
}

// Describable refuses to compare the definitions of a dump file that is the target: nothing could
// make it equal.
func (s *DiffSpec) Describable() error {
	if !s.Files[1] {
		return nil
	}
	return &tidemark.Error{Kind: tidemark.Invalid, Op: "diff", Object: strings.TrimPrefix(s.Target, "file:"), Err: errors.New("definitions can be compared with those of a dump file only if the file is the source"), Hint: "Exchange source and target, or leave out --definitions."}
}

// definitionsOfDump is Definitions with a dump file as the source.
func definitionsOfDump(ctx context.Context, env Env, spec DiffSpec, opt define.Options) (*define.Result, error) {
	if err := spec.Describable(); err != nil {
		return nil, err
	}
	d, err := openDumpDiff(ctx, env, spec)
	if err != nil {
		return nil, err
	}
	defer d.close()
	return compareDefinitions(ctx, d.live, d.db, d.moves, spec.Rules, opt)
}

// needsDatabases refuses a dump file where both ends have to be databases.
func needsDatabases(op string, spec DiffSpec, why, hint string) error {
	for i, url := range []string{spec.Source, spec.Target} {
		if spec.Files[i] {
			return &tidemark.Error{Kind: tidemark.Invalid, Op: op, Object: strings.TrimPrefix(url, "file:"), Err: fmt.Errorf("a dump file %s", why), Hint: hint}
		}
	}
	return nil
}
