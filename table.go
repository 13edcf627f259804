package tidemark

import (
	"slices"
	"strings"
)

// Limits of a definition that is read, so that no file and no server can make a reader run for
// minutes, or overflow its stack.
const (
	MaxExpression = 1<<16 - 1 // bytes of an expression; MySQL and MariaDB store no longer ones
	MaxNesting    = 200       // levels of an expression that is translated
	MaxColumns    = 4096      // of a table, the most of any engine
	MaxIndexes    = 1024      // of a table in a file; MySQL has 64, MariaDB up to 128
)

// A Database is what a source engine finds in its catalogue: the tables with
// their logical shape, which every target can build, and the native objects,
// which only a target of the same engine can.
type Database struct {
	Engine   string // "postgres", "mysql", "mariadb", "file"
	Version  string // as the server says it: "15.18", "8.0.33", "10.11.14-MariaDB"
	Major    int    // 15, 8, 10
	Name     string
	Charset  string // default of the database
	Collate  string
	Tables   []*Table
	Objects  []Object  // complete native DDL, tables included, in an order that satisfies Depends
	Handed   bool      `json:"-"` // Render may take Objects over, and leave none: of 100,000 tables they are 70 MB
	Findings []Finding // what the engine found and cannot describe

	// Piecewise says that Render gets the tables of one database in several calls, as a dump file
	// has them: names are unique over all of them. A table that comes again has its names already.
	Piecewise bool `json:",omitempty"`
}

// A TableID names a table on one server. On MySQL the schema is the database.
type TableID struct {
	Schema string `json:"schema"`
	Name   string `json:"name"`
}

// String returns "schema.name", for messages; it does not quote.
func (t TableID) String() string {
	if t.Schema == "" {
		return t.Name
	}
	return t.Schema + "." + t.Name
}

// A TableForm says what a table's name stands for.
type TableForm uint8

const (
	Ordinary     TableForm = iota
	Partitioned            // holds no rows itself; Partitions lists the leaves
	Partition              // a leaf or middle partition, listed for native copies only; PartitionOf names its root
	View                   // copied as rows only where the user asks for it (DMS table-type view)
	Foreign                // rows live elsewhere and are not copied
	LargeObjects           // PostgreSQL's large objects, read as rows (loid oid, pageno int4, data bytea) under the name pg_catalog.pg_largeobject
)

// A Table is the logical shape of a table.
type Table struct {
	TableID
	Form        TableForm    `json:"form,omitempty"`
	Columns     []Column     `json:"columns"`
	Key         *Index       `json:"key,omitempty"`     // the primary key
	Indexes     []Index      `json:"indexes,omitempty"` // all others, unique ones included
	ForeignKeys []ForeignKey `json:"foreign_keys,omitempty"`
	Checks      []Check      `json:"checks,omitempty"`
	Comment     string       `json:"comment,omitempty"`
	Partitions  []Part       `json:"partitions,omitempty"`
	PartitionOf TableID      `json:"partition_of,omitzero"`
	Rows        int64        `json:"rows,omitempty"`    // the server's estimate; -1 unknown
	Bytes       int64        `json:"bytes,omitempty"`   // of the rows on disk, without indexes; estimate
	Storage     string       `json:"storage,omitempty"` // MySQL: the storage engine; PostgreSQL: "unlogged" or empty
	Charset     string       `json:"charset,omitempty"`
	Collation   string       `json:"collation,omitempty"`
	Native      string       `json:"native,omitempty"` // engine's own remarks that its renderer wants back (MySQL: partitioning clause)
}

// ID returns the table's name alone.
func (t *Table) ID() TableID { return t.TableID }

// Column finds a column by its exact name; nil if there is none.
func (t *Table) Column(name string) *Column {
	for i := range t.Columns {
		if t.Columns[i].Name == name {
			return &t.Columns[i]
		}
	}
	return nil
}

// Keyed reports whether a column is in the primary key or in a unique one.
func (t *Table) Keyed(column string) bool {
	is := func(p IndexPart) bool { return p.Column == column }
	return t.Key != nil && slices.ContainsFunc(t.Key.Parts, is) ||
		slices.ContainsFunc(t.Indexes, func(x Index) bool { return x.Unique && slices.ContainsFunc(x.Parts, is) })
}

// Stored returns the columns whose values are copied: all but generated ones.
func (t *Table) Stored() []Column {
	out := make([]Column, 0, len(t.Columns))
	for _, c := range t.Columns {
		if c.Generated == "" {
			out = append(out, c)
		}
	}
	return out
}

