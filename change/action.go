package change

import "github.com/tidemarkdb/tidemark"

// A DDLVerb is what a DDLAction does.
type DDLVerb string

// The verbs. Changes of indexes and storage options have none: neither the rows nor the definitions
// of a target need them.
const (
	DDLAddColumn      DDLVerb = "add column"
	DDLDropColumn     DDLVerb = "drop column"
	DDLChangeColumn   DDLVerb = "change column" // changes its definition, perhaps its name
	DDLSetDefault     DDLVerb = "set default"
	DDLDropDefault    DDLVerb = "drop default"
	DDLAddPartition   DDLVerb = "add partition"
	DDLRepartition    DDLVerb = "repartition" // rows stay
	DDLDropPartition  DDLVerb = "drop partition"
	DDLEmptyPartition DDLVerb = "truncate partition"
	DDLFillPartition  DDLVerb = "fill partition" // with the rows of a table, or exchanges rows
	DDLSwapFiles      DDLVerb = "swap files"
	DDLRenameTable    DDLVerb = "rename table"
	DDLDropTable      DDLVerb = "drop table"
)

// A DDLAction is one action of a DDL.
type DDLAction struct {
	Verb   DDLVerb          `json:"verb"`
	Table  tidemark.TableID `json:"table"`            // no Name: the whole schema
	Column string           `json:"column,omitempty"` // the column changed
	To     string           `json:"to,omitempty"`     // the new name, if it changes
	// Words is the action as in ALTER TABLE, without comments; empty if another session may read it
	// differently.
	Words string     `json:"words,omitempty"`
	Def   *DDLColumn `json:"def,omitempty"`   // the column's definition; nil if it is not understood
	Moves bool       `json:"moves,omitempty"` // it names a position in the row
	Loose bool       `json:"loose,omitempty"` // values that do not fit were adjusted: the session was not in strict mode
}

// A DDLColumn is a column as a DDLAction defines it.
type DDLColumn struct {
	Type      string `json:"type"` // as MySQL and MariaDB spell it
	NotNull   bool   `json:"not_null,omitempty"`
	Generated bool   `json:"generated,omitempty"`
	Computed  bool   `json:"computed,omitempty"` // its default may differ from row to row
	Numbers   bool   `json:"numbers,omitempty"`  // it is auto-increment, or the primary key
}
