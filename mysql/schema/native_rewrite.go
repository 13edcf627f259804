package schema

import (
	"regexp"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/functions"
	"github.com/tidemarkdb/tidemark/mysql/server"
	"github.com/tidemarkdb/tidemark/sqltext"
)

// rewriteTable translates a CREATE TABLE from one family to the other, and from a newer server to
// an older one. It removes what cannot be translated and reports it. Between servers of the same
// family that know the same syntax it changes nothing.
func (r *renderer) rewriteTable(m *tidemark.Move, c *createTable) {
	w := &rewriter{r: r, m: m, c: c, object: "table " + m.From.String()}
	w.options()
	if r.same && !w.lacks() {
		return
	}
	w.versioning()
	var items []tableItem
	for _, it := range c.items {
		if it.kind == sqltext.ForeignKey {
			continue
		}
		it.tokens = r.collations(it.tokens)
		ok := true
		switch {
		case it.kind == sqltext.Column:
			ok = w.column(&it)
		case it.kind == sqltext.Check:
			ok = w.check(&it)
		case it.kind == sqltext.Period:
			if ok = r.to.mariadb; !ok {
				r.find(tidemark.Warning, w.object, "its period "+it.String()+" is left out: MySQL has none", "")
			}
		case it.isKey():
			ok = w.key(&it)
		}
		if ok {
			items = append(items, it)
		}
	}
	c.items = items
	c.options = r.collations(c.options)
	w.partition()
}

// A rewriter is the state of rewriteTable for one table.
type rewriter struct {
	r      *renderer
	m      *tidemark.Move
	c      *createTable
	object string
	engine string // the target's storage engine, if it replaces the source's
}

// lacks reports whether a server of the same family is older than the source, and may lack some of
// its syntax: then all rules are checked.
func (w *rewriter) lacks() bool {
	from, to := w.r.from, w.r.to
	return !to.atLeast(from.major, from.minor, 0)
}

func (w *rewriter) column(it *tableItem) bool {
	w.typeName(it)
	w.jsonColumn(it)
	if i := sqltext.Find(it.tokens, "gb18030"); i >= 0 && w.r.to.mariadb {
		w.r.find(tidemark.Blocker, w.columnName(it), "is in character set gb18030, which MariaDB does not have", "Map the column to another type, or exclude the table.")
	}
	if f := w.r.functions(); f != nil {
		it.tokens = f.Calls(it.tokens)
		w.unknown(f, it)
	}
	if w.r.to.mariadb {
		w.toMariaDB(it)
	} else {
		w.toMySQL(it)
	}
	return true
}

// functions gives what the target's family has of the source's functions; nil if it is the same.
func (r *renderer) functions() *functions.Family {
	switch {
	case !r.mysql || r.to.mariadb == r.from.mariadb:
		return nil
	case r.to.mariadb:
		return functions.MariaDB
	}
	return functions.MySQL
}

func (w *rewriter) columnName(it *tableItem) string {
	return "column " + w.m.From.String() + "." + it.name
}

// typeName replaces types that the target does not know. Their values are text in both formats, so
// only the size matters.
func (w *rewriter) typeName(it *tableItem) {
	i := sqltext.Skip(it.tokens, 1)
	t := sqltext.At(it.tokens, i)
	to := w.r.to
	replace := func(name string) {
		w.r.once(tidemark.Note, "type "+strings.ToLower(t.Text)+" becomes "+name)
		it.tokens[i] = sqltext.Token{Kind: sqltext.Word, Text: name}
	}
	if name := to.typeWord(t.Text); name != "" {
		replace(name)
	}
	switch strings.ToLower(t.Text) {
	case "vector":
		if !to.maria(11, 7, 0) && !to.my(9, 0, 0) {
			end := sqltext.Closing(it.tokens, i+1)
			it.tokens = slices.Concat(it.tokens[:i], []sqltext.Token{{Kind: sqltext.Word, Text: "longblob"}}, it.tokens[min(end+1, len(it.tokens)):])
			w.r.find(tidemark.Warning, w.columnName(it), "vector becomes longblob: its bytes are kept, search by distance is not available", "")
		}
	}
}

