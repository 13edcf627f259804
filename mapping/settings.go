package mapping

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// Settings is the content of a DMS task-settings file about a full load, and what follows it. A
// field counts only if Set contains it: DMS's own defaults (values truncated at 32 KB, rows with
// errors skipped) are not adopted silently.
type Settings struct {
	Lanes              int    // MaxFullLoadSubTasks
	CommitRate         int    // rows per commit
	KeyAfterLoad       bool   // CreatePkAfterFullLoad
	Prep               string // TargetTablePrepMode: "must-be-empty" (not given), "keep", "drop" or "truncate"
	Lob                tidemark.Lob
	ConsistencyTimeout time.Duration // TransactionConsistencyTimeout
	TargetSchema       string
	RejectLimit        int64 // DataErrorPolicy: rows that may be rejected before the copy stops; 0 stops at the first, math.MaxInt64 never
	// StopAfter is when a replicating task stops once: "copy" (StopTaskCachedChangesNotApplied),
	// "changes" (StopTaskCachedChangesApplied) or "" (neither).
	StopAfter string
	// BatchApply (BatchApplyEnabled): changes are applied in batches.
	BatchApply bool
	// MemoryTotal (MemoryLimitTotal) limits transactions that were read and are not applied, in
	// bytes; 0: not given, or DMS's default.
	MemoryTotal int64
	// Conflict is how a change that does not fit the target is handled, by the policies of
	// ApplyError: "stop", "ignore", "disable" or "force", or per kind of change:
	// "insert=force,update=ignore"; "" if they are not given, or are DMS's defaults.
	Conflict string
	// Loopback (EnableLoopbackPrevention): what a stream has applied on the source is not sent
	// again.
	Loopback bool
	Set      SettingsSet
}

// SettingsSet marks the fields of Settings that the file sets.
type SettingsSet struct {
	Lanes, CommitRate, KeyAfterLoad, Prep, Lob, ConsistencyTimeout, TargetSchema, RejectLimit bool
}

// ParseSettings reads AWS DMS task settings. A value out of DMS's range is an Error of Kind
// Invalid, broken JSON one of Kind BadInput. Settings without effect here are listed as Findings,
// and so are unknown keys.
func ParseSettings(text []byte) (*Settings, []tidemark.Finding, error) {
	p := &problems{op: "read task settings"}
	root, err := parseJSON(text, p)
	if err != nil {
		return nil, p.findings, err
	}
	duplicates(root, p)
	if root.kind != object {
		return nil, p.findings, &tidemark.Error{Kind: tidemark.BadInput, Op: p.op, Err: errors.New("the text is not an object"), Hint: `Task settings look like {"FullLoadSettings": {...}}.`}
	}
	s := &settingsReader{p: p, out: &Settings{Prep: "must-be-empty"}}
	top := newReader(root, "task settings", "", p)
	for _, g := range []struct {
		name string
		read func(*reader)
	}{{"TargetMetadata", s.targetMetadata}, {"FullLoadSettings", s.fullLoad}, {"ErrorBehavior", s.errors}, {"ChangeProcessingTuning", s.tuning}, {"LoopbackPreventionSettings", s.loopback}} {
		if r := top.object(g.name); r != nil {
			r.who, r.path = g.name, ""
			g.read(r)
		}
	}
	s.rest(top)
	if err := p.err(); err != nil {
		return nil, p.findings, err
	}
	return s.out, p.findings, nil
}

type settingsReader struct {
	p   *problems
	out *Settings
}

// yes reads a boolean, written as such or as a string.
func (s *settingsReader) yes(r *reader, key string) (v, given bool) {
	n := r.get(key)
	if n == nil {
		return false, false
	}
	switch n.text {
	case "true", "false":
		return n.text == "true", true
	}
	r.bad(n, key, "true or false")
	return false, false
}

// maxLobKB bounds LobMaxSize, which DMS specifies in KB.
const maxLobKB = math.MaxInt64 >> 10

