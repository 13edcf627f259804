package tidemark

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Conflict says when a change does not fit a row of the target, and what becomes of it
// then. The zero value is the key alone, and to stop.
type Conflict struct {
	Rule   ConflictRule   `json:"conflict_rule,omitempty"`
	Action ConflictAction `json:"conflict_action,omitempty"`
	// Inserts, Updates and Deletes are what becomes of these, where that is something else.
	Inserts ConflictAction `json:"conflict_inserts,omitempty"`
	Updates ConflictAction `json:"conflict_updates,omitempty"`
	Deletes ConflictAction `json:"conflict_deletes,omitempty"`
}

// On is what becomes of a change of this kind.
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

// Any says whether a change of any kind has an action of which is is true.
func (c Conflict) Any(is func(ConflictAction) bool) bool {
	return is(c.On(InsertChange)) || is(c.On(UpdateChange)) || is(c.On(DeleteChange))
}

// Over takes what a table says, and for the rest what its stream does. A table that names an action names all.
func (c Conflict) Over(stream Conflict) Conflict {
	stream.Rule = cmp.Or(c.Rule, stream.Rule)
	if c.Action != "" || c.Inserts != "" || c.Updates != "" || c.Deletes != "" {
		stream.Action, stream.Inserts, stream.Updates, stream.Deletes = c.Action, c.Inserts, c.Updates, c.Deletes
	}
	return stream
}

// SetActions reads an action of all kinds of changes, or one of each: insert=force,update=ignore. A kind that is not
// named stops.
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

// Judges says whether a change that does not fit may be something else than the end, or may
// fit though its key is there.
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

// A ConflictRule says what of a row of the target has to be as the source's was before it
// was changed there (IBM's CONFLICT_RULE). What tells the row has to be in any case.
type ConflictRule string

const (
	CheckKey     ConflictRule = "key"     // K: nothing else; also where no rule is said
	CheckChanged ConflictRule = "changed" // C: what an update changes; it then writes nothing else
	CheckAll     ConflictRule = "all"     // A: all columns, of updates and deletes
)

// A ConflictAction says what becomes of a change that does not fit (IBM's CONFLICT_ACTION).
type ConflictAction string

const (
	StopOnConflict      ConflictAction = "stop"       // S: nothing of its transaction is applied, and the process ends; also where no action is said
	StopQueueOnConflict ConflictAction = "stop-queue" // Q: nothing of it is applied, nor of what comes behind; the process goes on capturing
	IgnoreConflict      ConflictAction = "ignore"     // I: it is passed over
	ForceConflict       ConflictAction = "force"      // F: the target is made to have the row that the source has
	DisableOnConflict   ConflictAction = "disable"    // D: the table gets no more changes
)

// ConflictRules and ConflictActions are all that can be said.
var (
	ConflictRules   = []ConflictRule{CheckKey, CheckChanged, CheckAll}
	ConflictActions = []ConflictAction{StopOnConflict, StopQueueOnConflict, IgnoreConflict, ForceConflict, DisableOnConflict}
)

// Checks says whether a change has to find more than its key on the target, for which the
// log has to tell all of the old row.
func (r ConflictRule) Checks(kind ChangeKind) bool {
	return kind == UpdateChange && (r == CheckChanged || r == CheckAll) || kind == DeleteChange && r == CheckAll
}