// typeWord returns the dialect's substitute for a type of the other family that it does not know;
// empty if it knows the type.
func (d dialect) typeWord(word string) string {
	switch word = strings.ToLower(word); {
	case word == "uuid" && !d.maria(10, 7, 0):
		return "char(36) CHARACTER SET ascii"
	case word == "inet4" && !d.maria(10, 10, 0):
		return "varchar(15) CHARACTER SET ascii"
	case word == "inet6" && !d.mariadb:
		return "varchar(45) CHARACTER SET ascii"
	case word == "xmltype" && !d.maria(12, 3, 0):
		return "longtext"
	case word == "geomcollection" && d.mariadb:
		return "geometrycollection"
	}
	return ""
}

// jsonColumn turns MariaDB's longtext with a json_valid check, its form of JSON, into MySQL's JSON.
func (w *rewriter) jsonColumn(it *tableItem) {
	if w.r.to.mariadb || !w.r.from.mariadb {
		return
	}
	col := w.m.From.Column(it.name)
	check := sqltext.Find(it.tokens, "check")
	if col == nil || col.Type.Kind != tidemark.JSON || check < 0 {
		return
	}
	end := sqltext.Closing(it.tokens, sqltext.Skip(it.tokens, check+1))
	it.tokens = slices.Concat(sqltext.Trim(it.tokens[:check]), it.tokens[min(end+1, len(it.tokens)):])
	from := sqltext.Skip(it.tokens, 1)
	after := from + 1
	if i := sqltext.Find(it.tokens, "collate"); i >= 0 {
		after = sqltext.Skip(it.tokens, i+1) + 1
	}
	it.tokens = slices.Concat(it.tokens[:from], []sqltext.Token{{Kind: sqltext.Word, Text: "json"}}, it.tokens[after:])
	w.r.loses(ruleFor(&col.Type), w.m.To.String()+"."+it.name)
}

// toMySQL adapts a column definition of MariaDB's.
func (w *rewriter) toMySQL(it *tableItem) {
	if strings.Contains(it.String(), "nextval(") {
		it.cutDefault(noDefault)
		w.r.find(tidemark.Warning, w.columnName(it), "takes its default from a sequence, which MySQL does not have: it has no default now", "")
	}
	for i, t := range it.tokens {
		if t.Kind == sqltext.Open && strings.HasPrefix(t.Text, "/*M!") && sqltext.At(it.tokens, sqltext.Skip(it.tokens, i+1)).Is("compressed") {
			w.r.once(tidemark.Note, "columns that MariaDB compresses are not compressed by MySQL")
		}
		if (t.Kind == sqltext.Name || t.Kind == sqltext.Word) && strings.EqualFold(t.Name(), "ref_system_id") {
			it.tokens[i] = sqltext.Token{Kind: sqltext.Word, Text: "SRID"}
			if sqltext.At(it.tokens, i+1).Punct('=') {
				it.tokens[i+1] = sqltext.Token{Kind: sqltext.Space, Text: " "}
			}
		}
	}
	it.tokens = dropWords(it.tokens, "without", "system", "versioning")
	it.tokens = dropWords(it.tokens, "with", "system", "versioning")
	if !w.r.to.my(8, 0, 23) {
		it.tokens = dropWords(it.tokens, "invisible")
	}
	w.parenthesise(it)
}

