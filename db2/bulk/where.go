package bulk

import (
	"encoding/hex"
	"errors"
	"regexp"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/db2/server"
)

// where writes the condition of a range and of the Move's filters; "" if there is no condition.
func where(m *tidemark.Move, r *tidemark.Range) (string, error) {
	var all []string
	if r != nil {
		cond, err := ofRange(m.From, r)
		if err != nil {
			return "", err
		}
		if cond != "" {
			all = append(all, "("+cond+")")
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

func invalid(t *tidemark.Table, cause string) error {
	return &tidemark.Error{Kind: tidemark.Invalid, Op: "read", Object: t.String(), Err: errors.New(cause)}
}

func ofRange(t *tidemark.Table, r *tidemark.Range) (string, error) {
	cols := make([]*tidemark.Column, len(r.Columns))
	for i, name := range r.Columns {
		if cols[i] = t.Column(name); cols[i] == nil {
			return "", invalid(t, "there is no column "+name)
		}
	}
	switch r.Kind {
	case tidemark.Whole:
		return "", nil
	case tidemark.Keys:
		return keyRange(t, r, cols)
	case tidemark.Listed:
		var rows []string
		for _, values := range r.Values {
			if len(values) != len(cols) {
				return "", invalid(t, "a row's key does not have one value per column")
			}
			conds := make([]string, len(values))
			for j, v := range values {
				conds[j] = server.Quote(cols[j].Name) + " = " + constant(cols[j].Type, v)
			}
			rows = append(rows, strings.Join(conds, " AND "))
		}
		return strings.Join(rows, " OR "), nil
	}
	return "", &tidemark.Error{Kind: tidemark.Bug, Op: "read", Object: t.String(), Err: errors.New("a Db2 source has no ranges of blocks")}
}

// keyRange writes Lower <= key < Upper, in lexicographic order. Rows with a NULL in the columns
// belong only to the range with Nulls.
func keyRange(t *tidemark.Table, r *tidemark.Range, cols []*tidemark.Column) (string, error) {
	if len(r.Lower) > len(cols) || len(r.Upper) > len(cols) {
		return "", invalid(t, "a boundary has more values than there are columns")
	}
	var all, isNull, notNull []string
	for _, c := range cols {
		if !c.NotNull {
			isNull = append(isNull, server.Quote(c.Name)+" IS NULL")
			notNull = append(notNull, server.Quote(c.Name)+" IS NOT NULL")
		}
	}
	if len(r.Lower) > 0 {
		all = append(all, compare(cols, r.Lower, " > ", " >= "))
	}
	if len(r.Upper) > 0 {
		all = append(all, compare(cols, r.Upper, " < ", " < "))
	}
	if !r.Nulls {
		return strings.Join(append(all, notNull...), " AND "), nil
	}
	if len(all) == 0 || len(isNull) == 0 {
		return strings.Join(all, " AND "), nil
	}
	return strings.Join(all, " AND ") + " OR " + strings.Join(isNull, " OR "), nil
}

// compare writes a lexicographic comparison: strict is the operator for all columns but the last,
// last for that one.
func compare(cols []*tidemark.Column, bound []string, strict, last string) string {
	n := len(bound) - 1
	cond := server.Quote(cols[n].Name) + last + constant(cols[n].Type, bound[n])
	for i := n - 1; i >= 0; i-- {
		name, value := server.Quote(cols[i].Name), constant(cols[i].Type, bound[i])
		cond = "(" + name + strict + value + " OR " + name + " = " + value + " AND " + cond + ")"
	}
	return cond
}

func filter(t *tidemark.Table, f tidemark.Filter) (string, error) {
	if f.SQL != "" {
		return f.SQL, nil
	}
	c := t.Column(f.Column)
	if c == nil {
		return "", invalid(t, "there is no column "+f.Column)
	}
	name := server.Quote(c.Name)
	value := func(s string) string { return constant(c.Type, s) }
	operators := map[string]string{"eq": " = ", "noteq": " <> ", "gte": " >= ", "ste": " <= "}
	var any []string
	for _, cond := range f.Conditions {
		switch op := operators[cond.Op]; {
		case op != "":
			any = append(any, name+op+value(cond.Value))
		case cond.Op == "between":
			any = append(any, name+" BETWEEN "+value(cond.Start)+" AND "+value(cond.End))
		case cond.Op == "notbetween":
			any = append(any, name+" < "+value(cond.Start)+" OR "+name+" > "+value(cond.End))
		case cond.Op == "null":
			any = append(any, name+" IS NULL")
		case cond.Op == "notnull":
			any = append(any, name+" IS NOT NULL")
		default:
			return "", invalid(t, "a filter has the unknown operator "+cond.Op)
		}
	}
	if len(any) == 0 {
		return "", invalid(t, "a filter of column "+c.Name+" has no condition")
	}
	return strings.Join(any, " OR "), nil
}

var number = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

// constant writes a value to compare with a column.
func constant(t tidemark.Type, text string) string {
	switch t.Kind {
	case tidemark.Int, tidemark.Decimal, tidemark.Float:
		if number.MatchString(text) {
			return text
		}
	case tidemark.Bool:
		switch text {
		case "t", "true", "1":
			return "TRUE"
		case "f", "false", "0":
			return "FALSE"
		}
	case tidemark.Binary, tidemark.Varbinary, tidemark.Blob:
		hexed := hex.EncodeToString([]byte(text))
		if h, ok := strings.CutPrefix(text, `\x`); ok {
			if _, err := hex.DecodeString(h); err == nil {
				hexed = h
			}
		}
		if strings.HasSuffix(t.Native, "FOR BIT DATA") {
			return "X'" + hexed + "'"
		}
		return "BX'" + hexed + "'"
	}
	return server.Literal(text)
}
