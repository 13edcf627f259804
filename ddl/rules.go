package ddl

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/engine"
)

// A Kind is a kind of definition change.
type Kind string

// The kinds.
const (
	AddColumn      Kind = "add column"      // without a default, or with one that is a plain value
	AddExpression  Kind = "add expression"  // a column whose default is an expression
	AddGenerated   Kind = "add generated"   // a generated column
	AddIdentity    Kind = "add identity"    // an auto-numbered column
	DropColumn     Kind = "drop column"     //
	DropGenerated  Kind = "drop generated"  // a generated column
	RenameColumn   Kind = "rename column"   //
	ReplaceColumn  Kind = "replace column"  // dropped and added again under its name
	MoveColumn     Kind = "move column"     // to another position in the row
	ChangeType     Kind = "change type"     //
	MakeGenerated  Kind = "make generated"  // a plain column becomes a generated one
	DropExpression Kind = "drop expression" // a generated column becomes a plain one
	SetExpression  Kind = "set expression"  // of a generated column
	SetDefault     Kind = "set default"     //
	DropDefault    Kind = "drop default"    //
	SetNotNull     Kind = "set not null"    //
	LoseNull       Kind = "lose null"       // set not null outside of strict mode
	DropNotNull    Kind = "drop not null"   //
	AddLabel       Kind = "add label"       // to an enumeration
	RenameLabel    Kind = "rename label"    // of an enumeration, and in all values that have it
	DropLabel      Kind = "drop label"      //
	NewPartition   Kind = "new partition"   // empty
	FillPartition  Kind = "fill partition"  // one with rows is attached or exchanged
	DetachedPart   Kind = "detach partition"
	DropPartition  Kind = "drop partition"
	EmptyPartition Kind = "truncate partition"
	Repartition    Kind = "repartition" // rows stay
	AddKey         Kind = "add key"     // primary or unique
	DropKey        Kind = "drop key"
	AddIndex       Kind = "index"
	AddCheck       Kind = "check"
	AddForeignKey  Kind = "foreign key"
	RenameTable    Kind = "rename table"
	MoveTable      Kind = "move table" // to another schema or database
	DropTable      Kind = "drop table"
	ReplaceTable   Kind = "replace table" // another one has its name now
	NewTable       Kind = "new table"
	Rewrite        Kind = "rewrite"      // engine, tablespace, character set of the table, storage: rows stay
	SwapFiles      Kind = "swap files"   // DISCARD and IMPORT TABLESPACE
	Statement      Kind = "statement"    // changed rows that are not in the log
	Inherit        Kind = "inheritance"  // INHERIT, NO INHERIT
	Unsure         Kind = "unsure"       // the log lacks what was changed
	Unknown        Kind = "unknown"      // a statement that cannot be parsed
	Beside         Kind = "beside table" // views, functions, triggers, comments, privileges
)

// A Verdict is what happens to a change.
type Verdict int

const (
	Stops  Verdict = iota // the table stops
	Goes                  // it is replicated to the target
	Stays                 // only the source changes; rows continue to arrive
	Offers                // a new table: the stream reports how to add it
)

// A Rule is what happens to a kind of change between engines.
type Rule struct {
	Kind     Kind
	From, To string // families of engines; "" is any
	Verdict  Verdict
	How      string // Goes, Stays: how, for the manual
	// Logged rules apply if the log has definitions at their position (replicate --follow-ddl).
	Logged bool
	// Then is the sentence on how to continue after a stop, without its full stop; {table},
	// {column} and {to} (the new name) are replaced.
	Then string
}

const (
	pg          = engine.Postgres
	my          = engine.MySQL
	changeThere = "Change the table on the target in the same way"
)

