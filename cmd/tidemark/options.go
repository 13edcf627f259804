package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
)

// flags adds its options to a command. The function it gives reads them: defaults first, then the
// task file, then the flags.
func flags[O any, P interface {
	*O
	option.Set
}](cmd *cobra.Command) (read func(file map[string]option.Value) (P, error)) {
	return flagsAs[O, P](cmd, cmd.Name())
}

// flagsAs does the same under another name than the command's own: a command within a group is
// "ha-scan".
func flagsAs[O any, P interface {
	*O
	option.Set
}](cmd *cobra.Command, verb string) (read func(file map[string]option.Value) (P, error)) {
	warn := warner(cmd)
	fresh := func() P {
		o := P(new(O))
		if w, ok := any(o).(interface{ warnBy(func(tidemark.Finding)) }); ok {
			w.warnBy(warn)
		}
		return o
	}
	values := option.Flags(cmd, verb, fresh, func(name string, v option.Value) error { return stranger(verb, name, v) })
	return func(file map[string]option.Value) (P, error) {
		o, err := values(file)
		if j, ok := any(o).(interface{ asJSON() bool }); ok && err == nil && j.asJSON() {
			cmd.Root().Annotations = map[string]string{jsonKey: "on"}
		}
		return o, err
	}
}

// companions are the commands that share a task file with a command: their options in it are not
// mistakes.
var companions = map[string][]string{"capture": {"apply"}, "apply": {"capture"},
	"check": {"copy", "replicate"}, "forecast": {"copy", "replicate"}, "diff": {"copy", "replicate"}, "repair": {"copy", "replicate"}, "cutover": {"replicate"}}

// stranger is the error of an option in a task file that a command does not have.
func stranger(verb, name string, v option.Value) error {
	if v.Line == 0 { // DMS's settings cover all kinds of tasks
		return nil
	}
	book := optionBook()
	for _, other := range companions[verb] {
		if l := book.Of(other).Find(name); l != nil {
			return l.FromFile(v)
		}
	}
	spoken := strings.ReplaceAll(verb, "-", " ")
	hint := "tidemark " + spoken + " --help lists them."
	near := book.Of(verb).Near(name)
	if verbs := book.Verbs(name); name != "config" && len(verbs) > 0 {
		slices.Sort(verbs)
		hint = "It is an option of " + strings.Join(verbs, ", ") + ". Leave it out of this file."
	} else if near != "" {
		hint = "Did you mean " + near + "? tidemark " + spoken + " --help lists all."
	}
	return inFile(&tidemark.Error{Op: "read task file", Object: fmt.Sprintf("line %d", v.Line), Kind: tidemark.Invalid, Err: fmt.Errorf("%s has no option %s", spoken, name), Hint: hint}, v.File)
}

// optionBook describes all options, in the order of the manual's page. A group that several verbs
// share tells in its lines which of them have each.
func optionBook() option.Book {
	var (
		moving    movingOptions
		streams   streamOptions
		output    outputOptions
		list      listOptions
		diff      diffOptions
		cutover   cutoverOptions
		sub       subOptions
		restore   restoreOptions
		backup    backupOptions
		simulate  simulateOptions
		archive   archiveOptions
		prune     pruneOptions
		sites     sitesOptions
		measure   measureOptions
		server    serverOptions
		repair    repairOptions
		check     checkOptions
		scan      scanOptions
		plan      planOptions
		watch     watchOptions
		files     archiveFileOptions
		verify    verifyOptions
		backups   backupsOptions
		exception exceptionsOptions
		far       relayOptions
		texts     adviseOptions
		copies    copyOptions
		bundles   bundleOptions
		foretold  forecastOptions
		writes    writeOptions
	)
	return option.Book{
		{Table: moving.ruleOptions.table()}, {Table: moving.loadOptions.table()}, {Table: moving.valueTable()}, {Table: moving.loginTable()}, {Table: moving.rejectOptions.table()}, {Table: moving.sessionTable()},
		{Table: diff.compareOptions.table()}, {Verb: "diff", Table: diff.own()}, {Verb: "cutover", Table: cutover.own().Only("definitions")}, {Table: diff.liveOptions.table()},
		{Verb: "repair", Table: repair.own()}, {Verb: "check", Table: check.own()},
		{Table: streams.nameOptions.table()}, {Table: streams.applyTable()}, {Table: streams.queueOptions.table()}, {Table: streams.monitorTable()}, {Table: streams.metricsTable()}, {Table: streams.spanTable()},
		{Verb: "sub", Table: sub.own()}, {Table: streams.sidesTable()}, {Verb: "cutover", Table: cutover.own().Only("fence")},
		{Table: list.table()}, {Verb: "exceptions", Table: exception.own()}, {Table: output.progressTable()},
		{Verb: "ha-scan", Table: scan.own()}, {Table: sites.diskTable()}, {Table: measure.wayTable()}, {Verb: "ha-simulate", Table: simulate.endsTable()}, {Table: measure.dirTable()}, {Verb: "ha-simulate", Table: simulate.loadTable()},
		{Table: sites.relayTable()}, {Verb: "ha-simulate", Table: simulate.applyTable()}, {Verb: "ha-plan", Table: plan.own()}, {Verb: "ha-check", Table: watch.own()},
		{Verb: "relay", Table: far.own()}, {Table: copies.farOptions.own()}, {Verb: "copy", Table: copies.own()}, {Verb: "bundle", Table: bundles.own()}, {Verb: "forecast", Table: foretold.own()}, {Verb: "load", Table: writes.own()},
		{Table: backup.repoOptions.table()}, {Table: backup.pipelineOptions.table()}, {Verb: "backup", Table: backup.kindTable()}, {Verb: "restore", Table: restore.overTable()}, {Table: server.table()}, {Verb: "backup", Table: backup.own()},
		{Verb: "restore", Table: restore.own()}, {Table: server.databaseTable()}, {Verb: "restore", Table: restore.recoveryOptions.table()},
		{Verb: "archive", Table: archive.own()}, {Table: files.own()}, {Verb: "verify", Table: verify.own()}, {Verb: "prune", Table: prune.keepTable()}, {Verb: "backups", Table: backups.own()}, {Verb: "prune", Table: prune.own()},
		{Verb: "advise", Table: texts.own()}, {Table: output.jsonTable()}, {Table: moving.stateOptions.table()},
	}
}
