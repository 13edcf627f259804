package schema

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/functions"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

func (b *builder) primaryKey() {
	k := b.m.To.Key
	if k == nil {
		return
	}
	object := "primary key " + b.m.To.String()
	parts, why := b.keyParts(k)
	if why == "" {
		why = b.fit(object, k)
	}
	if why != "" {
		b.r.find(tidemark.Warning, object, "is left out: "+why, "")
		return
	}
	b.leading[leadingKey(k.Parts)] = true
	if c := b.computedIn(k); c != nil {
		b.r.find(tidemark.Warning, object, b.r.to.uniqueInstead(c.col.Name), "")
		b.now = append(b.now, "UNIQUE KEY ("+parts+")")
		return
	}
	for _, p := range k.Parts {
		b.column(p.Column).notNull = true
	}
	b.primary = k
	b.now = append(b.now, "PRIMARY KEY ("+parts+")"+b.indexComment(object, k))
}

// uniqueInstead says why a primary key with a computed column is a unique key.
func (d dialect) uniqueInstead(column string) string {
	return "is a unique key here: " + d.name() + " takes no column into it that is computed as " + column + " is"
}

// computedIn returns a column of a key that the server does not accept in a primary key: MariaDB
// accepts no generated column, MySQL no virtual one; nor may a column be nullable, as one whose
// expression is not translated is.
func (b *builder) computedIn(k *tidemark.Index) *builtColumn {
	for _, p := range k.Parts {
		c := b.column(p.Column)
		if c.col.Generated == "" {
			continue
		}
		if _, err := b.expression(c.col.Generated, functions.Virtual, &c.col.Type); err != nil || b.r.to.mariadb || c.col.Virtual {
			return c
		}
	}
	return nil
}

// leadingKey returns the key of b.leading for a key's columns.
func leadingKey(parts []tidemark.IndexPart) string {
	var out strings.Builder
	for _, p := range parts {
		out.WriteString(server.Quote(p.Column))
	}
	return out.String()
}

// keyParts returns the column list of a key, or why they cannot form one.
func (b *builder) keyParts(x *tidemark.Index) (sql, why string) {
	var out []string
	for _, p := range x.Parts {
		one := ""
		switch c := b.column(p.Column); {
		case p.Expr != "" && b.r.to.mariadb:
			return "", "MariaDB has no indexes on expressions"
		case p.Expr != "":
			expr, why := b.keyExpression(p.Expr)
			if why != "" {
				return "", "of (" + p.Expr + "): " + why
			}
			one = "(" + expr + ")"
		case c == nil:
			return "", "column " + p.Column + " is not copied"
		case b.r.unkeyed(b.m, c.col) != "":
			return "", notForKeys(p.Column)
		case c.inKey() < 0:
			return "", unfit(c)
		case !b.r.to.mariadb && onlyEmpty(c.sql):
			return "", onlyEmptyKey
		case p.Prefix > 0 && !b.r.to.mariadb && prefixTooLong(p, &c.col.Type):
			return "", tooLongPrefix
		default:
			one = server.Quote(p.Column)
			if p.Prefix > 0 && c.variable() {
				one += fmt.Sprintf("(%d)", p.Prefix)
			}
		}
		if p.Desc && (b.r.to.mariadb || strings.EqualFold(b.engine(), "innodb")) {
			one += " DESC"
		}
		out = append(out, one)
	}
	return strings.Join(out, ","), ""
}

// longText is the length from which an expression returns TEXT, which cannot be in a key, instead
// of VARCHAR.
const longText = 512

// keyExpression translates the expression of a key, or returns why it cannot be in one.
func (b *builder) keyExpression(expr string) (sql, why string) {
	if b.r.mysql {
		sql, err := b.expression(expr, functions.Stored, nil)
		if err != nil {
			return "", err.Error()
		}
		return sql, ""
	}
	long := false
	sql, k, err := translate(expr, b.r.to.mariadb, nil, func(name string) (*tidemark.Column, string) {
		from, to := b.lookUp(name)
		if c := b.column(to); c != nil && c.variable() && c.typ.Length > longText {
			long = true
		}
		return from, to
	})
	switch {
	case err != nil:
		return "", err.Error()
	case k.text() && long:
		return "", fmt.Sprintf("a text of more than %d characters that is computed cannot be in a key", longText)
	}
	return sql, ""
}

