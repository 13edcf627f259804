package tidemark

// A Definition is what of a table can change without a word in the log, as a look at the source's catalogue finds it.
type Definition struct {
	At      uint64          `json:"at"` // log position behind all that the look has seen
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
}

// A DefinedPart is a partition of a Definition.
type DefinedPart struct {
	ID    uint32  `json:"id"`
	Table TableID `json:"table"`
	Of    TableID `json:"of"` // its parent
	Bound string  `json:"bound"`
	By    string  `json:"by,omitempty"`    // PARTITION BY, of one that has partitions itself
	Fresh bool    `json:"fresh,omitempty"` // it was made as a partition: what it holds was in the log as its table's
	Link  string  `json:"link"`            // another one when it was attached anew
	File  uint32  `json:"file,omitempty"`  // another one when it was emptied, or written anew
}

// A DefinedLabel is a label of an enumeration.
type DefinedLabel struct {
	ID     uint32 `json:"id"`
	Type   string `json:"type"`   // quoted, with its schema
	Column string `json:"column"` // that has it
	Text   string `json:"text"`
}

// An Alteration is a change of one table's definition on a target of the source's own kind.
type Alteration struct {
	Table      TableID
	Column     string
	SetDefault string // SQL
	NoDefault  bool
	NotNull    bool
	Null       bool
	Part       *DefinedPart // that is made, under Table
	Type       string       // of the labels, quoted
	AddLabel   string
	Before     string // the label that follows it; "" is none
	Label, To  string // that is renamed
}
