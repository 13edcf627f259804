package main

import (
	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/address"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/job"
)

// compareOptions say how rows are compared.
type compareOptions struct {
	readRows   bool // --read-rows off: a server's own 64-bit hash misses a difference once in 10^19
	maxPrinted int  // --max-printed 20: one screen; -1 is none
}

func (o *compareOptions) table() option.Table {
	return option.Table{
		option.New("read-rows", "on/off", "off", "Read all rows and hash them in this process (128 bits), even if two PostgreSQL servers could hash them (64 bits).", option.OnOff(&o.readRows)).For("diff repair cutover"),
		option.New("max-printed", "number", "20", "Differing rows to print for each table.", option.CountOrNone(1<<30, &o.maxPrinted)).For("diff repair cutover").CommonTo("diff"),
	}.In(option.Comparing)
}

// liveOptions tell how to compare rows that are being written to.
type liveOptions struct {
	live     bool         // --live off: it needs a stream, or time
	liveSpec job.LiveSpec // --live-timeout 60s; --live-rows 20000, about 4 MB of memory; --settle 5s, more than the usual lag of a replica
}

func (o *liveOptions) table() option.Table {
	return option.Table{
		option.New("live", "on/off", "off", "Compare while both sides are written to. Rows that differ are checked again once the target has caught up with the stream.", option.OnOff(&o.live)).For("diff repair").CommonTo("diff repair"),
		option.New("live-timeout", "duration", "60s", "With --live: how long to keep checking rows that still change.", option.Duration(&o.liveSpec.Timeout)).For("diff repair"),
		option.New("live-rows", "number", "20000", "With --live: how many differing rows of a table to track at once, 100 to 10000000, at about 200 bytes each; if more rows differ, the table is read again.", option.Number(100, 10_000_000, &o.liveSpec.Keep)).For("diff repair"),
		option.New("settle", "duration", "5s", "With --live, if the target has no stream: how long a row must stay unchanged to count as different.", option.Duration(&o.liveSpec.Settle)).For("diff repair"),
	}.In(option.Comparing)
}

// comparingOptions are the options of diff and repair.
type comparingOptions struct {
	ruleOptions
	loadOptions
	engineOptions
	outputOptions
	stateOptions
	nameOptions
	compareOptions
	liveOptions
}

func (o *comparingOptions) table() option.Table {
	return option.Join(o.ruleOptions.table(), o.loadOptions.table(), o.engineOptions.table(), o.outputOptions.table(), o.stateOptions.table(), o.nameOptions.table(),
		o.compareOptions.table(), o.liveOptions.table())
}

// spec is the comparison of rows that a copy with these options has made.
func (o *compareOptions) spec(r *request, rules *ruleOptions, loads *loadOptions, engine *engineOptions) job.DiffSpec {
	spec := job.DiffSpec{Source: r.source, Target: r.target, Rules: r.rules, TargetSchema: rules.targetSchema, Lanes: loads.load.Lanes,
		MaxPrinted: o.maxPrinted, ZeroDates: engine.zeroDates, NoNumberIsNull: engine.noNumberIsNull, ReadRows: o.readRows,
		RetryFor: max(loads.load.RetryTime(), 0), Files: [2]bool{address.IsDump(r.source), address.IsDump(r.target)}}
	spec.Dump = func(path string) (job.Dump, error) { return engines.OpenDump(path, engine.engine, false) }
	if r.only != nil {
		spec.Only = func(id tidemark.TableID) bool { return r.only[id] }
	}
	return spec
}

func (o *comparingOptions) diffSpec(r *request) job.DiffSpec {
	return o.spec(r, &o.ruleOptions, &o.loadOptions, &o.engineOptions)
}

// liveDiff is the comparison of diff and repair while rows are being written.
func (o *comparingOptions) liveDiff(r *request) job.LiveSpec {
	out := o.liveSpec
	out.Diff, out.Name = o.diffSpec(r), o.name
	return out
}
