package schema

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/functions"
	"github.com/tidemarkdb/tidemark/mysql/server"
	"github.com/tidemarkdb/tidemark/mysqltype"
	"github.com/tidemarkdb/tidemark/sqltext"
)

// Limits of the servers.
const (
	keyBytes   = 3072  // of an InnoDB key, all columns together
	isamBytes  = 1000  // of a MyISAM key
	rowBytes   = 65535 // of a row, without the contents of TEXT and BLOB
	maxColumns = 1017  // of an InnoDB table
	prefixSize = 255   // characters of a text in a non-unique index
)

// A builder builds one table from its logical shape.
type builder struct {
	r       *renderer
	m       *tidemark.Move
	object  string
	columns []*builtColumn
	primary *tidemark.Index
	now     []string   // keys in the CREATE
	later   []addedKey // keys for the ALTER
	texts   []string   // FULLTEXT keys, one ALTER each
	auto    *builtColumn
	leading map[string]bool // keys to be created, by their columns: for foreign keys
	// collation is that of columns that name none, once the table is rendered.
	collation string
	names     map[string]bool // of keys
}

// A builtColumn is a column of the target.
type builtColumn struct {
	col     *tidemark.Column
	from    *tidemark.Column // the source's column; nil for generated ones
	sql     string           // type
	attr    string           // character set and collation
	typ     tidemark.Type    // logical type of sql
	perChar int64            // maximum bytes per character
	whole   bool             // a key contains it whole
	notNull bool
}

// size sets the fields that depend on the SQL type.
func (c *builtColumn) size() {
	c.typ = mysqltype.Parse(c.sql)
	charset := "utf8mb4"
	if _, rest, ok := strings.Cut(c.attr, "CHARACTER SET "); ok {
		charset, _, _ = strings.Cut(rest, " ")
	}
	c.perChar = mysqltype.SetWidth(charset)
	if c.typ.Kind.Bytes() {
		c.perChar = 1
	}
}

// variable reports whether the column is text or bytes whose length can be reduced to fit a key.
func (c *builtColumn) variable() bool {
	switch c.typ.Kind {
	case tidemark.Char, tidemark.Varchar, tidemark.Text, tidemark.Varbinary, tidemark.Blob:
		return true
	}
	return false
}

func (c *builtColumn) unbounded() bool {
	return c.typ.Kind == tidemark.Text || c.typ.Kind == tidemark.Blob
}

// inKey returns the bytes that a column of fixed size takes in a key; -1 if it cannot be in one.
func (c *builtColumn) inKey() int64 {
	switch t := &c.typ; t.Kind {
	case tidemark.JSON, tidemark.Geometry, tidemark.Other:
		return -1
	case tidemark.Char, tidemark.Varchar, tidemark.Text:
		return t.Length * c.perChar
	case tidemark.Binary, tidemark.Varbinary, tidemark.Blob:
		return t.Length
	case tidemark.Decimal:
		return int64(t.Precision)/9*4 + 8
	case tidemark.UUID:
		return 16
	}
	return 8
}

// inRow returns the bytes that the column takes of a row's 65,535.
func (c *builtColumn) inRow() int64 {
	switch {
	case c.unbounded(), c.typ.Kind == tidemark.JSON, c.typ.Kind == tidemark.Geometry:
		return 12
	case c.variable():
		return c.typ.Length*c.perChar + 2
	}
	return max(c.inKey(), 8)
}