// notForKeys says why a key has no column that MariaDB computes only outside keys.
func notForKeys(column string) string {
	return "MariaDB does not compute its column " + column + " for a key"
}

// unfit says why a column that no key can have is in none.
func unfit(c *builtColumn) string { return "a column of type " + c.sql + " cannot be in a key" }

// fit limits the columns of a key that must contain them whole: texts get the length that the key
// has room for. If that is impossible, it returns why.
//
// A prefix is not enough: two values that differ after it would be equal. A value longer than the
// column is refused, not truncated.
func (b *builder) fit(object string, x *tidemark.Index) (why string) {
	limit, fixed := maxKey(b), int64(0)
	var vary []*builtColumn
	for _, p := range x.Parts {
		c := b.column(p.Column)
		switch {
		case c == nil:
			return "column " + p.Column + " is not copied"
		case c.inKey() < 0:
			return unfit(c)
		case p.Prefix > 0: // from a MySQL or MariaDB source: it fits
			fixed += int64(p.Prefix) * c.perChar
		case c.variable():
			vary = append(vary, c)
		default:
			fixed += c.inKey()
		}
	}
	// The largest length L such that all columns, none longer than L bytes, fit.
	slices.SortFunc(vary, func(a, b *builtColumn) int { return int(min(a.inKey(), 1<<20) - min(b.inKey(), 1<<20)) })
	room := limit - fixed
	for i, c := range vary {
		share := room / int64(len(vary)-i)
		c.whole = true
		if n := c.inKey(); n <= share && !c.unbounded() {
			room -= n
			continue
		}
		b.bound(object, c, share/c.perChar)
		room -= c.inKey()
	}
	return ""
}

// tooWide says why MySQL has no such unique key on a table of an engine; "" if it has. MariaDB
// implements with a hash what has no room in a tree.
func tooWide(t *tidemark.Table, x *tidemark.Index, engine string) string {
	sum, limit := int64(0), int64(keyBytes)
	if strings.EqualFold(engine, "MyISAM") {
		limit = isamBytes
	}
	if partitioned(t) && x.Method == "hash" && !covers(x, t.Key) {
		return "MySQL's unique keys of a partitioned table include the columns by which it is partitioned"
	}
	for _, p := range x.Parts {
		col := t.Column(p.Column)
		if col == nil {
			continue
		}
		c := builtColumn{col: col, sql: col.Type.Native, attr: " CHARACTER SET " + cmp.Or(col.Type.Charset, "utf8mb4")}
		c.size()
		switch {
		case p.Prefix > 0:
			sum += int64(p.Prefix) * c.perChar
		case c.unbounded(), c.typ.Kind == tidemark.JSON:
			return "MySQL has no unique keys on whole TEXT or BLOB columns"
		case c.variable(), c.typ.Kind == tidemark.Binary:
			sum += c.inKey()
		default:
			sum += c.onPage(dialect{})
		}
	}
	if sum > limit {
		return fmt.Sprintf("it may have %d bytes, and keys of %s at most %d", sum, engine, limit)
	}
	return ""
}

// covers reports whether a key has all columns of another one, and so those by which a table with
// that for its primary key may be partitioned.
func covers(x, key *tidemark.Index) bool {
	return key != nil && !slices.ContainsFunc(key.Parts, func(p tidemark.IndexPart) bool {
		return !slices.ContainsFunc(x.Parts, func(q tidemark.IndexPart) bool { return q.Column == p.Column && q.Prefix == 0 })
	})
}

// refused says why a unique key of a MariaDB source is left out on MySQL; "" if it is not.
func (b *builder) refused(x *tidemark.Index) string {
	if !b.r.mysql || b.r.to.mariadb || !x.Unique {
		return ""
	}
	return tooWide(b.m.To, x, b.engine())
}

