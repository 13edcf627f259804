package history

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"
	parsermysql "github.com/pingcap/tidb/pkg/parser/mysql"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/schema"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// A Reader derives a statement's effect on definitions. What it cannot derive, because the parser
// cannot read the statement or its effect depends on unknown facts, is unknown from there on: never
// guessed.
type Reader struct {
	Mariadb bool
	Version int    // 80033, 101100
	Mode    uint64 // sql_mode of its session
	DB      string // of its session
	Key     func(tidemark.TableID) tidemark.TableID
	At      func(tidemark.TableID) *Definition // the definition before the statement
	Tables  func(db string) []tidemark.TableID
	Charset func(db string) (string, error)      // of new tables; "" if unknown
	Holds   func(set, text string) (bool, error) // whether a character set can represent all of a text

	text *ddlText
	out  map[tidemark.TableID]*Definition
	err  error // of Charset or Holds
}

// An unread is the reason why a statement's effect is unknown.
type unread struct{ why string }

func (u *unread) Error() string { return u.why }

func unreadf(format string, args ...any) error { return &unread{fmt.Sprintf(format, args...)} }

// Read returns the definitions that a statement changes. An error comes from Charset or Holds.
func (d *Reader) Read(st Statement, sql string) (map[tidemark.TableID]*Definition, error) {
	d.out = map[tidemark.TableID]*Definition{}
	err := d.apply(sql)
	if d.err != nil {
		return nil, d.err
	}
	if err == nil {
		return d.out, nil
	}
	d.out = map[tidemark.TableID]*Definition{}
	unknown := &Definition{Unknown: server.FirstWords(sql) + " is not understood: " + server.FirstWords(err.Error())}
	if st.Kind == Schema {
		for _, id := range d.Tables(d.Key(tidemark.TableID{Schema: st.Name}).Schema) {
			d.out[id] = unknown
		}
		d.out[d.Key(tidemark.TableID{Schema: st.Name})] = &Definition{}
		return d.out, nil
	}
	for _, id := range st.Tables {
		d.out[d.Key(id)] = unknown
	}
	return d.out, nil
}

// apply parses a statement and applies it. The parser is a library for another server's dialect, so
// a panic on an unexpected statement becomes an error here.
func (d *Reader) apply(sql string) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = unreadf("the parser fails: %v", r)
		}
	}()
	if d.Mode&(modeOracle|modeMaxDB) != 0 {
		return unreadf("its session's sql_mode has other types")
	}
	node, err := d.statement(sql)
	if err != nil {
		return err
	}
	switch n := node.(type) {
	case *ast.CreateTableStmt:
		return d.create(n)
	case *ast.AlterTableStmt:
		return d.alter(n)
	case *ast.RenameTableStmt:
		for _, pair := range n.TableToTables {
			d.move(d.id(pair.OldTable), d.id(pair.NewTable))
		}
	case *ast.DropTableStmt:
		for _, t := range n.Tables {
			d.out[d.id(t)] = &Definition{Gone: true}
		}
	case *ast.CreateIndexStmt:
		if n.KeyType == ast.IndexKeyTypeUnique {
			return d.edit(n.Table, func(s *Definition) error {
				return s.addKey(n.IndexName, n.IfNotExists || d.text.maybe, n.IndexPartSpecifications)
			})
		}
	case *ast.DropIndexStmt:
		return d.edit(n.Table, func(s *Definition) error { s.dropKey(n.IndexName); return nil })
	case *ast.DropDatabaseStmt:
		db := d.schema(n.Name.O)
		for _, id := range d.Tables(db.Schema) {
			d.out[id] = &Definition{Gone: true}
		}
		d.out[db] = &Definition{Whole: true}
	case *ast.AlterDatabaseStmt:
		return d.alterDatabase(n)
	default:
		return unreadf("a %T", node)
	}
	return nil
}

// statement parses a DDL statement and leaves its text in d.text.
func (d *Reader) statement(sql string) (node ast.StmtNode, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = unreadf("the parser fails: %v", r)
		}
	}()
	if d.text, err = d.readDDLText(sql); err != nil {
		return nil, err
	}
	node, err = d.parse()
	if err != nil {
		d.text.guess()
		var again error
		if node, again = d.parse(); again != nil {
			return nil, err
		}
	}
	return node, nil
}

