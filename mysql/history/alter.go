package history

import (
	"slices"
	"strconv"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
	parsermysql "github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/parser/test_driver"
	"github.com/pingcap/tidb/pkg/parser/types"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/schema"
	"github.com/tidemarkdb/tidemark/mysqltype"
)

// An alteration is what one ALTER TABLE does to columns. Servers run it as a whole: all names in it
// are those before the statement, except after AFTER.
type alteration struct {
	d      *Reader
	s      *Definition
	set    string // default character set of columns
	defs   []columnChange
	drops  []string
	values map[string]*ast.ColumnOption // defaults that are set; nil: dropped
	keys   []func() error               // changes to keys, applied once the columns are known
	all    string                       // CONVERT TO: the character set of all columns
}

// A columnChange adds a column, or changes an existing one.
type columnChange struct {
	of    string // the column to change
	name  string // RENAME COLUMN: only the name changes
	def   *ast.ColumnDef
	place *ast.ColumnPosition
}

func (d *Reader) alter(n *ast.AlterTableStmt) error {
	a := &alteration{d: d, values: map[string]*ast.ColumnOption{}}
	err := d.edit(n.Table, func(s *Definition) error {
		a.s = s
		for _, spec := range n.Specs {
			if spec.Tp == ast.AlterTableOption {
				if err := a.options(spec.Options); err != nil {
					return err
				}
			}
		}
		a.set = s.Charset
		for _, spec := range n.Specs {
			if err := a.spec(spec); err != nil {
				return err
			}
		}
		return a.run()
	})
	if err != nil {
		return err
	}
	for _, spec := range n.Specs { // also of an unknown table
		if spec.Tp == ast.AlterTableRenameTable {
			d.move(d.id(n.Table), d.id(spec.NewTable))
		}
	}
	return nil
}

func (a *alteration) options(options []*ast.TableOption) error {
	for _, o := range options {
		if o.Tp == ast.TableOptionCharset && o.UintValue == ast.TableOptionCharsetWithConvertTo {
			set, err := a.d.text.set(o.StrValue)
			if err == nil && (set == "" || o.Default) {
				err = errNational
			}
			if err != nil {
				return err
			}
			a.all = set
		}
	}
	return a.d.options(a.s, options)
}

// spec records one action.
func (a *alteration) spec(n *ast.AlterTableSpec) error {
	has := func(name *ast.ColumnName) bool { return name != nil && a.s.column(name.Name.O) >= 0 }
	switch n.Tp {
	case ast.AlterTableAddColumns:
		return a.add(n)
	case ast.AlterTableDropColumn:
		if n.IfExists && !has(n.OldColumnName) {
			return nil
		}
		a.drops = append(a.drops, n.OldColumnName.Name.O)
	case ast.AlterTableModifyColumn, ast.AlterTableChangeColumn:
		of := n.OldColumnName
		if n.Tp == ast.AlterTableModifyColumn {
			of = n.NewColumns[0].Name
		}
		if n.IfExists && !has(of) {
			return nil
		}
		a.defs = append(a.defs, columnChange{of: of.Name.O, def: n.NewColumns[0], place: n.Position})
		a.keys = append(a.keys, func() error { return a.s.columnKeys(n.NewColumns[0]) })
	case ast.AlterTableRenameColumn:
		a.defs = append(a.defs, columnChange{of: n.OldColumnName.Name.O, name: n.NewColumnName.Name.O})
	case ast.AlterTableAlterColumn:
		def := n.NewColumns[0]
		a.values[strings.ToLower(def.Name.Name.O)] = nil
		if len(def.Options) > 0 {
			a.values[strings.ToLower(def.Name.Name.O)] = def.Options[0]
		}
	default:
		return a.keySpec(n)
	}
	return nil
}