// builtTable creates a table from its logical shape.
func (r *renderer) builtTable(m *tidemark.Move) {
	b := &builder{r: r, m: m, object: "table " + m.To.String(), leading: map[string]bool{}, names: map[string]bool{"primary": true}}
	if n := len(m.To.Columns); n > maxColumns {
		r.find(tidemark.Blocker, b.object, fmt.Sprintf("has %d columns, and InnoDB takes %d", n, maxColumns), "Leave columns out with a transformation.")
		return
	}
	r.built[m.From.TableID] = b
	if m.From.Form == tidemark.Partitioned {
		r.find(tidemark.Note, b.object, "is partitioned on the source, and is one table here", "")
	}
	b.makeColumns()
	b.primaryKey()
	b.indexes()
	b.foreignKeyIndexes()
	b.autoIncrement()
	b.fitRow()
	id := m.To.TableID
	made := tidemark.Object{ID: "table " + id.String(), Kind: "table", Table: id, SQL: []string{b.create()}, Depends: []string{"schema " + id.Schema}}
	r.add(made)
	var adds []string
	for _, k := range b.later {
		adds = append(adds, "ADD "+k.sql)
	}
	last := r.index(m, "index "+id.String(), adds, made.ID)
	for i, text := range b.texts {
		last = r.index(m, fmt.Sprintf("index %s.%d", id, i+1), []string{text}, last)
	}
	r.statistics(m, last)
}

func (b *builder) column(name string) *builtColumn {
	if b == nil {
		return nil
	}
	for _, c := range b.columns {
		if c.col.Name == name {
			return c
		}
	}
	return nil
}

func (b *builder) makeColumns() {
	stored := 0
	for i := range b.m.To.Columns {
		c := &builtColumn{col: &b.m.To.Columns[i], notNull: b.m.To.Columns[i].NotNull}
		if c.col.Generated == "" && stored < len(b.m.Source) {
			c.from = b.m.From.Column(b.m.Source[stored])
			stored++
		}
		b.typeOf(c)
		c.size()
		b.columns = append(b.columns, c)
	}
}

// typeOf sets a column's type: the source's own spelling if that is MySQL's and the type is
// unchanged, else by TypeMap.
func (b *builder) typeOf(c *builtColumn) {
	t := &c.col.Type
	own := b.r.mysql && t.Native != "" && (c.from == nil || c.from.Type.Native == t.Native && c.from.Type.Kind == t.Kind && c.from.Type.Length == t.Length)
	if own && t.Kind != tidemark.Bool {
		b.ownType(c)
		return
	}
	if t.Kind == tidemark.Timestamp && b.r.mysql {
		c.sql = timeType("timestamp")(t, b.r.to)
		return
	}
	rule := ruleFor(t)
	c.sql = rule.spell(t, b.r.to)
	if sql, ok := strings.CutSuffix(c.sql, ascii); ok {
		c.sql, c.attr = sql, ascii
	} else if sql, collation, ok := strings.Cut(c.sql, collate); ok && t.Kind == tidemark.Text {
		c.sql, c.attr = sql, collate+collation
	}
	if t.Kind == tidemark.UUID && c.attr == ascii {
		b.r.once(tidemark.Note, "uuid becomes char(36), with its hyphens")
	}
	if rule.Loses != "" && !(t.Kind == tidemark.JSON && b.r.to.mariadb) {
		b.r.loses(rule, b.m.To.String()+"."+c.col.Name)
	}
	switch {
	case !b.r.mysql || c.attr != "" || t.Kind.Bytes():
	case t.Charset != "":
		b.charset(c)
	case b.m.From.Charset == "binary" && (t.Kind == tidemark.Char || t.Kind == tidemark.Varchar || t.Kind == tidemark.Text): // a rule's
		c.attr = " CHARACTER SET utf8mb4 COLLATE " + b.r.to.binaryCollation()
	}
}

