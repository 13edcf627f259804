package bulk

import (
	"encoding/hex"
	"errors"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/charset"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// where writes the condition of a range and of the Move's filters; "" if there is no condition.
func where(m *tidemark.Move, r *tidemark.Range) (string, error) {
	var all []string
	if r != nil {
		switch r.Kind {
		case tidemark.Whole:
		case tidemark.Keys:
			cond, err := keyRange(m.From, r)
			if err != nil {
				return "", err
			}
			if cond != "" {
				all = append(all, cond)
			}
		case tidemark.Listed:
			cond, err := Listed(m.From, r)
			if err != nil {
				return "", err
			}
			all = append(all, "("+cond+")")
		default:
			return "", &tidemark.Error{Kind: tidemark.Bug, Op: "read", Object: m.From.String(), Err: errors.New("a MySQL source has no ranges of blocks")}
		}
	}
	for _, f := range m.Filter {
		cond, err := filter(m.From, f)
		if err != nil {
			return "", err
		}
		all = append(all, "("+cond+")")
	}
	return strings.Join(all, " AND "), nil
}

func column(t *tidemark.Table, name string) (*tidemark.Column, error) {
	if c := t.Column(name); c != nil {
		return c, nil
	}
	return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "read", Object: t.String(), Err: errors.New("there is no column " + name)}
}

// keyRange writes Lower <= key < Upper. For several columns the comparison is spelled out, because
// the server uses no index for (a,b) >= (x,y); the condition on the first column alone is
// redundant, but lets the server use one. Rows with a NULL in the columns belong only to the range
// with Nulls.
func keyRange(t *tidemark.Table, r *tidemark.Range) (string, error) {
	cols := make([]*tidemark.Column, len(r.Columns))
	var nullable []string
	for i, name := range r.Columns {
		c, err := column(t, name)
		if err != nil {
			return "", err
		}
		if cols[i] = c; !c.NotNull {
			nullable = append(nullable, server.Quote(name))
		}
	}
	if len(r.Lower) > len(cols) || len(r.Upper) > len(cols) {
		return "", &tidemark.Error{Kind: tidemark.Invalid, Op: "read", Object: t.String(), Err: errors.New("a boundary has more values than there are columns")}
	}
	var all []string
	if len(r.Lower) > 0 {
		all = append(all, compare(cols, r.Lower, ">", ">="))
	}
	if len(r.Upper) > 0 {
		all = append(all, compare(cols, r.Upper, "<", "<"))
	}
	if r.Nulls {
		if len(all) == 0 || len(nullable) == 0 {
			return strings.Join(all, " AND "), nil
		}
		return "(" + strings.Join(all, " AND ") + " OR " + strings.Join(nullable, " IS NULL OR ") + " IS NULL)", nil
	}
	for _, n := range nullable {
		all = append(all, n+" IS NOT NULL")
	}
	return strings.Join(all, " AND "), nil
}

// equals compares a column with a value that may come from another type, elsewhere. What the
// column's character set lacks, or is no time, equals none of its values, and would be an error: it
// is compared as text, without an index.
func equals(c *tidemark.Column, value string) string {
	name, text := server.Quote(c.Name), constant(c.Type, value)
	switch c.Type.Kind {
	case tidemark.Char, tidemark.Varchar, tidemark.Text:
		if !holds(c.Type.Charset, value) {
			return "CONVERT(" + name + " USING utf8mb4) COLLATE utf8mb4_bin=" + text
		}
	case tidemark.Date, tidemark.DateTime, tidemark.Timestamp:
		if !instant.MatchString(value) {
			return "CAST(" + name + " AS CHAR)=" + text
		}
	}
	return name + "=" + text
}