// bound limits the length of a text column.
func (b *builder) bound(object string, c *builtColumn, n int64) {
	old := c.sql
	c.sql = fmt.Sprintf("varchar(%d)", n)
	if c.typ.Kind.Bytes() {
		c.sql = fmt.Sprintf("varbinary(%d)", n)
	}
	c.size()
	b.r.find(tidemark.Warning, "column "+b.m.To.String()+"."+c.col.Name, fmt.Sprintf("becomes %s instead of %s, to fit into %s: longer values are refused", c.sql, old, object), "")
}

// once returns an index without columns that it has already: a PostgreSQL index may have one twice,
// which orders and ensures nothing more.
func once(x *tidemark.Index) *tidemark.Index {
	out := *x
	out.Parts = nil
	for _, p := range x.Parts {
		if p.Column == "" || !slices.ContainsFunc(out.Parts, func(q tidemark.IndexPart) bool { return q.Column == p.Column }) {
			out.Parts = append(out.Parts, p)
		}
	}
	return &out
}

// indexes adds the other keys, unique ones first, because they decide on lengths.
func (b *builder) indexes() {
	list := make([]*tidemark.Index, len(b.m.To.Indexes))
	for i := range b.m.To.Indexes {
		list[i] = b.plainIndex(once(&b.m.To.Indexes[i]))
	}
	slices.SortStableFunc(list, func(x, y *tidemark.Index) int {
		if x.Unique != y.Unique {
			if x.Unique {
				return -1
			}
			return 1
		}
		return 0
	})
	for _, x := range list {
		if x.Unique && x.Where == "" && b.refused(x) == "" {
			b.fit("unique index "+x.Name, x)
		}
	}
	for i := range b.m.To.ForeignKeys { // the index of children and parents must contain whole columns
		b.fitForeign(&b.m.To.ForeignKeys[i])
	}
	for _, x := range list {
		b.index(x)
	}
}

func (b *builder) fitForeign(f *tidemark.ForeignKey) {
	x := &tidemark.Index{Name: f.Name}
	for _, name := range f.Columns {
		if b.column(columnOn(b.m, name)) == nil {
			return
		}
		x.Parts = append(x.Parts, tidemark.IndexPart{Column: columnOn(b.m, name)})
	}
	if p := b.r.parent(b.m, f); p != nil {
		b.fit("foreign key "+f.Name, x)
	}
}

// index adds a key to those created later, or reports why not.
func (b *builder) index(x *tidemark.Index) {
	object := "index " + b.m.To.String() + "." + x.Name
	unique := x.Unique
	leave := func(why string) {
		if x.Unique {
			why += "; it was unique, which nothing ensures now"
		}
		b.r.find(tidemark.Warning, object, "is left out: "+why, "")
	}
	switch x.Method {
	case "", "btree", "hash", "rtree":
	case "fulltext", "spatial":
		b.special(x, leave)
		return
	default:
		leave("there are no " + x.Method + " indexes here")
		return
	}
	if why := b.refused(x); why != "" {
		leave(why)
		return
	}
	if len(x.Include) > 0 {
		b.r.find(tidemark.Note, object, "is made without the columns that it includes: "+strings.Join(x.Include, ", "), "")
	}
	if x.Where != "" {
		if unique {
			leave("it holds for the rows WHERE " + x.Where + " only")
			return
		}
		b.r.find(tidemark.Note, object, "holds all rows here, on the source those WHERE "+x.Where, "")
	}
	copied := *x
	copied.Parts = slices.Clone(x.Parts)
	if !unique {
		b.prefixes(&copied)
	}
	parts, why := b.keyParts(&copied)
	if why != "" {
		leave(why)
		return
	}
	if unique && x.NullsEqual && slices.ContainsFunc(x.Parts, func(p tidemark.IndexPart) bool { c := b.column(p.Column); return c == nil || !c.notNull }) {
		b.r.find(tidemark.Warning, object, "takes several rows with the same values and NULL here: NULLs are equal on the source (NULLS NOT DISTINCT), and different here", "")
	}
	b.leading[leadingKey(copied.Parts)] = true
	b.addKey(unique, &copied, parts, b.indexComment(object, x))
}

func (b *builder) indexComment(object string, x *tidemark.Index) string {
	if x.Comment == "" {
		return ""
	}
	return " COMMENT " + b.comment(object, x.Comment, 1024)
}

