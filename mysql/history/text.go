package history

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark/mysql/schema"
	"github.com/tidemarkdb/tidemark/sqltext"
)

// Bits of sql_mode in the head of a statement (sql/system_variables.h; MariaDB's sql/sql_class.h).
const (
	modeRealAsFloat = 1 << 0
	modePipes       = 1 << 1
	ModeANSIQuotes  = 1 << 2
	modeIgnoreSpace = 1 << 3
	modeOracle      = 1 << 9  // MariaDB: other types under known names
	modeMaxDB       = 1 << 12 // MariaDB: the same
	ModeNoBackslash = 1 << 20
	modeStrict      = 1<<21 | 1<<22 // for transactional tables, for all tables
)

// A ddlText is a statement rewritten for the parser. It omits what does not affect columns and
// keys: comments, expressions, partitions. The parser knows few character sets, so names of known
// ones replace the others; types that it does not know become VARBINARY of a length that no column
// can have.
type ddlText struct {
	tokens   []sqltext.Token
	said     []int // indexes of tokens other than blanks and comments
	ifExists bool  // MariaDB: RENAME and ALTER TABLE IF EXISTS
	replace  bool  // CREATE OR REPLACE
	maybe    bool  // MariaDB: ADD UNIQUE KEY IF NOT EXISTS
	sets     []string
}

// lentSets are character sets that the parser knows; their names replace a statement's own.
var lentSets = []string{"utf8mb4", "latin1", "gbk", "gb18030", "utf8"}

// oddTypes are types that the parser does not know.
var oddTypes = []string{"geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection", "geomcollection", "uuid", "inet4", "inet6"}

// oddLength is the VARBINARY length that replaces the first of oddTypes; each further type has one
// more. The maximum of a real column is 65,535.
const oddLength = 1 << 20

// notNames are words that no column type follows.
var notNames = strings.Fields("ADD ALTER COLUMN MODIFY CHANGE DROP EXISTS TO AFTER BY INDEX KEY UNIQUE FULLTEXT SPATIAL CONSTRAINT RENAME FOREIGN PRIMARY TABLE ON USING REFERENCES DEFAULT NULL")

// readDDLText scans a statement and rewrites it for the parser.
func (d *Reader) readDDLText(sql string) (*ddlText, error) {
	x := d.scanDDLText(sql)
	return x, x.plain()
}

// scanDDLText scans a statement, and quotes names with backticks.
func (d *Reader) scanDDLText(sql string) *ddlText {
	x := &ddlText{}
	server := sqltext.Server{MariaDB: d.Mariadb, Version: d.Version}
	var active []bool // open versioned comments
	for _, t := range (sqltext.Dialect{AnsiQuotes: d.Mode&ModeANSIQuotes != 0, NoBackslash: d.Mode&ModeNoBackslash != 0}).Scan(sql) {
		switch {
		case t.Kind == sqltext.Open:
			active = append(active, server.Runs(t.Text))
			t.Kind = sqltext.Comment
		case t.Kind == sqltext.Close:
			active = active[:len(active)-1]
			t.Kind = sqltext.Comment
		case slices.Contains(active, false):
			t.Kind = sqltext.Comment
		case t.Kind == sqltext.Name && t.Text[0] == '"':
			t.Text = "`" + strings.ReplaceAll(t.Name(), "`", "``") + "`"
		}
		if t.Kind == sqltext.Comment {
			t.Kind, t.Text = sqltext.Space, " "
		}
		if t.Kind != sqltext.Space {
			x.said = append(x.said, len(x.tokens))
		}
		x.tokens = append(x.tokens, t)
	}
	return x
}

// word returns token i, not counting blanks and comments.
func (x *ddlText) word(i int) sqltext.Token {
	if i < 0 || i >= len(x.said) {
		return sqltext.Token{}
	}
	return x.tokens[x.said[i]]
}

func (x *ddlText) put(i int, text string) {
	if i < len(x.said) {
		x.tokens[x.said[i]] = sqltext.Token{Kind: sqltext.Word, Text: text}
	}
}

// drop removes the tokens from i up to, but not including, end.
func (x *ddlText) drop(i, end int) {
	for ; i < min(end, len(x.said)); i++ {
		x.tokens[x.said[i]] = sqltext.Token{Kind: sqltext.Space, Text: " "}
	}
}

// is reports whether these words are at i.
func (x *ddlText) is(i int, words ...string) bool {
	for k, w := range words {
		if !x.word(i + k).Is(w) {
			return false
		}
	}
	return true
}

// text returns the text for the parser.
func (x *ddlText) text() string { return sqltext.Join(x.tokens) }

var errNational = errors.New("it names a character set in an unsupported way")

// plain rewrites a statement for the parser where that cannot change its meaning.
func (x *ddlText) plain() error {
	i := 0
	if x.is(0, "SET", "STATEMENT") {
		for i < len(x.said) && !x.is(i, "FOR") {
			i++
		}
		i++
		x.drop(0, i)
	}
	verb := strings.ToUpper(x.word(i).Text)
	for i++; ; i++ {
		if w := x.word(i); !w.Is("OR") && !w.Is("REPLACE") && !w.Is("ONLINE") && !w.Is("OFFLINE") && !w.Is("IGNORE") {
			break
		}
		x.replace = x.replace || x.is(i, "REPLACE")
		x.drop(i, i+1)
	}
	if x.is(i, "TABLES") {
		x.put(i, "TABLE")
	}
	if (verb == "ALTER" || verb == "RENAME") && x.is(i+1, "IF", "EXISTS") {
		x.ifExists = true
		x.drop(i+1, i+3)
	}
	depth := 0
	for ; i < len(x.said); i++ {
		switch w := x.word(i); {
		case w.Punct('('):
			depth++
		case w.Punct(')'):
			depth--
		case w.Kind == sqltext.Word:
			if err := x.plainWord(i, depth, verb); err != nil {
				return err
			}
		}
	}
	return nil
}