// parenthesise adds the parentheses that MySQL requires around an expression, and around the
// literal default of a column whose type allows no other default.
func (w *rewriter) parenthesise(it *tableItem) {
	i := sqltext.Find(it.tokens, "default")
	if i < 0 || sqltext.Find(it.tokens, "generated") >= 0 {
		return
	}
	from := sqltext.Skip(it.tokens, i+1)
	end := defaultEnd(it.tokens, from)
	text := sqltext.Join(it.tokens[from:end])
	lob := false
	if col := w.m.From.Column(it.name); col != nil {
		lob = col.Type.Kind == tidemark.Text || col.Type.Kind == tidemark.Blob || col.Type.Kind == tidemark.JSON || col.Type.Kind == tidemark.Geometry
	}
	switch {
	case strings.EqualFold(text, "NULL"), strings.HasPrefix(text, "("):
		return
	case nowCall.MatchString(text) && !lob:
		return
	case !lob && (stringOnly.MatchString(text) || bitString.MatchString(text) || plainNumber.MatchString(text)):
		return
	}
	it.tokens = slices.Concat(it.tokens[:from], []sqltext.Token{{Kind: sqltext.Word, Text: "(" + text + ")"}}, it.tokens[end:])
}

// defaultEnd returns the index after the default value that begins at from: a literal with its sign
// or character set, or a call with its parentheses. A default contains no blanks.
func defaultEnd(tokens []sqltext.Token, from int) int {
	for i := from; i < len(tokens); i++ {
		switch t := tokens[i]; {
		case t.Punct('('):
			return min(sqltext.Closing(tokens, i)+1, len(tokens))
		case t.Kind == sqltext.Space:
			return i
		}
	}
	return len(tokens)
}

// cutDefault replaces the DEFAULT clause.
func (it *tableItem) cutDefault(by string) {
	i := sqltext.Find(it.tokens, "default")
	if i < 0 {
		return
	}
	end := defaultEnd(it.tokens, sqltext.Skip(it.tokens, i+1))
	it.tokens = slices.Concat(sqltext.Trim(it.tokens[:i]), sqltext.Scan(by), it.tokens[end:])
}

// toMariaDB adapts a column definition of MySQL's.
func (w *rewriter) toMariaDB(it *tableItem) {
	srid := ""
	it.tokens = mapComments(it.tokens, func(inside []sqltext.Token) []sqltext.Token {
		if sqltext.Find(inside, "invisible") >= 0 {
			if col := w.m.From.Column(it.name); col != nil && needsValue(col) {
				w.r.find(tidemark.Warning, w.columnName(it), mustBeVisible, "")
				return nil
			}
			return []sqltext.Token{{Kind: sqltext.Word, Text: "INVISIBLE"}}
		}
		if i := sqltext.Find(inside, "srid"); i >= 0 {
			srid = sqltext.At(inside, sqltext.Skip(inside, i+1)).Text
		}
		return nil // also COLUMN_FORMAT and STORAGE, for NDB
	})
	if srid != "" { // MariaDB puts it after the type
		w.r.find(tidemark.Warning, "column "+w.m.From.String()+"."+it.name, sridLost(srid), "")
		after := sqltext.Skip(it.tokens, 1) + 1
		it.tokens = slices.Concat(it.tokens[:after], []sqltext.Token{{Kind: sqltext.Word, Text: " REF_SYSTEM_ID=" + srid}}, it.tokens[after:])
	}
	it.tokens = withoutIntroducer(it.tokens)
	if col := w.m.From.Column(it.name); col != nil && (col.Type.Kind == tidemark.Enum || col.Type.Kind == tidemark.Set) && col.Default != nil && col.Default.Kind == tidemark.Literal {
		if from, end := it.defaultValue(); sqltext.At(it.tokens, from).Punct('(') { // MariaDB takes no number of a label
			it.tokens = slices.Concat(it.tokens[:from], []sqltext.Token{{Kind: sqltext.String, Text: literal(col.Default.Text)}}, it.tokens[end:])
		}
	}
	w.impossible(it)
	if i := sqltext.Find(it.tokens, "generated"); i >= 0 {
		if open := slices.IndexFunc(it.tokens[i:], isOpen); open >= 0 { // IS NOT NULL in the expression stays
			end := min(sqltext.Closing(it.tokens, i+open), len(it.tokens))
			expr := withoutBlanks(it.tokens[i+open:end], w.m.From)
			it.tokens, i = slices.Concat(it.tokens[:i+open], expr, it.tokens[end:]), i+open+len(expr)
		}
		before := len(it.tokens)
		it.tokens = slices.Concat(it.tokens[:i], dropWords(it.tokens[i:], "not", "null"))
		if len(it.tokens) != before {
			w.r.once(tidemark.Note, "NOT NULL of generated columns is left out: MariaDB has it for others only")
		}
		it.tokens = slices.Concat(it.tokens[:i], dropWords(it.tokens[i:], "null")) // which it has for no generated column
	}
}

