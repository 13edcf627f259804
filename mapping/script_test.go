package mapping_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mapping"
)

var update = flag.Bool("update", false, "rewrite the want sections of testdata/*.txt")

// A script file holds cases. A case begins with a line "=== title" and has sections, each begun by
// a line "--- name": rules (DMS JSON), task (YAML) or settings (DMS JSON); db, which defaults to
// that of the case before; defaults and narrow, which are optional; and want.
type script struct {
	head  string
	cases []*testCase
}

type testCase struct {
	title    string
	sections []section
}

type section struct{ name, text string }

func (c *testCase) get(name string) (string, bool) {
	for _, s := range c.sections {
		if s.name == name {
			return s.text, true
		}
	}
	return "", false
}

func parseScript(text string) *script {
	out := &script{}
	var at *string
	var c *testCase
	at = &out.head
	for line := range strings.Lines(text) {
		if title, ok := strings.CutPrefix(line, "=== "); ok {
			c = &testCase{title: strings.TrimSpace(title)}
			out.cases = append(out.cases, c)
			at = new(string)
			continue
		}
		if name, ok := strings.CutPrefix(line, "--- "); ok && c != nil {
			c.sections = append(c.sections, section{name: strings.TrimSpace(name)})
			at = &c.sections[len(c.sections)-1].text
			continue
		}
		*at += line
	}
	return out
}

func (s *script) String() string {
	var b strings.Builder
	b.WriteString(s.head)
	for _, c := range s.cases {
		fmt.Fprintf(&b, "=== %s\n", c.title)
		for _, sec := range c.sections {
			fmt.Fprintf(&b, "--- %s\n%s", sec.name, sec.text)
		}
	}
	return b.String()
}

