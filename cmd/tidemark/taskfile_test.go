package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// nowhere names two databases that nobody can connect to: a command that fails because of them has
// accepted its task file.
const nowhere = "source: postgres://u@127.0.0.1:1/a\ntarget: postgres://u@127.0.0.1:1/b\noptions:\n"

// A task file may contain only what its command knows; anything else is an error with file and
// line, before any connection.
func TestTaskFileKnowsItsCommand(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ verb, options, line, says, hint string }{
		{"copy", "  dry-run: on\n", "line 4", "copy has no option dry-run", "It is an option of prune. Leave it out of this file."},
		{"copy", "  lanes: 4\n\n  # rows\n  agents: 8\n", "line 7", "copy has no option agents", "It is an option of apply, cutover, replicate. Leave it out of this file."},
		{"diff", "  fence: on\n", "line 4", "diff has no option fence", "It is an option of cutover. Leave it out of this file."},
		{"repair", "  definitions: on\n", "line 4", "repair has no option definitions", "It is an option of cutover, diff. Leave it out of this file."},
		{"replicate", "  fence: on\n", "line 4", "replicate has no option fence", "It is an option of cutover. Leave it out of this file."},
		{"cutover", "  execute: on\n", "line 4", "cutover has no option execute", "It is an option of repair. Leave it out of this file."},
		{"check", "  execute: on\n", "line 4", "check has no option execute", "It is an option of repair. Leave it out of this file."},
		{"capture", "  execute: on\n", "line 4", "capture has no option execute", "It is an option of repair. Leave it out of this file."},
		{"copy", "  lane: 4\n", "line 4", "copy has no option lane", "Did you mean lanes? tidemark copy --help lists all."},
		{"copy", "  range_size: 1GB\n", "line 4", "copy has no option range_size", "Did you mean range-size? tidemark copy --help lists all."},
		{"copy", "  quux-and-more: 4\n", "line 4", "copy has no option quux-and-more", "tidemark copy --help lists them"},
		{"copy", "  config: other.yaml\n", "line 4", "copy has no option config", ""},
	} {
		file := testdb.Written(t, "task.yaml", nowhere+x.options)
		o := cli(t, x.verb, "--config", file)
		if o.code != 2 || !strings.Contains(o.errOut, file) || !strings.Contains(o.errOut, x.line+": "+x.says+"\n") || !strings.Contains(o.errOut, "hint: "+x.hint) {
			t.Errorf("%s, %q: exit %d, %s", x.verb, x.options, o.code, o.errOut)
		}
	}
}

// Every command-line option of a command is also accepted in its task file, under the same name.
func TestTaskFileTakesAllOfACommand(t *testing.T) {
	t.Parallel()
	value := map[string]string{"number": "100", "size": "1MB", "duration": "1s", "on/off": "off", "text": "x", "file": "x", "list": "x.y"}
	special := map[string]string{"lanes": "1", "finishers": "1", "index-workers": "1", "queue-replicas": "1", "conflict": "stop", "queue": "direct", "from": "now", "until": "now", "ok-sqlstates": "23505", "source-p99": "+10%", "finish-by": "+3h", "monitor-to": "mysql://h/d", "config": "", "volumes": ""}
	for _, verb := range []string{"copy", "diff", "repair", "check", "replicate", "capture", "apply", "cutover"} {
		cmd, _, err := rootCommand(io.Discard, io.Discard).Find([]string{verb})
		if err != nil {
			t.Fatal(err)
		}
		text := nowhere
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			v, is := special[f.Name]
			if !is {
				v = value[f.Value.Type()]
			}
			if first, _, several := strings.Cut(f.Value.Type(), "|"); several {
				v = first
			}
			if v != "" && !f.Hidden && f.Name != "state" && f.Name != "task-settings" && f.Name != "table-mappings" {
				text += fmt.Sprintf("  %s: %q\n", f.Name, v)
			}
		})
		if o := cli(t, verb, "--config", testdb.Written(t, "task.yaml", text)); strings.Contains(o.errOut, "task.yaml") || strings.Contains(o.errOut, "read task file") {
			t.Errorf("%s: exit %d, %s\n%s", verb, o.code, o.errOut, text)
		}
	}
}