// withoutBlanks returns an expression in which each CHAR column of a table is trimmed: MariaDB
// stores no text of one that is not, since a setting decides whether it has its trailing blanks.
func withoutBlanks(tokens []sqltext.Token, t *tidemark.Table) []sqltext.Token {
	var out []sqltext.Token
	for i, token := range tokens {
		if token.Kind == sqltext.Name && !sqltext.At(tokens, i+1).Punct('.') {
			if c := t.Column(token.Name()); c != nil && c.Type.Kind == tidemark.Char {
				token.Text = "rtrim(" + token.Text + ")"
			}
		}
		out = append(out, token)
	}
	return out
}

// impossible removes a default that no value of its column can be: MariaDB computes it at once.
func (w *rewriter) impossible(it *tableItem) {
	col := w.m.From.Column(it.name)
	from, end := it.defaultValue()
	if col == nil || !sqltext.At(it.tokens, from).Punct('(') {
		return
	}
	if value := sqltext.Join(it.tokens[from:end]); impossible(sqltext.Join(it.tokens[:from]), col.NotNull, value) {
		it.cutDefault(noDefault)
		w.r.find(tidemark.Warning, w.columnName(it), "has no default here: the column cannot have "+value, "")
	}
}

// unknown removes what the target cannot compute from a column: its default, or its expression.
func (w *rewriter) unknown(f *functions.Family, it *tableItem) {
	if from, end := it.defaultValue(); end > from {
		if lacks := f.Lacks(it.tokens[from:end], functions.Default, timesOf(w.m.From)); lacks != "" {
			value := sqltext.Join(it.tokens[from:end])
			it.cutDefault(noDefault)
			w.r.find(tidemark.Warning, w.columnName(it), "has no default here: "+f.Name+" has no "+lacks+" for "+value, "Set one by hand: ALTER TABLE "+server.QuoteTable(w.m.To.TableID)+" ALTER COLUMN "+server.Quote(it.name)+" SET DEFAULT ...")
		}
	}
	if i := sqltext.Find(it.tokens, "check"); i >= 0 { // MariaDB has checks within columns
		open := sqltext.Skip(it.tokens, i+1)
		end := min(sqltext.Closing(it.tokens, open), len(it.tokens)-1)
		if lacks := f.Lacks(it.tokens[i:end], functions.Check, timesOf(w.m.From)); lacks != "" {
			w.r.find(tidemark.Warning, w.columnName(it), "has no check here: "+f.Name+" has no "+lacks+" for "+sqltext.Join(it.tokens[open:end+1]), "")
			it.tokens = slices.Concat(sqltext.Trim(it.tokens[:i]), it.tokens[end+1:])
		}
	}
	i := sqltext.Find(it.tokens, "generated")
	if i < 0 {
		return
	}
	open := i + slices.IndexFunc(it.tokens[i:], isOpen)
	if open < i {
		return
	}
	end := min(sqltext.Closing(it.tokens, open), len(it.tokens)-1)
	expr, kind := sqltext.Join(it.tokens[open:end+1]), sqltext.Skip(it.tokens, end+1)
	if lacks := f.Lacks(it.tokens[open:end], functions.Virtual, timesOf(w.m.From)); lacks != "" {
		w.r.find(tidemark.Warning, w.columnName(it), staysEmpty(expr, f.Name+" has no "+lacks), fillByHand)
		it.tokens = slices.Concat(sqltext.Trim(it.tokens[:i]), dropWords(it.tokens[min(kind+1, len(it.tokens)):], "not", "null"))
		return
	}
	if lacks := w.r.unkeyed(w.m, w.m.To.Column(it.name)); lacks != "" {
		w.r.find(tidemark.Warning, w.columnName(it), "is virtual here, and in no key: "+f.Name+" has no "+lacks, "")
		if sqltext.At(it.tokens, kind).Is("stored") {
			it.tokens[kind] = sqltext.Token{Kind: sqltext.Word, Text: "VIRTUAL"}
		}
	}
}

