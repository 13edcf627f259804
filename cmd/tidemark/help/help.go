// Package help shows what a command does and which options it has: --help in 40 lines of 80 columns
// with what most users need, --help-all with everything, in groups, and man pages. It reads
// commands and their flags, which are made from tables (option.Headings); a command's description
// is in the command. Start with Install.
package help

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
)

// maxLines is the maximum length of --help: what a terminal shows at once.
const maxLines = 40

// A group has commands for one kind of job.
type group struct {
	title    string
	commands []string
}

// groups holds all commands, in the order in which the root's help lists them.
var groups = []group{
	{"Move a database", []string{"check", "forecast", "copy"}},
	{"Follow its changes", []string{"replicate", "cutover", "capture", "apply", "relay", "sub", "set", "skip", "exceptions", "peek"}},
	{"Compare two databases", []string{"diff", "repair"}},
	{"Protect a server", []string{"backup", "restore", "backups", "verify", "prune", "archive"}},
	{"Size a standby", []string{"ha"}},
	{"Look", []string{"status", "utilities", "runs", "report", "explain", "bundle", "load", "advise", "engines", "manual", "man", "completion", "version"}},
}

// Install makes root and all commands below it show their help in this form; all: --help shows
// everything.
func Install(root *cobra.Command, all bool) {
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		p := page{width: width(cmd.OutOrStdout()), all: all}
		p.command(cmd)
		io.WriteString(cmd.OutOrStdout(), strings.Join(p.lines, "\n")+"\n")
	})
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		cmd.HelpFunc()(cmd, nil)
		return nil
	})
}

// All removes --help-all from a command line and asks for --help instead.
func All(args []string) (_ []string, all bool) {
	i := slices.Index(args, "--help-all")
	if end := slices.Index(args, "--"); i < 0 || end >= 0 && end < i {
		return args, false
	}
	args = slices.Clone(args)
	args[i] = "--help"
	return args, true
}

// width is that of the terminal, and 80 for anything else.
func width(w io.Writer) int {
	f, is := w.(interface{ Fd() uintptr }) // a file, or a screen.Plain over it
	if !is || !term.IsTerminal(int(f.Fd())) {
		return 80
	}
	n, _, err := term.GetSize(int(f.Fd()))
	if err != nil || n < 20 {
		return 80
	}
	return min(n, 120) // longer lines are hard to read
}

// A page is a help text under construction.
type page struct {
	width int
	all   bool
	lines []string
}

func (p *page) add(lines ...string) { p.lines = append(p.lines, lines...) }

// section adds lines under a heading, behind an empty line.
func (p *page) section(title string, lines []string) {
	if len(lines) > 0 {
		p.add("", title+":")
		p.add(lines...)
	}
}

func (p *page) command(cmd *cobra.Command) {
	if !cmd.HasParent() {
		p.root(cmd)
		return
	}
	short := wrap(cmd.Short+".", p.width, "")
	paragraphs := paragraphs(cmd.Long, p.width)
	var ways []string
	for _, u := range usage(cmd) {
		ways = append(ways, wrap("  "+u, p.width, "      ")...)
	}
	examples := blocks(cmd.Example, p.width)
	commands := p.commands(cmd)
	options, left, cut := p.options(cmd)
	if len(commands) > 0 {
		options = append(append([]string{"", "Commands:"}, commands...), options...)
	}
	if p.all {
		if len(paragraphs) == 0 {
			paragraphs = [][]string{short}
		}
		p.add(joined(paragraphs)...)
		p.section("Usage", ways)
		p.section("Examples", joined(examples))
		p.add(options...)
		return
	}
	more := ""
	room := maxLines - 2 - len(ways) - 2 - 2 - len(options) // headings of usage and examples, the last line
	take := func(from [][]string, n int) int {              // how many of them fit
		for n < len(from) && len(from[n])+1 <= room {
			room -= len(from[n]) + 1
			n++
		}
		return n
	}
	e := take(examples[:min(1, len(examples))], 0)
	about, text := short, 0
	if len(paragraphs) > 0 && len(paragraphs[0]) < room { // it has more than the short text
		about, text = paragraphs[0], 1
	}
	room -= len(about)
	e = take(examples, e)
	if text == 1 {
		text = take(paragraphs, text)
	}
	if text > 0 {
		about = joined(paragraphs[:text])
	}
	if cut || text < len(paragraphs) || e < len(examples) {
		more = "the full text"
	}
	if left > 0 {
		more = strings.TrimPrefix(more+" and "+fmt.Sprintf("%d more options", left), " and ")
	}
	p.add(about...)
	p.section("Usage", ways)
	p.section("Examples", joined(examples[:e]))
	p.add(options...)
	if more != "" {
		p.add("", cmd.CommandPath()+" --help-all: "+more)
	}
}