func (a *alteration) add(n *ast.AlterTableSpec) error {
	for _, def := range n.NewColumns {
		name := def.Name.Name.O
		there := a.s.column(name) >= 0 || slices.ContainsFunc(a.defs, func(c columnChange) bool {
			return c.of == "" && strings.EqualFold(c.def.Name.Name.O, name)
		})
		if n.IfNotExists && there {
			if slices.ContainsFunc(a.drops, func(x string) bool { return strings.EqualFold(x, name) }) {
				return unreadf("column %s is dropped, and added if it is not there", name)
			}
			continue
		}
		place := n.Position
		if len(n.NewColumns) > 1 {
			place = nil
		}
		a.defs = append(a.defs, columnChange{def: def, place: place})
		a.keys = append(a.keys, func() error { return a.s.columnKeys(def) })
	}
	for _, c := range n.NewConstraints {
		a.keys = append(a.keys, func() error { return a.s.constraint(c, a.d.text.maybe) })
	}
	return nil
}

// keySpec records an action on keys, or on neither keys nor columns.
func (a *alteration) keySpec(n *ast.AlterTableSpec) error {
	switch n.Tp {
	case ast.AlterTableAddConstraint:
		a.keys = append(a.keys, func() error { return a.s.constraint(n.Constraint, a.d.text.maybe) })
	case ast.AlterTableDropPrimaryKey:
		a.s.dropKey(schema.PrimaryKey)
	case ast.AlterTableDropIndex:
		a.s.dropKey(n.Name)
	case ast.AlterTableDropCheck: // DROP CONSTRAINT may drop a unique key
		a.s.dropKey(n.Constraint.Name)
	case ast.AlterTableRenameIndex:
		for i := range a.s.Keys {
			if strings.EqualFold(a.s.Keys[i].Name, n.FromKey.O) {
				a.s.Keys[i].Name = n.ToKey.O
				break
			}
		}
	case ast.AlterTableOption, ast.AlterTableRenameTable, ast.AlterTableLock, ast.AlterTableAlgorithm, ast.AlterTableForce, ast.AlterTableDropForeignKey,
		ast.AlterTableEnableKeys, ast.AlterTableDisableKeys, ast.AlterTableOrderByColumns, ast.AlterTableWithValidation, ast.AlterTableWithoutValidation,
		ast.AlterTableAlterCheck, ast.AlterTableIndexInvisible, ast.AlterTableImportTablespace, ast.AlterTableDiscardTablespace,
		ast.AlterTableAddPartitions, ast.AlterTableCoalescePartitions, ast.AlterTableDropPartition, ast.AlterTableTruncatePartition, ast.AlterTablePartition,
		ast.AlterTableRemovePartitioning, ast.AlterTableRebuildPartition, ast.AlterTableReorganizePartition, ast.AlterTableCheckPartitions,
		ast.AlterTableExchangePartition, ast.AlterTableOptimizePartition, ast.AlterTableRepairPartition, ast.AlterTableImportPartitionTablespace,
		ast.AlterTableDiscardPartitionTablespace, ast.AlterTableSecondaryLoad, ast.AlterTableSecondaryUnload:
	default:
		return unreadf("an action of the kind %d", n.Tp)
	}
	return nil
}

// run builds the new columns, in the order that servers use: first the existing ones, as changed;
// then added or moved ones, one after the other.
func (a *alteration) run() error {
	old, names := a.s.Columns, map[string]string{}
	a.s.Columns = nil
	var later []columnChange
	var ready []Column
	for i := range old {
		c, change, err := a.changed(&old[i])
		switch {
		case err != nil:
			return err
		case c == nil:
			continue
		}
		names[strings.ToLower(old[i].Name)] = c.Name
		if change != nil && positioned(change.place) {
			later, ready = append(later, *change), append(ready, *c)
			continue
		}
		a.s.Columns = append(a.s.Columns, *c)
	}
	for _, change := range a.defs {
		var c Column
		if change.of != "" {
			at := slices.IndexFunc(later, func(x columnChange) bool { return x.of == change.of })
			if at < 0 {
				if names[strings.ToLower(change.of)] == "" {
					return unreadf("there is no column %s", change.of)
				}
				continue
			}
			c = ready[at]
		} else {
			var err error
			if c, err = a.d.column(change.def, a.set); err != nil {
				return err
			}
		}
		if err := a.s.insert(c, change.place); err != nil {
			return err
		}
	}
	for _, name := range a.drops {
		if !slices.ContainsFunc(old, func(c Column) bool { return strings.EqualFold(c.Name, name) }) {
			return unreadf("there is no column %s", name)
		}
	}
	if err := a.convert(); err != nil {
		return err
	}
	return a.rekey(names)
}

