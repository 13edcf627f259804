package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// allCommands returns every command that users see, below a root.
func allCommands() (out []*cobra.Command) {
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() && sub.Name() != "help" {
				out = append(out, sub)
				walk(sub)
			}
		}
	}
	root := rootCommand(io.Discard, io.Discard)
	root.InitDefaultCompletionCmd()
	walk(root)
	return out
}

func helpOf(t *testing.T, args ...string) string {
	t.Helper()
	var out, errOut bytes.Buffer
	if code := run(context.Background(), args, &out, &errOut); code != 0 {
		t.Fatalf("tidemark %s: exit %d: %s", strings.Join(args, " "), code, &errOut)
	}
	return out.String()
}

// TestHelpFitsAScreen checks that the help of each command has at most 40 lines of 80 columns, and
// that it names the way to the full help.
func TestHelpFitsAScreen(t *testing.T) {
	for _, c := range allCommands() {
		path := strings.Fields(c.CommandPath())[1:]
		short := helpOf(t, append(path, "--help")...)
		if n := strings.Count(short, "\n"); n > 40 {
			t.Errorf("%s --help has %d lines", c.CommandPath(), n)
		}
		if c.Example != "" && !strings.Contains(short, "Examples:") {
			t.Errorf("%s --help has no example", c.CommandPath())
		}
		whole := helpOf(t, append(path, "--help-all")...)
		if len(whole) > len(short) && !strings.Contains(short, "--help-all") {
			t.Errorf("%s --help does not say that there is more", c.CommandPath())
		}
		for _, text := range []string{short, whole} {
			for line := range strings.Lines(text) {
				if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 80 {
					t.Errorf("%s: %d columns: %s", c.CommandPath(), n, line)
				}
			}
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && f.Name != "help" && f.Annotations != nil && !strings.Contains(whole, "--"+f.Name) {
				t.Errorf("%s --help-all lacks --%s", c.CommandPath(), f.Name)
			}
		})
	}
}

// TestHelpHasAllCommands checks that the root's help lists each command, in one of its groups and
// on one line.
func TestHelpHasAllCommands(t *testing.T) {
	root := helpOf(t, "--help")
	for _, c := range allCommands() {
		if !c.Parent().HasParent() && !strings.Contains(root, "\n  "+c.Name()+strings.Repeat(" ", 12-len(c.Name()))+c.Short+"\n") {
			t.Errorf("tidemark --help lacks %q: is it in a group of package help, and its text short?", c.Name())
		}
	}
	if n := strings.Count(root, "\n"); n > 55 {
		t.Errorf("tidemark --help has %d lines", n)
	}
}
