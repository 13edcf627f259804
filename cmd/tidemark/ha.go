package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/ha"
)

// haSettings is what the options of the group say.
type haSettings struct {
	interval time.Duration
	lookOn   time.Duration
	syncs    int64
	retrieve string
	info     infoLevel
	trans    transLevel
	disk     ha.Disk
	networks []ha.Network
	waitFor  int
	waitAny  bool
	clients  int
	free     int64
	outage   time.Duration
	modes    string
	engine   string
}

// haCommand is the group of commands that say what synchronous replication would cost.
// Their options stand in the one table under the names "ha-scan", "ha-measure-disk": see
// flagsAs.
func haCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ha COMMAND",
		Short: "Say what synchronous replication would cost here",
		Long: `Find out what a standby that commits wait for would cost: what the log says of the
workload, what disks and links give, and what both come to in each mode.`,
		Args: cobra.ArbitraryArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		if len(given) == 0 {
			return cmd.Help()
		}
		hint := "tidemark ha --help lists the commands"
		if near := cmd.SuggestionsFor(given[0]); len(near) > 0 {
			hint = "did you mean ha " + strings.Join(near, " or ha ") + "?"
		}
		return tidemark.Errorf(tidemark.Invalid, "ha", given[0], "there is no such command", hint)
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(haScanCommand(), haMeasureCommand(), haCalculateCommand(), haSimulateCommand())
	return cmd
}
