package main

import (
	"sync"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
)

// warner prints warnings of connections on a command's standard error, each once however
// many connections there are.
func warner(cmd *cobra.Command) func(tidemark.Finding) {
	var mu sync.Mutex
	said := map[tidemark.Finding]bool{}
	return func(f tidemark.Finding) {
		mu.Lock()
		defer mu.Unlock()
		if !said[f] {
			said[f] = true
			printFinding(cmd.ErrOrStderr(), f)
		}
	}
}

// newSettings are those of a command before its options are read.
func newSettings(warn func(tidemark.Finding)) *settings {
	s := &settings{queue: queueSettings{warn: warn}}
	s.engine.MySQL.Warn = warn
	return s
}
