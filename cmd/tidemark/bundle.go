package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/bundle"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
)

// bundleOptions are the options of bundle.
type bundleOptions struct {
	outputOptions
	stateOptions
	out string // --out; none: named for the run, in the current folder
}

func (o *bundleOptions) own() option.Table {
	return option.Table{
		option.New("out", "file", "", "The file to write, which must not exist: .zip or .tar.gz. Default: tidemark-NAME.zip in the current folder.", option.Text(&o.out)).CommonTo("bundle"),
	}.In(option.Output)
}

func (o *bundleOptions) Table() option.Table {
	return option.Join(o.own(), o.jsonTable(), o.stateOptions.table())
}

func bundleCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bundle [RUN|STREAM]",
		Short: "Gather what a helper needs, without secrets and values",
		Long: `Write a support bundle about a run, by default the last one, or a stream, by its name: reports,
samples, options, versions and the settings of the servers that matter, in a zip or tar.gz.

No password and no value of a row is in it: URLs are masked, SQL, filters and bounds of ranges
are left out, and in errors everything quoted that is not a known name is hidden. Names of
hosts, users, tables and columns are in it. Read it before you send it.`,
		Example: `  tidemark bundle
  tidemark bundle 01K9 --out shop.tar.gz
  tidemark bundle my-stream --json`,
		Args: args(0, 1, "bundle [RUN|STREAM]"),
	}
	read := flags[bundleOptions](cmd)
	cmd.ValidArgsFunction = completeRuns(read, 1)
	cmd.RunE = onCatalog(read, func(cmd *cobra.Command, given []string, o *bundleOptions, cat *catalog.Catalog) error {
		of, files, err := bundle.Gather(cmd.Context(), cat, append(given, "last")[0], versionText())
		if err != nil {
			return err
		}
		path := o.out
		if path == "" {
			_, name, _ := strings.Cut(of, " ")
			path = "tidemark-" + name + ".zip"
		}
		if err := bundle.Write(path, files); err != nil {
			return err
		}
		if o.json {
			screen.JSON(cmd.OutOrStdout(), bundled{of, path, files})
			return nil
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s has %s about %s, without secrets and values of rows. Read it before you send it.\n", path, screen.Count(len(files), "file"), of)
		return nil
	})
	return cmd
}

// bundled is what --json prints.
type bundled struct {
	Of    string        `json:"of"`
	File  string        `json:"file"`
	Files []bundle.File `json:"files"`
}
