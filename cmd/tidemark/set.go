package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/job/stream"
)

// settable are the options that can be changed while a stream runs.
var settable = []string{"agents", "apply-memory", "apply-mode", "buffer", "capture-memory", "commit-count", "commit-interval", "commit-order", "conflict", "conflict-rule", "monitor-interval", "ok-sqlstates", "queue-size"}

func setCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "set OPTION=VALUE ...",
		Short: "Change options of a stream while it runs",
		Long: `Change options of a stream while it runs, in this process or another one on this machine.
Within its monitor interval it ends its sessions and opens new ones, which takes about as long
as connecting. Nothing is lost or applied twice. The change lasts until the process ends; the
next one starts with its command line and task file.

These options can be set: ` + strings.Join(settable, ", ") + ".",
		Example: `  tidemark set agents=32
  tidemark set apply-memory=256MB commit-count=50 --name shop
  tidemark set`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var out []string
			for _, name := range settable {
				out = append(out, name+"=")
			}
			return out, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
		},
	}
	cmd.RunE = onCatalog(flags[catalogueOptions](cmd), func(cmd *cobra.Command, given []string, o *catalogueOptions, cat *catalog.Catalog) error {
		values := map[string]string{}
		for _, text := range given {
			name, value, ok := strings.Cut(text, "=")
			if !ok || !slices.Contains(settable, name) {
				return &tidemark.Error{Kind: tidemark.Invalid, Op: "set", Object: text, Err: errors.New("is not OPTION=VALUE with an option that can be set"), Hint: "These can be set: " + strings.Join(settable, ", ") + "."}
			}
			if err := new(replicateOptions).Table().Find(name).Set(value); err != nil {
				return &tidemark.Error{Kind: tidemark.Invalid, Op: "set", Object: text, Err: err, Hint: "tidemark manual options lists the values of each option."}
			}
			values[name] = value
		}
		return o.set(cmd, cat, values)
	})
	return cmd
}

// set writes values for the stream, or its halves, of the name that is given.
func (o *catalogueOptions) set(cmd *cobra.Command, cat *catalog.Catalog, values map[string]string) error {
	found := false
	for _, half := range []stream.Role{stream.Both, stream.CaptureHalf, stream.ApplyHalf} {
		name := stream.RecordOf(o.name, half)
		known, err := cat.Stream(cmd.Context(), name)
		if err != nil || known.Run == "" || !cat.Alive("stream-"+name) {
			continue // or it is still at the copy before the stream
		}
		found = true
		if len(values) > 0 {
			if err := cat.PutSettings(cmd.Context(), name, time.Now(), values); err != nil {
				return err
			}
		}
		now, err := cat.Settings(cmd.Context(), name)
		if err != nil {
			return err
		}
		if o.json {
			screen.JSON(cmd.OutOrStdout(), map[string]any{"stream": name, "set": now})
			continue
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s:", name)
		for _, option := range slices.Sorted(maps.Keys(now)) {
			fmt.Fprintf(cmd.OutOrStdout(), " %s=%s", option, now[option])
		}
		if len(now) == 0 {
			fmt.Fprint(cmd.OutOrStdout(), " nothing has been set since it started")
		}
		fmt.Fprintln(cmd.OutOrStdout())
	}
	if !found {
		return &tidemark.Error{Kind: tidemark.NotFound, Op: "set", Object: o.name, Err: errors.New("no stream of that name is running on this machine"), Hint: "Give the options when you start it: tidemark replicate --help."}
	}
	return nil
}
