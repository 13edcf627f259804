package schema

import (
	"regexp"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark/mysql/server"
	"github.com/tidemarkdb/tidemark/sqltext"
)

// adopt gives keys without a name the name of one like it: the server has named them.
func (a *altering) adopt() {
	taken := map[string]bool{}
	for i := range a.want.items {
		if it := &a.want.items[i]; it.isKey() {
			taken[dropName(it)] = true
		}
	}
	for i := range a.want.items {
		w := &a.want.items[i]
		if w.name != "" || !w.isKey() || w.kind == sqltext.PrimaryKey {
			continue
		}
		for j := range a.have.items {
			h := &a.have.items[j]
			if h.kind != w.kind || taken[dropName(h)] {
				continue
			}
			if named := w.named(h.name); a.same(named.String(), h.String()) {
				*w, taken[dropName(h)] = named, true
				break
			}
		}
	}
}

// named returns a key without a name as one with it.
func (it *tableItem) named(name string) tableItem {
	text := it.String()
	at := max(strings.IndexByte(text, '('), 0)
	return newTableItem(sqltext.Scan(text[:at] + server.Quote(name) + " " + text[at:]))
}

// fractionText is a time with a fraction.
var fractionText = regexp.MustCompile(`^(\d{4}-\d\d-\d\d |-)?\d+:\d\d:\d\d\.\d+$`)

// withoutExpression returns a column without what computes its default, which servers write in
// their own ways.
func withoutExpression(s string) string {
	tokens := sqltext.Scan(s)
	i := sqltext.Find(tokens, "default")
	if i < 0 {
		return s
	}
	from := sqltext.Skip(tokens, i+1)
	open := from
	if sqltext.At(tokens, from).Kind == sqltext.Word { // MariaDB: DEFAULT ucase('x')
		open = sqltext.Skip(tokens, from+1)
	}
	if !sqltext.At(tokens, open).Punct('(') || sqltext.At(tokens, from).Is("current_timestamp") {
		return s
	}
	end := sqltext.Closing(tokens, open)
	calls := open > from || slices.ContainsFunc(tokens[open:min(end, len(tokens))], func(t sqltext.Token) bool {
		return t.Kind == sqltext.Name || t.Kind == sqltext.Word && t.Text[0] != '_' && !IsDigits(t.Text)
	})
	if !calls {
		return s
	}
	return sqltext.Join(slices.Concat(tokens[:from], tokens[min(end+1, len(tokens)):]))
}

// withoutDefault returns a column without its default.
func withoutDefault(s string) string {
	it := newTableItem(sqltext.Scan(s))
	it.cutDefault("")
	return it.String()
}

// oldTime marks columns of times that a server before MariaDB 10.1 has made, in SHOW CREATE TABLE.
const oldTime = " /* mariadb-5.3 */"

// same compares an item's texts on source and target.
func (a *altering) same(w, h string) bool {
	w, h = hexDigits(strings.ReplaceAll(w, oldTime, "")), hexDigits(strings.ReplaceAll(h, oldTime, ""))
	if strings.Contains(w, noDefault) {
		w, h = withoutDefault(strings.Replace(w, noDefault, "", 1)), withoutDefault(strings.Replace(h, noDefault, "", 1))
	}
	if a.d.Across {
		tokens := sqltext.Scan(w)
		switch i := sqltext.Find(tokens, "collate"); {
		case i < 0:
			h = withoutCollation(h, sqltext.Find(tokens, "character") < 0) // the default of its character set, or the table's
		case !strings.Contains(h, " COLLATE ") && sqltext.At(tokens, sqltext.Skip(tokens, i+1)).Is(a.have.option("collate")):
			w = withoutCollation(w, true) // its table's
		}
	}
	if w == h || !a.d.Across {
		return w == h || collatedOnly(w) == collatedOnly(h)
	}
	if we, he := withoutExpression(w), withoutExpression(h); we != w && he != h {
		w, h = we, he
	}
	return plainly(w) == plainly(h) || isComputed(w) && isComputed(h)
}

// collatedOnly removes a character set that the collation implies. MySQL shows such a set only
// where a statement has named the collation, as those that repeat its text do.
func collatedOnly(s string) string {
	tokens := sqltext.Scan(s)
	i, j := sqltext.Find(tokens, "character"), sqltext.Find(tokens, "collate")
	set := sqltext.Skip(tokens, sqltext.Skip(tokens, i+1)+1)
	collation := sqltext.At(tokens, sqltext.Skip(tokens, j+1)).Text
	if 0 <= i && i < j && sqltext.Skip(tokens, set+1) == j && strings.HasPrefix(collation, sqltext.At(tokens, set).Text+"_") {
		tokens = slices.Concat(tokens[:i], tokens[j:])
	}
	return sqltext.Join(tokens)
}

