package main

import (
	"errors"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/address"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
)

// sourceAndTarget are the arguments of verbs that also read dump files: of those there may be
// several.
func sourceAndTarget(usage string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		if err := valueAlone(cmd, given); err != nil || len(given) <= 2 {
			return err
		}
		_, err := joined(given[:len(given)-1], usage)
		return err
	}
}

// joined makes one source of several dump files, which are read one after the other.
func joined(sources []string, usage string) (string, error) {
	if len(sources) == 1 {
		return sources[0], nil
	}
	for _, s := range sources {
		switch {
		case !address.IsDump(s):
			return "", &tidemark.Error{Kind: tidemark.Invalid, Op: "copy", Object: tidemark.MaskURL(s), Err: errors.New("several sources are possible only for dump files"), Hint: "Usage: tidemark " + usage}
		case strings.Contains(s, ","):
			return "", &tidemark.Error{Kind: tidemark.Invalid, Op: "copy", Object: s, Err: errors.New("one of several dump files has a comma in its name"), Hint: "Rename it, or put the files into a folder and name the folder."}
		}
	}
	return strings.Join(sources, ","), nil
}
