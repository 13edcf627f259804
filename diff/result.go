package diff

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
)

// A Result is what a comparison found, table by table in the order of the pairs.
type Result struct {
	Equal  bool          `json:"equal"`
	Tables []TableResult `json:"tables"`
	Report flow.Report   `json:"report"`
}

// A TableResult is how two tables differ.
type TableResult struct {
	Source     tidemark.TableID `json:"source"`
	Target     tidemark.TableID `json:"target"`
	Key        []string         `json:"key,omitempty"` // the source's names; empty: whole rows were compared
	Format     string           `json:"format"`        // in which the rows were read first; "hashed by the servers" if they were not read
	Equal      bool             `json:"equal"`
	SourceRows int64            `json:"source_rows"`
	TargetRows int64            `json:"target_rows"`
	Bytes      int64            `json:"bytes"`     // read in one pass, of both sides together; 0 if the servers hashed
	Missing    int64            `json:"missing"`   // rows that the target lacks
	Extra      int64            `json:"extra"`     // rows that only the target has
	Different  int64            `json:"different"` // rows of the same key with other values
	// Partial: there are so many differences that only part of the table was examined for the three
	// counts; they are lower bounds.
	Partial bool `json:"partial,omitempty"`
	// Changed: the sums differed, but no row did when the table was read again. It was written to
	// meanwhile.
	Changed bool  `json:"changed,omitempty"`
	Rows    []Row `json:"rows,omitempty"` // the first Options.MaxPrinted
	// Changing is how many rows differed at every look, but changed between looks. Of a Live only.
	Changing int64 `json:"changing,omitempty"`
	// Unkeyed: the table differs, and has no key by which its rows could be looked at again. Of a
	// Live only.
	Unkeyed bool `json:"unkeyed,omitempty"`
	// Found are the first Options.Keep differing rows.
	Found []Found `json:"-"`
}

// A RowKind is how a row differs.
type RowKind string

const (
	Missing   RowKind = "missing"   // on the target
	Extra     RowKind = "extra"     // on the target
	Different RowKind = "different" // its values
)

var kinds = [3]RowKind{Missing, Extra, Different}

// A Row is a row that differs.
type Row struct {
	Kind  RowKind `json:"kind"`
	Count int64   `json:"count"` // number of equal rows; 1 with a key
	// Values are the key columns, or all columns without a key.
	Values  []Value  `json:"values"`
	Changes []Change `json:"changes,omitempty"` // Kind Different: the columns that differ
}

// A Value is the value of a column, in the engine's canonical text, shortened; nil is NULL.
type Value struct {
	Column string  `json:"column"`
	Text   *string `json:"text"`
}

// A Change is the difference of a column between source and target; nil is NULL.
type Change struct {
	Column string  `json:"column"`
	Source *string `json:"source"`
	Target *string `json:"target"`
}

// String prints a line per table, below it the rows that differ, and a summary.
func (r Result) String() string {
	var b strings.Builder
	for _, t := range r.Tables {
		b.WriteString(t.String())
	}
	return b.String() + r.Summary()
}

// Summary returns the line with the number of equal tables.
func (r Result) Summary() string {
	equal := 0
	for _, t := range r.Tables {
		if t.Equal {
			equal++
		}
	}
	n := len(r.Tables)
	if n == equal {
		return count(int64(n), "table") + " compared, all equal\n"
	}
	return fmt.Sprintf("%s compared, %d equal, %d not\n", count(int64(n), "table"), equal, n-equal)
}

// String prints a line, and one for each row that differs.
func (t TableResult) String() string {
	var b strings.Builder
	b.WriteString(inLine(t.Source.String()))
	if t.Target != t.Source {
		b.WriteString(" and " + inLine(t.Target.String()))
	}
	if t.Equal {
		fmt.Fprintf(&b, ": equal, %s\n", count(t.SourceRows, "row"))
		return b.String()
	}
	fmt.Fprintf(&b, ": %s, %s\n", t.summary(), t.sizes())
	for _, row := range t.Rows {
		b.WriteString("  " + row.String() + "\n")
	}
	if more := t.Missing + t.Extra + t.Different - shown(t.Rows); more > 0 && len(t.Rows) > 0 {
		fmt.Fprintf(&b, "  and %d more\n", more)
	}
	return b.String()
}

func (t TableResult) summary() string {
	switch {
	case t.Changed:
		return "changed during the comparison"
	case t.Unkeyed:
		return "differs, and has no key to re-check single rows by: reload it with tidemark sub reload, or, without a stream, with copy --prep truncate --include"
	}
	var parts []string
	least := ""
	if t.Partial {
		least = "at least "
	}
	for _, p := range []struct {
		n    int64
		word string
	}{{t.Missing, "missing on the target"}, {t.Extra, "extra on the target"}, {t.Different, "different"}, {t.Changing, "still changing"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%s%d %s", least, p.n, p.word))
		}
	}
	return strings.Join(parts, ", ")
}

func (t TableResult) sizes() string {
	if t.SourceRows == t.TargetRows {
		return count(t.SourceRows, "row") + " on each side"
	}
	return fmt.Sprintf("%s on the source and %d on the target", count(t.SourceRows, "row"), t.TargetRows)
}

func shown(rows []Row) (n int64) {
	for _, r := range rows {
		n += r.Count
	}
	return n
}

// String prints the row on one line.
func (r Row) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-9s", r.Kind)
	for _, v := range r.Values {
		fmt.Fprintf(&b, "  %s=%s", inLine(v.Column), quoted(v.Text))
	}
	for i, c := range r.Changes {
		sep := ","
		if i == 0 {
			sep = ":"
		}
		fmt.Fprintf(&b, "%s %s %s -> %s", sep, inLine(c.Column), quoted(c.Source), quoted(c.Target))
	}
	if r.Count > 1 {
		fmt.Fprintf(&b, "  (%d times)", r.Count)
	}
	return b.String()
}

// inLine writes out the newlines of a name.
func inLine(name string) string { return strings.ReplaceAll(name, "\n", `\n`) }

// quoted prints digits unchanged and all else in quotes, so that blanks and control characters are
// visible.
func quoted(s *string) string {
	if s == nil {
		return "NULL"
	}
	if *s != "" && strings.Trim(*s, "0123456789.-") == "" {
		return *s
	}
	return strconv.Quote(*s)
}

func count(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