// Current returns the table without the columns in which a server keeps when a row came and went
// (MariaDB's GENERATED ALWAYS AS ROW START and ROW END): a table of current rows. The server has
// added the latter to its unique keys.
func (t *Table) Current() *Table {
	edge := func(c Column) bool { return strings.HasPrefix(c.Generated, "ROW ") }
	if !slices.ContainsFunc(t.Columns, edge) {
		return t
	}
	out := *t
	out.Columns = slices.DeleteFunc(slices.Clone(t.Columns), edge)
	key := func(x Index) Index {
		x.Parts = slices.DeleteFunc(slices.Clone(x.Parts), func(p IndexPart) bool { return p.Column != "" && out.Column(p.Column) == nil })
		return x
	}
	if t.Key != nil {
		made := key(*t.Key)
		out.Key = &made
	}
	out.Indexes = nil
	for _, x := range t.Indexes {
		if x = key(x); len(x.Parts) > 0 {
			out.Indexes = append(out.Indexes, x)
		}
	}
	return &out
}

// A Part is a leaf partition that can be read alone.
type Part struct {
	Name   string  `json:"name"`             // MySQL: partition or subpartition; PostgreSQL: empty, see Table
	Parent string  `json:"parent,omitempty"` // MySQL: the partition that a subpartition belongs to
	Table  TableID `json:"table,omitzero"`   // PostgreSQL: the leaf table
	Rows   int64   `json:"rows,omitempty"`
	Bytes  int64   `json:"bytes,omitempty"`
}

// A Column of a table, in the table's order.
type Column struct {
	Name      string    `json:"name"`
	Type      Type      `json:"type"`
	NotNull   bool      `json:"not_null,omitempty"`
	Default   *Default  `json:"default,omitempty"`
	Generated string    `json:"generated,omitempty"` // expression in the engine's SQL; such a column is not copied
	Virtual   bool      `json:"virtual,omitempty"`   // Generated: computed when read
	Identity  *Identity `json:"identity,omitempty"`
	OnUpdate  bool      `json:"on_update,omitempty"` // MySQL: ON UPDATE CURRENT_TIMESTAMP
	Invisible bool      `json:"invisible,omitempty"`
	Comment   string    `json:"comment,omitempty"`
	Number    int32     `json:"number,omitempty"` // see RelationColumn; 0: unknown
}

// A DefaultKind says how a default is expressed on another engine.
type DefaultKind uint8

const (
	Literal    DefaultKind = iota // Text is the value in canonical text
	Now                           // current timestamp
	Today                         // current date
	NewUUID                       // a random UUID
	Expression                    // Text is SQL of the source engine
)

// Ours reports whether a table is one of Tidemark's own: marker rows, claims and canaries of
// copies, progress, exceptions and monitor tables of streams. Nobody copies, compares or follows
// it.
func (t TableID) Ours() bool {
	name := t.Name
	if t.Schema != "tidemark" {
		var ok bool
		if name, ok = strings.CutPrefix(name, "tidemark_"); !ok {
			return false
		}
	}
	return slices.Contains([]string{"copied", "applied", "claims", "canary", "exceptions", "applymon", "capmon", "capqmon"}, name)
}

// A Default of a column.
type Default struct {
	Kind DefaultKind `json:"kind"`
	Text string      `json:"text,omitempty"`
}

// An Identity is a column with automatic numbers: identity and serial on PostgreSQL, AUTO_INCREMENT
// on MySQL.
type Identity struct {
	Always    bool   `json:"always,omitempty"`
	Start     int64  `json:"start,omitempty"`
	Increment int64  `json:"increment,omitempty"` // 0 means 1
	Next      uint64 `json:"next,omitempty"`      // the value that the next row would get; 0 unknown
	Sequence  string `json:"sequence,omitempty"`  // PostgreSQL: the sequence, if it is not the column's own
}

// An IndexPart is one column or expression of an index.
type IndexPart struct {
	Column string `json:"column,omitempty"`
	Expr   string `json:"expr,omitempty"`   // in the source engine's SQL, where Column is empty
	Prefix int    `json:"prefix,omitempty"` // MySQL: the first Prefix characters or bytes only
	Desc   bool   `json:"desc,omitempty"`
}

// An Index or key.
type Index struct {
	Name    string      `json:"name"`
	Parts   []IndexPart `json:"parts"`
	Unique  bool        `json:"unique,omitempty"`
	Method  string      `json:"method,omitempty"`  // "btree" (also when empty), "hash", "gin", "fulltext", "spatial", ...
	Where   string      `json:"where,omitempty"`   // partial index: predicate in the source engine's SQL
	Include []string    `json:"include,omitempty"` // covered columns
	// Constraint is of a unique index: the engine counts it among the table's constraints, by its
	// name. MySQL and MariaDB do so with each unique key.
	Constraint bool `json:"constraint,omitempty"`
	// NullsEqual is of a unique index: NULLs are the same value (PostgreSQL's NULLS NOT DISTINCT).
	NullsEqual bool   `json:"nulls_equal,omitempty"`
	Comment    string `json:"comment,omitempty"`
}

