package job

import (
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/engines"
)

// inWords writes the programs of a file, which another engine of the target's family has dumped, in
// the target's words. It removes the views of which the target does not have all, and those that
// select from one of these.
func inWords(im *importJob, list []*tidemark.Piece) (kept []*tidemark.Piece, found []tidemark.Finding) {
	from, to := engines.DumpedBy(im.dump.Server()), im.tgt.Name()
	if im.dump.Server() == "" || !im.Speaks() || from == to {
		return list, nil
	}
	left, before := map[string]bool{}, -1 // the views, in lower case
	for before < len(left) {
		before = len(left)
		for _, p := range list {
			if name := strings.ToLower(p.Table.Name); isView(p) && !left[name] {
				if _, lacks := engines.Worded(p.SQL, to, left); lacks != "" {
					left[name] = true
					found = append(found, tidemark.Finding{Severity: tidemark.Warning, Object: "view " + p.Table.String(), Text: "is not made, because " + lacks, Hint: "Make it by hand afterwards."})
				}
			}
		}
	}
	for _, p := range list {
		switch lacks := ""; {
		case isView(p) && left[strings.ToLower(p.Table.Name)]:
			continue
		case p.What != "" && !alters(p):
			if p.SQL, lacks = engines.Worded(p.SQL, to, nil); lacks != "" {
				what, _, _ := strings.Cut(p.What, " (line ")
				found = append(found, tidemark.Finding{Severity: tidemark.Warning, Object: programName(p.SQL, what), Text: "fails when it runs: " + lacks, Hint: "Rewrite it on the target."})
			}
		}
		kept = append(kept, p)
	}
	return kept, found
}

// isView reports whether a statement creates a view.
func isView(p *tidemark.Piece) bool {
	return strings.HasPrefix(p.What, "view ") && strings.HasPrefix(strings.ToUpper(strings.TrimLeft(p.SQL, "/*!M0123456789 ")), "CREATE")
}

// inWords does the same for the objects of a plan.
func (s *survey) inWords() {
	pieces, of := make([]*tidemark.Piece, len(s.later)), map[*tidemark.Piece]tidemark.Object{}
	for i, o := range s.later {
		pieces[i] = &tidemark.Piece{What: o.ID, Table: o.Table, SQL: o.SQL[0]}
		of[pieces[i]] = o
	}
	kept, found := inWords(s.im, pieces)
	s.later, s.findings = nil, append(s.findings, found...)
	for _, p := range kept {
		o := of[p]
		o.SQL = []string{p.SQL}
		s.later = append(s.later, o)
	}
}