// hexDigits returns a text with 0x61 as x'61'.
func hexDigits(s string) string {
	if !strings.Contains(s, "0x") {
		return s
	}
	tokens := slices.Clone(sqltext.Scan(s))
	for i := range tokens {
		if digits, ok := strings.CutPrefix(tokens[i].Text, "0x"); ok && tokens[i].Kind == sqltext.Word {
			tokens[i].Text = "x'" + digits + "'"
		}
	}
	return sqltext.Join(tokens)
}

// withoutCollation removes a column's collation, and its character set if asked to.
func withoutCollation(s string, charset bool) string {
	tokens := sqltext.Scan(s)
	for _, word := range []string{"collate", "character"} {
		i := sqltext.Find(tokens, word)
		if i < 0 || word == "character" && !charset {
			continue
		}
		j := sqltext.Skip(tokens, i+1)
		if word == "character" {
			j = sqltext.Skip(tokens, j+1)
		}
		tokens = slices.Concat(tokens[:i], tokens[min(j+1, len(tokens)):])
	}
	return sqltext.Join(tokens)
}

// isComputed reports whether a text has an expression that servers rewrite.
func isComputed(s string) bool {
	tokens := sqltext.Scan(s)
	return sqltext.Find(tokens, "check") >= 0 || sqltext.Find(tokens, "generated") >= 0 || sqltext.Find(tokens, "as") >= 0
}

// plainly returns a text without parts that servers write differently with the same meaning: NULL,
// brackets, the display width of integers, and trailing zeros of a number's default.
func plainly(s string) string {
	var b strings.Builder
	before, number := "", false // the previous word, and whether the column is numeric
	tokens := sqltext.Scan(s)
	for i := 0; i < len(tokens); i++ {
		t := tokens[i]
		text := strings.ToLower(t.Text)
		switch {
		case t.Kind == sqltext.Word && text[0] == '_' && sqltext.At(tokens, i+1).Kind == sqltext.String, // _utf8mb4'text'
			text == "x''", t.Is("x") && sqltext.At(tokens, i+1).Text == "''":
			if text != "x''" {
				continue
			}
			text = "''"
		case t.Is("charset"): // cast(c as char charset utf8mb4)
			i = sqltext.Skip(tokens, i+1)
			continue
		case t.Is("ref_system_id"): // of a column, which MariaDB does not show
			if i = sqltext.Skip(tokens, i+1); sqltext.At(tokens, i).Punct('=') {
				i = sqltext.Skip(tokens, i+1)
			}
			continue
		case t.Kind == sqltext.Space, t.Kind == sqltext.Open, t.Kind == sqltext.Close, t.Punct('('), t.Punct(')'), t.Is("null"):
			continue
		case t.Kind == sqltext.String && text[0] == '\'' && !(number && before == "default"):
			if text = sqltext.Unquote(t.Text, true); before == "default" && fractionText.MatchString(text) {
				text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
			}
			text = server.Literal(text)
		case t.Kind == sqltext.Name:
			text = strings.ToLower(t.Name())
		case t.Kind == sqltext.Word && integerWord(before) && IsDigits(text):
			before = ""
			continue
		case t.Kind == sqltext.String && number && before == "default":
			text = shortNumber(text)
		case t.Is("geomcollection"):
			text = "geometrycollection"
		}
		number = number || t.Kind == sqltext.Word && (integerWord(text) || text == "decimal" || text == "float" || text == "double")
		before = text
		b.WriteString(text + " ")
	}
	// MySQL does not say that an ENUM is binary.
	out := strings.ReplaceAll(b.String(), "character set binary collate binary ", "")
	return strings.ReplaceAll(out, "not default ", "not ")
}

func integerWord(s string) bool {
	switch s {
	case "tinyint", "smallint", "mediumint", "int", "bigint", "year":
		return true
	}
	return false
}

// shortNumber removes trailing zeros after the decimal point of a quoted number.
func shortNumber(s string) string {
	n := strings.Trim(s, "'")
	if plainNumber.MatchString(n) && strings.Contains(n, ".") {
		n = strings.TrimSuffix(strings.TrimRight(n, "0"), ".")
	}
	return "'" + n + "'"
}
