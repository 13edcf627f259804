package main

import (
	"github.com/spf13/cobra"
)

// haCommand is the group of commands that say what synchronous replication would cost.
// Their options stand in the one table under the names "ha-scan", "ha-measure-disk": see
// flagsAs.
func haCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ha COMMAND",
		Short: "Find out what synchronous replication would cost",
		Long: `Find out what a standby that commits wait for would cost: what the log says of the
workload, what disks and links give, and what both come to in each mode.`,
	}
	isGroup(cmd)
	cmd.AddCommand(haScanCommand(), haMeasureCommand(), haCalculateCommand(), haSimulateCommand(), haCheckCommand(), haPlanCommand())
	return cmd
}