func (d *Reader) parse() (ast.StmtNode, error) {
	p := parser.New()
	mode := parsermysql.SQLMode(0)
	if d.Mode&modeRealAsFloat != 0 {
		mode |= parsermysql.ModeRealAsFloat
	}
	if d.Mode&ModeNoBackslash != 0 {
		mode |= parsermysql.ModeNoBackslashEscapes
	}
	p.SetSQLMode(mode)
	return p.ParseOneStmt(d.text.text(), "", "")
}

func (d *Reader) id(t *ast.TableName) tidemark.TableID {
	id := tidemark.TableID{Schema: t.Schema.O, Name: t.Name.O}
	if id.Schema == "" {
		id.Schema = d.DB
	}
	return d.Key(id)
}

// schema returns the TableID that represents a database.
func (d *Reader) schema(name string) tidemark.TableID {
	if name == "" {
		name = d.DB
	}
	return d.Key(tidemark.TableID{Schema: name})
}

// get returns a definition with the statement's effects so far; an unknown one has Unknown set.
func (d *Reader) get(id tidemark.TableID) *Definition {
	s := d.out[id]
	if s == nil {
		s = d.At(id)
	}
	if s == nil {
		s = &Definition{Unknown: "it was not known"}
	}
	return s
}

func (d *Reader) move(from, to tidemark.TableID) {
	s := d.get(from)
	if s.Gone {
		if d.text.ifExists {
			return
		}
		s = &Definition{Unknown: "the table that was given its name was not known"}
	}
	d.out[to], d.out[from] = s, &Definition{Gone: true}
}

// edit changes the definition of a known table.
func (d *Reader) edit(t *ast.TableName, do func(*Definition) error) error {
	id := d.id(t)
	s := d.get(id)
	switch {
	case s.Unknown != "" || s.Gone && d.text.ifExists:
		return nil
	case s.Gone:
		return unreadf("the table was not known")
	}
	s = s.clone()
	if err := do(s); err != nil {
		return err
	}
	for i, c := range s.Columns { // a server refuses that: the known definition was wrong
		if s.column(c.Name) != i {
			return unreadf("two columns are %s", c.Name)
		}
	}
	s.normalize()
	d.out[id] = s
	return nil
}

// clone returns a copy that may be modified.
func (s *Definition) clone() *Definition {
	c := *s
	c.Derived = true
	c.Columns, c.Keys = slices.Clone(s.Columns), slices.Clone(s.Keys)
	for i := range c.Keys {
		c.Keys[i].Columns = slices.Clone(c.Keys[i].Columns)
	}
	return &c
}

// column returns the index of a column; -1 if there is none.
func (s *Definition) column(name string) int {
	return slices.IndexFunc(s.Columns, func(c Column) bool { return strings.EqualFold(c.Name, name) })
}

// normalize makes keys and columns consistent.
func (s *Definition) normalize() {
	for i := range s.Keys {
		k := &s.Keys[i]
		for j, name := range k.Columns {
			at := s.column(name)
			if at < 0 {
				continue
			}
			k.Columns[j] = s.Columns[at].Name
			s.Columns[at].NotNull = s.Columns[at].NotNull || k.Name == schema.PrimaryKey
		}
	}
}

// addKey adds a unique key; without a name it gets its first column's name.
func (s *Definition) addKey(name string, ifNotExists bool, parts []*ast.IndexPartSpecification) error {
	k := schema.UniqueKey{Name: name}
	for _, p := range parts {
		column := ""
		if p.Column != nil {
			column = p.Column.Name.O
			if s.column(column) < 0 {
				return unreadf("there is no column %s", column)
			}
		}
		k.Columns = append(k.Columns, column)
	}
	if len(k.Columns) == 0 {
		return unreadf("a key without columns")
	}
	has := func(name string) bool {
		return slices.ContainsFunc(s.Keys, func(k schema.UniqueKey) bool { return strings.EqualFold(k.Name, name) })
	}
	switch {
	case name != "" && has(name):
		if ifNotExists {
			return nil
		}
		return unreadf("there is a key %s already", name)
	case name == "":
		first := k.Columns[0]
		if first == "" {
			first = "functional_index"
		}
		k.Name = first
		for n := 2; has(k.Name) || strings.EqualFold(k.Name, schema.PrimaryKey); n++ {
			k.Name = fmt.Sprintf("%s_%d", first, n)
		}
	}
	s.Keys = append(s.Keys, k)
	return nil
}