// An addedKey is a key that the ALTER adds.
type addedKey struct {
	name, lead  string // lead: its first column
	sql         string
	expressions string // its parts, if one is an expression
}

func (b *builder) addKey(unique bool, x *tidemark.Index, parts, comment string) {
	word := "KEY "
	if unique {
		word = "UNIQUE KEY "
	}
	k := addedKey{name: x.Name, lead: x.Parts[0].Column, sql: word + server.Quote(b.keyName(x.Name)) + " (" + parts + ")" + comment}
	if slices.ContainsFunc(x.Parts, func(p tidemark.IndexPart) bool { return p.Expr != "" }) {
		k.expressions = parts
	}
	b.later = append(b.later, k)
}

// keyName returns a name for a key that is free in its table.
func (b *builder) keyName(name string) string {
	name = keyWord(name)
	out := name
	for i := 2; b.names[strings.ToLower(out)] || out == ""; i++ {
		suffix := fmt.Sprintf("_%d", i)
		out = Shorten(cmp.Or(name, "key"), maxName-len(suffix)) + suffix
	}
	b.names[strings.ToLower(out)] = true
	return out
}

// prefixes lets an index that is not unique contain only the beginning of texts.
func (b *builder) prefixes(x *tidemark.Index) {
	var sum, fixed, vary int64 // bytes of all, and of those that stay whole
	limit := maxKey(b)
	for _, p := range x.Parts {
		switch c := b.column(p.Column); {
		case c == nil:
		case p.Prefix != 0:
			sum, fixed = sum+int64(p.Prefix)*c.perChar, fixed+int64(p.Prefix)*c.perChar
		case c.unbounded():
			sum, vary = sum+prefixSize*4, vary+1
		case c.variable():
			sum, vary = sum+c.inKey(), vary+1
		default:
			sum, fixed = sum+max(c.inKey(), 0), fixed+max(c.inKey(), 0)
		}
	}
	share := max(limit-fixed, 0) / max(vary, 1)
	var cut []string
	for i := range x.Parts {
		c := b.column(x.Parts[i].Column)
		if c == nil || x.Parts[i].Prefix != 0 || !c.variable() {
			continue
		}
		if n := int64(prefixSize) * 4 / c.perChar; c.unbounded() {
			x.Parts[i].Prefix = int(max(min(n, 768, share/c.perChar), 1))
		} else if part := max(share/c.perChar, 1); sum > limit && part < c.typ.Length { // servers show no prefix that is all
			x.Parts[i].Prefix = int(part)
		} else {
			continue
		}
		cut = append(cut, fmt.Sprintf("%s %d", x.Parts[i].Column, x.Parts[i].Prefix))
	}
	if cut != nil {
		b.r.prefixed = append(b.r.prefixed, fmt.Sprintf("%s.%s (%s)", b.m.To, x.Name, strings.Join(cut, ", ")))
	}
}

// special adds FULLTEXT and SPATIAL keys, which only MySQL and MariaDB sources have.
func (b *builder) special(x *tidemark.Index, leave func(string)) {
	if x.Method == "fulltext" && !b.r.to.mariadb && b.r.mysql && partitioned(b.m.From) {
		leave(textInParts)
		return
	}
	var cols []string
	for _, p := range x.Parts {
		c := b.column(p.Column)
		if c == nil {
			leave("column " + p.Column + " is not copied")
			return
		}
		if x.Method == "spatial" && (c.typ.Kind != tidemark.Geometry || !c.col.NotNull) {
			leave("it needs a geometry that is NOT NULL")
			return
		}
		if !b.r.to.mariadb && onlyEmpty(c.sql) {
			leave(onlyEmptyKey)
			return
		}
		cols = append(cols, p.Column)
	}
	sql := strings.ToUpper(x.Method) + " KEY " + server.Quote(b.keyName(x.Name)) + " (" + quoteList(cols) + ")" + b.indexComment("", x)
	if x.Method == "fulltext" {
		b.texts = append(b.texts, "ADD "+sql)
	} else {
		b.later = append(b.later, addedKey{name: x.Name, sql: sql})
	}
}