// ownType uses the source's spelling of the type.
func (b *builder) ownType(c *builtColumn) {
	native := c.col.Type.Native
	if native == "json" && b.r.from.mariadb && !b.r.to.mariadb {
		b.r.loses(ruleFor(&c.col.Type), b.m.To.String()+"."+c.col.Name)
	}
	if c.col.Type.Kind == tidemark.Geometry {
		native = geometryType(&c.col.Type, b.r.to)
		if _, srid, ok := strings.Cut(c.col.Type.Native, " SRID "); ok && b.r.to.mariadb {
			b.r.find(tidemark.Warning, "column "+b.m.To.String()+"."+c.col.Name, sridLost(srid), "")
		}
	}
	if c.col.Type.Kind == tidemark.Enum || c.col.Type.Kind == tidemark.Set {
		native = labels(c.col.Type.Kind.String())(&c.col.Type, b.r.to)
	} else if i := strings.Index(native, "/*"); i >= 0 {
		native = strings.TrimSpace(native[:i]) // COMPRESSED
	}
	if word := b.r.to.typeWord(native); word != "" {
		native = word
	}
	c.sql = native
	if sql, attr, ok := strings.Cut(native, " CHARACTER SET "); ok {
		c.sql, c.attr = sql, " CHARACTER SET "+attr
		return
	}
	b.charset(c)
}

func (b *builder) charset(c *builtColumn) {
	t := &c.col.Type
	labels := t.Kind == tidemark.Enum || t.Kind == tidemark.Set
	if labels && (t.Charset == "" || t.Charset == "binary") { // servers name none for labels of bytes
		c.attr = " CHARACTER SET binary"
		return
	}
	if t.Charset == "" || t.Kind == tidemark.JSON {
		return
	}
	collation := t.Collation
	if collation == "" {
		collation = b.m.To.Collation
	}
	c.attr = " CHARACTER SET " + t.Charset
	if collation != "" && strings.HasPrefix(collation, t.Charset) {
		c.attr += " COLLATE " + b.r.collation(collation)
	}
}

// create returns the CREATE TABLE.
func (b *builder) create() string {
	var items []string
	for _, c := range b.columns {
		items = append(items, b.columnSQL(c))
	}
	items = append(items, b.now...)
	items = append(items, b.checks()...)
	engine := b.engine()
	if engine == "InnoDB" && strings.EqualFold(b.m.From.Storage, "MEMORY") {
		b.r.find(tidemark.Warning, b.object, "becomes an InnoDB table: MEMORY has no such columns", "")
	}
	sql := "CREATE TABLE " + server.QuoteTable(b.m.To.TableID) + " (\n  " + strings.Join(items, ",\n  ") + "\n) ENGINE=" + engine
	if b.auto != nil && b.auto.col.Identity.Next > 1 {
		sql += " AUTO_INCREMENT=" + strconv.FormatUint(b.auto.col.Identity.Next, 10)
	}
	var charset string
	charset, b.collation = b.collates()
	if charset != "" {
		sql += " DEFAULT CHARSET=" + charset
	}
	if b.collation != "" {
		sql += " COLLATE=" + b.collation
	}
	if b.m.To.Comment != "" {
		sql += " COMMENT=" + b.comment(b.object, b.m.To.Comment, 2048)
	}
	return sql + b.partitions()
}

// collates returns the character set and collation of columns that name none; "" for those that
// the server gives, where a dump file does not name them.
func (b *builder) collates() (charset, collation string) {
	if from := b.m.From; b.r.mysql && from.Collation != "" {
		return from.Charset, b.r.collation(from.Collation)
	} else if b.r.mysql && b.r.db.Piecewise {
		return from.Charset, ""
	}
	return "utf8mb4", b.r.to.binaryCollation()
}

// engine returns the storage engine: InnoDB, unless the source names another one that works
// everywhere.
func (b *builder) engine() string {
	if !b.r.to.mariadb && b.r.mysql && partitioned(b.m.From) {
		return "InnoDB" // MySQL has no others with partitions
	}
	if !b.r.to.mariadb && computesIn(b.m.From, b.m.From.Storage) {
		return "InnoDB"
	}
	switch strings.ToLower(b.m.From.Storage) {
	case "memory":
		if !slices.ContainsFunc(b.columns, func(c *builtColumn) bool { return c.unbounded() || c.typ.Kind == tidemark.JSON }) {
			return b.m.From.Storage
		}
	case "myisam", "archive", "csv", "blackhole":
		return b.m.From.Storage
	}
	return "InnoDB"
}

