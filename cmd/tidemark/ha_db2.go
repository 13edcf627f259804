package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/ha"
	"github.com/tidemarkdb/tidemark/ha/report"
)

// notOfDb2 are the options of ha calculate that Db2's formulas do not use.
var notOfDb2 = []string{"standby-disk", "replay", "local", "paused", "near", "quorum", "semisync-timeout", "backlog", "clients", "free", "outage", "sync-relay"}

// db2Words are the words of --what-if that its formulas have.
var db2Words = []string{"disk", "network", "rtt"}

// checkDb2 refuses what would have no effect on Db2's formulas.
func (o *calculateOptions) checkDb2(cmd *cobra.Command, scans []ha.Scanned) error {
	bad := func(object, cause, hint string) error {
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "calculate", Object: object, Err: errors.New(cause), Hint: hint}
	}
	for _, name := range notOfDb2 {
		if option.Given(cmd, name) {
			return bad("--"+name, "Db2's formulas do not use it", "Leave it out, or choose models that use it with --engine postgres, mysql or mariadb.")
		}
	}
	for _, x := range scans[1:] {
		if x.Profile.Engine != scans[0].Profile.Engine {
			return bad(x.Name, "is of "+x.Profile.Engine+", and "+scans[0].Name+" of "+scans[0].Profile.Engine, "Use scans of one server.")
		}
	}
	if len(o.networks) > 1 {
		return bad("", "Db2's formulas take one network", "Calculate each network separately.")
	}
	for _, w := range o.whatIfs {
		for _, word := range w.Words {
			if !slices.Contains(db2Words, word) {
				return bad("--what-if "+w.Name, "Db2's formulas have no "+word, "Use "+strings.Join(db2Words, ", ")+".")
			}
		}
		if len(w.Standbys) > 0 {
			return bad("--what-if "+w.Name, "Db2's formulas have one standby", "Leave out @"+w.Standbys[0]+".")
		}
	}
	return nil
}

// calculateDb2 copies the texts of scans, with the results of Db2's formulas added.
func (o *calculateOptions) calculateDb2(cmd *cobra.Command, scans []ha.Scanned, texts []string) error {
	c := ha.Db2{Disk: o.disk, Network: o.networks[0].Network}
	if o.modes != "" {
		modes, bad := ha.ParseDb2Modes(o.modes)
		if bad != "" {
			return &tidemark.Error{Kind: tidemark.Invalid, Op: "calculate", Object: bad, Err: errors.New("is not a mode of Db2"), Hint: "Use SYNC, NEARSYNC, ASYNC or SUPERASYNC."}
		}
		c.Modes = modes
	}
	r := c.Report(scans...)
	for _, w := range o.whatIfs {
		r.WhatIf(c, w.Name, w.How)
	}
	for _, x := range o.sweeps {
		if err := r.Sweep(c, x.By, x.Values...); err != nil {
			return err
		}
	}
	if of := scans[0].Profile.Engine; of != "db2" {
		r.Findings = []string{"These are Db2's formulas, where the log waits for the network. " + engineTitles[of] + " does not wait so: take them for a comparison only."}
	}
	if o.json {
		screen.JSON(cmd.OutOrStdout(), r)
		return nil
	}
	for _, note := range r.Findings {
		fmt.Fprintln(cmd.ErrOrStderr(), note)
	}
	for i, text := range texts {
		if !strings.HasPrefix(strings.TrimSpace(text), "{") {
			continue
		}
		var b strings.Builder
		if err := scans[i].Profile.WriteText(&b, 0); err != nil {
			return err
		}
		texts[i] = b.String()
	}
	if err := c.Annotate(cmd.OutOrStdout(), texts...); err != nil {
		return err
	}
	return report.WriteDb2(cmd.OutOrStdout(), &r)
}