// unkeyed names what the target lacks to store a generated column, or to have it in a key, though
// it computes it otherwise; "" if that is nothing.
func (r *renderer) unkeyed(m *tidemark.Move, c *tidemark.Column) string {
	f := r.functions()
	if f == nil || c == nil || c.Generated == "" {
		return ""
	}
	keyed := slices.ContainsFunc(m.To.Indexes, func(x tidemark.Index) bool { return slices.Contains(x.Columns(), c.Name) })
	tokens, isTime := f.Calls(sqltext.Scan(c.Generated)), timesOf(m.From)
	if c.Virtual && !keyed || f.Lacks(tokens, functions.Virtual, isTime) != "" {
		return ""
	}
	if r.to.mariadb && rounds(m.From, c, tokens) {
		return "stored time of fewer digits, which it cuts off unless a setting rounds them"
	}
	if r.to.mariadb && subtracts(m.From, tokens) {
		return "stored difference of unsigned numbers, which a setting lets be negative"
	}
	return f.Lacks(tokens, functions.Stored, isTime)
}

// rounds reports whether a generated column may have a time with fewer digits than what its
// expression reads.
func rounds(t *tidemark.Table, c *tidemark.Column, tokens []sqltext.Token) bool {
	const most = 6 // digits, which all may have that is no time
	fraction := func(of *tidemark.Type) int {
		switch of.Kind {
		case tidemark.Time, tidemark.DateTime, tidemark.Timestamp:
			return of.Precision
		case tidemark.Date:
			return 0
		}
		return most
	}
	has := fraction(&c.Type)
	return c.Type.Kind != tidemark.Date && slices.ContainsFunc(tokens, func(token sqltext.Token) bool {
		switch from := t.Column(token.Name()); {
		case token.Kind == sqltext.Name && from != nil:
			return fraction(&from.Type) > has
		case token.Kind == sqltext.String, token.Is("cast"):
			return has < most
		}
		return false
	})
}

// subtracts reports whether an expression may subtract from or by an unsigned number.
func subtracts(t *tidemark.Table, tokens []sqltext.Token) bool {
	return slices.ContainsFunc(tokens, func(token sqltext.Token) bool { return token.Punct('-') }) &&
		slices.ContainsFunc(tokens, func(token sqltext.Token) bool {
			from := t.Column(token.Name())
			return token.Is("unsigned") || token.Kind == sqltext.Name && from != nil && from.Type.Unsigned
		})
}

// timesOf reports which columns of a table are dates or times.
func timesOf(t *tidemark.Table) func(column string) bool {
	return func(column string) bool {
		c := t.Column(column)
		return c != nil && slices.Contains([]tidemark.TypeKind{tidemark.Date, tidemark.Time, tidemark.DateTime, tidemark.Timestamp}, c.Type.Kind)
	}
}

var emptyColumn = regexp.MustCompile(`(?i)(char|binary)\(0\)`)

// impossible reports whether a column of a type, NOT NULL or not, cannot have a default.
func impossible(typ string, notNull bool, value string) bool {
	switch strings.ToLower(value) {
	case "(null)":
		return notNull
	case "''", "('')", "null":
		return false
	}
	return emptyColumn.MatchString(typ)
}

const mustBeVisible = "is visible here: MariaDB has no invisible column that is NOT NULL and has no default"

// needsValue reports whether each INSERT has to give a column a value.
func needsValue(c *tidemark.Column) bool {
	return c.NotNull && c.Default == nil && c.Generated == "" && c.Identity == nil
}

