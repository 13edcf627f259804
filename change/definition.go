package change

import "github.com/tidemarkdb/tidemark"

// A Definition is what of a table can change without a word in the log, as a look at the source's catalogue finds it.
type Definition struct {
	At      uint64          `json:"at"`               // log position behind all that the look has seen
	ID      uint32          `json:"id,omitempty"`     // of the table
	Logged  bool            `json:"logged,omitempty"` // the log has said it: At is the transaction's place
	Said    uint64          `json:"said,omitempty"`   // and this the message's, within it
	Columns []DefinedColumn `json:"columns,omitempty"`
	Parted  bool            `json:"parted,omitempty"` // it has partitions, or could have some
	Parts   []DefinedPart   `json:"parts,omitempty"`  // all levels, parents first
	Labels  []DefinedLabel  `json:"labels,omitempty"` // of the types of its columns, in their order
}

// A DefinedColumn is a column of a Definition, in SQL of the source.
type DefinedColumn struct {
	Number    int32  `json:"number"`
	Name      string `json:"name"`
	NotNull   bool   `json:"not_null,omitempty"`
	Default   string `json:"default,omitempty"`
	Generated string `json:"generated,omitempty"`
	Virtual   bool   `json:"virtual,omitempty"` // Generated: computed when read
	Identity  bool   `json:"identity,omitempty"`
	Type      uint32 `json:"type,omitempty"`
	Mod       int32  `json:"mod,omitempty"`
	Native    string `json:"native,omitempty"`    // type, as SQL
	Collation string `json:"collation,omitempty"` // where it is not the type's, as SQL
	// Missing is the value of rows that were there when the column was added, if they have one.
	Missing *string `json:"missing,omitempty"`
}

// A DefinedPart is a partition of a Definition.
type DefinedPart struct {
	ID    uint32           `json:"id"`
	Table tidemark.TableID `json:"table"`
	Of    tidemark.TableID `json:"of"` // its parent
	Bound string           `json:"bound"`
	By    string           `json:"by,omitempty"`    // PARTITION BY, of one that has partitions itself
	Fresh bool             `json:"fresh,omitempty"` // it was made as a partition, or attached empty: what it holds was in the log as its table's
	Link  string           `json:"link"`            // another one when it was attached anew
	File  uint32           `json:"file,omitempty"`  // another one when it was emptied, or written anew
}

// A DefinedLabel is a label of an enumeration.
type DefinedLabel struct {
	ID     uint32 `json:"id"`
	Type   string `json:"type"`   // quoted, with its schema
	Column string `json:"column"` // that has it
	Text   string `json:"text"`
}

// DefinitionPrefix is the prefix of a LogicalMessage whose Data is a LoggedDefinition in JSON.
const DefinitionPrefix = "tidemark.definition"

// A LoggedDefinition is what a source's log says of a changed definition, at its place among the rows: one of the four.
type LoggedDefinition struct {
	Table   *LoggedTable  `json:"table,omitempty"`
	Dropped []uint32      `json:"dropped,omitempty"` // tables
	Labels  *LoggedLabels `json:"labels,omitempty"`
	// Rows says that rows of the table were changed before in the same transaction; of labels: any rows.
	Rows bool `json:"rows,omitempty"`
	// Cast says that types were changed without an expression of the user's own.
	Cast bool `json:"cast,omitempty"`
}

// A LoggedTable is a table as it is from there on.
type LoggedTable struct {
	tidemark.TableID
	Definition
}

// LoggedLabels are the labels of an enumeration from there on.
type LoggedLabels struct {
	Type   string         `json:"type"` // quoted, with its schema
	Labels []DefinedLabel `json:"labels"`
}

// An Alteration is a change of one table's definition on a target of the source's own kind.
type Alteration struct {
	Table      tidemark.TableID
	Column     string
	SetDefault string // SQL
	NoDefault  bool
	NotNull    bool
	Null       bool
	NoFormula  bool           // a generated column becomes a plain one
	Add        *DefinedColumn // a column, generated or with its Missing
	DropColumn bool
	Rename     string            // the column's new name
	Retype     *DefinedColumn    // that the column is to be like
	Part       *DefinedPart      // that is made, under Table
	Attach     *DefinedPart      // a table that is there
	Detach     *tidemark.TableID // a partition
	Drop       *tidemark.TableID // a partition
	Type       string            // of the labels, quoted
	AddLabel   string
	Before     string // the label that follows it; "" is none
	Label, To  string // that is renamed
}
