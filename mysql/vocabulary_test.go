package mysql

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/schema"
	"github.com/tidemarkdb/tidemark/mysql/server"
	pgschema "github.com/tidemarkdb/tidemark/postgres/schema"
	pgserver "github.com/tidemarkdb/tidemark/postgres/server"
)

// An aspect of a table: set adds it to a table that lacks it.
type aspect struct {
	set  func(t *tidemark.Table)
	from string // engines that have it: "postgres", "mysql", or both
}

const both = "postgres mysql"

func ofColumn(set func(c *tidemark.Column)) func(t *tidemark.Table) {
	return func(t *tidemark.Table) { set(&t.Columns[1]) }
}

func typed(kind tidemark.TypeKind, native string, set func(c *tidemark.Type)) func(t *tidemark.Table) {
	return ofColumn(func(c *tidemark.Column) {
		c.Type = tidemark.Type{Kind: kind, Native: native}
		set(&c.Type)
	})
}

func index(set func(x *tidemark.Index)) func(t *tidemark.Table) {
	return func(t *tidemark.Table) { set(&t.Indexes[0]) }
}

func foreign(set func(f *tidemark.ForeignKey)) func(t *tidemark.Table) {
	return func(t *tidemark.Table) { set(&t.ForeignKeys[0]) }
}