// rules are checked in order; the first match applies. Every kind ends with a rule for all engines.
var rules = []Rule{
	{Kind: AddColumn, From: my, To: my, Verdict: Goes, How: "added in its place in the log, and in the row"},
	{Kind: AddColumn, From: pg, To: pg, Logged: true, Verdict: Goes, How: "added in its place, with the values that existing rows got"},
	{Kind: AddColumn, Verdict: Goes, How: "added to the target when the first row with it comes"},
	{Kind: AddExpression, Verdict: Stops, Then: "Add the column {column} to the target"},
	{Kind: AddGenerated, From: pg, To: pg, Verdict: Goes, How: "added to the target, which computes it"},
	{Kind: AddGenerated, From: my, To: my, Verdict: Goes, How: "added to the target, which computes it"},
	{Kind: AddGenerated, Verdict: Stays, How: "not added; the target may have one of its own"},
	{Kind: AddIdentity, Verdict: Stops, Then: "Add the column {column} to the target"},
	{Kind: DropColumn, From: pg, To: pg, Logged: true, Verdict: Goes, How: "dropped in its place"},
	{Kind: DropColumn, From: my, To: my, Verdict: Goes, How: "dropped in its place in the log"},
	{Kind: DropColumn, Verdict: Stops, Then: "Drop the column {column} of the target's table too"},
	{Kind: DropGenerated, From: my, To: my, Verdict: Goes, How: "dropped on the target too, if it is generated there"},
	{Kind: DropGenerated, From: pg, To: pg, Logged: true, Verdict: Goes, How: "dropped in its place"},
	{Kind: DropGenerated, Verdict: Stays, How: "stays on the target, which computes it"},
	{Kind: RenameColumn, From: pg, To: pg, Logged: true, Verdict: Goes, How: "renamed in its place"},
	{Kind: RenameColumn, From: my, To: my, Verdict: Goes, How: "renamed in its place in the log"},
	{Kind: RenameColumn, Verdict: Stops, Then: "Rename the column {column} of the target's table to {to} too"},
	{Kind: ReplaceColumn, From: pg, To: pg, Logged: true, Verdict: Goes, How: "dropped and added in its place"},
	{Kind: ReplaceColumn, From: my, To: my, Verdict: Goes, How: "dropped and added in its place in the log"},
	{Kind: ReplaceColumn, Verdict: Stops, Then: "Drop the column {column} of the target's table and add it again, with the type that it has now"},
	{Kind: MoveColumn, From: my, To: my, Verdict: Goes, How: "moved on the target too"},
	{Kind: MoveColumn, Verdict: Stays, How: "columns are matched by name; the target keeps its order"},
	{Kind: ChangeType, From: pg, To: pg, Logged: true, Verdict: Goes, How: "between types of numbers and texts, without USING"},
	{Kind: ChangeType, From: my, To: my, Verdict: Goes, How: "between integers, decimals, or texts, from these to texts, and to a finer fraction of seconds"},
	{Kind: ChangeType, Verdict: Stops, Then: "Give the column {column} of the target's table its new type"},
	{Kind: MakeGenerated, From: my, To: my, Verdict: Goes, How: "generated on the target too, which computes it"},
	{Kind: MakeGenerated, Verdict: Stops, Then: "Make the column {column} of the target's table generated too, or drop it there"},
	{Kind: DropExpression, From: my, To: my, Verdict: Goes, How: "plain on the target too, with the values that it has"},
	{Kind: DropExpression, From: pg, To: pg, Logged: true, Verdict: Goes, How: "done in its place"},
	{Kind: DropExpression, Verdict: Stops, Then: "Make the column {column} of the target's table a plain column too"},
	{Kind: SetExpression, From: my, To: my, Verdict: Goes, How: "set on the target, which computes the column anew"},
	{Kind: SetExpression, Verdict: Stops, Then: "Give the column {column} of the target's table its new expression"},
	{Kind: SetDefault, From: pg, To: pg, Verdict: Goes, How: "set on the target; rows come with their values"},
	{Kind: SetDefault, From: my, To: my, Verdict: Goes, How: "set on the target; rows come with their values"},
	{Kind: SetDefault, Verdict: Stays, How: "not set; rows come with their values"},
	{Kind: DropDefault, From: pg, To: pg, Verdict: Goes, How: "dropped on the target; rows come with their values"},
	{Kind: DropDefault, From: my, To: my, Verdict: Goes, How: "dropped on the target; rows come with their values"},
	{Kind: DropDefault, Verdict: Stays, How: "not dropped; rows come with their values"},
	{Kind: SetNotNull, From: pg, To: pg, Verdict: Goes, How: "set on the target once it has all rows from before"},
	{Kind: SetNotNull, From: my, To: my, Verdict: Goes, How: "set on the target in its place in the log"},
	{Kind: SetNotNull, Verdict: Stays, How: "not set; rows come as they are"},
	{Kind: LoseNull, From: my, To: my, Verdict: Goes, How: "set on the target too; a row there that has NULL stops the table"},
	{Kind: LoseNull, Verdict: Stops, Then: changeThere},
	{Kind: DropNotNull, From: pg, To: pg, Verdict: Goes, How: "dropped on the target before the next row"},
	{Kind: DropNotNull, From: my, To: my, Verdict: Goes, How: "dropped on the target in its place in the log"},
	{Kind: DropNotNull, Verdict: Stops, Then: "Drop NOT NULL of the column {column} of the target's table too"},
	{Kind: AddLabel, From: pg, To: pg, Verdict: Goes, How: "added to the target's type before a row has it"},
	{Kind: AddLabel, From: my, To: my, Verdict: Goes, How: "the target's column gets the same labels, in the same order"},
	{Kind: AddLabel, Verdict: Stops, Then: "Give the column {column} of the target's table the new label {to} too"},
	{Kind: RenameLabel, From: pg, To: pg, Verdict: Goes, How: "renamed in the target's type once it has all rows from before"},
	{Kind: RenameLabel, Verdict: Stops, Then: "Rename the label {column} to {to} on the target too"},
	{Kind: DropLabel, From: my, To: my, Verdict: Goes, How: "the target's column gets the same labels; a row there that has the dropped label stops the table"},
	{Kind: DropLabel, Verdict: Stops, Then: changeThere},
	{Kind: NewPartition, From: pg, To: pg, Verdict: Goes, How: "made on the target before its first row, where the target's table is partitioned"},
	{Kind: NewPartition, From: pg, To: my, Verdict: Stays, How: "the target's table takes the rows"},
	{Kind: NewPartition, From: my, To: pg, Verdict: Stays, How: "the target's table takes the rows"},
	{Kind: NewPartition, From: my, To: my, Verdict: Goes, How: "added to the target's table, if that is partitioned"},
	{Kind: NewPartition, Verdict: Stops, Then: "Add the partition to the target's table, if that is partitioned"},
	{Kind: FillPartition, From: pg, To: pg, Logged: true, Verdict: Goes, How: "attached in its place, where the stream has the table by itself; otherwise the table stops, or is loaded again with --new-tables follow"},
	{Kind: FillPartition, From: pg, To: pg, Verdict: Stops, Then: "Make the partition on the target too"},
	{Kind: FillPartition, Verdict: Stops, Then: "Give the target's table the same partitions and rows"},
	{Kind: DetachedPart, From: pg, To: pg, Logged: true, Verdict: Goes, How: "detached in its place, where the target's table is partitioned"},
	{Kind: DetachedPart, Verdict: Stops, Then: "Detach or drop the partition on the target too, if that is partitioned"},
	{Kind: DropPartition, From: pg, To: pg, Logged: true, Verdict: Goes, How: "dropped in its place, where the target's table is partitioned"},
	{Kind: DropPartition, From: my, To: my, Verdict: Goes, How: "dropped in its place in the log, where the target's table is partitioned"},
	{Kind: DropPartition, Verdict: Stops, Then: "Drop the partition on the target too, if that is partitioned"},
	{Kind: EmptyPartition, From: my, To: my, Verdict: Goes, How: "truncated in its place in the log, where the target's table is partitioned"},
	{Kind: EmptyPartition, Verdict: Stops, Then: "Truncate the partition on the target too, if that is partitioned"},
	{Kind: Repartition, From: my, To: my, Verdict: Goes, How: "done to the target's table too, if that is partitioned, or was not before"},
	{Kind: Repartition, Verdict: Stays, How: "rows stay as they are"},
	{Kind: AddKey, Verdict: Stays, How: "not made; diff --definitions shows it"},
	{Kind: DropKey, Verdict: Stays, How: "stays on the target, where it may refuse rows"},
	{Kind: AddIndex, Verdict: Stays, How: "not made; diff --definitions shows it"},
	{Kind: AddCheck, Verdict: Stays, How: "not made; diff --definitions shows it"},
	{Kind: AddForeignKey, Verdict: Stays, How: "not made; diff --definitions shows it"},
	{Kind: RenameTable, Verdict: Stops, Then: "Rename it on the target too, and tidemark sub start {to}"},
	{Kind: MoveTable, Verdict: Stops, Then: "Move it on the target too, and tidemark sub start {to}"},
	{Kind: DropTable, Verdict: Stops, Then: "Drop it on the target too. If it was renamed: tidemark sub start NEWNAME"},
	{Kind: ReplaceTable, Verdict: Goes, How: "the target's table gets its definition, and its rows are loaded again, unless capture and apply are two processes"},
	{Kind: NewTable, Verdict: Offers, How: "announced with the command that adds it; added and loaded at once with --new-tables follow"},
	{Kind: Rewrite, Verdict: Stays, How: "rows stay as they are"},
	{Kind: SwapFiles, Verdict: Stops, Then: changeThere},
	{Kind: Statement, Verdict: Stops, Then: changeThere},
	{Kind: Inherit, Verdict: Stays, How: "each table is in the stream by itself"},
	{Kind: Unsure, Verdict: Stops, Then: "Compare the table's columns on both sides, and change the target's"},
	{Kind: Unknown, Verdict: Stops, Then: changeThere},
	{Kind: Beside, Verdict: Stays, How: "not carried"},
}

