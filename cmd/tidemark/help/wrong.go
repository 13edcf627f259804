package help

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
)

// UnknownCommand is the error of a command that group does not have. It suggests one with a similar
// name, or the counterpart of another program's command.
func UnknownCommand(group *cobra.Command, name string) error {
	e := &tidemark.Error{Op: group.Name(), Object: name, Kind: tidemark.Invalid, Err: errors.New("unknown command")}
	other := find(otherCommands, strings.ToLower(name))
	switch {
	case strings.Contains(name, "://"):
		e.Object = tidemark.MaskURL(name)
		e.Hint = "Put a command first, such as tidemark copy SOURCE TARGET. tidemark --help lists the commands."
	case strings.HasPrefix(name, "-"):
		e.Hint = "Put options after the command. tidemark COMMAND --help lists them."
	case other != nil && !group.HasParent():
		e.Hint = other.say
	default:
		e.Hint = nearCommand(group, name)
	}
	return e
}

// NoSuchPage is the error of a command line that asks for the help of a command that is not there.
func NoSuchPage(root *cobra.Command, args []string) error {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	asked := len(args) > 0 && args[0] == "help"
	if asked {
		args = args[1:]
	} else if !slices.Contains(args, "--help") && !slices.Contains(args, "-h") {
		return nil
	}
	cmd, rest, err := root.Find(args)
	if err != nil || !cmd.HasSubCommands() {
		return nil
	}
	for _, arg := range rest {
		if !strings.HasPrefix(arg, "-") {
			return UnknownCommand(cmd, arg)
		}
	}
	return nil
}

func nearCommand(group *cobra.Command, name string) string {
	var near []string
	for _, c := range group.Commands() {
		if c.IsAvailableCommand() && (alike(name, c.Name()) || len(name) > 1 && strings.HasPrefix(c.Name(), strings.ToLower(name))) {
			near = append(near, c.CommandPath())
		}
	}
	if len(near) > 0 {
		return "Did you mean " + strings.Join(near, " or ") + "?"
	}
	for _, c := range group.Root().Commands() { // of another group
		if sub, _, err := c.Find([]string{name}); err == nil && sub != c {
			return "Did you mean " + sub.CommandPath() + "?"
		}
		if c.Name() == name {
			return "Did you mean " + c.CommandPath() + "?"
		}
	}
	return group.CommandPath() + " --help lists the commands."
}

// WrongOption is the error of an option, from pflag's error.
func WrongOption(cmd *cobra.Command, err error) error {
	if given := cmd.Flags().Args(); len(given) > 0 && cmd.HasSubCommands() && len(option.Headings(cmd.Flags())) == 0 {
		return UnknownCommand(cmd, given[0]) // its options are not ours either
	}
	e := &tidemark.Error{Op: cmd.Name(), Kind: tidemark.Invalid, Err: err, Hint: cmd.CommandPath() + " --help lists the options with examples."}
	var unknown *pflag.NotExistError
	var missing *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		name := unknown.GetSpecifiedName()
		dashes := "--"
		if unknown.GetSpecifiedShortnames() != "" {
			dashes = "-"
		}
		e.Object, e.Err, e.Hint = dashes+name, errors.New("unknown option"), unknownOption(cmd, name, dashes)
	case errors.As(err, &missing):
		f := missing.GetFlag()
		e.Object, e.Err = "--"+f.Name, fmt.Errorf("takes a value: %s", strings.ReplaceAll(f.Value.Type(), "|", ", "))
		e.Hint = firstSentence(f.Usage) + " " + cmd.CommandPath() + " --help-all shows more."
	case errors.As(err, &invalid):
		f := invalid.GetFlag()
		is := fmt.Sprintf("%q", invalid.GetValue())
		if what := invalid.Unwrap().Error(); !strings.HasPrefix(what, "must ") && !strings.HasPrefix(what, "is ") {
			is += ":"
		}
		e.Object, e.Err = "--"+f.Name, fmt.Errorf("%s %w", is, invalid.Unwrap())
		e.Hint = firstSentence(f.Usage) + " " + cmd.CommandPath() + " --help-all shows more."
	}
	return e
}

// unknownOption suggests what a user may mean by an option that cmd does not have.
func unknownOption(cmd *cobra.Command, name, dashes string) string {
	if !cmd.HasParent() {
		return "Put options after the command. tidemark COMMAND --help lists them."
	}
	if len(name) == 1 && dashes == "--" && cmd.Flags().ShorthandLookup(name) != nil {
		return "Write it with one dash: -" + name + "."
	}
	low := strings.ToLower(name)
	if dashes == "-" {
		low = name
	}
	other := find(otherOptions, low)
	if other != nil {
		var here []string
		for ours := range strings.FieldsSeq(other.ours) {
			if f := cmd.Flags().Lookup(ours); f != nil {
				here = append(here, "--"+ours)
			}
		}
		switch {
		case len(here) > 0 && other.say != "":
			return "Here it is " + strings.Join(here, " or ") + ". " + other.say
		case len(here) > 0:
			return "Here it is " + strings.Join(here, " or ") + ": " + cmd.CommandPath() + " --help-all."
		case other.say != "":
			return other.say
		}
	}
	if f := cmd.Flags().Lookup(strings.ReplaceAll(low, "_", "-")); f != nil && !f.Hidden {
		return "Did you mean --" + f.Name + "?"
	}
	if dashes == "-" && cmd.Flags().Lookup(low) != nil {
		return "Write it with two dashes: --" + low + "."
	}
	near := ""
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && (alike(low, f.Name) || len(low) > 2 && strings.HasPrefix(f.Name, low)) && (near == "" || tidemark.Distance(low, f.Name) < tidemark.Distance(low, near)) {
			near = f.Name
		}
	})
	if near != "" && dashes == "--" {
		return "Did you mean --" + near + "? " + cmd.CommandPath() + " --help-all lists all."
	}
	switch have := haveOption(cmd.Root(), low); {
	case len(have) > fewCommands && dashes == "--":
		return fmt.Sprintf("%d other commands have it. %s --help-all lists the options of this one.", len(have), cmd.CommandPath())
	case len(have) > 0 && dashes == "--":
		return "It is an option of " + strings.Join(have, ", ") + ". " + cmd.CommandPath() + " --help-all lists its own."
	}
	return cmd.CommandPath() + " --help-all lists the options."
}

// fewCommands is how many commands with an option are named.
const fewCommands = 8

// haveOption gives the commands that have an option.
func haveOption(of *cobra.Command, name string) (out []string) {
	for _, c := range of.Commands() {
		if f := c.LocalFlags().Lookup(name); f != nil && f.Annotations != nil && !f.Hidden {
			out = append(out, strings.TrimPrefix(c.CommandPath(), "tidemark "))
		}
		out = append(out, haveOption(c, name)...)
	}
	return slices.Compact(out)
}

// alike reports whether a and b are spelled almost the same.
func alike(a, b string) bool {
	most := max(2, len(b)/3)
	if len(b) < 4 {
		most = 1
	}
	return tidemark.Distance(strings.ToLower(a), b) <= most
}
