package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/address"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/ha/measure"
)

func haMeasureCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "measure disk|network",
		Short: "Measure the disk of a log, or the network to a standby",
		Long:  "Measure how fast a disk makes writes of a log durable, or what a network link to a standby delivers.",
		Args:  cobra.ArbitraryArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		if len(given) == 0 {
			return cmd.Help()
		}
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "ha measure", Object: given[0], Err: errors.New("cannot be measured"), Hint: "Use tidemark ha measure disk or tidemark ha measure network."}
	}
	cmd.AddCommand(haMeasureDiskCommand(), haMeasureNetworkCommand())
	return cmd
}

func haMeasureDiskCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "disk DIR",
		Short: "Measure how long log writes take, by size",
		Long: `Write a temporary file below DIR as a database writes its log, with each way of forcing a
write to disk, and report how long that takes by size: overhead + size / rate, and the tail.

The file is always removed at the end. In a folder with a database's files, nothing is written
without --force.`,
		Example: `  # as PostgreSQL writes its WAL
  tidemark ha measure disk /var/lib/postgresql

  # as MariaDB writes its binary log, for a minute; save the result for ha calculate
  tidemark ha measure disk /var/lib --engine mariadb --time 1m --json > disk.json`,
		Args: args(1, 1, "ha measure disk DIR"),
	}
	read := flagsAs[trialOptions](cmd, "ha-measure-disk")
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		o, err := read(nil)
		if err != nil {
			return err
		}
		report, err := measure.MeasureDisk(cmd.Context(), measure.DiskSpec{Dir: given[0], Engine: o.engine, Time: o.time, Size: o.size, Force: o.force})
		if err != nil {
			return err
		}
		screen.As(cmd.OutOrStdout(), o.json, report, screen.MeasuredDisk)
		return nil
	}
	return cmd
}

func haMeasureNetworkCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "network HOST[:PORT]  or  network --listen [ADDRESS][:PORT]",
		Short: "Measure round trips and rates to another host",
		Long: `Measure the network to a standby's host, where the same command answers with --listen: round
trips when idle and under load, the time from a flush of each size to its acknowledgement, and
the rate by the size of the socket buffers. An address that other machines can reach needs a
secret shared by both sides: in a file (--secret-file) or in TIDEMARK_HA_SECRET.`,
		Example: `  # on the standby's host, for one measurement
  tidemark ha measure network --listen --once --secret-file ha.secret

  # on the primary's host
  tidemark ha measure network standby.example.com --secret-file ha.secret --json > network.json`,
		Args: args(0, 1, "ha measure network HOST[:PORT], or --listen [ADDRESS][:PORT]"),
	}
	read := flagsAs[trialOptions](cmd, "ha-measure-network")
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		o, err := read(nil)
		if err != nil {
			return err
		}
		if err := o.secret.Read(address.HASecret); err != nil {
			return err
		}
		if o.listen {
			return o.listenAt(cmd, given)
		}
		if len(given) == 0 {
			return &tidemark.Error{Kind: tidemark.Invalid, Op: "ha measure network", Err: errors.New("no peer is named"), Hint: "Usage: tidemark ha measure network HOST[:PORT], and on that host the same with --listen."}
		}
		report, err := measure.MeasureLink(cmd.Context(), measure.LinkSpec{Peer: given[0], Time: o.time, Line: o.line(), Secret: o.secret.Text, Flush: float64(o.flush)})
		if err != nil {
			return err
		}
		screen.As(cmd.OutOrStdout(), o.json, report, screen.MeasuredLink)
		return nil
	}
	return cmd
}

// listenAt listens at the named address, or everywhere, and prints who connects.
func (o *trialOptions) listenAt(cmd *cobra.Command, given []string) error {
	return measure.Listen(cmd.Context(), measure.ListenSpec{Addr: strings.Join(given, ""), Once: o.once, Secret: o.secret.Text,
		Standby: measure.StandbySpec{Dir: o.dir, Disk: o.simulatedDisk(), Force: o.force},
		Note:    func(text string) { fmt.Fprintf(cmd.ErrOrStderr(), "%s %s\n", time.Now().Format("15:04:05"), text) }})
}