// Decide returns the rule for a change of this kind.
func Decide(k Kind, from, to string) Rule { return decide(k, from, to, false) }

// DecideLogged is Decide for a log that has definitions at their position.
func DecideLogged(k Kind, from, to string) Rule { return decide(k, from, to, true) }

func decide(k Kind, from, to string, logged bool) Rule {
	for _, r := range rules {
		if r.Kind == k && (logged || !r.Logged) && isOf(r.From, from) && isOf(r.To, to) {
			return r
		}
	}
	return Rule{Kind: k, Verdict: Stops, Then: changeThere}
}

// Kinds returns all kinds, in the order of the rules.
func Kinds() (out []Kind) {
	for _, r := range rules {
		if !slices.Contains(out, r.Kind) {
			out = append(out, r.Kind)
		}
	}
	return out
}

func isOf(family, name string) bool {
	return family == "" || family == engine.Family(name)
}

// A Change is a change of one table's definition.
type Change struct {
	Kind   Kind
	Table  tidemark.TableID // of the source
	Column string           // or partition, type, label: what was changed
	To     string           // the new name, if it was renamed
	Text   string           // what happened, as the end of a sentence: "its column x was renamed to y"
}

// Stop returns the error that stops a change's table. Kind Unsupported.
func (c Change) Stop(from, to string) error {
	then := cmp.Or(Decide(c.Kind, from, to).Then, Decide(c.Kind, "", "").Then, changeThere) // the second: it goes, but not this time
	then = c.named(then)
	return &tidemark.Error{Kind: tidemark.Unsupported, Op: "replicate", Object: c.Table.String(), Err: &stopping{c}, Hint: then}
}

