package job

import (
	"context"
	"fmt"
	"slices"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/engine"
	"github.com/tidemarkdb/tidemark/engines"
)

// A ValueLook is how Check looks at values that a target of another kind does not take.
type ValueLook struct {
	Read    bool     // read all rows for them
	Decided []string // options that say what becomes of some of them
}

// brokenKey reports rows that do not fulfil a foreign key.
func brokenKey(d *tidemark.Doubt, then string) tidemark.Finding {
	return tidemark.Finding{Severity: tidemark.Blocker, Kind: tidemark.BadRow, Object: "foreign key " + d.ForeignKey + " of " + d.Table.String(),
		Text: plural(int(d.Rows), "row") + ": " + d.What + "; " + then, Hint: "Give these rows the spelling of what they refer to, on the source."}
}

// doubts finds the values for which the target has no place.
func (c *Checked) doubts(ctx context.Context, src, tgt End, moves []tidemark.Move, spec *CopySpec, look ValueLook) (err error) {
	if engine.Family(src.Name()) == engine.Family(tgt.Name()) {
		return nil
	}
	if !look.Read {
		c.Findings = append(c.Findings, tidemark.Finding{Severity: tidemark.Note, Object: "values", Text: "were not looked at: zero dates, NUL characters, NaN, foreign keys that differ in spelling and the like stop a copy where they are",
			Hint: "--values reads all rows for them."})
		return nil
	}
	if c.Doubts, err = engines.Doubts(ctx, src, moves); tidemark.KindOf(err) == tidemark.Unsupported {
		c.Findings = append(c.Findings, tidemark.Finding{Severity: tidemark.Warning, Object: "values", Text: "were not looked at: tidemark does not check those of " + engine.Of(src.Name()).Title})
		return nil
	} else if err != nil {
		return err
	}
	for _, d := range c.Doubts {
		if d.ForeignKey != "" {
			c.Findings = append(c.Findings, brokenKey(&d, "on the target case, accents and trailing blanks count"))
			continue
		}
		f := tidemark.Finding{Severity: tidemark.Blocker, Kind: tidemark.BadRow, Object: "column " + d.Table.String() + "." + d.Column,
			Text: fmt.Sprintf("has %s in %s, which the target does not take", d.What, plural(int(d.Rows), "row")), Hint: "Correct them on the source, or have such rows rejected (--reject-limit)."}
		if d.Policy != "" {
			f.Hint = "Correct them on the source, say with --" + d.Policy + " what becomes of them, or have such rows rejected (--reject-limit)."
		}
		if slices.Contains(look.Decided, d.Policy) {
			f.Severity, f.Hint = tidemark.Warning, "--"+d.Policy+" says what becomes of them."
		} else if spec.RejectLimit >= d.Rows {
			f.Severity, f.Hint = tidemark.Warning, "--reject-limit lets the copy reject them."
		}
		c.Findings = append(c.Findings, f)
	}
	return nil
}