var instant = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}( [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(\+00)?)?$`)

// holds reports whether a character set surely has all characters of a text.
func holds(set, text string) bool {
	most := rune(0)
	for _, r := range text {
		most = max(most, r)
	}
	switch {
	case most < utf8.RuneSelf || set == charset.UTF8 || set == "":
		return true
	case set == "utf8mb3" || set == "utf8":
		return most <= 0xFFFF
	}
	r, known := charset.New(charset.UTF8, set)
	if r == nil || !known {
		return false
	}
	_, _, err := r.Append(nil, []byte(text), true)
	return err == nil
}

// Listed writes a condition that lists rows one by one. For keys of several columns, MariaDB uses
// an index only if the comparisons are spelled out.
func Listed(t *tidemark.Table, r *tidemark.Range) (string, error) {
	rows := make([]string, len(r.Values))
	for i, values := range r.Values {
		if len(values) != len(r.Columns) {
			return "", &tidemark.Error{Kind: tidemark.Bug, Op: "read", Object: t.String(), Err: errors.New("a row's key does not have one value per column")}
		}
		conds := make([]string, len(values))
		for j, v := range values {
			c, err := column(t, r.Columns[j])
			if err != nil {
				return "", err
			}
			conds[j] = equals(c, v)
		}
		rows[i] = strings.Join(conds, " AND ")
	}
	return strings.Join(rows, " OR "), nil
}

// compare writes a lexicographic comparison of tuples: strict is the operator for all columns but
// the last, last for that one.
func compare(cols []*tidemark.Column, bound []string, strict, last string) string {
	n := len(bound) - 1
	cond := server.Quote(cols[n].Name) + last + constant(cols[n].Type, bound[n])
	for i := n - 1; i >= 0; i-- {
		name, value := server.Quote(cols[i].Name), constant(cols[i].Type, bound[i])
		cond = "(" + name + strict + value + " OR " + name + "=" + value + " AND " + cond + ")"
	}
	if n > 0 {
		cond = server.Quote(cols[0].Name) + strict + "=" + constant(cols[0].Type, bound[0]) + " AND " + cond
	}
	return cond
}

func filter(t *tidemark.Table, f tidemark.Filter) (string, error) {
	if f.SQL != "" {
		return f.SQL, nil
	}
	c, err := column(t, f.Column)
	if err != nil {
		return "", err
	}
	var any []string
	for _, cond := range f.Conditions {
		name := server.Quote(c.Name)
		v := func(s string) string { return constant(c.Type, s) }
		switch cond.Op {
		case "eq":
			any = append(any, name+"="+v(cond.Value))
		case "noteq":
			any = append(any, name+"<>"+v(cond.Value))
		case "gte":
			any = append(any, name+">="+v(cond.Value))
		case "ste":
			any = append(any, name+"<="+v(cond.Value))
		case "between":
			any = append(any, name+" BETWEEN "+v(cond.Start)+" AND "+v(cond.End))
		case "notbetween":
			any = append(any, name+"<"+v(cond.Start)+" OR "+name+">"+v(cond.End))
		case "null":
			any = append(any, name+" IS NULL")
		case "notnull":
			any = append(any, name+" IS NOT NULL")
		default:
			return "", &tidemark.Error{Kind: tidemark.Invalid, Op: "read", Object: t.String(), Err: errors.New("a filter has the unknown operator " + cond.Op)}
		}
	}
	if len(any) == 0 {
		return "", &tidemark.Error{Kind: tidemark.Invalid, Op: "read", Object: t.String(), Err: errors.New("a filter of column " + c.Name + " has no condition")}
	}
	return strings.Join(any, " OR "), nil
}

var number = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)
var tame = regexp.MustCompile(`^[ !#-&(-\[\]-~]*$`) // ASCII without quotes and backslash

// constant writes a value to compare with a column, so that an index on the column can be used and
// nothing in the value is parsed as SQL. A text constant is compared in the column's collation.
func constant(t tidemark.Type, text string) string {
	switch t.Kind {
	case tidemark.Int, tidemark.Decimal, tidemark.Float, tidemark.Year, tidemark.Money:
		if number.MatchString(text) {
			return text
		}
	case tidemark.Bool:
		switch text {
		case "t", "true", "1":
			return "1"
		case "f", "false", "0":
			return "0"
		}
	case tidemark.Bit, tidemark.VarBit:
		if text != "" && strings.Trim(text, "01") == "" {
			return "b'" + text + "'"
		}
	case tidemark.Timestamp:
		text = strings.TrimSuffix(text, "+00")
	case tidemark.Binary, tidemark.Varbinary, tidemark.Blob:
		if h, ok := strings.CutPrefix(text, `\x`); ok {
			if _, err := hex.DecodeString(h); err == nil {
				return "x'" + h + "'"
			}
		}
		return "x'" + hex.EncodeToString([]byte(text)) + "'"
	}
	if tame.MatchString(text) {
		return "'" + text + "'"
	}
	return "_utf8mb4 x'" + hex.EncodeToString([]byte(text)) + "'"
}
