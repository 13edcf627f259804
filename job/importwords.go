package job

import (
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/engines"
)

// inWords writes the programs of a file, which another engine of the target's family has dumped, in
// the target's words. It removes those that the target refuses, views that select from one of
// these, and sequences where there are none.
func inWords(im *importJob, list []*tidemark.Piece) (kept []*tidemark.Piece, found []tidemark.Finding) {
	from, to := engines.DumpedBy(im.dump.Server()), im.tgt.Name()
	if im.dump.Server() == "" || !im.Speaks() || from == to {
		return list, nil
	}
	said := map[string]bool{}
	say := func(p *tidemark.Piece, text, hint string) {
		object, _, _ := strings.Cut(p.What, " (line ")
		if object = programName(p.SQL, object); !said[object] {
			said[object] = true
			found = append(found, tidemark.Finding{Severity: tidemark.Warning, Object: object, Text: text, Hint: hint})
		}
	}
	kept = list
	left := map[string]bool{} // views that are not made, in lower case
	for before := -1; before < len(left); {
		before = len(left)
		kept = slices.DeleteFunc(slices.Clone(kept), func(p *tidemark.Piece) bool {
			kind, _, _ := strings.Cut(p.What, " ")
			if kind == "" || alters(p) || kind == "view" && !creates(p) {
				return false
			}
			sql, lacks, made := engines.Worded(kind, p.SQL, to, left)
			p.SQL = sql
			switch {
			case made && lacks != "":
				say(p, "fails when it runs: "+lacks, "Rewrite it on the target.")
			case !made && creates(p): // not only sets its value
				say(p, "is not made, because "+lacks, "Make it by hand afterwards.")
				if kind == "view" {
					left[strings.ToLower(p.Table.Name)] = true // a dump creates it twice
				}
			}
			return !made
		})
	}
	return kept, found
}

func creates(p *tidemark.Piece) bool {
	return strings.HasPrefix(strings.ToUpper(strings.TrimLeft(p.SQL, "/*!M0123456789 ")), "CREATE")
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
