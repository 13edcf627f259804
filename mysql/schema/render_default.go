package schema

import (
	"math/big"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/functions"
	"github.com/tidemarkdb/tidemark/mysql/server"
	"github.com/tidemarkdb/tidemark/sqltext"
)

// noDefault stands for a default that is left out: a comparison of definitions knows that one may
// be set by hand.
const noDefault = " /* its default is left out */"

// defaultSQL returns a column's DEFAULT clause, with a blank before it; empty if the column has
// none, noDefault if it is left out.
func (b *builder) defaultSQL(c *builtColumn, object string) string {
	d := c.col.Default
	if d == nil || c.col.Identity != nil || c.col.Generated != "" {
		return ""
	}
	text, why := b.defaultValue(c, d)
	if why != "" {
		b.r.find(tidemark.Warning, object, "has no default here: "+why, "")
		return noDefault
	}
	if impossible(c.sql, c.col.NotNull, text) {
		b.r.find(tidemark.Warning, object, "has no default here: the column cannot have "+text, "")
		return noDefault
	}
	if strings.HasPrefix(text, "(") && !b.r.to.mariadb && !b.r.to.atLeast(8, 0, 13) {
		b.r.find(tidemark.Warning, object, "has no default here: only MySQL 8.0.13 and later compute one", "")
		return noDefault
	}
	return " DEFAULT " + text
}

// nullDefault is what the server shows of a nullable column that has no default.
func (b *builder) nullDefault(c *builtColumn) string {
	switch {
	case c.typ.Kind == tidemark.Timestamp:
		return " NULL DEFAULT NULL"
	case !b.r.to.mariadb && (c.unbounded() || c.typ.Kind == tidemark.JSON || c.typ.Kind == tidemark.Geometry):
		return ""
	}
	return " DEFAULT NULL"
}

func (b *builder) defaultValue(c *builtColumn, d *tidemark.Default) (sql, why string) {
	switch d.Kind {
	case tidemark.Literal:
		return c.literalDefault(d.Text)
	case tidemark.Now:
		return b.nowDefault(c), ""
	case tidemark.Today:
		return "(CURDATE())", ""
	case tidemark.NewUUID:
		return "(UUID())", ""
	}
	if b.r.mysql && strings.Contains(d.Text, "nextval(") && !b.r.to.mariadb {
		return "", "MySQL has no sequences"
	}
	expr, err := b.expression(d.Text, functions.Default, nil)
	if err != nil {
		return "", err.Error()
	}
	if strings.HasPrefix(expr, "(") && strings.HasSuffix(expr, ")") && sqltext.Closing(sqltext.Scan(expr), 0) == len(sqltext.Scan(expr))-1 {
		return expr, ""
	}
	return "(" + expr + ")", ""
}

// nowDefault returns a default of the current time. An instant of another engine is kept as a
// datetime in UTC, so its default is in UTC too, whatever the session's time zone.
func (b *builder) nowDefault(c *builtColumn) string {
	switch c.typ.Kind {
	case tidemark.DateTime:
		if c.col.Type.Kind == tidemark.Timestamp {
			return "(" + call("UTC_TIMESTAMP", c.typ.Precision) + ")"
		}
		return call("CURRENT_TIMESTAMP", c.typ.Precision)
	case tidemark.Timestamp:
		return call("CURRENT_TIMESTAMP", c.typ.Precision)
	case tidemark.Date:
		return "(CURDATE())"
	case tidemark.Time:
		return "(" + call("CURTIME", c.typ.Precision) + ")"
	}
	return "(CURRENT_TIMESTAMP(6))"
}

// literalDefault returns the SQL literal of a canonical value for the column.
func (c *builtColumn) literalDefault(v string) (sql, why string) {
	switch c.typ.Kind {
	case tidemark.Int, tidemark.Decimal, tidemark.Float, tidemark.Year:
		if c.col.Type.Kind == tidemark.Bool {
			v = map[string]string{"t": "1", "f": "0"}[v]
		}
		if !plainNumber.MatchString(v) {
			return "", "there is no number " + v
		}
		v = c.rounded(v)
		return server.Literal(v), ""
	case tidemark.Bit:
		if strings.Trim(v, "01") != "" {
			return "", v + " is no bit string"
		}
		return "b'" + v + "'", ""
	case tidemark.Binary, tidemark.Varbinary, tidemark.Blob:
		if h, ok := strings.CutPrefix(v, `\x`); ok && h != "" { // MySQL cannot read its own text of x''
			sql = "x'" + h + "'"
		} else {
			sql = server.Literal(strings.TrimPrefix(v, `\x`))
		}
	case tidemark.Date, tidemark.DateTime, tidemark.Timestamp:
		v = strings.TrimSuffix(v, "+00")
		if v == "" || v[0] < '0' || v[0] > '9' || strings.HasSuffix(v, " BC") || strings.IndexByte(v, '-') != 4 {
			return "", "there is no date " + v
		}
		sql = server.Literal(v)
	default:
		sql = literal(v)
	}
	if c.unbounded() || c.typ.Kind == tidemark.JSON || c.typ.Kind == tidemark.Geometry {
		return "(" + sql + ")", ""
	}
	return sql, ""
}

// rounded returns a number with no more decimals than the column has: as both servers do when the
// default comes into a row, and as the target's catalogue shows it.
func (c *builtColumn) rounded(v string) string {
	scale := 0
	if c.typ.Kind == tidemark.Decimal {
		scale = c.typ.Scale
	}
	_, decimals, _ := strings.Cut(v, ".")
	r, ok := new(big.Rat).SetString(v)
	if !ok || c.typ.Kind == tidemark.Float || len(decimals) <= scale {
		return v
	}
	return r.FloatString(scale)
}