// stopping is why a change of its definition stops a table.
type stopping struct{ Change }

func (c *stopping) Error() string { return c.text() }

// Reloads reports whether an error is a change after which the source still has the table, so that
// the target's can get the new definition and rows.
func Reloads(err error) bool {
	var c *stopping
	return errors.As(err, &c) && !c.leaves()
}

// Leaves reports whether an error is a change after which the source has no table of the name.
func Leaves(err error) bool {
	var c *stopping
	return errors.As(err, &c) && c.leaves()
}

func (c *stopping) leaves() bool {
	return slices.Contains([]Kind{RenameTable, MoveTable, DropTable}, c.Kind)
}

// named replaces {table}, {column} and {to} in a text by a change's names.
func (c Change) named(text string) string {
	return strings.NewReplacer("{table}", c.Table.String(), "{column}", c.Column, "{to}", c.To).Replace(text)
}

// texts describe what has happened, for changes without a text of their own.
var texts = map[Kind]string{
	DropColumn:     "no longer has the column {column}: it was dropped",
	RenameColumn:   "its column {column} was renamed to {to}",
	ReplaceColumn:  "its column {column} was dropped and added again",
	ChangeType:     "its column {column} is of another type than before",
	RenameTable:    "was renamed to {to}",
	MoveTable:      "was renamed to {to}",
	DropTable:      "is no longer on the source",
	ReplaceTable:   "is no longer on the source: another table has its name now",
	LoseNull:       "its column {column} no longer takes NULL, and its NULLs became other values, which the log does not show",
	SetNotNull:     "its column {column} no longer takes NULL",
	DropNotNull:    "its column {column} takes NULL now",
	AddLabel:       "its column {column} has the new label {to}",
	DropLabel:      "its column {column} no longer has the label {to}",
	MakeGenerated:  "its column {column} is generated now",
	DropExpression: "its column {column} is no longer generated",
	DropPartition:  "its partition {column} was dropped, with its rows",
	EmptyPartition: "its partition {column} was truncated",
	FillPartition:  "a partition was exchanged with a table, or made of one",
	SwapFiles:      "was given other files: DISCARD or IMPORT TABLESPACE",
}

func (c Change) text() string {
	if c.Text != "" {
		return c.Text
	}
	if text, ok := texts[c.Kind]; ok {
		return c.named(text)
	}
	return fmt.Sprintf("was changed: %s %s", c.Kind, c.Column)
}