func positioned(p *ast.ColumnPosition) bool { return p != nil && p.Tp != ast.ColumnPositionNone }

// changed returns a column after the change; nil if it is dropped.
func (a *alteration) changed(c *Column) (*Column, *columnChange, error) {
	is := func(name string) bool { return strings.EqualFold(name, c.Name) }
	if slices.ContainsFunc(a.drops, is) {
		return nil, nil, nil
	}
	out := *c
	for i := range a.defs {
		change := &a.defs[i]
		switch {
		case !is(change.of):
			continue
		case change.def == nil:
			out.Name = change.name
			return &out, change, nil
		}
		made, err := a.d.column(change.def, a.set)
		return &made, change, err
	}
	if o, ok := a.values[strings.ToLower(c.Name)]; ok {
		out.Default, out.Computed = nil, false
		if o != nil {
			out.setDefault(o.Expr)
		}
	}
	return &out, nil, nil
}

// insert inserts a column at its position.
func (s *Definition) insert(c Column, p *ast.ColumnPosition) error {
	if s.column(c.Name) >= 0 {
		return unreadf("there is a column %s already", c.Name)
	}
	at := len(s.Columns)
	switch {
	case !positioned(p):
	case p.Tp == ast.ColumnPositionFirst:
		at = 0
	default:
		if at = s.column(p.RelativeColumn.Name.O) + 1; at == 0 {
			return unreadf("there is no column %s", p.RelativeColumn.Name.O)
		}
	}
	s.Columns = slices.Insert(s.Columns, at, c)
	return nil
}

// rekey updates the keys: it applies the columns' new names, and removes dropped columns.
func (a *alteration) rekey(names map[string]string) error {
	for i := range a.s.Keys {
		k := &a.s.Keys[i]
		for j, part := range k.Columns {
			if now := names[strings.ToLower(part)]; now != "" {
				k.Columns[j] = now
			}
		}
		k.Columns = slices.DeleteFunc(k.Columns, func(part string) bool { return part != "" && a.s.column(part) < 0 })
	}
	a.s.Keys = slices.DeleteFunc(a.s.Keys, func(k schema.UniqueKey) bool { return len(k.Columns) == 0 })
	for _, do := range a.keys {
		if err := do(); err != nil {
			return err
		}
	}
	if len(a.s.Columns) == 0 {
		return unreadf("it has no columns")
	}
	return nil
}

// convert applies CONVERT TO CHARACTER SET: a TEXT grows to the size that its characters may need.
func (a *alteration) convert() error {
	if a.all == "" {
		return nil
	}
	for i := range a.s.Columns {
		c := &a.s.Columns[i]
		t := mysqltype.Parse(c.Type)
		if c.Charset == "" || c.Charset == "binary" || t.Kind == tidemark.JSON {
			continue
		}
		switch t.Kind {
		case tidemark.Text:
			c.Type = textFor(t.Length / mysqltype.SetWidth(c.Charset) * mysqltype.SetWidth(a.all))
		case tidemark.Char, tidemark.Varchar:
			if t.Length*mysqltype.SetWidth(a.all) > 65532 || a.all == "binary" {
				return unreadf("column %s changes its type", c.Name)
			}
		case tidemark.Enum, tidemark.Set:
		default:
			return unreadf("column %s has a character set", c.Name)
		}
		c.Charset = a.all
	}
	return nil
}

// textFor returns the smallest TEXT type for this many bytes.
func textFor(bytes int64) string {
	switch {
	case bytes < 1<<8:
		return "tinytext"
	case bytes < 1<<16:
		return "text"
	case bytes < 1<<24:
		return "mediumtext"
	}
	return "longtext"
}

