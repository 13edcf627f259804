package main

import (
	"github.com/spf13/cobra"
)

// haCommand is the group of commands that find out what synchronous replication would cost. Their
// options are in the one table under the names "ha-scan", "ha-measure-disk": see flagsAs.
func haCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ha COMMAND",
		Short: "Find out what synchronous replication would cost",
		Long: `Find out what a standby that commits wait for would cost: what the log shows of the workload,
how fast disks and networks are, and what that means in each mode.`,
	}
	isGroup(cmd)
	cmd.AddCommand(haScanCommand(), haMeasureCommand(), haCalculateCommand(), haSimulateCommand(), haCheckCommand(), haPlanCommand())
	return cmd
}