// mapComments replaces each versioned comment by the result of f for its content.
func mapComments(tokens []sqltext.Token, f func([]sqltext.Token) []sqltext.Token) []sqltext.Token {
	var out []sqltext.Token
	for i := 0; i < len(tokens); i++ {
		if tokens[i].Kind != sqltext.Open {
			out = append(out, tokens[i])
			continue
		}
		end := i
		for end < len(tokens) && tokens[end].Kind != sqltext.Close {
			end++
		}
		inside := f(sqltext.Trim(tokens[i+1 : min(end, len(tokens))]))
		if len(inside) == 0 {
			out = sqltext.Trim(out)
		}
		out = append(out, inside...)
		i = end
	}
	return out
}

// dropWords removes a sequence of keywords and the blank before it.
func dropWords(tokens []sqltext.Token, words ...string) []sqltext.Token {
	for i := range tokens {
		j := i
		for n, word := range words {
			if !sqltext.At(tokens, j).Is(word) {
				break
			}
			if n == len(words)-1 {
				return slices.Concat(sqltext.Trim(tokens[:i]), tokens[j+1:])
			}
			j = sqltext.Skip(tokens, j+1)
		}
	}
	return tokens
}

// check gives a check a free name. MariaDB numbers checks per table; MySQL requires unique names in
// a database, and numbers checks itself.
func (w *rewriter) check(it *tableItem) bool {
	object, enforced, lacks := "check "+w.m.From.String()+"."+it.name, true, ""
	if w.r.to.mariadb {
		it.tokens = mapComments(it.tokens, func(inside []sqltext.Token) []sqltext.Token {
			enforced = sqltext.Find(inside, "enforced") < 0
			return nil
		})
		it.tokens = withoutIntroducer(it.tokens)
	}
	f := w.r.functions()
	if f != nil {
		it.tokens = f.Calls(it.tokens)
	} else if w.r.to.mariadb { // an older one than the source
		f = functions.MariaDB
	}
	if f != nil {
		lacks = f.Lacks(it.tokens, functions.Check, timesOf(w.m.From))
	}
	i := sqltext.Find(it.tokens, "check")
	switch {
	case !enforced:
		w.r.find(tidemark.Warning, object, "is left out: it is not enforced, and MariaDB enforces all", "")
	case lacks != "":
		w.r.find(tidemark.Warning, object, "is left out: "+w.r.to.name()+" has no "+lacks+" for it: "+it.String(), "")
	case w.r.to.mariadb:
	case strings.HasPrefix(it.name, "CONSTRAINT_") || it.name == "":
		it.tokens = it.tokens[i:]
	default:
		it.tokens = slices.Concat([]sqltext.Token{{Kind: sqltext.Word, Text: "CONSTRAINT "}, {Kind: sqltext.Name, Text: server.Quote(w.r.constraint(w.m.To.Schema, it.name, "check"))}, {Kind: sqltext.Space, Text: " "}}, it.tokens[i:])
	}
	return enforced && lacks == ""
}

// withoutIntroducer leaves out character sets such as _utf8mb4 before strings, which MySQL adds to
// those of expressions, where the string is the same without: MariaDB cannot read its own text of
// such a string if that has a quote.
func withoutIntroducer(tokens []sqltext.Token) []sqltext.Token {
	var out []sqltext.Token
	for i, t := range tokens {
		if text := sqltext.At(tokens, i+1); text.Kind != sqltext.String || !t.Is("_utf8mb4") && !(asciiSet.MatchString(t.Text) && isASCII(text.Text)) {
			out = append(out, t)
		}
	}
	return out
}

// asciiSet matches the introducers of character sets that contain ASCII unchanged.
var asciiSet = regexp.MustCompile(`(?i)^_(latin[1257]|ascii|utf8|utf8mb3|cp125[0167]|cp85[02]|cp866|koi8[ru]|greek|hebrew|geostd8|gbk|gb2312|big5|euckr|ujis|eucjpms)$`)
