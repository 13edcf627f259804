package mysql

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Bits of sql_mode in the head of a statement (sql/system_variables.h; MariaDB's sql/sql_class.h).
const (
	modeRealAsFloat = 1 << 0
	modePipes       = 1 << 1
	modeANSIQuotes  = 1 << 2
	modeIgnoreSpace = 1 << 3
	modeOracle      = 1 << 9  // MariaDB: other types under known names
	modeMaxDB       = 1 << 12 // MariaDB: the same
	modeNoBackslash = 1 << 20
	modeStrict      = 1<<21 | 1<<22 // for tables with transactions, for all
)

// A ddlText is a statement in words that the parser knows. What says nothing of columns and
// keys is left out of it: comments, expressions, partitions. Names of character sets, of
// which the parser knows few, stand there under the names of others, and types that it does
// not know as VARBINARY of a length that no column can have.
type ddlText struct {
	tokens   []token
	said     []int // indexes of those that say something
	ifExists bool  // MariaDB: RENAME and ALTER TABLE IF EXISTS
	replace  bool  // CREATE OR REPLACE
	maybe    bool  // MariaDB: ADD UNIQUE KEY IF NOT EXISTS
	sets     []string
}

// lentSets are character sets that the parser knows, under whose names a statement's own stand.
var lentSets = []string{"utf8mb4", "latin1", "gbk", "gb18030", "utf8"}

// oddTypes are types that the parser does not know.
var oddTypes = []string{"geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection", "geomcollection", "uuid", "inet4", "inet6"}

// oddLength is the length that the first of oddTypes has in their place, the others one more
// each: the largest that a column can have is 65,535.
const oddLength = 1 << 20

// notNames are words before which, and behind which, no type of a column begins.
var notNames = strings.Fields("ADD ALTER COLUMN MODIFY CHANGE DROP EXISTS TO AFTER BY INDEX KEY UNIQUE FULLTEXT SPATIAL CONSTRAINT RENAME FOREIGN PRIMARY TABLE ON USING REFERENCES DEFAULT NULL")

// readDDLText scans a statement, and brings it into the parser's words.
func (d *ddlReader) readDDLText(sql string) (*ddlText, error) {
	x := d.scanDDLText(sql)
	return x, x.plain()
}

// scanDDLText scans a statement, with names as MySQL quotes them by default.
func (d *ddlReader) scanDDLText(sql string) *ddlText {
	x := &ddlText{}
	var active []bool // versioned comments that are open
	for len(sql) > 0 {
		kind, n := scanToken(sql, len(active) > 0)
		quoted := sql[0] == '"' && d.mode&modeANSIQuotes != 0
		if quoted || kind == stringToken && d.mode&modeNoBackslash != 0 {
			n = quotedLen(sql, false)
		}
		text := sql[:n]
		sql = sql[n:]
		switch {
		case kind == openToken:
			active = append(active, d.runs(text))
			kind = commentToken
		case kind == closeToken:
			active = active[:len(active)-1]
			kind = commentToken
		case slices.Contains(active, false):
			kind = commentToken
		case quoted && n >= 2:
			kind, text = nameToken, "`"+strings.ReplaceAll(strings.ReplaceAll(text[1:n-1], `""`, `"`), "`", "``")+"`"
		}
		if kind == commentToken {
			kind, text = spaceToken, " "
		}
		if kind != spaceToken {
			x.said = append(x.said, len(x.tokens))
		}
		x.tokens = append(x.tokens, token{kind, text})
	}
	return x
}

// runs reports whether the server runs what stands in a comment of a version.
func (d *ddlReader) runs(open string) bool {
	open, maria := strings.CutPrefix(strings.TrimPrefix(open, "/*"), "M")
	version, err := strconv.Atoi(strings.TrimPrefix(open, "!"))
	switch {
	case maria && !d.mariadb:
		return false
	case err != nil:
		return true
	case d.mariadb && !maria && version >= 50700 && version <= 99999: // of MySQL, which has other features
		return false
	}
	return version <= d.version
}

// word gives token i of those that say something.
func (x *ddlText) word(i int) token {
	if i < 0 || i >= len(x.said) {
		return token{}
	}
	return x.tokens[x.said[i]]
}

func (x *ddlText) put(i int, text string) {
	if i < len(x.said) {
		x.tokens[x.said[i]] = token{wordToken, text}
	}
}

// drop takes out the tokens from i up to before end.
func (x *ddlText) drop(i, end int) {
	for ; i < min(end, len(x.said)); i++ {
		x.tokens[x.said[i]] = token{spaceToken, " "}
	}
}

// is reports whether these words stand at i.
func (x *ddlText) is(i int, words ...string) bool {
	for k, w := range words {
		if !x.word(i + k).is(w) {
			return false
		}
	}
	return true
}

// text is what the parser gets.
func (x *ddlText) text() string { return join(x.tokens) }

var errNational = errors.New("it names a character set in a way that is not read")

// plain brings a statement into the parser's words, as far as that cannot change what it says.
func (x *ddlText) plain() error {
	i := 0
	if x.is(0, "SET", "STATEMENT") {
		for i < len(x.said) && !x.is(i, "FOR") {
			i++
		}
		i++
		x.drop(0, i)
	}
	verb := strings.ToUpper(x.word(i).text)
	for i++; ; i++ {
		if w := x.word(i); !w.is("OR") && !w.is("REPLACE") && !w.is("ONLINE") && !w.is("OFFLINE") && !w.is("IGNORE") {
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
		case w.punct('('):
			depth++
		case w.punct(')'):
			depth--
		case w.kind == wordToken:
			if err := x.plainWord(i, depth, verb); err != nil {
				return err
			}
		}
	}
	return nil
}

func (x *ddlText) plainWord(i, depth int, verb string) error {
	switch w := x.word(i); {
	case w.is("SELECT"):
		return errors.New("its columns come from a query")
	case w.is("NCHAR"), w.is("NVARCHAR"), w.is("NATIONAL"), w.is("ASCII"), w.is("UNICODE"):
		return errNational
	case depth == 0 && x.is(i, "PARTITION", "BY"):
		x.drop(i, len(x.said))
	case depth == 0 && x.is(i, "START", "TRANSACTION"):
		x.drop(i, i+2)
	case depth == 0 && verb != "CREATE" && w.is("NOWAIT"):
		x.drop(i, i+1)
	case depth == 0 && verb != "CREATE" && w.is("WAIT") && isDigits(x.word(i+1).text):
		x.drop(i, i+2)
	case (w.is("AS") || w.is("CHECK") || w.is("DEFAULT")) && x.word(i+1).punct('('):
		x.dropExpression(i + 1)
	case w.is("UNIQUE"):
		if i++; x.is(i, "KEY") || x.is(i, "INDEX") {
			i++
		}
		if x.is(i, "IF", "NOT", "EXISTS") {
			x.maybe = true
			x.drop(i, i+3)
		}
	case w.is("PERSISTENT"):
		x.put(i, "STORED")
	case w.is("NOCOPY"):
		x.put(i, "INPLACE")
	case x.is(i, "CHARACTER", "SET"):
		return x.lend(i+2, false)
	case w.is("CHARSET"):
		return x.lend(i+1, false)
	case w.is("COLLATE"):
		return x.lend(i+1, true)
	}
	return nil
}

func isDigits(s string) bool {
	_, err := strconv.Atoi(s)
	return err == nil
}

// dropExpression puts a name in place of what stands in parentheses.
func (x *ddlText) dropExpression(open int) {
	depth := 0
	for i := open; i < len(x.said); i++ {
		switch w := x.word(i); {
		case w.punct('('):
			depth++
		case w.punct(')'):
			depth--
		}
		switch {
		case depth == 0:
			return
		case i == open+1:
			x.tokens[x.said[i]] = token{nameToken, "`e`"}
		case i > open:
			x.drop(i, i+1)
		}
	}
}

// lend puts the name of a character set that the parser knows in place of one that the
// statement names at i, or of a collation of it.
func (x *ddlText) lend(i int, collation bool) error {
	first := i - 1
	if x.word(i).punct('=') {
		i++
	}
	w := x.word(i)
	name := strings.ToLower(w.name())
	if w.kind == stringToken {
		name = strings.ToLower(unquoteString(w.text))
	}
	switch {
	case name == "" || name == "default" || name == "binary":
		return nil
	case collation && strings.HasPrefix(name, "uca1400_"): // of whatever character set there is
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

// set gives the character set that the statement names where the parser has one, or a
// collation of it.
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

// guess changes words of which it is less certain what they are: for statements that the
// parser does not read without that. Where it is wrong they are no statements any more.
func (x *ddlText) guess() {
	for i := range x.said {
		w, before := x.word(i), x.word(i-1)
		if w.kind != wordToken {
			continue
		}
		switch odd := slices.Index(oddTypes, strings.ToLower(w.text)); {
		case w.is("INVISIBLE"), w.is("VISIBLE"), w.is("COMPRESSED") && !before.punct('=') && !before.is("ROW_FORMAT"):
			x.drop(i, i+1)
		case w.is("SRID") && isDigits(x.word(i+1).text):
			x.drop(i, i+2)
		case w.is("REF_SYSTEM_ID") && x.word(i+1).punct('='):
			x.drop(i, i+3)
		case odd < 0 || x.word(i+1).punct('('):
		case before.kind == nameToken, before.kind == wordToken && !slices.ContainsFunc(notNames, before.is):
			x.put(i, fmt.Sprintf("VARBINARY(%d)", oddLength+odd))
		}
	}
}