func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := parseScript(string(text))
			db := ""
			for _, c := range s.cases {
				if text, ok := c.get("db"); ok {
					db = text
				}
				t.Run(c.title, func(t *testing.T) {
					got := run(t, c, db)
					want, _ := c.get("want")
					if !*update {
						if d := cmp.Diff(strings.TrimSpace(want), strings.TrimSpace(got)); d != "" {
							t.Errorf("-want +got:\n%s", d)
						}
						return
					}
					c.sections = slices.DeleteFunc(c.sections, func(s section) bool { return s.name == "want" })
					c.sections = append(c.sections, section{"want", strings.TrimSpace(got) + "\n\n"})
				})
			}
			if *update {
				if err := os.WriteFile(file, []byte(s.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func lookup(name string) (string, bool) {
	v, ok := map[string]string{"PW": "p@ss/ w:rd", "URL": "postgres://u@h/db", "DIR": "/var/dumps"}[name]
	return v, ok
}

// run executes a case and prints the result.
func run(t *testing.T, c *testCase, db string) string {
	var b strings.Builder
	var rules *mapping.Rules
	var err error
	if text, ok := c.get("settings"); ok {
		set, findings, err := mapping.ParseSettings([]byte(text))
		printFindings(&b, findings)
		if err != nil {
			printError(&b, err)
			return b.String()
		}
		fmt.Fprintf(&b, "%+v\n", *set)
		return b.String()
	}
	var findings []tidemark.Finding
	if text, ok := c.get("task"); ok {
		var task *mapping.Task
		if task, findings, err = mapping.ParseYAML([]byte(text), lookup); err == nil {
			rules = task.Rules
			printTask(&b, task)
		}
	} else {
		text, _ := c.get("rules")
		rules, findings, err = mapping.ParseDMS([]byte(text))
	}
	printFindings(&b, findings)
	if err == nil {
		if text, ok := c.get("narrow"); ok {
			rules, err = narrow(rules, text)
		}
	}
	if err != nil {
		printError(&b, err)
		return b.String()
	}
	if strings.TrimSpace(db) == "" {
		return b.String()
	}
	text, _ := c.get("defaults")
	moves, findings, err := rules.Apply(parseDB(t, db), parseDefaults(t, text))
	for i := range moves {
		printMove(&b, &moves[i])
	}
	printFindings(&b, findings)
	if err != nil {
		printError(&b, err)
	}
	return b.String()
}

func narrow(rules *mapping.Rules, text string) (*mapping.Rules, error) {
	said := map[string][]string{}
	for line := range strings.Lines(text) {
		word, pattern, _ := strings.Cut(strings.TrimSpace(line), " ")
		said[word] = append(said[word], pattern)
	}
	rules, err := rules.Narrow(said["include"], said["exclude"])
	if err == nil {
		rules, err = rules.Named(said["table"])
	}
	for _, name := range said["only"] {
		schema, table, _ := strings.Cut(name, ".")
		rules = rules.Only("what lies there", []tidemark.TableID{{Schema: schema, Name: table}})
	}
	return rules, err
}

func printTask(b *strings.Builder, t *mapping.Task) {
	if t.Source != "" || t.Target != "" {
		fmt.Fprintf(b, "copy %s to %s\n", t.Source, t.Target)
	}
	if t.TableMappingsFile != "" || t.SettingsFile != "" {
		fmt.Fprintf(b, "files %s %s\n", t.TableMappingsFile, t.SettingsFile)
	}
	names := []string{}
	for name := range t.Options {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(b, "option %s = %q\n", name, t.Options[name])
	}
}

func printFindings(b *strings.Builder, findings []tidemark.Finding) {
	for _, f := range findings {
		fmt.Fprintf(b, "%s %s: %s\n", f.Severity, f.Object, f.Text)
		if f.Hint != "" {
			fmt.Fprintf(b, "  hint: %s\n", f.Hint)
		}
	}
}

func printError(b *strings.Builder, err error) {
	fmt.Fprintf(b, "error (%s) %s\n", tidemark.KindOf(err), err)
	if hint := tidemark.HintOf(err); hint != "" {
		fmt.Fprintf(b, "  hint: %s\n", hint)
	}
}

func printMove(b *strings.Builder, m *tidemark.Move) {
	fmt.Fprintf(b, "move %s", m.From.ID())
	if m.To.ID() != m.From.ID() {
		fmt.Fprintf(b, " to %s", m.To.ID())
	}
	if m.Direct {
		b.WriteString(" direct")
	}
	if m.Order != 0 {
		fmt.Fprintf(b, " order %d", m.Order)
	}
	if m.Conflict != (tidemark.Conflict{}) {
		fmt.Fprintf(b, " conflict %q %q", m.Conflict.Rule, m.Conflict.Action)
		if c := m.Conflict; c.Inserts+c.Updates+c.Deletes != "" {
			fmt.Fprintf(b, " insert %q update %q delete %q", c.Inserts, c.Updates, c.Deletes)
		}
	}
	if m.Lob.Mode == tidemark.LimitedLob {
		fmt.Fprintf(b, " lob %d", m.Lob.MaxBytes)
	}
	if s := m.Split; s.Kind != tidemark.SplitAuto {
		fmt.Fprintf(b, " split %s%s", [...]string{"", "none", "partitions", "subpartitions", "bounds"}[s.Kind], nonEmpty(s.Parts))
		if len(s.Columns) > 0 {
			fmt.Fprintf(b, " by %v at %v", s.Columns, s.Bounds)
		}
	}
	b.WriteString("\n")
	for _, f := range m.Filter {
		fmt.Fprintf(b, "  where %s%s%v\n", f.SQL, f.Column, nonEmpty(f.Conditions))
	}
	if m.Direct {
		if slices.Equal(m.Source, stored(m.From)) {
			return
		}
		fmt.Fprintf(b, "  SOURCE %v\n", m.Source)
	}
	source := m.Source
	for i := range m.To.Columns {
		c := &m.To.Columns[i]
		fmt.Fprintf(b, "  column %s", c.Name)
		if c.Generated == "" && len(source) > 0 {
			if source[0] != c.Name {
				fmt.Fprintf(b, " of %s", source[0])
			}
			source = source[1:]
		}
		fmt.Fprintf(b, " %s", typeText(c.Type))
		for _, p := range []struct {
			is   bool
			text string
		}{{c.NotNull, " notnull"}, {c.Identity != nil, " identity"}, {c.Generated != "", " as " + c.Generated}} {
			if p.is {
				b.WriteString(p.text)
			}
		}
		b.WriteString("\n")
	}
	if len(source) > 0 {
		fmt.Fprintf(b, "  SOURCE LEFT %v\n", source)
	}
	if m.To.Key != nil {
		fmt.Fprintf(b, "  key %s\n", indexText(m.To.Key))
	}
	for i := range m.To.Indexes {
		fmt.Fprintf(b, "  index %s\n", indexText(&m.To.Indexes[i]))
	}
	for _, fk := range m.To.ForeignKeys {
		fmt.Fprintf(b, "  fk %s %v to %s %v\n", fk.Name, fk.Columns, fk.Ref, fk.RefColumns)
	}
	for _, c := range m.To.Checks {
		fmt.Fprintf(b, "  check %s %s\n", c.Name, c.Expr)
	}
	for _, p := range m.To.Partitions {
		fmt.Fprintf(b, "  part %s%s\n", p.Name, p.Table)
	}
}

func stored(t *tidemark.Table) []string {
	var out []string
	for _, c := range t.Stored() {
		out = append(out, c.Name)
	}
	return out
}

func nonEmpty[T any](list []T) string {
	if len(list) == 0 {
		return ""
	}
	return fmt.Sprintf(" %v", list)
}

func typeText(t tidemark.Type) string {
	s := t.Kind.String()
	for _, n := range []int64{int64(t.Bits), t.Length, int64(t.Precision), int64(t.Scale)} {
		if n != 0 {
			s += " " + strconv.FormatInt(n, 10)
		}
	}
	if t.Unsigned {
		s += " unsigned"
	}
	return s
}

func indexText(x *tidemark.Index) string {
	s := x.Name
	if x.Unique {
		s += " unique"
	}
	for _, p := range x.Parts {
		s += " " + p.Column + p.Expr
	}
	if len(x.Include) > 0 {
		s += fmt.Sprintf(" include %v", x.Include)
	}
	if x.Where != "" {
		s += " where " + x.Where
	}
	return s
}

func parseDefaults(t *testing.T, text string) mapping.Defaults {
	var d mapping.Defaults
	for line := range strings.Lines(text) {
		switch word, arg, _ := strings.Cut(strings.TrimSpace(line), " "); word {
		case "schema":
			d.Schema = func(string) string { return arg }
		case "fold":
			d.FoldCase = arg
		case "across":
			d.DirectAcrossSchemas = true
		case "translated":
			d.Translated = true
		case "lob":
			n, err := strconv.ParseInt(arg, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			d.Lob = tidemark.Lob{Mode: tidemark.LimitedLob, MaxBytes: n}
		default:
			t.Fatalf("defaults: %q", line)
		}
	}
	return d
}

// parseDB reads a database as tests write it: a line for the engine, one for each table, and
// indented ones for the table's details.
func parseDB(t *testing.T, text string) *tidemark.Database {
	db := &tidemark.Database{Engine: "postgres"}
	var at *tidemark.Table
	for line := range strings.Lines(text) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case word == "" || strings.HasPrefix(word, "#"):
		case word == "engine":
			db.Engine = rest
		case !strings.HasPrefix(line, " "):
			at = parseTable(t, word, rest)
			db.Tables = append(db.Tables, at)
		default:
			parseDetail(t, at, word, rest)
		}
	}
	return db
}

func parseID(s string) tidemark.TableID {
	schema, name, _ := strings.Cut(s, ".")
	return tidemark.TableID{Schema: schema, Name: name}
}

func parseTable(t *testing.T, form, rest string) *tidemark.Table {
	forms := map[string]tidemark.TableForm{"table": tidemark.Ordinary, "partitioned": tidemark.Partitioned, "partition": tidemark.Partition,
		"view": tidemark.View, "foreign": tidemark.Foreign, "largeobjects": tidemark.LargeObjects}
	kind, ok := forms[form]
	if !ok {
		t.Fatalf("db: %q is no form of table", form)
	}
	words := strings.Fields(rest)
	out := &tidemark.Table{TableID: parseID(words[0]), Form: kind}
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		switch key {
		case "bytes":
			out.Bytes, _ = strconv.ParseInt(value, 10, 64)
		case "of":
			out.PartitionOf = parseID(value)
		case "native":
			out.Native = strings.ReplaceAll(value, "~", " ")
		default:
			t.Fatalf("db: %q", w)
		}
	}
	return out
}

// parseDetail reads a detail of a table. Arguments are in brackets.
func parseDetail(t *testing.T, at *tidemark.Table, word, rest string) {
	call := func(s string) (name string, args []string, after string) {
		name, s, _ = strings.Cut(s, "(")
		list, after, _ := strings.Cut(s, ")")
		return strings.TrimSpace(name), strings.Split(list, ","), strings.TrimSpace(after)
	}
	switch word {
	case "key", "index", "unique":
		name, args, after := call(rest)
		x := tidemark.Index{Name: name, Unique: word != "index"}
		for _, a := range args {
			if expr, ok := strings.CutPrefix(a, "="); ok {
				x.Parts = append(x.Parts, tidemark.IndexPart{Expr: expr})
			} else {
				x.Parts = append(x.Parts, tidemark.IndexPart{Column: a})
			}
		}
		if in, ok := strings.CutPrefix(after, "include "); ok {
			x.Include = strings.Split(in, ",")
		} else {
			x.Where = strings.TrimPrefix(after, "where ")
		}
		if word == "key" {
			at.Key = &x
		} else {
			at.Indexes = append(at.Indexes, x)
		}
	case "fk":
		name, args, after := call(rest)
		ref, refArgs, _ := call(strings.TrimPrefix(after, "to "))
		at.ForeignKeys = append(at.ForeignKeys, tidemark.ForeignKey{Name: name, Columns: args, Ref: parseID(ref), RefColumns: refArgs})
	case "check":
		name, expr, _ := strings.Cut(rest, " ")
		at.Checks = append(at.Checks, tidemark.Check{Name: name, Expr: expr})
	case "part":
		name, parent, _ := strings.Cut(rest, " of ")
		at.Partitions = append(at.Partitions, tidemark.Part{Name: name, Parent: parent})
	case "leaf":
		at.Partitions = append(at.Partitions, tidemark.Part{Table: parseID(rest)})
	default:
		at.Columns = append(at.Columns, parseColumn(t, word, rest))
	}
}

// parseColumn reads "name type notnull identity" or "name type as expression"; the type is written
// as in a task file, so that one parser tests the other.
func parseColumn(t *testing.T, name, rest string) tidemark.Column {
	c := tidemark.Column{Name: name}
	rest, c.Generated, _ = strings.Cut(rest, " as ")
	words := strings.Fields(rest)
	for _, w := range words[1:] {
		switch w {
		case "notnull":
			c.NotNull = true
		case "identity":
			c.Identity = &tidemark.Identity{Next: 7}
		default:
			t.Fatalf("db: column %s: %q", name, w)
		}
	}
	typ, err := mapping.ParseType(words[0])
	if err != nil {
		t.Fatalf("db: column %s: %v", name, err)
	}
	c.Type = typ
	return c
}
