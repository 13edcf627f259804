package change

import "github.com/tidemarkdb/tidemark"

// A Definition is the part of a table's definition that can change without a log record, as read
// from the source's catalogue.
type Definition struct {
	At      uint64          `json:"at"`               // log position after everything that the catalogue showed
	ID      uint32          `json:"id,omitempty"`     // of the table
	Logged  bool            `json:"logged,omitempty"` // it comes from the log: At is the place of the transaction,
	Said    uint64          `json:"said,omitempty"`   // and Said that of the message in it
	Columns []DefinedColumn `json:"columns,omitempty"`
	Parted  bool            `json:"parted,omitempty"` // it has partitions, or can have some
	Parts   []DefinedPart   `json:"parts,omitempty"`  // all levels, parents first
	Labels  []DefinedLabel  `json:"labels,omitempty"` // of the types of its columns, in order

	// Horizon is a transaction's number: all below it had ended when the catalogue was read. 0: not
	// known.
	Horizon uint32 `json:"-"`
}

// A Truncated is the newest TRUNCATE of a whole table in a stream; zero if there was none.
type Truncated struct {
	XID   uint32
	Place uint64 // of its transaction in the log
}

// A Lost is the question whether a partition in a new file has lost rows: it was truncated by
// itself, which no log has. VACUUM FULL and the like keep the rows, and a TRUNCATE of the whole
// table is in the stream.
type Lost struct {
	Is    *Definition
	Part  *DefinedPart // of Is
	Since *Definition  // the newest look at which the partition had its old file; nil: one of another session
	Whole Truncated    // the newest TRUNCATE of the whole table in the stream
}

// A DefinedColumn is a column of a Definition, in the source's SQL.
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
	Collation string `json:"collation,omitempty"` // as SQL, if it is not the type's
	// Missing is the value, if any, of rows that existed when the column was added.
	Missing *string `json:"missing,omitempty"`
}

// A DefinedPart is a partition of a Definition.
type DefinedPart struct {
	ID    uint32           `json:"id"`
	Table tidemark.TableID `json:"table"`
	Of    tidemark.TableID `json:"of"` // its parent
	Bound string           `json:"bound"`
	By    string           `json:"by,omitempty"`    // PARTITION BY, if it has partitions itself
	Fresh bool             `json:"fresh,omitempty"` // it was created as a partition, or attached empty: its rows were in the log as its table's
	Link  string           `json:"link"`            // changes when it is attached again
	File  uint32           `json:"file,omitempty"`  // changes when it is emptied or rewritten
}

// A DefinedLabel is a label of an enumeration.
type DefinedLabel struct {
	ID     uint32 `json:"id"`
	Type   string `json:"type"`   // quoted, with its schema
	Column string `json:"column"` // the column of this type
	Text   string `json:"text"`
}

// A Published says whether and how a source that has a list of tables sends the changes of one.
type Published struct {
	ID uint32 // of the table
	// As identifies its entry in the list, with its rows and columns and the kinds of changes: it
	// is another text once somebody has changed any of that. "": it is not in the list.
	As string
	// Under is a table under whose name its changes come; "": under its own.
	Under tidemark.TableID
}

// DefinitionPrefix is the prefix of a LogicalMessage whose Data is a LoggedDefinition in JSON.
const DefinitionPrefix = "tidemark.definition"

// A LoggedDefinition is a changed definition in a source's log, at its place among the rows: one of
// the four.
type LoggedDefinition struct {
	Table   *LoggedTable  `json:"table,omitempty"`
	Dropped []uint32      `json:"dropped,omitempty"` // tables
	Labels  *LoggedLabels `json:"labels,omitempty"`
	// Rows means that rows of the table were changed earlier in the same transaction; for labels:
	// any rows.
	Rows bool `json:"rows,omitempty"`
	// Cast means that types were changed without a USING expression.
	Cast bool `json:"cast,omitempty"`
}

// A LoggedTable is a table as it is from its place on.
type LoggedTable struct {
	tidemark.TableID
	Definition
}

// LoggedLabels are the labels of an enumeration from their place on.
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
	Retype     *DefinedColumn    // the new definition of the column
	Part       *DefinedPart      // to create, under Table
	Attach     *DefinedPart      // an existing table
	Detach     *tidemark.TableID // a partition
	Drop       *tidemark.TableID // a partition
	Type       string            // of the labels, quoted
	AddLabel   string
	Before     string // the label that follows it; "": none
	Label, To  string // to rename
}
