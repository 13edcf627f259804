package mysql

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"
	parsermysql "github.com/pingcap/tidb/pkg/parser/mysql"

	"github.com/tidemarkdb/tidemark"
)

// A ddlReader says what a statement makes of definitions. What it cannot say, since the
// parser does not read the statement or its effect depends on what is not known, is unknown
// from there on: never guessed.
type ddlReader struct {
	mariadb bool
	version int    // 80033, 101100
	mode    uint64 // sql_mode of its session
	db      string // of its session
	key     func(tidemark.TableID) tidemark.TableID
	at      func(tidemark.TableID) *tableDef // before the statement
	tables  func(db string) []tidemark.TableID
	charset func(db string) (string, error)      // of new tables; "" if it is not known
	holds   func(set, text string) (bool, error) // whether a character set has all of a text

	text *ddlText
	out  map[tidemark.TableID]*tableDef
	err  error // of charset or holds
}

// An unread is a reason why a statement's effect is not known.
type unread struct{ why string }

func (u *unread) Error() string { return u.why }

func unreadf(format string, args ...any) error { return &unread{fmt.Sprintf(format, args...)} }

// read gives the definitions that a statement changes. An error is that of charset or holds.
func (d *ddlReader) read(st stmt, sql string) (map[tidemark.TableID]*tableDef, error) {
	d.out = map[tidemark.TableID]*tableDef{}
	err := d.apply(sql)
	if d.err != nil {
		return nil, d.err
	}
	if err == nil {
		return d.out, nil
	}
	d.out = map[tidemark.TableID]*tableDef{}
	unknown := &tableDef{Unknown: firstWords(sql) + " is not understood: " + firstWords(err.Error())}
	if st.kind == stmtSchema {
		for _, id := range d.tables(d.key(tidemark.TableID{Schema: st.name}).Schema) {
			d.out[id] = unknown
		}
		d.out[d.key(tidemark.TableID{Schema: st.name})] = &tableDef{}
		return d.out, nil
	}
	for _, id := range st.tables {
		d.out[d.key(id)] = unknown
	}
	return d.out, nil
}

// apply parses a statement and carries it out. The parser is a library for another server's
// dialect, so whatever it does with a statement that it does not expect is an error here.
func (d *ddlReader) apply(sql string) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = unreadf("the parser fails: %v", r)
		}
	}()
	if d.mode&(modeOracle|modeMaxDB) != 0 {
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
			d.out[d.id(t)] = &tableDef{Gone: true}
		}
	case *ast.CreateIndexStmt:
		if n.KeyType == ast.IndexKeyTypeUnique {
			return d.edit(n.Table, func(s *tableDef) error {
				return s.addKey(n.IndexName, n.IfNotExists || d.text.maybe, n.IndexPartSpecifications)
			})
		}
	case *ast.DropIndexStmt:
		return d.edit(n.Table, func(s *tableDef) error { s.dropKey(n.IndexName); return nil })
	case *ast.DropDatabaseStmt:
		db := d.schema(n.Name.O)
		for _, id := range d.tables(db.Schema) {
			d.out[id] = &tableDef{Gone: true}
		}
		d.out[db] = &tableDef{Whole: true}
	case *ast.AlterDatabaseStmt:
		return d.alterDatabase(n)
	default:
		return unreadf("a %T", node)
	}
	return nil
}

