package change

import "github.com/tidemarkdb/tidemark"

// A DDLVerb is what a DDLAction does.
type DDLVerb string

// The verbs. What neither rows nor definitions of a target need has none: indexes, options of storage.
const (
	DDLAddColumn      DDLVerb = "add column"
	DDLDropColumn     DDLVerb = "drop column"
	DDLChangeColumn   DDLVerb = "change column" // gives it another definition, perhaps another name
	DDLSetDefault     DDLVerb = "set default"
	DDLDropDefault    DDLVerb = "drop default"
	DDLAddPartition   DDLVerb = "add partition"
	DDLRepartition    DDLVerb = "repartition" // rows stay
	DDLDropPartition  DDLVerb = "drop partition"
	DDLEmptyPartition DDLVerb = "truncate partition"
	DDLFillPartition  DDLVerb = "fill partition" // with the rows of a table, or exchanges them
	DDLSwapFiles      DDLVerb = "swap files"
	DDLRenameTable    DDLVerb = "rename table"
	DDLDropTable      DDLVerb = "drop table"
)

// A DDLAction is one of the things that a DDL does.
type DDLAction struct {
	Verb   DDLVerb          `json:"verb"`
	Table  tidemark.TableID `json:"table"`            // no Name: all of the schema
	Column string           `json:"column,omitempty"` // that it is about
	To     string           `json:"to,omitempty"`     // the new name, if that is another
	// Words is the action as ALTER TABLE has it, without comments; empty if another session may understand it otherwise.
	Words string     `json:"words,omitempty"`
	Def   *DDLColumn `json:"def,omitempty"`   // what the column is defined as; nil if that is not understood
	Moves bool       `json:"moves,omitempty"` // it names a place in the row
	Loose bool       `json:"loose,omitempty"` // values that do not fit became others: the session was not in strict mode
}

// A DDLColumn is a column as a DDLAction defines it.
type DDLColumn struct {
	Type      string `json:"type"` // as MySQL and MariaDB spell it
	NotNull   bool   `json:"not_null,omitempty"`
	Generated bool   `json:"generated,omitempty"`
	Computed  bool   `json:"computed,omitempty"` // its default may be another value in each row
	Numbers   bool   `json:"numbers,omitempty"`  // it numbers itself, or is the primary key
}
