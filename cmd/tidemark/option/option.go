// Package option describes the options of commands. A Line is one option, bound to a field of the
// struct that a command reads its options into; a Table has the lines of such a struct. From tables
// come flags with their help and completion (Flags), the options of task files (the values that
// Flags' reader takes), and the manual's page (Book). It hides the order in which defaults, files
// and flags are read, and how texts become values (value.go).
package option

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemarkdb/tidemark"
)

// A Line is an option. A user writes its name with two dashes on a command line, or as a key in a
// task file.
type Line struct {
	Name    string
	Form    string             // "number", "size", "duration", "on/off", "text", "file", "list", or the choices with | between
	Default string             // as the user would write it; "" none
	Help    string             // one sentence
	Verbs   string             // for options of several commands: those that have this one; "" all
	Set     func(string) error // puts a value into its field
	Group   Group              // under which heading help lists it
	Common  string             // the commands whose --help lists it; others list it under --help-all
	Aliases []string           // other names on command lines; one of a single letter is written with one dash
	aliased string             // the commands that have them
}

// New makes a line for all commands that have its table: the name, the form, the default as the
// user would write it ("" none), its description (help shows the first sentence), and the function
// that sets its field.
func New(name, form, def, help string, set func(string) error) Line {
	return Line{Name: name, Form: form, Default: def, Help: help, Set: set}
}

// For restricts a line to these commands.
func (l Line) For(verbs string) Line {
	l.Verbs = verbs
	return l
}

// CommonTo lists a line in the short help of these commands.
func (l Line) CommonTo(verbs string) Line {
	l.Common = verbs
	return l
}

// Also gives a line other names on the command lines of these commands.
func (l Line) Also(verbs string, names ...string) Line {
	l.Aliases, l.aliased = names, verbs
	return l
}

// names gives the names of a line on a command line: its own first, and the letter if there is one.
func (l *Line) names(verb string) (names []string, letter string) {
	names = []string{l.Name}
	if !slices.Contains(strings.Fields(l.aliased), verb) {
		return names, ""
	}
	for _, name := range l.Aliases {
		if len(name) == 1 {
			letter = name
		} else {
			names = append(names, name)
		}
	}
	return names, letter
}

// takes reports whether a command has the line.
func (l *Line) takes(verb string) bool {
	return l.Verbs == "" || slices.Contains(strings.Fields(l.Verbs), verb)
}

// A Table is the options of one struct, whose fields its lines set.
type Table []Line

// Join makes one table of several.
func Join(tables ...Table) Table { return slices.Concat(tables...) }

// In puts lines without a heading under one.
func (t Table) In(g Group) Table {
	for i := range t {
		if t[i].Group == 0 {
			t[i].Group = g
		}
	}
	return t
}

// Only gives the lines of these names, in their order.
func (t Table) Only(names ...string) Table {
	var out Table
	for _, name := range names {
		out = append(out, *t.Find(name))
	}
	return out
}

// Of gives the lines that a command has.
func (t Table) Of(verb string) Table {
	return slices.DeleteFunc(slices.Clone(t), func(l Line) bool { return !l.takes(verb) })
}

// Find gives the first line of a name; nil if there is none.
func (t Table) Find(name string) *Line {
	for i := range t {
		if t[i].Name == name {
			return &t[i]
		}
	}
	return nil
}

// A Set is a struct with the options of a command.
type Set interface {
	// Table gives the lines of the struct, bound to its fields. Lines that the command does not
	// have are in it for their defaults.
	Table() Table
}

// A Value is an option's value in a file.
type Value struct {
	Text string
	File string
	Line int // of the file; 0: the file is not ours (DMS), and has settings for all kinds of commands
}

// flagValue binds a line to a flag: values are kept as text until the task file has been read,
// because flags come after it.
type flagValue struct {
	form  string
	check func(string) error
	given *[]string
}

func (f flagValue) String() string { return "" }
func (f flagValue) Type() string   { return f.form }
func (f flagValue) Set(v string) error {
	if err := f.check(v); err != nil {
		return err
	}
	*f.given = append(*f.given, v)
	return nil
}