// Columns returns the index's column names; nil if any part is an expression or a prefix.
func (x *Index) Columns() []string {
	out := make([]string, len(x.Parts))
	for i, p := range x.Parts {
		if p.Column == "" || p.Prefix != 0 {
			return nil
		}
		out[i] = p.Column
	}
	return out
}

// A ForeignKey of a table. Actions are "NO ACTION", "RESTRICT", "CASCADE",
// "SET NULL" or "SET DEFAULT".
type ForeignKey struct {
	Name       string   `json:"name"`
	Columns    []string `json:"columns"`
	Ref        TableID  `json:"ref"`
	RefColumns []string `json:"ref_columns"`
	OnUpdate   string   `json:"on_update,omitempty"`
	OnDelete   string   `json:"on_delete,omitempty"`
	Deferrable bool     `json:"deferrable,omitempty"`
	Deferred   bool     `json:"deferred,omitempty"` // initially
}

// Acts reports whether the key changes rows of its table when those that they reference change.
func (f ForeignKey) Acts() bool {
	return slices.ContainsFunc([]string{f.OnDelete, f.OnUpdate}, func(action string) bool {
		return action == "CASCADE" || strings.HasPrefix(action, "SET ")
	})
}

// A Check constraint; Expr is in the source engine's SQL.
type Check struct {
	Name      string `json:"name"`
	Expr      string `json:"expr"`
	Unchecked string `json:"unchecked,omitempty"` // NotEnforced or NotValid: rows may violate it
}

// What a Check may be besides enforced.
const (
	NotEnforced = "NOT ENFORCED" // of no row (MySQL; PostgreSQL since 18)
	NotValid    = "NOT VALID"    // of rows that came since it was made (PostgreSQL)
)

// A Phase says when an object is made, relative to the rows.
type Phase uint8

const (
	BeforeRows Phase = iota // schemas, types, functions, tables
	AfterTable              // once Table holds all its rows: keys, indexes, statistics; other tables may still be loading
	AfterRows               // once all tables are full: foreign keys, views, triggers, policies
)

// An Object is one thing to create on a target, with the statements that do so.
type Object struct {
	ID      string   `json:"id"`              // unique: `index public.orders_pkey`
	Kind    string   `json:"kind"`            // "schema", "type", "table", "index", "foreign key", "view", "trigger", ...
	Phase   Phase    `json:"phase"`           //
	Table   TableID  `json:"table,omitzero"`  // what it belongs to, if anything
	SQL     []string `json:"sql"`             // run one by one, in order
	Depends []string `json:"depends"`         // IDs that must be done before; unknown ones are ignored
	After   []string `json:"after,omitempty"` // IDs that must have ended before, done or failed; unknown ones are ignored
	Bytes   int64    `json:"bytes,omitempty"` // expected work, to start the largest first
	Heavy   bool     `json:"heavy,omitempty"` // takes time in proportion to Bytes: run on a lane, shown in progress
	Older   []Older  `json:"older,omitempty"` // of a source's object: how older servers of its engine make it, the newest first
}

// Fires reports whether the object acts by itself, on rows that are written or at its time.
func (o *Object) Fires() bool { return o.Kind == "trigger" || o.Kind == "event" }

// An Older says how an object is created on a server whose major version lacks one of its features.
type Older struct {
	Below    int      `json:"below"`         // for servers of a major version below this one
	SQL      []string `json:"sql,omitempty"` // instead of the object's; nil: it cannot be made
	Severity Severity `json:"severity"`      // of the finding that says so
	Text     string   `json:"text"`          // what is lost, and why
}

// On returns how the object is created on a server of that major version if that differs from its
// own; nil if not.
func (o *Object) On(major int) *Older {
	var out *Older
	for i := range o.Older {
		if major < o.Older[i].Below {
			out = &o.Older[i]
		}
	}
	return out
}

// A Severity of a Finding.
type Severity uint8

const (
	Note    Severity = iota // worth knowing
	Warning                 // something will be different on the target
	Blocker                 // the job cannot run, or would lose something
)

func (s Severity) String() string { return [...]string{"note", "warning", "blocker"}[s] }

// A Finding is a remark of a plan or a check about one object.
type Finding struct {
	Severity Severity `json:"severity"`
	Kind     Kind     `json:"kind,omitempty"`   // of a Blocker: the Kind of the error that it becomes; of a Warning: see Fails
	Object   string   `json:"object,omitempty"` // `column shop.item.price`
	Text     string   `json:"text"`             // what, and why
	Hint     string   `json:"hint,omitempty"`
}

// Fails reports whether a warning is about what the copy will try and, as far as is known, fail to
// do. Its Kind is that of the error.
func (f *Finding) Fails() bool { return f.Severity == Warning && f.Kind != Bug }