// statement parses a statement of DDL, whose text it leaves in d.text.
func (d *ddlReader) statement(sql string) (node ast.StmtNode, err error) {
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

func (d *ddlReader) parse() (ast.StmtNode, error) {
	p := parser.New()
	mode := parsermysql.SQLMode(0)
	if d.mode&modeRealAsFloat != 0 {
		mode |= parsermysql.ModeRealAsFloat
	}
	if d.mode&modeNoBackslash != 0 {
		mode |= parsermysql.ModeNoBackslashEscapes
	}
	p.SetSQLMode(mode)
	return p.ParseOneStmt(d.text.text(), "", "")
}

func (d *ddlReader) id(t *ast.TableName) tidemark.TableID {
	id := tidemark.TableID{Schema: t.Schema.O, Name: t.Name.O}
	if id.Schema == "" {
		id.Schema = d.db
	}
	return d.key(id)
}

// schema is what stands for a database.
func (d *ddlReader) schema(name string) tidemark.TableID {
	if name == "" {
		name = d.db
	}
	return d.key(tidemark.TableID{Schema: name})
}

// get gives a definition as far as the statement has gone; one that is not known has Unknown.
func (d *ddlReader) get(id tidemark.TableID) *tableDef {
	s := d.out[id]
	if s == nil {
		s = d.at(id)
	}
	if s == nil {
		s = &tableDef{Unknown: "nothing was known of it"}
	}
	return s
}

func (d *ddlReader) move(from, to tidemark.TableID) {
	s := d.get(from)
	if s.Gone {
		if d.text.ifExists {
			return
		}
		s = &tableDef{Unknown: "the table that was given its name was not known"}
	}
	d.out[to], d.out[from] = s, &tableDef{Gone: true}
}

// edit changes the definition of a table that is known.
func (d *ddlReader) edit(t *ast.TableName, do func(*tableDef) error) error {
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
	s.settle()
	d.out[id] = s
	return nil
}

// clone gives a copy that may be changed.
func (s *tableDef) clone() *tableDef {
	c := *s
	c.Derived = true
	c.Columns, c.Keys = slices.Clone(s.Columns), slices.Clone(s.Keys)
	for i := range c.Keys {
		c.Keys[i].Columns = slices.Clone(c.Keys[i].Columns)
	}
	return &c
}

// column gives the index of a column; -1 if there is none.
func (s *tableDef) column(name string) int {
	return slices.IndexFunc(s.Columns, func(c defColumn) bool { return strings.EqualFold(c.Name, name) })
}

// settle brings keys in line with columns.
func (s *tableDef) settle() {
	for i := range s.Keys {
		k := &s.Keys[i]
		for j, name := range k.Columns {
			at := s.column(name)
			if at < 0 {
				continue
			}
			k.Columns[j] = s.Columns[at].Name
			s.Columns[at].NotNull = s.Columns[at].NotNull || k.Name == primaryKey
		}
	}
}

// addKey adds a unique key; without a name it gets that of its first column.
func (s *tableDef) addKey(name string, ifNotExists bool, parts []*ast.IndexPartSpecification) error {
	k := defKey{Name: name}
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
		return slices.ContainsFunc(s.Keys, func(k defKey) bool { return strings.EqualFold(k.Name, name) })
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
		for n := 2; has(k.Name) || strings.EqualFold(k.Name, primaryKey); n++ {
			k.Name = fmt.Sprintf("%s_%d", first, n)
		}
	}
	s.Keys = append(s.Keys, k)
	return nil
}

func (s *tableDef) dropKey(name string) {
	s.Keys = slices.DeleteFunc(s.Keys, func(k defKey) bool { return strings.EqualFold(k.Name, name) })
}

// constraint adds what of constraints is a unique key.
func (s *tableDef) constraint(c *ast.Constraint, maybe bool) error {
	maybe = maybe || c.IfNotExists
	switch c.Tp {
	case ast.ConstraintPrimaryKey:
		if maybe && slices.ContainsFunc(s.Keys, func(k defKey) bool { return k.Name == primaryKey }) {
			return nil
		}
		return s.addKey(primaryKey, false, c.Keys)
	case ast.ConstraintUniq, ast.ConstraintUniqKey, ast.ConstraintUniqIndex:
		return s.addKey(c.Name, maybe, c.Keys)
	case ast.ConstraintKey, ast.ConstraintIndex, ast.ConstraintForeignKey, ast.ConstraintFulltext, ast.ConstraintCheck:
		return nil
	}
	return unreadf("a constraint of the kind %d", c.Tp)
}

// create makes a definition of CREATE TABLE.
func (d *ddlReader) create(n *ast.CreateTableStmt) error {
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
			like = &tableDef{Unknown: "the table that it was made like was not known"}
		}
		d.out[id] = like
		return nil
	}
	s := &tableDef{Form: "BASE TABLE", Derived: true}
	if err := d.options(s, n.Options); err != nil {
		return err
	}
	if s.Charset == "" {
		if s.Charset, d.err = d.charset(d.schema(n.Table.Schema.O).Schema); d.err != nil {
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
	s.settle()
	d.out[id] = s
	return nil
}

// columnKeys adds the keys that a column's own definition names.
func (s *tableDef) columnKeys(def *ast.ColumnDef) error {
	parts := []*ast.IndexPartSpecification{{Column: def.Name}}
	for _, o := range def.Options {
		var err error
		switch o.Tp {
		case ast.ColumnOptionPrimaryKey:
			err = s.addKey(primaryKey, false, parts)
		case ast.ColumnOptionUniqKey:
			err = s.addKey("", false, parts)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// options sets what a table's options say of character sets.
func (d *ddlReader) options(s *tableDef, options []*ast.TableOption) error {
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

func (d *ddlReader) alterDatabase(n *ast.AlterDatabaseStmt) error {
	db := d.schema(n.Name.O)
	s := tableDef{}
	if was := d.at(db); was != nil {
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
