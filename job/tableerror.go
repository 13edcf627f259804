package job

import (
	"context"
	"errors"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/load"
)

// makePlan is planAll; if tables may be rejected, without those that the target would reject.
func makePlan(ctx context.Context, src load.Source, tgt Destination, db *tidemark.Database, moves []tidemark.Move, spec CopySpec, findings []tidemark.Finding, at tidemark.Position) (*load.Plan, error) {
	var rejected []load.Failed
	for {
		p, err := planAll(ctx, src, tgt, db, moves, spec, findings, at)
		if err == nil {
			p.Rejected = rejected
		}
		if err == nil || !spec.Load.RejectTables || !load.OfOneTable(err) {
			return p, err
		}
		left, why, more := withoutRefused(moves, p, err)
		if len(more) == 0 || len(left) == 0 {
			return p, err
		}
		moves, rejected, findings = left, append(rejected, more...), append(findings, why...)
	}
}

// withoutRefused separates moves from those that blocking findings, or the error, are about.
func withoutRefused(moves []tidemark.Move, p *load.Plan, err error) (left []tidemark.Move, why []tidemark.Finding, rejected []load.Failed) {
	var blockers []tidemark.Finding
	if e := (*tidemark.Error)(nil); errors.As(err, &e) && e.Err != nil {
		blockers = append(blockers, tidemark.Finding{Object: e.Object, Text: e.Err.Error(), Hint: e.Hint})
	}
	if p != nil {
		for _, f := range p.Findings {
			if f.Severity == tidemark.Blocker {
				blockers = append(blockers, f)
			}
		}
	}
	for i := range moves {
		m, refused := moves[i], false
		for _, f := range blockers {
			if !about(f.Object, m.From.TableID) && !about(f.Object, m.To.TableID) {
				continue
			}
			refused = true
			name := "table " + m.From.String()
			why = append(why, tidemark.Finding{Severity: tidemark.Warning, Object: name, Text: "is rejected: " + f.Text, Hint: f.Hint})
			rejected = append(rejected, load.Failed{Object: tidemark.Object{ID: name, Kind: "table", Table: m.To.TableID}, Error: f.Text})
			break
		}
		if !refused {
			left = append(left, m)
		}
	}
	return left, why, rejected
}

// about reports whether a finding's object is a table, or a column of it.
func about(object string, id tidemark.TableID) bool {
	kind, name, _ := strings.Cut(object, " ")
	return kind == "table" && name == id.String() || kind == "column" && strings.HasPrefix(name, id.String()+".")
}