// column creates a column from its definition; set is the table's character set.
func (d *Reader) column(def *ast.ColumnDef, set string) (Column, error) {
	c := Column{Name: def.Name.Name.O}
	own, null := def.Tp.GetCharset(), false
	for _, o := range def.Options {
		if o.Tp == ast.ColumnOptionCollate && own == "" {
			own = o.StrValue
		}
	}
	if own != "" {
		var err error
		if set, err = d.text.set(own); err != nil {
			return c, err
		}
	}
	if err := d.columnType(&c, def.Tp, set); err != nil {
		return c, err
	}
	for _, o := range def.Options {
		switch o.Tp {
		case ast.ColumnOptionNotNull, ast.ColumnOptionPrimaryKey, ast.ColumnOptionAutoIncrement:
			c.NotNull = true
		case ast.ColumnOptionNull:
			null = true
		case ast.ColumnOptionDefaultValue:
			c.setDefault(o.Expr)
		case ast.ColumnOptionGenerated:
			c.Generated = "generated"
		case ast.ColumnOptionUniqKey, ast.ColumnOptionOnUpdate, ast.ColumnOptionComment, ast.ColumnOptionReference,
			ast.ColumnOptionCollate, ast.ColumnOptionCheck, ast.ColumnOptionColumnFormat, ast.ColumnOptionStorage, ast.ColumnOptionSecondaryEngineAttribute:
		default:
			return c, unreadf("column %s has an option of the kind %d", c.Name, o.Tp)
		}
	}
	if def.Tp.GetType() == parsermysql.TypeTimestamp && !null && c.Default == nil {
		c.Computed = true // servers add a default, or NOT NULL
	}
	return c, nil
}