// maxKey returns how many bytes a key may have, all columns together.
func maxKey(b *builder) int64 {
	if strings.EqualFold(b.m.From.Storage, "MyISAM") && b.engine() != "InnoDB" {
		return isamBytes
	}
	return keyBytes
}

// partitioned reports whether a table of MySQL or MariaDB is.
func partitioned(t *tidemark.Table) bool { return strings.HasPrefix(t.Native, "PARTITION") }

// partitions returns MySQL's PARTITION BY clause with the new names of its columns.
func (b *builder) partitions() string {
	if !b.r.mysql || !partitioned(b.m.From) {
		return ""
	}
	tokens := sqltext.Scan(b.m.From.Native)
	for i, t := range tokens {
		if (t.Kind == sqltext.Name || t.Kind == sqltext.Word) && b.m.From.Column(t.Name()) != nil {
			to, why := columnOn(b.m, t.Name()), ""
			if to == "" {
				why = "is not copied"
			} else if b.m.To.Column(to).Type.Kind != b.m.From.Column(t.Name()).Type.Kind {
				why = "has another type"
			}
			if why != "" {
				b.r.find(tidemark.Warning, b.object, "is not partitioned on the target, because column "+t.Name()+" "+why, "")
				return ""
			}
			tokens[i] = sqltext.Token{Kind: sqltext.Name, Text: server.Quote(to)}
		}
		if t.Is("system_time") && !b.r.to.mariadb {
			return ""
		}
	}
	return "\n" + sqltext.Join(tokens)
}

func (b *builder) comment(object, text string, limit int) string {
	if len([]rune(text)) > limit {
		b.r.find(tidemark.Note, object, fmt.Sprintf("its comment is cut to %d characters", limit), "")
		text = Shorten(text, limit)
	}
	if plain := basic(text); plain != text {
		b.r.find(tidemark.Note, object, "its comment loses characters of four bytes: comments here are utf8mb3", "")
		text = plain
	}
	return server.Literal(text)
}

// keyWord returns a name that a key or constraint can have here.
func keyWord(name string) string {
	return strings.TrimRight(Shorten(basic(name), maxName), blanks)
}

// basic returns a text with ? in place of what is beyond utf8mb3.
func basic(text string) string {
	return strings.Map(func(r rune) rune {
		if r > 0xffff {
			return '?'
		}
		return r
	}, text)
}

// columnSQL returns a column definition.
func (b *builder) columnSQL(c *builtColumn) string {
	col := c.col
	object := "column " + b.m.To.String() + "." + col.Name
	sql := server.Quote(col.Name) + " " + c.sql + c.attr
	if generated, ok := b.generated(c, object); ok {
		sql += generated
	} else {
		d := b.defaultSQL(c, object)
		switch {
		case c.notNull && col.Generated == "":
			sql += " NOT NULL"
		case d == "" || d == noDefault: // as SHOW CREATE TABLE has it: definitions are compared with that
			d = b.nullDefault(c) + d
		default:
			sql += " NULL"
		}
		sql += d
		if col.OnUpdate && (c.typ.Kind == tidemark.DateTime || c.typ.Kind == tidemark.Timestamp) {
			sql += " ON UPDATE " + call("CURRENT_TIMESTAMP", c.typ.Precision)
		}
		if c == b.auto {
			sql += " AUTO_INCREMENT"
		}
	}
	switch {
	case !col.Invisible, !b.r.to.mariadb && !b.r.to.atLeast(8, 0, 23):
	case b.r.to.mariadb && needsValue(col):
		b.r.find(tidemark.Warning, object, mustBeVisible, "")
	default:
		sql += " INVISIBLE"
	}
	if col.Comment != "" {
		sql += " COMMENT " + b.comment(object, col.Comment, 1024)
	}
	return sql
}

// call returns a call of a time function with its precision.
func call(name string, precision int) string {
	if precision == 0 {
		return name + "()"
	}
	return fmt.Sprintf("%s(%d)", name, precision)
}