func (x *ddlText) plainWord(i, depth int, verb string) error {
	switch w := x.word(i); {
	case w.Is("SELECT"):
		return errors.New("its columns come from a query")
	case w.Is("NCHAR"), w.Is("NVARCHAR"), w.Is("NATIONAL"), w.Is("ASCII"), w.Is("UNICODE"):
		return errNational
	case depth == 0 && x.is(i, "PARTITION", "BY"):
		x.drop(i, len(x.said))
	case depth == 0 && x.is(i, "START", "TRANSACTION"):
		x.drop(i, i+2)
	case depth == 0 && verb != "CREATE" && w.Is("NOWAIT"):
		x.drop(i, i+1)
	case depth == 0 && verb != "CREATE" && w.Is("WAIT") && schema.IsDigits(x.word(i+1).Text):
		x.drop(i, i+2)
	case (w.Is("AS") || w.Is("CHECK") || w.Is("DEFAULT")) && x.word(i+1).Punct('('):
		x.dropExpression(i + 1)
	case w.Is("UNIQUE"):
		if i++; x.is(i, "KEY") || x.is(i, "INDEX") {
			i++
		}
		if x.is(i, "IF", "NOT", "EXISTS") {
			x.maybe = true
			x.drop(i, i+3)
		}
	case w.Is("PERSISTENT"):
		x.put(i, "STORED")
	case w.Is("NOCOPY"):
		x.put(i, "INPLACE")
	case x.is(i, "CHARACTER", "SET"):
		return x.lend(i+2, false)
	case w.Is("CHARSET"):
		return x.lend(i+1, false)
	case w.Is("COLLATE"):
		return x.lend(i+1, true)
	}
	return nil
}

// dropExpression replaces the content of parentheses by a name.
func (x *ddlText) dropExpression(open int) {
	depth := 0
	for i := open; i < len(x.said); i++ {
		switch w := x.word(i); {
		case w.Punct('('):
			depth++
		case w.Punct(')'):
			depth--
		}
		switch {
		case depth == 0:
			return
		case i == open+1:
			x.tokens[x.said[i]] = sqltext.Token{Kind: sqltext.Name, Text: "`e`"}
		case i > open:
			x.drop(i, i+1)
		}
	}
}

// lend replaces the character set named at i, or the set of a collation, by one that the parser
// knows.
func (x *ddlText) lend(i int, collation bool) error {
	first := i - 1
	if x.word(i).Punct('=') {
		i++
	}
	w := x.word(i)
	name := strings.ToLower(w.Name())
	if w.Kind == sqltext.String {
		name = strings.ToLower(sqltext.Unquote(w.Text, true))
	}
	switch {
	case name == "" || name == "default" || name == "binary":
		return nil
	case collation && strings.HasPrefix(name, "uca1400_"): // of any character set
		x.drop(first, i+1)
		return nil
	case collation:
		name, _, _ = strings.Cut(name, "_")
	}
	if name == "utf8" {
		name = "utf8mb3"
	}
	at := slices.Index(x.sets, name)
	if at < 0 {
		at = len(x.sets)
		x.sets = append(x.sets, name)
	}
	if at >= len(lentSets) {
		return errors.New("it names too many character sets")
	}
	lent := lentSets[at]
	if collation {
		lent += "_bin"
	}
	x.put(i, lent)
	return nil
}

// set returns the statement's own character set for lent, the parser's set or a collation of it.
func (x *ddlText) set(lent string) (string, error) {
	lent, _, _ = strings.Cut(lent, "_")
	if lent == "" || lent == "binary" {
		return lent, nil
	}
	if at := slices.Index(lentSets, lent); at >= 0 && at < len(x.sets) {
		return x.sets[at], nil
	}
	return "", errNational
}

// guess rewrites words whose meaning is less certain, for statements that the parser cannot read
// otherwise. A wrong guess makes the statement invalid.
func (x *ddlText) guess() {
	for i := range x.said {
		w, before := x.word(i), x.word(i-1)
		if w.Kind != sqltext.Word {
			continue
		}
		switch odd := slices.Index(oddTypes, strings.ToLower(w.Text)); {
		case w.Is("INVISIBLE"), w.Is("VISIBLE"), w.Is("COMPRESSED") && !before.Punct('=') && !before.Is("ROW_FORMAT"):
			x.drop(i, i+1)
		case w.Is("SRID") && schema.IsDigits(x.word(i+1).Text):
			x.drop(i, i+2)
		case w.Is("REF_SYSTEM_ID") && x.word(i+1).Punct('='):
			x.drop(i, i+3)
		case odd < 0 || x.word(i+1).Punct('('):
		case before.Kind == sqltext.Name, before.Kind == sqltext.Word && !slices.ContainsFunc(notNames, before.Is):
			x.put(i, fmt.Sprintf("VARBINARY(%d)", oddLength+odd))
		}
	}
}