// Companion commands accept the task file of another command: keys that only the other knows are
// validated, and otherwise left to it.
func TestTaskFileOfCompanions(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"check", "diff", "repair", "cutover"} {
		if o := cli(t, verb, "--config", testdb.Written(t, "task.yaml", nowhere+"  agents: 8\n  prep: truncate\n")); o.code == 2 || strings.Contains(o.errOut, "option") {
			t.Errorf("%s: exit %d, %s", verb, o.code, o.errOut)
		}
		if o := cli(t, verb, "--config", testdb.Written(t, "task.yaml", nowhere+"  agents: many\n")); o.code != 2 {
			t.Errorf("%s: exit %d, %s", verb, o.code, o.errOut)
		}
	}
	const both = nowhere + "  queue: nats://127.0.0.1:1\n  agents: 8\n  capture-memory: 64MB\n"
	for _, verb := range []string{"capture", "apply"} {
		if o := cli(t, verb, "--config", testdb.Written(t, "task.yaml", both)); o.code == 2 || strings.Contains(o.errOut, "option") {
			t.Errorf("%s: exit %d, %s", verb, o.code, o.errOut)
		}
	}
	if o := cli(t, "capture", "--config", testdb.Written(t, "task.yaml", nowhere+"  agents: 800\n")); o.code != 2 || !strings.Contains(o.errOut, "option agents") {
		t.Errorf("exit %d, %s", o.code, o.errOut)
	}
}

// DMS's settings cover all kinds of tasks: a command uses those it knows.
func TestSettingsOfOtherTasks(t *testing.T) {
	t.Parallel()
	file := testdb.Written(t, "settings.json", `{"FullLoadSettings": {"TargetTablePrepMode": "TRUNCATE_BEFORE_LOAD", "MaxFullLoadSubTasks": 3}, "TargetMetadata": {"LimitedSizeLobMode": true, "LobMaxSize": 4}}`)
	for _, verb := range []string{"copy", "diff", "cutover", "capture"} {
		args := []string{verb, "postgres://u@127.0.0.1:1/a", "postgres://u@127.0.0.1:1/b", "--task-settings", file}
		if verb == "capture" {
			args = append(args, "--queue=nats://127.0.0.1:1")
		}
		if o := cli(t, args...); o.code == 2 || strings.Contains(o.errOut, "option") {
			t.Errorf("%s: exit %d, %s", verb, o.code, o.errOut)
		}
	}
}

// The manual's commands and options match the program: each option is described once for each
// command, in the same words there and in --help.
func TestBookDescribesAllOptions(t *testing.T) {
	t.Parallel()
	book := optionBook()
	var walk func(cmd *cobra.Command, verb string)
	seen := 0
	walk = func(cmd *cobra.Command, verb string) {
		for _, sub := range cmd.Commands() {
			if sub.Name() == "completion" { // Cobra's own
				continue
			}
			walk(sub, strings.TrimPrefix(verb+"-"+sub.Name(), "-"))
		}
		var has []string
		for _, l := range book.Of(verb) {
			if slices.Contains(has, l.Name) {
				t.Errorf("%s: --%s is described twice", verb, l.Name)
			}
			has = append(has, l.Name)
			f := cmd.Flags().Lookup(l.Name)
			if f == nil || f.Value.Type() != l.Form || !strings.HasPrefix(f.Usage, l.Help) {
				t.Errorf("%s: --%s is not as it is described: %+v", verb, l.Name, f)
			}
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if seen++; !f.Hidden && !slices.Contains(has, f.Name) && f.Name != "help" && f.Name != "version" {
				t.Errorf("%s: --%s is not described", verb, f.Name)
			}
		})
	}
	walk(rootCommand(io.Discard, io.Discard), "")
	if seen < 300 {
		t.Errorf("only %d flags", seen)
	}
}
