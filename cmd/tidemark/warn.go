package main

import (
	"sync"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
)

// warner prints warnings of connections on a command's standard error, each once however many
// connections there are.
func warner(cmd *cobra.Command) func(tidemark.Finding) {
	var mu sync.Mutex
	said := map[tidemark.Finding]bool{}
	return func(f tidemark.Finding) {
		mu.Lock()
		defer mu.Unlock()
		if !said[f] {
			said[f] = true
			warn(cmd, f)
		}
	}
}

// warn prints a finding on a command's standard error; with --json as an event, as errors are.
func warn(cmd *cobra.Command, f tidemark.Finding) {
	screen.Warn(cmd.ErrOrStderr(), cmd.Root().Annotations[jsonKey] != "", f)
}
