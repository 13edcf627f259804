package job

import (
	"context"
	"fmt"
	"slices"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/engine"
	"github.com/tidemarkdb/tidemark/engines"
)

// LobLook is how Check searches for the largest values of columns.
type LobLook string

const (
	LobsSampled LobLook = "sample" // in some 2,000 rows of each table
	LobsWhole   LobLook = "whole"  // in all rows: reads the tables
	LobsNone    LobLook = "none"
)

// lobs finds the largest values of columns without a length, and tells which of them the copy would
// truncate, or the target reject.
func (c *Checked) lobs(ctx context.Context, src, tgt End, moves []tidemark.Move, spec *CopySpec, look LobLook) (err error) {
	if look == LobsNone || look == "" {
		return nil
	}
	if c.Lobs, err = engines.Lobs(ctx, src, moves, look == LobsWhole); tidemark.KindOf(err) == tidemark.Unsupported {
		c.Findings = append(c.Findings, tidemark.Finding{Severity: tidemark.Note, Object: "large values", Text: "were not looked for: tidemark does not find those of " + engine.Of(src.Name()).Title})
		return nil
	} else if err != nil {
		return err
	}
	column := map[[2]string]*tidemark.Move{}
	for i := range moves {
		for _, name := range moves[i].Source {
			column[[2]string{moves[i].From.String(), name}] = &moves[i]
		}
	}
	type limit struct {
		most   int64
		remedy string
	}
	limits := map[bool]limit{} // of bytes, and of text
	for _, l := range c.Lobs {
		m := column[[2]string{l.Table, l.Column}]
		policy := m.Lob
		if policy == (tidemark.Lob{}) {
			policy = spec.Lob
		}
		bytes := m.From.Column(l.Column).Type.Kind.Bytes()
		target, asked := limits[bytes]
		if !asked {
			if target.most, target.remedy, err = engines.LargestValue(ctx, tgt, bytes); err != nil {
				return err
			}
			limits[bytes] = target
		}
		f := tidemark.Finding{Severity: tidemark.Warning, Object: "column " + l.Table + "." + l.Column}
		switch at := slices.Index(m.Source, l.Column); {
		case policy.Mode == tidemark.LimitedLob && l.Bytes > policy.MaxBytes:
			f.Text = fmt.Sprintf("has values of %d bytes, and those above %d are truncated", l.Bytes, policy.MaxBytes)
			f.Hint = fmt.Sprintf("Raise --lob-max (DMS: LobMaxSize, bulk-max-size) to %d kB, or copy whole values.", (l.Bytes+1023)>>10)
		case target.most > 0 && l.Bytes > target.most:
			f.Text = fmt.Sprintf("has values of %d bytes, but the target accepts at most %d in a statement or a change of a stream", l.Bytes, target.most)
			f.Hint = target.remedy
		case at >= 0 && tooLong(m.To.Stored(), at, l.Bytes):
			f.Text = fmt.Sprintf("has values of %d bytes, but its column on the target, %s, holds %d", l.Bytes, m.To.Stored()[at].Type.Native, m.To.Stored()[at].Type.Length)
			f.Hint = "Give the column a larger type with a rule, or allow rejected rows with --reject-limit."
		default:
			continue
		}
		c.Findings = append(c.Findings, f)
	}
	slices.SortStableFunc(c.Lobs, func(a, b tidemark.LobSize) int { return int(min(max(b.Bytes-a.Bytes, -1), 1)) })
	return nil
}

// tooLong reports whether a value has more bytes than the column holds.
func tooLong(columns []tidemark.Column, at int, bytes int64) bool {
	if at >= len(columns) {
		return false
	}
	t := columns[at].Type
	return (t.Kind == tidemark.Text || t.Kind.Bytes()) && t.Length > 0 && bytes > t.Length
}
