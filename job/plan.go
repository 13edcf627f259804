package job

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/engine"
	"github.com/tidemarkdb/tidemark/job/notice"
	"github.com/tidemarkdb/tidemark/load"
	"github.com/tidemarkdb/tidemark/mapping"
)

// planAll is load.MakePlan with what only a job can find: what is not copied between engines, and
// whether existing tables have the columns.
func planAll(ctx context.Context, src load.Source, tgt Destination, db *tidemark.Database, moves []tidemark.Move, spec CopySpec, findings []tidemark.Finding, at tidemark.Position) (*load.Plan, error) {
	apart := beside(spec.Rules, db, moves)
	p, err := load.MakePlan(ctx, src, tgt, db, moves, tgt.Name(), spec.Plan)
	if p == nil {
		return nil, err
	}
	p.Position = at
	p.Findings = slices.Concat(findings, notCarried(db, tgt, moves), notice.Applications(db.Engine, moves, tgt.Name(), spec.Bools), p.Findings)
	p.Findings = slices.DeleteFunc(p.Findings, func(f tidemark.Finding) bool { return f.Severity < tidemark.Blocker && apart[f.Object] })
	if err == nil {
		err = sameColumns(ctx, src, tgt, p)
	}
	return p, err
}

// notCarried names the views and routines of a MySQL source that another engine cannot run. What a
// PostgreSQL source has besides tables, the target's renderer names.
func notCarried(db *tidemark.Database, tgt End, moves []tidemark.Move) []tidemark.Finding {
	of := engine.Of(db.Engine)
	if !of.UnnamedRoutines || of.Family == engine.Family(tgt.Name()) {
		return nil
	}
	asTable := map[string]bool{}
	for _, m := range moves {
		asTable[m.From.String()] = true
	}
	var out []tidemark.Finding
	for _, o := range db.Objects {
		switch o.Kind {
		case "view", "trigger", "procedure", "function", "event", "package", "package body":
			if o.Kind == "view" && asTable[o.Table.Schema+"."+strings.TrimPrefix(o.ID, "view "+o.Table.Schema+".")] {
				continue // copied as a table
			}
			out = append(out, tidemark.Finding{Severity: tidemark.Warning, Object: o.ID, Text: "is not copied: it is written in MySQL's SQL",
				Hint: "Rewrite it for " + tgt.Name() + "."})
		}
	}
	return out
}

// sameColumns checks that existing tables of the target have the columns that are to be filled. If
// their types are those of a backup's text, the text is loaded without conversion.
func sameColumns(ctx context.Context, src load.Source, tgt Destination, p *load.Plan) error {
	kept := map[tidemark.TableID]*tidemark.Move{}
	at := map[*tidemark.Move]int{}
	for i := range p.Moves {
		if m := &p.Moves[i]; !p.Fresh[i] && m.From.Form != tidemark.LargeObjects {
			kept[ClipID(tgt, m.To.TableID)], at[m] = m, i
		}
	}
	if len(kept) == 0 {
		return nil
	}
	there, err := tgt.Tables(ctx, slices.Collect(maps.Keys(kept)))
	if err != nil {
		return err
	}
	for _, t := range there {
		m := kept[t.TableID]
		same := true
		for _, c := range m.To.Stored() {
			there := t.Column(Clip(tgt, c.Name))
			if there == nil {
				p.Findings = append(p.Findings, blocked(t, "exists on the target without the column "+c.Name, "Use --prep drop, add the column, or leave the column out with a rule."))
				continue
			}
			same = same && there.Type.Native == c.Type.Native && there.Type.Charset == c.Type.Charset
		}
		p.Findings = append(p.Findings, needed(tgt, t, m.To)...)
		if k, ok := src.(load.FormatHolder); ok && same && engine.Family(p.Source) == engine.Family(p.Target) {
			p.Formats[at[m]] = k.Kept()
		}
	}
	return load.Blocked(p.Findings)
}

// ApplyRules selects and maps the tables of db. Large objects go only between PostgreSQL servers.
func ApplyRules(rules *mapping.Rules, db *tidemark.Database, src, tgt End, schema string) ([]tidemark.Move, []tidemark.Finding, error) {
	moves, findings, err := rules.Apply(db, schemaDefaults(src, tgt, schema))
	if err != nil || engine.Of(tgt.Name()).LargeObjects {
		return moves, findings, err
	}
	kept := moves[:0]
	for _, m := range moves {
		if m.From.Form == tidemark.LargeObjects {
			findings = append(findings, tidemark.Finding{Severity: tidemark.Warning, Object: "large objects", Text: "are not copied: only PostgreSQL supports them",
				Hint: "Turn them into a bytea column on the source, or exclude the columns that refer to them."})
			continue
		}
		kept = append(kept, m)
	}
	return kept, findings, nil
}

// An End is what schemaDefaults needs to know of a side.
type End interface {
	Name() string
	Default() string
}

func schemaDefaults(src, tgt End, chosen string) mapping.Defaults {
	from, to := src.Name(), tgt.Name()
	into := tgt.Default()
	databases := engine.Of(from).SchemasAreDatabases
	d := mapping.Defaults{Translated: engine.Family(from) != engine.Family(to), DirectAcrossSchemas: databases}
	switch {
	case chosen != "":
		into = chosen
	case from == to && !databases:
		into = ""
	case databases && src.Default() == "":
		into = "" // several databases: each keeps its name
	}
	d.Schema = func(source string) string {
		if into == "" {
			return source
		}
		return into
	}
	return d
}

// needed finds the columns of a table on the target that every row must have, and that the source
// lacks.
func needed(tgt Destination, there, filled *tidemark.Table) []tidemark.Finding {
	has := map[string]bool{}
	for _, c := range filled.Stored() {
		has[Clip(tgt, c.Name)] = true
	}
	var out []tidemark.Finding
	for i := range there.Columns {
		c := &there.Columns[i]
		if c.NotNull && c.Default == nil && c.Identity == nil && c.Generated == "" && !c.OnUpdate && !has[c.Name] {
			out = append(out, blocked(there, "exists on the target, and its column "+c.Name+" is NOT NULL without a default; the source has no such column",
				"Use --prep drop, or give the column a default."))
		}
	}
	return out
}

// blocked is the error that stops the copy of one table.
func blocked(t *tidemark.Table, text, hint string) tidemark.Finding {
	return tidemark.Finding{Severity: tidemark.Blocker, Kind: tidemark.Invalid, Object: "table " + t.String(), Text: text, Hint: hint}
}