func (s *settingsReader) targetMetadata(r *reader) {
	if t := r.text("TargetSchema"); t != "" {
		s.out.TargetSchema, s.out.Set.TargetSchema = t, true
	}
	lobs, given := s.yes(r, "SupportLobs")
	if given && !lobs {
		s.p.warn("TargetMetadata.SupportLobs", "Name the columns in remove-column rules (task file: drop: ['*@clob', '*@blob']).",
			"false would leave out large-object columns; they are copied")
	}
	full, fullGiven := s.yes(r, "FullLobMode")
	limited, limitedGiven := s.yes(r, "LimitedSizeLobMode")
	size, sizeGiven := r.number("LobMaxSize", 0, maxLobKB)
	switch {
	case full && limited:
		s.p.fail(tidemark.Invalid, r.who, "Set one of them to false.", "FullLobMode and LimitedSizeLobMode are both true")
	case limited && sizeGiven && size == 0:
		s.p.fail(tidemark.Invalid, r.who, "Set LobMaxSize in KB.", "LimitedSizeLobMode with a LobMaxSize of 0 would empty every large value")
	case limited:
		if !sizeGiven {
			size = 32
		}
		s.out.Lob, s.out.Set.Lob = tidemark.Lob{Mode: tidemark.LimitedLob, MaxBytes: size << 10}, true
		s.p.warn("TargetMetadata.LimitedSizeLobMode", "Set FullLobMode instead to copy values whole.",
			"values are truncated at %d KB, as the settings say; each truncated row is reported", size)
	case full:
		s.out.Lob, s.out.Set.Lob = tidemark.Lob{Mode: tidemark.FullLob}, true
	case !fullGiven && !limitedGiven && sizeGiven && size > 0:
		s.p.find(tidemark.Note, "TargetMetadata.LobMaxSize", "Set LimitedSizeLobMode to true to truncate values.",
			"it has no effect without LimitedSizeLobMode; values are copied whole")
	}
	s.out.BatchApply, _ = s.yes(r, "BatchApplyEnabled")
	s.others(r, "TargetMetadata")
}

// Ranges that DMS documents.
const (
	maxSubTasks     = 49
	maxCommitRate   = 50000
	usualCommitRate = 10000
)

func (s *settingsReader) fullLoad(r *reader) {
	if n, ok := r.number("MaxFullLoadSubTasks", 1, maxSubTasks); ok {
		s.out.Lanes, s.out.Set.Lanes = int(n), true
	}
	if n, ok := r.number("CommitRate", 1, maxCommitRate); ok {
		s.out.CommitRate, s.out.Set.CommitRate = int(n), true
		if n != usualCommitRate {
			s.p.find(tidemark.Note, "FullLoadSettings.CommitRate", "Set range-size to change how much one transaction moves.",
				"the value %d has no effect: a range of a table is one commit, however many rows it has", n)
		}
	}
	if n, ok := r.number("TransactionConsistencyTimeout", 0, math.MaxInt32); ok {
		s.out.ConsistencyTimeout, s.out.Set.ConsistencyTimeout = time.Duration(n)*time.Second, true
	}
	s.out.KeyAfterLoad, s.out.Set.KeyAfterLoad = s.yes(r, "CreatePkAfterFullLoad")
	switch mode := r.text("TargetTablePrepMode"); mode {
	case "":
	case "DO_NOTHING":
		s.out.Prep, s.out.Set.Prep = "keep", true
	case "DROP_AND_CREATE":
		s.out.Prep, s.out.Set.Prep = "drop", true
	case "TRUNCATE_BEFORE_LOAD":
		s.out.Prep, s.out.Set.Prep = "truncate", true
	default:
		s.p.fail(tidemark.Invalid, r.who, "", "TargetTablePrepMode is %q, not DO_NOTHING, DROP_AND_CREATE or TRUNCATE_BEFORE_LOAD", mode)
	}
	applied, _ := s.yes(r, "StopTaskCachedChangesApplied")
	notApplied, _ := s.yes(r, "StopTaskCachedChangesNotApplied")
	switch {
	case notApplied: // which comes first
		s.out.StopAfter = "copy"
	case applied:
		s.out.StopAfter = "changes"
	}
	s.others(r, "FullLoadSettings")
}

// errors reads the policies for rows that the target refuses.
func (s *settingsReader) errors(r *reader) {
	policy := s.policy(r, "DataErrorPolicy")
	truncation := s.policy(r, "DataTruncationErrorPolicy")
	escalation := s.policy(r, "DataErrorEscalationPolicy")
	count, _ := r.number("DataErrorEscalationCount", 0, math.MaxInt32)
	s.out.Set.RejectLimit = policy != ""
	switch policy {
	case "LOG_ERROR", "IGNORE_RECORD":
		s.out.RejectLimit = math.MaxInt64
		if count > 0 {
			s.out.RejectLimit = count
		}
		if policy == "IGNORE_RECORD" {
			s.p.find(tidemark.Note, "ErrorBehavior.DataErrorPolicy", "", "rows that the target rejects go to a reject file, they are not only ignored")
		}
		if count > 0 && escalation == "SUSPEND_TABLE" {
			s.p.warn("ErrorBehavior.DataErrorEscalationPolicy", "", "after %d rejected rows the copy stops; it does not continue without the table", count)
		}
	case "SUSPEND_TABLE":
		s.p.warn("ErrorBehavior.DataErrorPolicy", "Use LOG_ERROR to write such rows to a reject file.", "SUSPEND_TABLE stops the copy at the first bad row; it does not continue without the table")
	}
	if truncation != "" && truncation != policy {
		s.p.warn("ErrorBehavior.DataTruncationErrorPolicy", "", "rows with values too long for their column are treated as other bad rows, according to DataErrorPolicy")
	}
	s.applyErrors(r)
	s.others(r, "ErrorBehavior")
}