// aspects has every field of the vocabulary that is part of a definition, by its struct and name.
// If only a field's presence matters, it has some value.
var aspects = map[string]aspect{
	"Table.Form":        {func(t *tidemark.Table) { t.Form = tidemark.Foreign }, "postgres"},
	"Table.Columns":     {func(t *tidemark.Table) { t.Columns = append(t.Columns, *t.Column("n")); t.Columns[3].Name = "more" }, both},
	"Table.Key":         {func(t *tidemark.Table) { t.Key = nil }, both},
	"Table.Indexes":     {func(t *tidemark.Table) { t.Indexes = nil }, both},
	"Table.ForeignKeys": {func(t *tidemark.Table) { t.ForeignKeys = nil }, both},
	"Table.Checks":      {func(t *tidemark.Table) { t.Checks = nil }, both},
	"Table.Comment":     {func(t *tidemark.Table) { t.Comment = "text" }, both},
	"Table.Partitions": {func(t *tidemark.Table) {
		t.Form, t.Partitions, t.Native = tidemark.Partitioned, []tidemark.Part{{Table: tidemark.TableID{Schema: "s", Name: "p"}}}, "PARTITION BY HASH (id)"
	}, "postgres"},
	"Table.Native":     {func(t *tidemark.Table) { t.Native = "PARTITION BY HASH (`id`) PARTITIONS 3" }, "mysql"},
	"Column.Name":      {func(t *tidemark.Table) { t.Columns[2].Name = "renamed" }, both},
	"Column.Type":      {ofColumn(func(c *tidemark.Column) { c.Type = tidemark.Type{Kind: tidemark.Date, Native: "date"} }), both},
	"Column.NotNull":   {ofColumn(func(c *tidemark.Column) { c.NotNull = true }), both},
	"Column.Default":   {ofColumn(func(c *tidemark.Column) { c.Default = &tidemark.Default{Text: "5"} }), both},
	"Column.Generated": {func(t *tidemark.Table) { t.Columns[2].Generated = "n + 1" }, both},
	"Column.Virtual":   {func(t *tidemark.Table) { t.Columns[2].Generated, t.Columns[2].Virtual = "n + 1", true }, both},
	"Column.Identity":  {func(t *tidemark.Table) { t.Columns[0].Identity = &tidemark.Identity{} }, both},
	"Column.OnUpdate": {ofColumn(func(c *tidemark.Column) {
		c.Type = tidemark.Type{Kind: tidemark.DateTime, Native: "datetime"}
		c.OnUpdate = true
	}), "mysql"},
	"Column.Invisible": {ofColumn(func(c *tidemark.Column) { c.Invisible = true }), "mysql"},
	"Column.Comment":   {ofColumn(func(c *tidemark.Column) { c.Comment = "text" }), both},
	"Default.Kind": {ofColumn(func(c *tidemark.Column) {
		c.Type = tidemark.Type{Kind: tidemark.DateTime, Native: "datetime"}
		c.Default = &tidemark.Default{Kind: tidemark.Now}
	}), both},
	"Default.Text":          {ofColumn(func(c *tidemark.Column) { c.Default = &tidemark.Default{Text: "6"} }), both},
	"Identity.Increment":    {func(t *tidemark.Table) { t.Columns[0].Identity = &tidemark.Identity{Increment: 7} }, "postgres"},
	"Identity.Next":         {func(t *tidemark.Table) { t.Columns[0].Identity = &tidemark.Identity{Next: 77} }, both},
	"Index.Name":            {index(func(x *tidemark.Index) { x.Name = "other" }), both},
	"Index.Parts":           {index(func(x *tidemark.Index) { x.Parts = append(x.Parts, tidemark.IndexPart{Column: "m"}) }), both},
	"Index.Unique":          {index(func(x *tidemark.Index) { x.Unique = true }), both},
	"Index.Method":          {index(func(x *tidemark.Index) { x.Method = "gin" }), "postgres"},
	"Index.Where":           {index(func(x *tidemark.Index) { x.Where = "(n > 5)" }), "postgres"},
	"Index.Constraint":      {index(func(x *tidemark.Index) { x.Unique, x.Constraint = true, true }), both},
	"Index.NullsEqual":      {index(func(x *tidemark.Index) { x.Unique, x.NullsEqual = true, true }), "postgres"},
	"Index.Include":         {index(func(x *tidemark.Index) { x.Include = []string{"m"} }), "postgres"},
	"IndexPart.Column":      {index(func(x *tidemark.Index) { x.Parts[0].Column = "m" }), both},
	"IndexPart.Expr":        {index(func(x *tidemark.Index) { x.Parts[0] = tidemark.IndexPart{Expr: "(n + 1)"} }), "postgres"},
	"IndexPart.Desc":        {index(func(x *tidemark.Index) { x.Parts[0].Desc = true }), both},
	"ForeignKey.Name":       {foreign(func(f *tidemark.ForeignKey) { f.Name = "other" }), both},
	"ForeignKey.Columns":    {foreign(func(f *tidemark.ForeignKey) { f.Columns = []string{"m"} }), both},
	"ForeignKey.OnUpdate":   {foreign(func(f *tidemark.ForeignKey) { f.OnUpdate = "CASCADE" }), both},
	"ForeignKey.OnDelete":   {foreign(func(f *tidemark.ForeignKey) { f.OnDelete = "SET NULL" }), both},
	"ForeignKey.Deferrable": {foreign(func(f *tidemark.ForeignKey) { f.Deferrable = true }), "postgres"},
	"ForeignKey.Deferred":   {foreign(func(f *tidemark.ForeignKey) { f.Deferrable, f.Deferred = true, true }), "postgres"},
	"ForeignKey.Ref":        {foreign(func(f *tidemark.ForeignKey) { f.Ref.Name = "gone" }), both},
	"Check.Name":            {func(t *tidemark.Table) { t.Checks[0].Name = "other" }, both},
	"Check.Expr":            {func(t *tidemark.Table) { t.Checks[0].Expr = "(n > 99)" }, both},
	"Check.Unchecked":       {func(t *tidemark.Table) { t.Checks[0].Unchecked = tidemark.NotEnforced }, both},
	"Type.Kind":             {typed(tidemark.Date, "date", func(*tidemark.Type) {}), both},
	"Type.Bits":             {typed(tidemark.Int, "bigint", func(x *tidemark.Type) { x.Bits = 64 }), both},
	"Type.Unsigned":         {typed(tidemark.Int, "int unsigned", func(x *tidemark.Type) { x.Bits, x.Unsigned = 32, true }), "mysql"},
	"Type.Length":           {typed(tidemark.Varchar, "varchar(77)", func(x *tidemark.Type) { x.Length = 77 }), "mysql"},
	"Type.Precision":        {typed(tidemark.Decimal, "decimal(9,0)", func(x *tidemark.Type) { x.Precision = 9 }), "mysql"},
	"Type.Scale":            {typed(tidemark.Decimal, "decimal(9,4)", func(x *tidemark.Type) { x.Precision, x.Scale = 9, 4 }), "mysql"},
	"Type.Labels":           {typed(tidemark.Enum, "enum('a')", func(x *tidemark.Type) { x.Labels = []string{"a"} }), "mysql"},
	"Type.Elem":             {typed(tidemark.Array, "integer[]", func(x *tidemark.Type) { x.Elem = &tidemark.Type{Kind: tidemark.Int, Bits: 32} }), "postgres"},
	"Type.Native (SRID)":    {typed(tidemark.Geometry, "point SRID 4326", func(*tidemark.Type) {}), "mysql"},
	"Type.Collation":        {typed(tidemark.Varchar, "varchar(9)", func(x *tidemark.Type) { x.Length, x.Charset, x.Collation = 9, "latin1", "latin1_general_ci" }), "mysql"},
	"ForeignKey.RefColumns": {foreign(func(f *tidemark.ForeignKey) { f.RefColumns = []string{"m"} }), both},
	"Index.Comment":         {func(t *tidemark.Table) { t.Indexes[0].Comment = "text" }, both},
	"Index.Comment (key)":   {func(t *tidemark.Table) { t.Key.Comment = "text" }, both},
	"Table.TableID":         {func(t *tidemark.Table) { t.Name = "other" }, both},
	"IndexPart.Prefix": {func(t *tidemark.Table) {
		t.Columns[1].Type = tidemark.Type{Kind: tidemark.Text, Native: "text"}
		t.Indexes[0].Parts[0].Prefix = 9
	}, "mysql"},
}