func (s *Definition) dropKey(name string) {
	s.Keys = slices.DeleteFunc(s.Keys, func(k schema.UniqueKey) bool { return strings.EqualFold(k.Name, name) })
}

// constraint adds the key of a constraint, if that is a primary or unique key.
func (s *Definition) constraint(c *ast.Constraint, maybe bool) error {
	maybe = maybe || c.IfNotExists
	switch c.Tp {
	case ast.ConstraintPrimaryKey:
		if maybe && slices.ContainsFunc(s.Keys, func(k schema.UniqueKey) bool { return k.Name == schema.PrimaryKey }) {
			return nil
		}
		return s.addKey(schema.PrimaryKey, false, c.Keys)
	case ast.ConstraintUniq, ast.ConstraintUniqKey, ast.ConstraintUniqIndex:
		return s.addKey(c.Name, maybe, c.Keys)
	case ast.ConstraintKey, ast.ConstraintIndex, ast.ConstraintForeignKey, ast.ConstraintFulltext, ast.ConstraintCheck:
		return nil
	}
	return unreadf("a constraint of the kind %d", c.Tp)
}

// create creates a definition from CREATE TABLE.
func (d *Reader) create(n *ast.CreateTableStmt) error {
	id := d.id(n.Table)
	if was := d.get(id); n.IfNotExists && !d.text.replace && !was.Gone {
		if was.Unknown != "" {
			return unreadf("the table may have been there before")
		}
		return nil
	}
	if n.TemporaryKeyword != ast.TemporaryNone || n.Select != nil {
		return unreadf("its columns come from elsewhere")
	}
	if n.ReferTable != nil {
		like := d.get(d.id(n.ReferTable))
		if like.Gone {
			like = &Definition{Unknown: "the table that it copies with LIKE was not known"}
		}
		d.out[id] = like
		return nil
	}
	s := &Definition{Form: "BASE TABLE", Derived: true}
	if err := d.options(s, n.Options); err != nil {
		return err
	}
	if s.Charset == "" {
		if s.Charset, d.err = d.Charset(d.schema(n.Table.Schema.O).Schema); d.err != nil {
			return d.err
		}
	}
	for _, def := range n.Cols {
		c, err := d.column(def, s.Charset)
		if err != nil {
			return err
		}
		if s.column(c.Name) >= 0 {
			return unreadf("two columns are %s", c.Name)
		}
		s.Columns = append(s.Columns, c)
	}
	for _, def := range n.Cols {
		if err := s.columnKeys(def); err != nil {
			return err
		}
	}
	for _, c := range n.Constraints {
		if err := s.constraint(c, d.text.maybe); err != nil {
			return err
		}
	}
	if len(s.Columns) == 0 {
		return unreadf("it has no columns")
	}
	s.normalize()
	d.out[id] = s
	return nil
}

// columnKeys adds the keys that a column's own definition declares.
func (s *Definition) columnKeys(def *ast.ColumnDef) error {
	parts := []*ast.IndexPartSpecification{{Column: def.Name}}
	for _, o := range def.Options {
		var err error
		switch o.Tp {
		case ast.ColumnOptionPrimaryKey:
			err = s.addKey(schema.PrimaryKey, false, parts)
		case ast.ColumnOptionUniqKey:
			err = s.addKey("", false, parts)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// options applies a table's options about character sets.
func (d *Reader) options(s *Definition, options []*ast.TableOption) error {
	for _, o := range options {
		if o.Tp != ast.TableOptionCharset && o.Tp != ast.TableOptionCollate {
			continue
		}
		set, err := d.text.set(o.StrValue)
		if err != nil {
			return err
		}
		if set == "" || o.Default {
			return errNational
		}
		s.Charset = set
	}
	return nil
}

func (d *Reader) alterDatabase(n *ast.AlterDatabaseStmt) error {
	db := d.schema(n.Name.O)
	s := Definition{}
	if was := d.At(db); was != nil {
		s = *was
	}
	for _, o := range n.Options {
		if o.Tp != ast.DatabaseOptionCharset && o.Tp != ast.DatabaseOptionCollate {
			continue
		}
		set, err := d.text.set(o.Value)
		if err != nil {
			return err
		}
		s.Charset = set
	}
	d.out[db] = &s
	return nil
}
