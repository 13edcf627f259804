package help

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
)

// Man writes the man pages of root and of all commands below it into a folder: tidemark.1,
// tidemark-copy.1.
func Man(root *cobra.Command, dir, version string, made time.Time) error {
	var err error
	each(root, func(cmd *cobra.Command) {
		if err == nil {
			err = writeMan(cmd, filepath.Join(dir, manName(cmd)+".1"), version, made)
		}
	})
	if err != nil {
		return &tidemark.Error{Op: "write man pages", Object: dir, Kind: tidemark.Invalid, Err: err, Hint: "Name an existing folder that you can write to."}
	}
	return nil
}

// each calls do with a command and those below it that users see.
func each(cmd *cobra.Command, do func(*cobra.Command)) {
	do(cmd)
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() && c.Name() != "help" {
			each(c, do)
		}
	}
}

func manName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

func writeMan(cmd *cobra.Command, path, version string, made time.Time) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	manPage(f, cmd, version, made)
	return f.Close()
}

// manPage writes a page in the man macros.
func manPage(w io.Writer, cmd *cobra.Command, version string, made time.Time) {
	name := manName(cmd)
	fmt.Fprintf(w, ".TH %s 1 %s %q\n.nh\n.ad l\n.SH NAME\n%s \\- %s\n", roff(strings.ToUpper(name)), made.Format(time.DateOnly), "tidemark "+version, roff(name), roff(cmd.Short))
	fmt.Fprint(w, ".SH SYNOPSIS\n.nf\n")
	for _, way := range usage(cmd) {
		fmt.Fprintf(w, "%s\n", roff(way))
	}
	fmt.Fprint(w, ".fi\n.SH DESCRIPTION\n")
	about := cmd.Long
	if about == "" {
		about = cmd.Short + "."
	}
	for p := range strings.SplitSeq(strings.TrimSpace(about), "\n\n") {
		fmt.Fprintf(w, ".PP\n%s\n", roff(p))
	}
	var related []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() && c.Name() != "help" {
			if len(related) == 0 {
				fmt.Fprint(w, ".SH COMMANDS\n")
			}
			related = append(related, manName(c))
			fmt.Fprintf(w, ".TP\n.B %s\n%s.\n", roff(c.Name()), roff(c.Short))
		}
	}
	if headings := option.Headings(cmd.Flags()); len(headings) > 0 {
		fmt.Fprint(w, ".SH OPTIONS\n")
		for _, h := range headings {
			fmt.Fprintf(w, ".SS %s\n", roff(h.Title))
			for _, f := range h.Flags {
				short := ""
				if f.Shorthand != "" {
					short = roff("-"+f.Shorthand) + ", "
				}
				fmt.Fprintf(w, ".TP\n\\fB%s%s\\fR \\fI%s\\fR\n%s\n", short, roff("--"+f.Name), roff(takes(f)), roff(text(f, true)))
			}
		}
	}
	if cmd.Example != "" {
		fmt.Fprintf(w, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(strings.Trim(cmd.Example, "\n")))
	}
	if cmd.HasParent() {
		related = append([]string{manName(cmd.Parent())}, related...)
	}
	for i, to := range related {
		if i == 0 {
			fmt.Fprint(w, ".SH SEE ALSO\n")
		}
		comma := ","
		if i == len(related)-1 {
			comma = ""
		}
		fmt.Fprintf(w, ".BR %s (1)%s\n", roff(to), comma)
	}
}

// roff escapes a text so that troff shows it unchanged.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