// applyErrors reads the policies for changes that do not fit the target.
func (s *settingsReader) applyErrors(r *reader) {
	actions := map[string]string{"IGNORE_RECORD": "ignore", "LOG_ERROR": "ignore", "SUSPEND_TABLE": "disable", "STOP_TASK": "stop"}
	changes, kinds := false, []string{}
	for _, k := range []struct{ name, usual, forces string }{{"Insert", "LOG_ERROR", "INSERT_RECORD"}, {"Update", "LOG_ERROR", "UPDATE_RECORD"}, {"Delete", "IGNORE_RECORD", ""}} {
		v := r.text("ApplyError" + k.name + "Policy")
		if v == "" {
			continue
		}
		action := actions[v]
		if v == k.forces {
			action = "force"
		}
		if action == "" {
			s.p.fail(tidemark.Invalid, r.who, "", "ApplyError%sPolicy is %q, not one of %s", k.name, v, strings.TrimSpace("LOG_ERROR IGNORE_RECORD SUSPEND_TABLE STOP_TASK "+k.forces))
		}
		changes = changes || v != k.usual
		kinds = append(kinds, strings.ToLower(k.name)+"="+action)
	}
	if !changes {
		return
	}
	s.out.Conflict = strings.Join(kinds, ",")
	if _, action, _ := strings.Cut(kinds[0], "="); len(kinds) == 3 && strings.Count(s.out.Conflict, "="+action) == 3 {
		s.out.Conflict = action
	}
}

// tuning reads how changes are batched.
func (s *settingsReader) tuning(r *reader) {
	if mb, given := r.number("MemoryLimitTotal", 0, math.MaxInt32); given && mb > 0 && mb != 1024 {
		s.out.MemoryTotal = mb << 20
	}
	s.others(r, "ChangeProcessingTuning")
}

func (s *settingsReader) loopback(r *reader) {
	s.out.Loopback, _ = s.yes(r, "EnableLoopbackPrevention")
	s.others(r, "LoopbackPreventionSettings")
}

// policy reads one of the four policies of ErrorBehavior.
func (s *settingsReader) policy(r *reader, key string) string {
	v := r.text(key)
	known := []string{"IGNORE_RECORD", "LOG_ERROR", "SUSPEND_TABLE", "STOP_TASK"}
	if v != "" && !slices.Contains(known, v) {
		s.p.fail(tidemark.Invalid, r.who, "", "%s is %q, not one of %s%s", key, v, strings.Join(known, ", "), didYouMean(v, known))
	}
	return v
}

// rest reports the groups that a full load does not need.
func (s *settingsReader) rest(top *reader) {
	for _, g := range slices.Concat(inertGroups, endpointGroups) {
		n := top.get(g.name)
		switch {
		case n == nil:
		case inertKeys[g.name] == nil && endpointKeys[g.name] == nil:
			if n.kind > plain || !g.normal(n.text) {
				s.told(g, g.name, n)
			}
		case n.kind == object:
			s.others(newReader(n, g.name, "", s.p), g.name)
		default:
			top.bad(n, g.name, "an object")
		}
	}
	for _, m := range top.unknown() {
		s.p.warn("task settings", "", "the key %s at line %d is unknown and has no effect%s", m.key, m.line, didYouMean(m.key, top.asks))
	}
}

// others reports the keys of a group that are set without effect.
func (s *settingsReader) others(r *reader, group string) {
	for _, k := range slices.Concat(inertKeys[group], endpointKeys[group]) {
		n := r.get(k.name)
		if n == nil || n.kind <= plain && k.normal(n.text) || n.kind == list && len(n.items) == 0 {
			continue
		}
		s.told(k, group+"."+k.name, n)
	}
	r.warnUnknown()
}

func (s *settingsReader) told(k inert, where string, n *node) {
	value := ""
	if n.kind <= plain && k.does != inURL && k.name != "ExtraConnectionAttributes" && k.name != "AfterConnectScript" { // these may be secrets
		value = fmt.Sprintf(" %s", n.text)
	}
	s.p.find(k.severity, where, k.hint, "the value%s has no effect: %s", value, k.does)
}
