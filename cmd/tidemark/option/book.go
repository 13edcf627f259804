package option

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// A Section is a part of the description of all options: a table and, where its lines do not say it, the command that has
// it.
type Section struct {
	Verb  string
	Table Table
}

// A Book describes all options of all commands, in the order of the manual's page.
type Book []Section

// lines gives all lines, each with its commands.
func (b Book) lines() (out Table) {
	for _, s := range b {
		for _, l := range s.Table {
			if l.Verbs == "" {
				l.Verbs = s.Verb
			}
			out = append(out, l)
		}
	}
	return out
}

// Find gives the first option of a name.
func (b Book) Find(name string) *Line { return b.lines().Find(name) }

// Of gives the options that a command knows.
func (b Book) Of(verb string) Table { return b.lines().Of(verb) }

// Verbs gives the commands that know an option, as users write them.
func (b Book) Verbs(name string) (out []string) {
	for _, l := range b.lines() {
		if l.Name != name {
			continue
		}
		for verb := range strings.FieldsSeq(l.Verbs) {
			if spoken := strings.ReplaceAll(verb, "-", " "); !slices.Contains(out, spoken) {
				out = append(out, spoken)
			}
		}
	}
	return out
}

// Page writes the manual's page.
func (b Book) Page(w io.Writer) {
	fmt.Fprint(w, "# Options\n\nMade by `tidemark manual options`. Each is a flag (`--lanes 4`) and a key under `options:` of a task file\n(`lanes: 4`). Flags win over variables\n(`TIDEMARK_LANES=4`), variables over the task file, the task file over DMS task settings. Sizes take kB, MB, GB (1024 steps),\ndurations s, m, h. What stands behind a name is another one, for command lines only.\n\n")
	fmt.Fprint(w, "| option | takes | default | commands | what it does |\n|---|---|---|---|---|\n")
	for _, l := range b.lines() {
		def := l.Default
		if def == "" {
			def = "none"
		}
		name := "`" + l.Name + "`"
		for _, alias := range l.Aliases {
			name += ", `-" + strings.Repeat("-", min(1, len(alias)-1)) + alias + "`"
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", name, strings.ReplaceAll(l.Form, "|", ", "), def, strings.ReplaceAll(strings.Join(strings.Fields(l.Verbs), ", "), "-", " "), l.Help)
	}
}

// Near gives the name of a table that is spelled most like one, or nothing where none is.
func (t Table) Near(name string) string {
	best, least := "", len(name)/3+1
	for _, l := range t {
		if d := Distance(name, l.Name); d <= least && (best == "" || d < least) {
			best, least = l.Name, d
		}
	}
	return best
}

// Distance is how many letters have to be changed, added or left out (Levenshtein's).
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := before
			if a[i] != b[j] {
				change++
			}
			before = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