// unsaid are fields without anything of a definition that a target could lose, with the reason.
var unsaid = map[string]string{
	"Table.PartitionOf":           "of partitions, which go with their table",
	"Table.Rows":                  "an estimate",
	"Table.Bytes":                 "an estimate",
	"Table.Storage":               "how rows are stored is the target's",
	"Table.Charset":               "the default of columns, which say theirs",
	"Table.Collation":             "the default of columns, which say theirs",
	"Identity.Always":             "a habit of PostgreSQL's, kept between its servers in native objects",
	"Identity.Start":              "where it begins anew only on request",
	"Identity.Sequence":           "reported where another column has it too",
	"Column.Number":               "how a log names it",
	"Table.Form at home":          "foreign tables go over as native objects",
	"Identity.Increment at home":  "sequences go over as native objects",
	"Type.Collation to postgres":  "job says once how many columns are compared otherwise",
	"Index.Constraint to mysql":   "each unique key is one",
	"Index.Constraint to mariadb": "each unique key is one",
	"Type.Native":                 "the spelling of what the other fields say, but for the SRID",
	"Type.Charset":                "values are converted",
	"Type.Portable":               "of the form on the wire",
	"Type.Width1":                 "a hint for tinyint1-bool",
}

func vocabularyTable() *tidemark.Table {
	n := tidemark.Type{Kind: tidemark.Int, Bits: 32, Native: "int"}
	id := tidemark.TableID{Schema: "s", Name: "t"}
	return &tidemark.Table{TableID: id, Columns: []tidemark.Column{{Name: "id", Type: n, NotNull: true}, {Name: "n", Type: n}, {Name: "m", Type: n}},
		Key:         &tidemark.Index{Name: "t_pkey", Unique: true, Parts: []tidemark.IndexPart{{Column: "id"}}},
		Indexes:     []tidemark.Index{{Name: "by_n", Parts: []tidemark.IndexPart{{Column: "n"}}}},
		ForeignKeys: []tidemark.ForeignKey{{Name: "fk", Columns: []string{"n"}, Ref: id, RefColumns: []string{"id"}}},
		Checks:      []tidemark.Check{{Name: "ck", Expr: "(n > 0)"}}}
}

// TestVocabulary sets each field of the vocabulary: every target writes it, or reports in a finding
// what becomes of it. A new field has to be added here too.
func TestVocabulary(t *testing.T) {
	for _, s := range []any{tidemark.Table{}, tidemark.Column{}, tidemark.Type{}, tidemark.Default{}, tidemark.Identity{}, tidemark.Index{}, tidemark.IndexPart{}, tidemark.ForeignKey{}, tidemark.Check{}} {
		typ := reflect.TypeOf(s)
		for i := range typ.NumField() {
			name := typ.Name() + "." + typ.Field(i).Name
			if _, ok := aspects[name]; !ok && unsaid[name] == "" {
				t.Errorf("%s: no renderer is asked what becomes of it", name)
			}
		}
	}
	targets := map[string]interface {
		Render(*tidemark.Database, []tidemark.Move) ([]tidemark.Object, []tidemark.Finding)
	}{
		"postgres": &pgschema.Schema{Server: &pgserver.Server{}},
		"mysql":    &schema.Schema{Server: &server.Server{Major: 8, Patch: 33}},
		"mariadb":  &schema.Schema{Server: &server.Server{MariaDB: true, Major: 10, Minor: 11}},
	}
	for target, e := range targets {
		told := func(from string, set func(*tidemark.Table)) string {
			tables := []*tidemark.Table{vocabularyTable(), vocabularyTable()}
			set(tables[0])
			objects, findings := e.Render(&tidemark.Database{Engine: from, Tables: tables[:1]}, []tidemark.Move{{From: tables[0], To: tables[0], Source: schema.StoredNames(tables[0])}})
			for i := range findings {
				findings[i].Object = ""
			}
			out, err := json.Marshal([]any{objects, findings})
			if err != nil {
				t.Fatal(err)
			}
			return string(out)
		}
		for _, from := range []string{"postgres", "mysql"} {
			for name, a := range aspects {
				if a.from != both && a.from != from || from == target && unsaid[name+" at home"] != "" || unsaid[name+" to "+target] != "" {
					continue
				}
				without := func(*tidemark.Table) {}
				switch name { // what exists without the aspect, plus what the aspect needs
				case "Identity.Increment", "Identity.Next":
					without = aspects["Column.Identity"].set
				case "Column.Virtual":
					without = aspects["Column.Generated"].set
				case "Type.Native (SRID)":
					without = typed(tidemark.Geometry, "point", func(*tidemark.Type) {})
				case "Index.Constraint", "Index.NullsEqual":
					without = aspects["Index.Unique"].set
				case "Type.Scale":
					without = aspects["Type.Precision"].set
				case "Type.Collation":
					without = typed(tidemark.Varchar, "varchar(9)", func(x *tidemark.Type) { x.Length, x.Charset, x.Collation = 9, "latin1", "latin1_bin" })
				}
				if told(from, a.set) == told(from, without) {
					t.Errorf("%s from %s to %s: neither written nor reported", name, from, target)
				}
			}
		}
	}
}
