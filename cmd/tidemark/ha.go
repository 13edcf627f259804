package main

import (
	"time"

	"github.com/spf13/cobra"

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
	from     string
	until    string
	disk     ha.Disk
	networks []namedNetwork
	waitFor  int
	waitAny  bool
	clients  int
	free     int64
	outage   time.Duration
	timeout  time.Duration
	backlog  int64
	modes    string
	engine   string
	plan     planSettings
	check    checkSettings
	local    []ha.Local
	paused   []ha.Pause
	near     []ha.Near
	whatIfs  []whatIf
	sweeps   []sweep

	standbyDisks []ha.Disk
	replays      []replay
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
	}
	isGroup(cmd, "ha ")
	cmd.AddCommand(haScanCommand(), haMeasureCommand(), haCalculateCommand(), haSimulateCommand(), haCheckCommand(), haPlanCommand())
	return cmd
}