// Flags adds to a command the options that verb has, which is its name in Line.Verbs. The function
// that it gives reads them into what fresh makes: defaults first, then a file, then the
// environment, then the flags. stranger handles an option of the file that verb does not have: with
// an error, or nil to ignore it. Values of a file that is not ours are set if the struct has a line
// for them, with or without a flag.
func Flags[O Set](cmd *cobra.Command, verb string, fresh func() O, stranger func(name string, v Value) error) (read func(file map[string]Value) (O, error)) {
	cmd.Flags().SortFlags = false
	given := map[string]*[]string{}
	for _, l := range fresh().Table().Of(verb) {
		values := new([]string)
		given[l.Name] = values
		check := func(v string) error { return l.listed(fresh().Table().Of(verb).Find(l.Name).Set(v)) }
		addFlags(cmd.Flags(), &l, verb, flagValue{l.Form, check, values})
		if strings.Contains(l.Form, "|") {
			choices := strings.Split(l.Form, "|")
			_ = cmd.RegisterFlagCompletionFunc(l.Name, cobra.FixedCompletions(choices, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
		}
	}
	return func(file map[string]Value) (O, error) {
		if err := fromEnvironment(fresh().Table().Of(verb), given); err != nil {
			var none O
			return none, err
		}
		o := fresh()
		table := o.Table()
		for _, l := range table {
			if l.Default != "" {
				if err := l.Set(l.Default); err != nil {
					return o, fmt.Errorf("default of %s: %w", l.Name, err)
				}
			}
		}
		known := table.Of(verb)
		if err := fromFile(table, verb, file, stranger); err != nil {
			return o, err
		}
		for _, l := range known {
			for _, v := range *given[l.Name] {
				if err := l.Set(v); err != nil {
					return o, err
				}
			}
		}
		return o, nil
	}
}

// Variable is the environment variable of an option: flags take precedence over it, and it over
// files.
func Variable(name string) string {
	return "TIDEMARK_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// fromEnvironment adds the values of variables for options without a flag.
func fromEnvironment(known Table, given map[string]*[]string) error {
	for i := range known {
		l := &known[i]
		v := os.Getenv(Variable(l.Name))
		if v == "" || len(*given[l.Name]) > 0 {
			continue
		}
		if err := l.listed(l.Set(v)); err != nil {
			return &tidemark.Error{Op: "read environment", Object: Variable(l.Name), Kind: tidemark.Invalid, Err: fmt.Errorf("%q %w", v, err), Hint: "It sets --" + l.Name + ", which takes " + strings.ReplaceAll(l.Form, "|", ", ") + "."}
		}
		*given[l.Name] = []string{v}
	}
	return nil
}

// Given reports whether an option was set on the command line, by any of its names, or in the
// environment.
func Given(cmd *cobra.Command, name string) bool {
	f := cmd.Flags().Lookup(name)
	if f == nil {
		return false
	}
	v, is := f.Value.(flagValue)
	return is && len(*v.given) > 0
}

// addFlags adds a line under its name, and hidden under its aliases.
func addFlags(to *pflag.FlagSet, l *Line, verb string, v flagValue) {
	names, short := l.names(verb)
	for _, name := range names {
		f := to.VarPF(v, name, short, l.Help)
		if l.Form == "on/off" || l.Name == "definitions" {
			f.NoOptDefVal = "on"
		}
		f.Hidden, short = name != l.Name, ""
		f.Annotations = map[string][]string{annotation: {l.Group.String(), l.Default}}
		if slices.Contains(strings.Fields(l.Common), verb) {
			f.Annotations[annotationCommon] = nil
		}
	}
}

// listed adds the choices to the error of a value.
func (l *Line) listed(err error) error {
	if err == nil || !strings.Contains(l.Form, "|") {
		return err
	}
	return fmt.Errorf("must be one of %s", strings.ReplaceAll(l.Form, "|", ", "))
}

// fromFile sets the values of a file, line by line.
func fromFile(table Table, verb string, file map[string]Value, stranger func(string, Value) error) error {
	names := make([]string, 0, len(file))
	for name := range file {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if d := file[a].Line - file[b].Line; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	known := table.Of(verb)
	for _, name := range names {
		v := file[name]
		l := known.Find(name)
		if v.Line == 0 {
			l = table.Find(name)
		}
		if l == nil || name == "config" {
			if err := stranger(name, v); err != nil {
				return err
			}
			continue
		}
		if err := l.FromFile(v); err != nil {
			return err
		}
	}
	return nil
}

// FromFile sets a value of a file.
func (l *Line) FromFile(v Value) error {
	if err := l.listed(l.Set(v.Text)); err != nil {
		return &tidemark.Error{Op: "read task file", Object: "option " + l.Name, Kind: tidemark.Invalid, Err: fmt.Errorf("%q %w", v.Text, err), Hint: "Correct the value; tidemark manual options describes it."}
	}
	return nil
}