const fillByHand = "Fill it after the copy, or give it an expression by hand."

// staysEmpty says what becomes of a generated column that the target cannot compute.
func staysEmpty(expr, why string) string {
	return "is generated by " + expr + " on the source; here it is an ordinary column that stays empty, because " + why
}

// generated returns the definition of a generated column; not ok if the column is an ordinary one,
// or its expression cannot be translated.
func (b *builder) generated(c *builtColumn, object string) (string, bool) {
	if c.col.Generated == "" {
		return "", false
	}
	expr, err := b.expression(c.col.Generated, functions.Virtual, &c.col.Type)
	if err != nil {
		b.r.find(tidemark.Warning, object, staysEmpty("("+c.col.Generated+")", err.Error()), fillByHand)
		return "", false
	}
	kind := " STORED"
	if c.col.Virtual || b.r.unkeyed(b.m, c.col) != "" {
		kind = " VIRTUAL"
	}
	return " GENERATED ALWAYS AS (" + expr + ")" + kind, true
}

// lookUp finds the source's column that an expression names, by its name on the target.
func (b *builder) lookUp(name string) (*tidemark.Column, string) {
	from := name
	if i := slices.IndexFunc(b.m.To.Stored(), func(c tidemark.Column) bool { return c.Name == name }); i >= 0 && i < len(b.m.Source) {
		from = b.m.Source[i]
	}
	return b.m.From.Column(from), columnOn(b.m, name)
}

// expression translates an expression of the source for a use on the target: for a column of type
// as, unless that is nil.
func (b *builder) expression(expr string, use functions.Use, as *tidemark.Type) (string, error) {
	if !b.r.mysql {
		out, k, err := translate(expr, b.r.to.mariadb, as, b.lookUp)
		if use == functions.Check && k == boolValue && !b.r.to.mariadb {
			out = "(" + out + ") <> 0" // a check of MySQL must compare
		}
		return out, err
	}
	tokens := sqltext.Scan(expr)
	for i, t := range tokens {
		if t.Kind != sqltext.Name || sqltext.At(tokens, i+1).Punct('(') || sqltext.At(tokens, i+1).Punct('.') || sqltext.At(tokens, i-1).Punct('.') {
			continue
		}
		to := columnOn(b.m, t.Name())
		if to == "" {
			return "", fmt.Errorf("column %s is not copied", t.Name())
		}
		tokens[i] = sqltext.Token{Kind: sqltext.Name, Text: server.Quote(to)}
	}
	if f := b.r.functions(); f != nil {
		tokens = f.Calls(tokens)
		if lacks := f.Lacks(tokens, use, timesOf(b.m.From)); lacks != "" {
			return "", errors.New(f.Name + " has no " + lacks)
		}
		if b.r.to.mariadb {
			tokens = withoutIntroducer(tokens)
			if use == functions.Virtual {
				tokens = withoutBlanks(tokens, b.m.To)
			}
		}
	}
	return sqltext.Join(b.r.rename(b.r.collations(tokens))), nil
}

// names reports whether an expression has a column.
func names(expr, column string) bool {
	return slices.ContainsFunc(sqltext.Scan(expr), func(t sqltext.Token) bool { return t.Kind == sqltext.Name && t.Name() == column })
}