func (p *page) root(cmd *cobra.Command) {
	p.add(joined(paragraphs(cmd.Long, p.width))...)
	p.section("Usage", []string{"  " + usage(cmd)[0]})
	for _, g := range groups {
		var of []*cobra.Command
		for _, name := range g.commands {
			for _, c := range cmd.Commands() {
				if c.Name() == name {
					of = append(of, c)
				}
			}
		}
		p.section(g.title, p.list(of))
	}
	p.add("", "tidemark COMMAND --help shows more, and --help-all shows everything.")
}

// commands lists those below a command.
func (p *page) commands(cmd *cobra.Command) []string {
	return p.list(slices.DeleteFunc(slices.Clone(cmd.Commands()), func(c *cobra.Command) bool { return !c.IsAvailableCommand() || c.Name() == "help" }))
}

func (p *page) list(of []*cobra.Command) (out []string) {
	for _, c := range of {
		out = append(out, row("  "+c.Name(), c.Short, 14, p.width)...)
	}
	return out
}

// options lists the options: if not all, those that most users need, with the number of the others,
// and whether a text is cut.
func (p *page) options(cmd *cobra.Command) (out []string, left int, cut bool) {
	headings := option.Headings(cmd.Flags())
	n := 0
	for _, h := range headings {
		n += len(h.Flags)
	}
	if p.all || n <= fewOptions {
		for _, h := range headings {
			title := h.Title
			if len(headings) == 1 {
				title = "Options"
			}
			out = append(out, "", title+":")
			for _, f := range h.Flags {
				cut = cut || text(f, p.all) != text(f, true)
				out = append(out, row(name(f), text(f, p.all), optionColumn, p.width)...)
			}
		}
		return out, 0, cut
	}
	out = []string{"", "Options:"}
	for _, h := range headings {
		for _, f := range h.Flags {
			if !f.Common {
				left++
				continue
			}
			out = append(out, row(name(f), text(f, false), optionColumn, p.width)...)
		}
	}
	if left == n {
		out = nil
	}
	return out, left, true
}

// optionColumn is where the texts of options begin.
const optionColumn = 28

// fewOptions is how many options of a command --help lists without choosing.
const fewOptions = 5

// usage is how a command is called, in one way or several.
func usage(cmd *cobra.Command) (out []string) {
	if !cmd.HasParent() {
		return []string{"tidemark COMMAND [options]"}
	}
	for way := range strings.SplitSeq(cmd.Use, "  or  ") {
		way = cmd.Parent().CommandPath() + " " + way
		if len(option.Headings(cmd.Flags())) > 0 {
			way += " [options]"
		}
		out = append(out, way)
	}
	return out
}

// name is an option as help lists it, with its kind of value.
func name(f option.Described) string {
	out := "      --" + f.Name
	if f.Shorthand != "" {
		out = "  -" + f.Shorthand + ", --" + f.Name
	}
	if value := takes(f); value != "" {
		out += " " + value
	}
	return out
}

// takes is a word for the value of an option; a switch has none.
func takes(f option.Described) string {
	switch form := f.Value.Type(); {
	case form == "on/off":
		return ""
	case strings.Contains(form, "|"):
		return "WORD"
	case form == "number":
		return "N"
	case form == "duration":
		return "TIME"
	default:
		return strings.ToUpper(form)
	}
}

// text is the description of an option: all of it, or one sentence.
func text(f option.Described, whole bool) string {
	out := f.Usage
	if !whole {
		out = firstSentence(out)
	}
	if form := f.Value.Type(); strings.Contains(form, "|") {
		out += " One of " + strings.ReplaceAll(form, "|", ", ") + "."
	}
	if f.Default != "" && f.Default != "off" && (whole || strings.TrimSuffix(f.Default, "s") != "0") {
		out += " (default " + f.Default + ")"
	}
	return out
}

func firstSentence(s string) string {
	if i := strings.Index(s, ". "); i >= 0 {
		return s[:i+1]
	}
	return s
}
