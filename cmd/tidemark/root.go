package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/address"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/help"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// version is set by the release build; otherwise the module's own is shown.
var version = ""

// run runs a command line and gives the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (code int) {
	stdout, stderr = screen.Plain(stdout), screen.Plain(screen.Over(stderr))
	root := rootCommand(stdout, stderr)
	finished := func(err error) int {
		return finish(err, root.Annotations[jsonKey] != "" || jsonAsked(args), stderr, args...)
	}
	defer func() {
		if v := recover(); v != nil {
			e, is := v.(*crash.Error) // of a group that this goroutine has waited for
			if !is {
				e = &crash.Error{Value: v, Stack: debug.Stack()}
			}
			code = finished(e)
		}
	}()
	stopProfile, err := profile()
	if err != nil {
		return finished(err)
	}
	defer stopProfile()
	stopped := ctx.Err
	ctx, crashed := watchCrashes(ctx, func(e *crash.Error) { os.Exit(finished(e)) })
	given, all := help.All(args)
	help.Install(root, all)
	root.SetArgs(given)
	if err = help.NoSuchPage(root, given); err == nil {
		err = root.ExecuteContext(ctx)
	}
	if e := crashed(); e != nil {
		err = e
	}
	if err == nil && stopped() != nil { // also for commands without another end, such as archive and --watch
		return exitCodes[tidemark.Cancelled]
	}
	return finished(err)
}

// crashPatience is how long a command may take to end cleanly after one of its goroutines has
// panicked.
const crashPatience = 20 * time.Second

// watchCrashes ends ctx with the first panic of a goroutine, and calls late if the command does not
// end soon. crashed gives that panic at the command's end.
func watchCrashes(ctx context.Context, late func(*crash.Error)) (_ context.Context, crashed func() *crash.Error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var mu sync.Mutex
	var first *crash.Error
	var timer *time.Timer
	stop := crash.Watch(func(e *crash.Error) {
		mu.Lock()
		defer mu.Unlock()
		if first == nil {
			first = e
			timer = crash.After(crashPatience, func() { late(e) })
			cancel(e)
		}
	})
	return ctx, func() *crash.Error {
		stop()
		cancel(nil)
		mu.Lock()
		defer mu.Unlock()
		if timer != nil {
			timer.Stop()
		}
		return first
	}
}

func rootCommand(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:   "tidemark",
		Short: "Move, replicate, compare and check relational databases, and see what they wait for",
		Long: `Tidemark moves, follows, compares, protects and sizes PostgreSQL, MySQL and MariaDB databases,
and always shows what it is waiting for.`,
		Version:       versionWords(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	isGroup(root)
	root.PersistentPreRunE = func(_ *cobra.Command, given []string) (err error) { // everything that follows sees databases as URLs
		for i := range given {
			if given[i], err = address.URL(given[i]); err != nil {
				return err
			}
		}
		return nil
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(help.WrongOption)
	root.AddCommand(copyCommand(), forecastCommand(), replicateCommand(), captureCommand(), applyCommand(), cutoverCommand(), statusCommand(), setCommand(), exceptionsCommand(), subCommand(), skipCommand(), peekCommand(), diffCommand(), repairCommand(), checkCommand(), runsCommand(), reportCommand(), explainCommand(), bundleCommand(), utilitiesCommand(), backupCommand(), restoreCommand(), backupsCommand(), verifyCommand(), pruneCommand(), archiveCommand(), haCommand(), relayCommand(), loadCommand(), adviseCommand(), enginesCommand(), manualCommand(), manCommand(), versionCommand())
	root.InitDefaultHelpFlag() // else it would take a command after it for its value
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			isGroup(c)
		}
	}
	return root
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this program",
		Example: "  tidemark version",
		Args:    args(0, 0, "version"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "tidemark version %s\n", versionWords())
			return err
		},
	}
}

func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write man pages of all commands into a folder",
		Example: "  tidemark man /usr/local/share/man/man1\n  man tidemark-copy",
		Args:    args(1, 1, "man DIR"),
		RunE: func(cmd *cobra.Command, given []string) error {
			cmd.Root().InitDefaultCompletionCmd()
			return help.Man(cmd.Root(), given[0], versionText(), time.Now())
		},
	}
}

// versionWords is the version, and the platform and compiler of the build. Cobra prints it for
// --version; a template for that would keep the linker from leaving out methods that nobody calls.
func versionWords() string {
	return fmt.Sprintf("%s (%s, %s/%s)", versionText(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// versionText is what the release build has set, or what the Go tool knows: a module's version, or
// a commit.
func versionText() string {
	info, ok := debug.ReadBuildInfo()
	switch {
	case version != "":
		return version
	case !ok:
		return "development"
	case info.Main.Version != "" && info.Main.Version != "(devel)":
		return info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value[:min(12, len(s.Value))]
		}
	}
	return "development"
}

// args checks the number of arguments with an error of our own form.
func args(lo, hi int, usage string) cobra.PositionalArgs {
	return func(c *cobra.Command, given []string) error {
		if err := valueAlone(c, given); err != nil {
			return err
		}
		if len(given) < lo || len(given) > hi {
			return &tidemark.Error{Op: c.Name(), Kind: tidemark.Invalid, Err: fmt.Errorf("got %s", screen.Count(len(given), "argument")), Hint: "Usage: tidemark " + usage}
		}
		return nil
	}
}

// valueAlone is the error of a switch's value that was taken for an argument.
func valueAlone(c *cobra.Command, given []string) error {
	for _, arg := range given {
		name := "json"
		is := arg == "on" || arg == "off" || arg == "true" || arg == "false"
		c.Flags().Visit(func(f *pflag.Flag) {
			if f.NoOptDefVal != "" && (is || slices.Contains(strings.Split(f.Value.Type(), "|"), arg)) {
				name, is = f.Name, true
			}
		})
		if is {
			return &tidemark.Error{Op: c.Name(), Object: arg, Kind: tidemark.Invalid, Err: errors.New("is not an argument"), Hint: "Give a switch its value after an equals sign: --" + name + "=" + arg + "."}
		}
	}
	return nil
}

// isGroup makes a command a group: alone it prints its help, and unknown subcommands are errors.
func isGroup(group *cobra.Command) {
	group.Args = cobra.ArbitraryArgs
	group.RunE = func(cmd *cobra.Command, given []string) error {
		if len(given) == 0 {
			return cmd.Help()
		}
		return help.UnknownCommand(cmd, given[0])
	}
}
