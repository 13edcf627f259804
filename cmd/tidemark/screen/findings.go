package screen

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// How much of the findings a plain run prints.
const (
	findingLines = 10 // blockers are printed beyond that
	findingNames = 2  // of the objects of which a finding says the same
)

// Findings lists findings under a title; nothing if there are none. See listFindings.
func Findings(w io.Writer, findings []tidemark.Finding, whole bool) {
	if len(findings) == 0 {
		return
	}
	fmt.Fprintln(w, "\nFindings:")
	listFindings(w, findings, whole)
}

// listFindings prints each finding once, what matters most first. Unless whole, what is said of
// several objects is one line, and what does not fit into findingLines is left out: hints first
// (not those of blockers), then what matters least.
func listFindings(w io.Writer, findings []tidemark.Finding, whole bool) {
	sorted := byWeight(findings)
	if whole {
		for _, f := range sorted {
			Finding(w, f)
		}
		return
	}
	all := groups(sorted)
	room, brief, left := findingLines, linesOf(all) > findingLines, 0
	if brief {
		room-- // for the last line
	}
	for _, g := range all {
		f := g.finding()
		if brief && f.Severity != tidemark.Blocker {
			f.Hint = ""
			if room <= 0 {
				left += len(g.objects)
				continue
			}
		}
		room -= lines(f)
		Finding(w, f)
	}
	switch {
	case left > 0:
		fmt.Fprintf(w, "%s, and what to do about them: -v shows all\n", Count(left, "more finding"))
	case brief:
		fmt.Fprintln(w, "-v shows what to do about them")
	}
}

// byWeight gives findings without repetitions: the gravest first, and of one severity what is about
// rows and keys, then what applications notice, programs, indexes, and settings of servers.
func byWeight(findings []tidemark.Finding) []tidemark.Finding {
	said := map[tidemark.Finding]bool{}
	var out []tidemark.Finding
	for _, f := range findings {
		key := f
		key.Kind, key.Hint = 0, ""
		if !said[key] {
			said[key] = true
			out = append(out, f)
		}
	}
	slices.SortStableFunc(out, func(a, b tidemark.Finding) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(weight(a), weight(b)))
	})
	return out
}

// weight orders findings of one severity, by what they are about.
func weight(f tidemark.Finding) int {
	kind, _, _ := strings.Cut(f.Object, " ")
	switch kind {
	case "applications":
		if f.Severity == tidemark.Note {
			return 0
		}
		return 2
	case "user":
		return 2
	case "", "column", "table", "large", "constraint", "check", "foreign", "sequence", "storage", "values", "target", "file":
		return 1
	case "view", "materialized", "trigger", "function", "procedure", "routine", "event", "package", "rule", "policy", "row", "aggregate", "operator", "domain", "type", "collation", "publication", "extension":
		return 3
	case "index":
		if strings.Contains(f.Text, "unique") || strings.Contains(f.Text, "same values") { // what it ensured is lost
			return 1
		}
		return 4
	}
	return 5
}

// A group is what is said of several objects in the same words.
type group struct {
	tidemark.Finding
	objects []string
}

// groups puts findings together, each group where its first one was.
func groups(findings []tidemark.Finding) []*group {
	var out []*group
	at := map[tidemark.Finding]*group{}
	for _, f := range findings {
		key := f
		key.Object, key.Kind = "", 0
		g := at[key]
		if g == nil {
			g = &group{Finding: f}
			at[key] = g
			out = append(out, g)
		}
		g.objects = append(g.objects, f.Object)
	}
	return out
}

// linesOf is how many lines groups take with their hints.
func linesOf(groups []*group) (n int) {
	for _, g := range groups {
		n += lines(g.Finding)
	}
	return n
}

func lines(f tidemark.Finding) int {
	if f.Hint == "" {
		return 1
	}
	return 2
}

// finding is a group as one finding: "2 tables (a, b): are ...".
func (g *group) finding() tidemark.Finding {
	n := len(g.objects)
	if n == 1 {
		return g.Finding
	}
	what, names := "object", slices.Clone(g.objects)
	kind, _, _ := strings.Cut(names[0], " ")
	if !slices.ContainsFunc(names, func(o string) bool { return !strings.HasPrefix(o, kind+" ") }) {
		switch kind {
		case "table", "column", "view", "trigger", "function", "procedure", "routine", "event", "sequence", "check", "constraint", "extension", "domain", "type":
			what = kind
			for i := range names {
				names[i] = strings.TrimPrefix(names[i], kind+" ")
			}
		}
	}
	f := g.Finding
	f.Object = fmt.Sprintf("%s (%s)", Count(n, what), tidemark.Some(names, findingNames))
	f.Text = ofSeveral(f.Text)
	return f
}

// ofSeveral turns what is said of one object into what is said of several.
func ofSeveral(text string) string {
	for _, form := range [][2]string{{"is ", "are "}, {"has ", "have "}, {"it is ", "they are "}, {"its ", "their "}, {"it ", "they "}} {
		if rest, ok := strings.CutPrefix(text, form[0]); ok {
			text = form[1] + rest
			break
		}
	}
	return strings.Replace(text, ": it is ", ": they are ", 1)
}

// Finding prints a finding, and its hint in a line of its own.
func Finding(w io.Writer, f tidemark.Finding) {
	about := ""
	if f.Object != "" {
		about = f.Object + ": "
	}
	fmt.Fprintf(w, "%s: %s\n", f.Severity, Line(about+tidemark.MaskText(f.Text)))
	if f.Hint != "" {
		fmt.Fprintf(w, "    hint: %s\n", Line(tidemark.MaskText(f.Hint)))
	}
}
