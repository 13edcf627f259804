package main

import (
	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/job"
)

// compareOptions say how rows are compared.
type compareOptions struct {
	readRows   bool // --read-rows off: 64 bits of a server's own hash find a difference but once in 10^19
	maxPrinted int  // --max-printed 20: what a screen shows; -1 is none
}

func (o *compareOptions) table() option.Table {
	return option.Table{
		option.New("read-rows", "on/off", "off", "Read all rows and hash them here (128 bits), also where two PostgreSQL servers could hash them (64 bits).", option.OnOff(&o.readRows)).For("diff repair cutover"),
		option.New("max-printed", "number", "20", "Differing rows to print for each table.", option.CountOrNone(1<<30, &o.maxPrinted)).For("diff repair cutover").CommonTo("diff"),
	}.In(option.Comparing)
}

// liveOptions say how rows are compared that are written to meanwhile.
type liveOptions struct {
	live     bool         // --live off: it needs a stream, or time
	liveSpec job.LiveSpec // --live-timeout 60s; --live-rows 20000, some 4 MB of memory; --settle 5s, more than a replica is behind as a rule
}

func (o *liveOptions) table() option.Table {
	return option.Table{
		option.New("live", "on/off", "off", "Compare while both sides are written to. A stream runs, and rows that differ are looked at again when the target has caught up.", option.OnOff(&o.live)).For("diff repair").CommonTo("diff repair"),
		option.New("live-timeout", "duration", "60s", "With --live: how long rows that still change are looked at again.", option.Duration(&o.liveSpec.Timeout)).For("diff repair"),
		option.New("live-rows", "number", "20000", "With --live: differing rows of a table that are watched at once, 100 to 10000000, of about 200 bytes each; if more differ, the table is read again.", option.Number(100, 10_000_000, &o.liveSpec.Keep)).For("diff repair"),
		option.New("settle", "duration", "5s", "With --live, where the target knows of no stream: how long a row has to stay as it is to count as different.", option.Duration(&o.liveSpec.Settle)).For("diff repair"),
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

// spec is how rows are compared that are copied by these options.
func (o *compareOptions) spec(r *request, rules *ruleOptions, loads *loadOptions, engine *engineOptions) job.DiffSpec {
	spec := job.DiffSpec{Source: r.source, Target: r.target, Rules: r.rules, TargetSchema: rules.targetSchema, Lanes: loads.load.Lanes,
		MaxPrinted: o.maxPrinted, ZeroDates: engine.zeroDates, NoNumberIsNull: engine.noNumberIsNull, ReadRows: o.readRows,
		RetryFor: max(loads.load.RetryTime(), 0)}
	if r.only != nil {
		spec.Only = func(id tidemark.TableID) bool { return r.only[id] }
	}
	return spec
}

func (o *comparingOptions) diffSpec(r *request) job.DiffSpec {
	return o.spec(r, &o.ruleOptions, &o.loadOptions, &o.engineOptions)
}

// liveDiff is how diff and repair compare while rows are written.
func (o *comparingOptions) liveDiff(r *request) job.LiveSpec {
	out := o.liveSpec
	out.Diff, out.Name = o.diffSpec(r), o.name
	return out
}
