package tidemark

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Conflict says when a change conflicts with a row of the target, and what happens then. The zero
// value compares only the key, and stops.
type Conflict struct {
	Rule   ConflictRule   `json:"conflict_rule,omitempty"`
	Action ConflictAction `json:"conflict_action,omitempty"`
	// Inserts, Updates and Deletes are the actions for these, where they differ from Action.
	Inserts ConflictAction `json:"conflict_inserts,omitempty"`
	Updates ConflictAction `json:"conflict_updates,omitempty"`
	Deletes ConflictAction `json:"conflict_deletes,omitempty"`
}

// On returns the action for a change of this kind.
func (c Conflict) On(kind ChangeKind) ConflictAction {
	switch kind {
	case InsertChange:
		return cmp.Or(c.Inserts, c.Action)
	case UpdateChange:
		return cmp.Or(c.Updates, c.Action)
	case DeleteChange:
		return cmp.Or(c.Deletes, c.Action)
	}
	return c.Action
}

// Any reports whether a change of any kind has an action of which is is true.
func (c Conflict) Any(is func(ConflictAction) bool) bool {
	return is(c.On(InsertChange)) || is(c.On(UpdateChange)) || is(c.On(DeleteChange))
}

// Over returns the table's own settings, and the stream's for the rest. A table that names an
// action names all.
func (c Conflict) Over(stream Conflict) Conflict {
	stream.Rule = cmp.Or(c.Rule, stream.Rule)
	if c.Action != "" || c.Inserts != "" || c.Updates != "" || c.Deletes != "" {
		stream.Action, stream.Inserts, stream.Updates, stream.Deletes = c.Action, c.Inserts, c.Updates, c.Deletes
	}
	return stream
}

// SetActions reads an action of all kinds of changes, or one of each: insert=force,update=ignore. A
// kind without an action stops.
func (c *Conflict) SetActions(text string) error {
	out := Conflict{Rule: c.Rule}
	if !strings.Contains(text, "=") {
		out.Action = ConflictAction(text)
		if !slices.Contains(ConflictActions, out.Action) {
			return fmt.Errorf("must be one of %s, or of each kind: insert=force,update=ignore,delete=ignore", strings.Trim(fmt.Sprint(ConflictActions), "[]"))
		}
		*c = out
		return nil
	}
	for part := range strings.SplitSeq(text, ",") {
		kind, action, _ := strings.Cut(strings.TrimSpace(part), "=")
		to := map[string]*ConflictAction{"insert": &out.Inserts, "update": &out.Updates, "delete": &out.Deletes}[kind]
		if to == nil || *to != "" || !slices.Contains(ConflictActions, ConflictAction(action)) {
			return fmt.Errorf("%q is not insert=, update= or delete= with one of %s, each once", part, strings.Trim(fmt.Sprint(ConflictActions), "[]"))
		}
		*to = ConflictAction(action)
	}
	*c = out
	return nil
}

// Judges reports whether a change that does not fit may be something else than the end, or may fit
// though its key is there.
func (c Conflict) Judges() bool {
	return c.Any(func(a ConflictAction) bool { return a != "" && a != StopOnConflict && a != StopQueueOnConflict }) || c.Rule.Checks(UpdateChange)
}

// A ChangeKind is the first byte of a message.
type ChangeKind byte

const (
	RelationChange ChangeKind = 'R'
	InsertChange   ChangeKind = 'I'
	UpdateChange   ChangeKind = 'U'
	DeleteChange   ChangeKind = 'D'
	TruncateChange ChangeKind = 'T'
	MessageChange  ChangeKind = 'M'
)

// A ConflictRule says which values of a target row must equal the source's from before the change
// (IBM's CONFLICT_RULE). The key must always.
type ConflictRule string

const (
	CheckKey     ConflictRule = "key"     // K: only the key; also the default
	CheckChanged ConflictRule = "changed" // C: what an update changes; it then writes nothing else
	CheckAll     ConflictRule = "all"     // A: all columns, of updates and deletes
)

// A ConflictAction says what happens to a change that conflicts (IBM's CONFLICT_ACTION).
type ConflictAction string

const (
	StopOnConflict      ConflictAction = "stop"       // S: nothing of its transaction is applied, and the process ends; also the default
	StopQueueOnConflict ConflictAction = "stop-queue" // Q: neither it nor anything after it is applied; the process continues to capture
	IgnoreConflict      ConflictAction = "ignore"     // I: it is skipped
	ForceConflict       ConflictAction = "force"      // F: the target's row is made equal to the source's
	DisableOnConflict   ConflictAction = "disable"    // D: the table gets no more changes
)

// ConflictRules and ConflictActions list all valid values.
var (
	ConflictRules   = []ConflictRule{CheckKey, CheckChanged, CheckAll}
	ConflictActions = []ConflictAction{StopOnConflict, StopQueueOnConflict, IgnoreConflict, ForceConflict, DisableOnConflict}
)

// Checks reports whether more than the key of a target row is compared, for which the log must have
// the whole old row.
func (r ConflictRule) Checks(kind ChangeKind) bool {
	return kind == UpdateChange && (r == CheckChanged || r == CheckAll) || kind == DeleteChange && r == CheckAll
}