func (b *builder) checks() []string {
	var out []string
	for i := range b.m.To.Checks {
		k := &b.m.To.Checks[i]
		object := "check " + b.m.To.String() + "." + k.Name
		expr, err := b.expression(k.Expr, functions.Check, nil)
		if err != nil {
			b.r.find(tidemark.Warning, object, "("+k.Expr+") is left out, because "+err.Error(), "")
			continue
		}
		if b.auto != nil && names(expr, b.auto.col.Name) {
			b.r.find(tidemark.Warning, object, "is left out: no check may be of a column with AUTO_INCREMENT, as "+b.auto.col.Name+" is here", "")
			continue
		}
		tail := ""
		switch {
		case k.Unchecked != "" && b.r.to.mariadb:
			b.r.find(tidemark.Warning, object, "is left out: it is "+strings.ToLower(k.Unchecked)+" on the source, and MariaDB enforces all", "")
			continue
		case k.Unchecked != "":
			tail = " NOT ENFORCED"
		}
		if k.Unchecked == tidemark.NotValid {
			b.r.find(tidemark.Warning, object, "is not enforced here: on the source it is not valid, so that rows may violate it", "ALTER TABLE ... ALTER CHECK ... ENFORCED once none does.")
		}
		name := ""
		if k.Name != "" && !strings.HasPrefix(k.Name, "CONSTRAINT_") {
			name = "CONSTRAINT " + server.Quote(b.r.constraint(b.m.To.Schema, k.Name, "check")) + " "
		}
		out = append(out, name+"CHECK ("+expr+")"+tail)
	}
	return out
}

// autoIncrement chooses the AUTO_INCREMENT column: a table can have one, and it must lead a key,
// which then goes into the CREATE.
func (b *builder) autoIncrement() {
	for _, c := range b.columns {
		id := c.col.Identity
		if id == nil || c.col.Generated != "" {
			continue
		}
		object := "column " + b.m.To.String() + "." + c.col.Name
		lead := b.primary != nil && (b.primary.Parts[0].Column == c.col.Name ||
			strings.EqualFold(b.engine(), "myisam") && slices.Contains(b.primary.Columns(), c.col.Name))
		if !lead {
			i := slices.IndexFunc(b.later, func(k addedKey) bool { return k.lead == c.col.Name })
			if i >= 0 && b.auto == nil {
				lead = true
				b.now = append(b.now, b.later[i].sql)
				b.later = slices.Delete(b.later, i, i+1)
			}
		}
		switch {
		case b.auto != nil:
			b.r.find(tidemark.Warning, object, "is not numbered automatically here: a table has one such column, and "+b.auto.col.Name+" is it", "")
		case c.typ.Kind != tidemark.Int:
			b.r.find(tidemark.Warning, object, "is not numbered automatically here: only integers do", "")
		case !lead:
			b.r.find(tidemark.Warning, object, "is not numbered automatically here: it must be the first column of a key", "Add a key on it.")
		default:
			b.auto = c
			b.sharedNumbers(c, object)
			b.later = slices.DeleteFunc(b.later, func(k addedKey) bool {
				of := names(k.expressions, c.col.Name)
				if of {
					b.r.find(tidemark.Warning, "index "+b.m.To.String()+"."+k.name, "is left out: MySQL has no index on an expression of a column with AUTO_INCREMENT, as "+c.col.Name+" is here", "")
				}
				return of
			})
			if id.Increment != 0 && id.Increment != 1 {
				b.r.find(tidemark.Warning, object, fmt.Sprintf("increments by 1, not %d: the step is a setting of the server (auto_increment_increment)", id.Increment), "")
			}
		}
	}
}

// fitRow turns the widest columns into TEXT or BLOB until a row fits.
func (b *builder) fitRow() {
	for {
		var sum int64
		var widest *builtColumn
		for _, c := range b.columns {
			sum += c.inRow()
			if c.variable() && !c.unbounded() && !c.whole && c.inRow() > 16 && (widest == nil || c.inRow() > widest.inRow()) {
				widest = c
			}
		}
		if sum+int64(len(b.columns)/8)+1 <= rowBytes || widest == nil {
			return
		}
		name := "text"
		if widest.typ.Kind.Bytes() {
			name = "blob"
		}
		old := widest.sql
		widest.sql = lobName(name, max(256, widest.typ.Length*widest.perChar))
		widest.size()
		b.r.find(tidemark.Note, "column "+b.m.To.String()+"."+widest.col.Name, old+" becomes "+widest.sql+", because the row would have more than 65,535 bytes", "")
	}
}