// columnType sets a column's type as spelled in information_schema. set is the character set of
// text.
func (d *Reader) columnType(c *Column, t *types.FieldType, set string) error {
	n, digits, binary := t.GetFlen(), t.GetDecimal(), set == "binary"
	word := func(text, bytes string) string {
		if binary {
			return bytes
		}
		return text
	}
	sized := func(word string, n int) string {
		if n == types.UnspecifiedLength || n == 0 && (t.GetType() != parsermysql.TypeString && t.GetType() != parsermysql.TypeVarchar) {
			return word
		}
		return word + "(" + strconv.Itoa(n) + ")"
	}
	text := false
	switch t.GetType() {
	case parsermysql.TypeTiny:
		c.Type = sized("tinyint", n)
	case parsermysql.TypeShort:
		c.Type = "smallint"
	case parsermysql.TypeInt24:
		c.Type = "mediumint"
	case parsermysql.TypeLong:
		c.Type = "int"
	case parsermysql.TypeLonglong:
		c.Type = "bigint"
	case parsermysql.TypeNewDecimal:
		if n == types.UnspecifiedLength || n == 0 {
			n = 10
		}
		c.Type = "decimal(" + strconv.Itoa(n) + "," + strconv.Itoa(max(digits, 0)) + ")"
	case parsermysql.TypeFloat, parsermysql.TypeDouble:
		c.Type = map[byte]string{parsermysql.TypeFloat: "float", parsermysql.TypeDouble: "double"}[t.GetType()]
		if n != types.UnspecifiedLength && digits != types.UnspecifiedLength {
			c.Type += "(" + strconv.Itoa(n) + "," + strconv.Itoa(digits) + ")"
		}
	case parsermysql.TypeYear:
		c.Type = "year"
	case parsermysql.TypeDate:
		c.Type = "date"
	case parsermysql.TypeDuration:
		c.Type = sized("time", digits)
	case parsermysql.TypeDatetime:
		c.Type = sized("datetime", digits)
	case parsermysql.TypeTimestamp:
		c.Type = sized("timestamp", digits)
	case parsermysql.TypeBit:
		c.Type = sized("bit", n)
	case parsermysql.TypeString:
		c.Type, text = sized(word("char", "binary"), max(n, -1)), true
	case parsermysql.TypeVarchar:
		if n >= oddLength {
			c.Type = oddTypes[n-oddLength]
			return nil
		}
		c.Type, text = sized(word("varchar", "varbinary"), n), true
		if int64(n)*mysqltype.SetWidth(set) > 65535 {
			return unreadf("column %s changes its type", c.Name)
		}
	case parsermysql.TypeTinyBlob:
		c.Type, text = word("tinytext", "tinyblob"), true
	case parsermysql.TypeBlob:
		bytes := int64(65535)
		if n > 0 {
			bytes = int64(n) * mysqltype.SetWidth(set)
		}
		c.Type, text = textFor(bytes), true
		if binary {
			c.Type = strings.TrimSuffix(c.Type, "text") + "blob"
		}
	case parsermysql.TypeMediumBlob:
		c.Type, text = word("mediumtext", "mediumblob"), true
	case parsermysql.TypeLongBlob:
		c.Type, text = word("longtext", "longblob"), true
	case parsermysql.TypeJSON:
		if c.Type = "json"; d.Mariadb {
			c.Type, c.Charset = "longtext", "utf8mb4"
		}
	case parsermysql.TypeEnum, parsermysql.TypeSet:
		if c.Type = labelled(t); c.Type == "" {
			return unreadf("column %s has labels that are not text", c.Name)
		}
		text = true
	default:
		return unreadf("column %s is of the type %d", c.Name, t.GetType())
	}
	if flags := t.GetFlag(); flags&(parsermysql.UnsignedFlag|parsermysql.ZerofillFlag) != 0 {
		c.Type += " unsigned"
	}
	labels := t.GetType() == parsermysql.TypeEnum || t.GetType() == parsermysql.TypeSet
	switch {
	case !text || binary && !labels:
		return nil
	case set == "":
		return unreadf("column %s has an unknown character set", c.Name)
	}
	c.Charset = set
	if labels && set != "utf8mb4" && strings.ContainsFunc(c.Type, func(r rune) bool { return r >= 0x80 }) {
		var all bool
		if all, d.err = d.Holds(set, c.Type); d.err != nil || !all {
			return unreadf("column %s has labels that its character set has not", c.Name)
		}
	}
	return nil
}

// labelled returns the type text of ENUM and SET; "" if a label is given in bytes.
func labelled(t *types.FieldType) string {
	words := map[byte]string{parsermysql.TypeEnum: "enum", parsermysql.TypeSet: "set"}
	labels := make([]string, len(t.GetElems()))
	for i, label := range t.GetElems() {
		if t.GetElemIsBinaryLit(i) {
			return ""
		}
		labels[i] = "'" + strings.NewReplacer("'", "''", `\`, `\\`, "\n", `\n`, "\r", `\r`, "\x00", `\0`).Replace(label) + "'"
	}
	return words[t.GetType()] + "(" + strings.Join(labels, ",") + ")"
}

// setDefault sets a default. It records a constant only if its canonical text is certain.
func (c *Column) setDefault(e ast.ExprNode) {
	c.Default, c.Computed = nil, true
	v, ok := e.(*test_driver.ValueExpr)
	if !ok {
		return
	}
	t := mysqltype.Parse(c.Type)
	set := func(text string) { c.Default, c.Computed = &text, false }
	switch x := v.GetValue().(type) {
	case nil:
		c.Computed = false
	case int64:
		if t.Kind == tidemark.Int {
			set(strconv.FormatInt(x, 10))
		}
	case uint64:
		if t.Kind == tidemark.Int {
			set(strconv.FormatUint(x, 10))
		}
	case string:
		n, err := strconv.ParseInt(x, 10, 64)
		switch {
		case t.Kind == tidemark.Varchar || t.Kind == tidemark.Enum && slices.Contains(t.Labels, x):
			set(x)
		case t.Kind == tidemark.Int && err == nil:
			set(strconv.FormatInt(n, 10))
		}
	}
}
