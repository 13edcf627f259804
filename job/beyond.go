package job

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/load"
)

// unrun counts the statements of a file that were not run, by kind.
type unrun struct {
	kinds []string // in the order of the file
	n     map[string]int
	first map[string]string // where: "line 3"
}

// mostKinds is how many kinds are named: a file can make up any number of them.
const mostKinds = 20

func (u *unrun) add(kind, place string) {
	if u.n == nil {
		u.n, u.first = map[string]int{}, map[string]string{}
	}
	if u.n[kind]++; u.n[kind] == 1 {
		u.kinds, u.first[kind] = append(u.kinds, kind), place
	}
}

// listUnrun lists the kinds, with where each begins.
func (im *importJob) listUnrun() []tidemark.Finding {
	u, hint := &im.unrun, ""
	if im.Speaks() {
		hint = "If you trust the file and want them on the target too, give --run-all-statements."
	}
	if len(u.kinds) == 0 {
		return nil
	}
	var names []string
	for _, kind := range u.kinds[:min(len(u.kinds), mostKinds)] {
		where := u.first[kind]
		if u.n[kind] > 1 {
			where = "first in " + where
		}
		names = append(names, fmt.Sprintf("%d %s (%s)", u.n[kind], kind, where))
	}
	if n := len(u.kinds) - len(names); n > 0 {
		names = append(names, fmt.Sprintf("%d more kinds", n))
	}
	return []tidemark.Finding{{Severity: tidemark.Warning, Object: "statements of the file",
		Text: "not run, because only what is about tables, rows, views, routines, triggers, events and the session is: " + strings.Join(names, ", "),
		Hint: hint}}
}

// skip notes a statement that is not run. One without which the copy may lack something counts as
// failed.
func (im *importJob) skip(p *tidemark.Piece) {
	kind, place, _ := strings.Cut(strings.TrimSuffix(p.What, ")"), " (")
	im.unrun.add(kind, place)
	if p.Refuse != "" {
		im.failed = append(im.failed, load.Failed{Object: tidemark.Object{ID: "statement at " + place, SQL: []string{p.SQL}}, Error: "it " + p.Refuse})
	}
}

// elsewhere notes a statement that is not run because the database that it names is not copied.
func elsewhere(im *importJob, p *tidemark.Piece) {
	what, place, _ := strings.Cut(strings.TrimSuffix(p.What, ")"), " (")
	kind, _, _ := strings.Cut(what, " ")
	im.unrun.add(kind+" in another database", place)
}

// refused is the error for a table or rows that a server must not make for us.
func (im *importJob) refused(p *tidemark.Piece) error {
	if err := p.Damage("import", p.Table.String()); err != nil {
		return err
	}
	return &tidemark.Error{Kind: tidemark.Unsupported, Op: "import", Object: p.Table.String(), Err: errors.New(refusal(p)), Hint: im.hintRefused(p)}
}

func refusal(p *tidemark.Piece) string {
	if p.Kind == tidemark.OnRows {
		return fmt.Sprintf("the trigger at line %d would fire while rows of its table are loaded, and it %s", p.Line, p.Refuse)
	}
	return fmt.Sprintf("the statement at line %d %s", p.Line, p.Refuse)
}

func (im *importJob) hintRefused(p *tidemark.Piece) string {
	switch {
	case p.Remedy != "":
		return p.Remedy
	case im.Speaks():
		return "Look at it in the file. If you trust it, run it with --run-all-statements."
	}
	return "Look at it in the file. Remove it, or load the file into MySQL and copy from there."
}
