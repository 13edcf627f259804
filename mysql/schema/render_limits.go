package schema

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// folded finds names that are equal here: tables that two moves fill, and columns that a table has
// twice.
func (r *renderer) folded(l server.Limits) {
	tables := map[string]*tidemark.Move{}
	for i := range r.moves {
		m := &r.moves[i]
		columns := map[string]string{}
		for j := range m.To.Columns {
			name := m.To.Columns[j].Name
			low := strings.ToLower(name)
			if other, twice := columns[low]; twice {
				r.findings = append(r.findings, tidemark.Finding{Severity: tidemark.Blocker, Kind: tidemark.Collision, Object: "table " + m.From.String(),
					Text: fmt.Sprintf("has columns %s and %s, which are one name to %s", server.Quote(other), server.Quote(name), r.to.name()), Hint: "Rename one of them with a transformation."})
			}
			columns[low] = name
		}
		if !l.FoldTables {
			continue
		}
		low := strings.ToLower(m.To.String())
		if other := tables[low]; other != nil && other.To.TableID != m.To.TableID {
			r.findings = append(r.findings, tidemark.Finding{Severity: tidemark.Blocker, Kind: tidemark.Collision, Object: "table " + m.From.String(),
				Text: fmt.Sprintf("would be %s, which the target does not distinguish from %s (lower_case_table_names)", m.To, other.To), Hint: "Rename one of them with a transformation."})
		}
		tables[low] = m
	}
}

// wide finds tables whose rows may be too wide for a page: InnoDB refuses to create them.
func (r *renderer) wide(l server.Limits) {
	for i := range r.moves {
		if b := r.built[r.moves[i].From.TableID]; b != nil && l.Page > 0 && b.engine() == "InnoDB" {
			b.wide(l)
		}
	}
	for _, m := range r.inPages {
		if l.Page == 0 {
			return
		}
		b := &builder{r: r, m: m, primary: m.From.Key}
		if len(m.From.Indexes) > 0 {
			b.now = []string{""} // one of them may be the clustered index
		}
		for i := range m.To.Columns {
			col := &m.To.Columns[i]
			c := &builtColumn{col: col, sql: col.Type.Native, notNull: col.NotNull, attr: " CHARACTER SET " + cmp.Or(col.Type.Charset, "utf8mb4")}
			c.size()
			b.columns = append(b.columns, c)
		}
		b.wide(l)
	}
}

// wide calculates as InnoDB does; where unsure, it estimates too low rather than too high.
func (b *builder) wide(l server.Limits) {
	sum, nulls := int64(5+6+7), int64(0) // header, transaction, roll pointer
	if b.primary == nil && len(b.now) == 0 {
		sum += 6 // row number
	}
	for _, c := range b.columns {
		if c.col.Generated != "" && c.col.Virtual {
			continue
		}
		if !c.notNull {
			nulls++
		}
		sum += c.onPage(b.r.to)
	}
	if sum += (nulls + 7) / 8; sum >= l.PageShare() {
		b.r.findings = append(b.r.findings, tidemark.Finding{Severity: tidemark.Blocker, Kind: tidemark.Unmapped, Object: "table " + b.m.From.String(),
			Text: fmt.Sprintf("its rows may take %d bytes of a page, however much lies elsewhere, and InnoDB refuses %d and more", sum, l.PageShare()),
			Hint: "Leave columns out with a transformation."})
	}
}

// onPage returns the bytes on the page that a column takes in a DYNAMIC row when everything
// possible is stored off-page; 0 for an unknown type.
func (c *builtColumn) onPage(on dialect) int64 {
	t := &c.typ
	text := func(length int64) int64 {
		switch {
		case !on.mariadb:
			return min(length, 40) + 1
		case length > 255:
			return 20 + 1
		}
		return length + 1
	}
	fixed := func(n int64) int64 {
		if n > 768 {
			return text(n)
		}
		return n
	}
	fraction := int64(t.Precision+1) / 2
	switch t.Kind {
	case tidemark.Text, tidemark.Blob, tidemark.JSON, tidemark.Geometry:
		return text(1 << 20)
	case tidemark.Varchar:
		return text(t.Length * c.perChar)
	case tidemark.Varbinary:
		return text(t.Length)
	case tidemark.Char:
		if c.perChar == 1 {
			return fixed(t.Length)
		}
		return text(t.Length * c.perChar)
	case tidemark.Binary:
		return fixed(t.Length)
	case tidemark.Decimal:
		return sideBytes(int64(t.Precision-t.Scale)) + sideBytes(int64(t.Scale))
	case tidemark.Date:
		return 3
	case tidemark.Time:
		return 3 + fraction
	case tidemark.DateTime:
		return 5 + fraction
	case tidemark.Timestamp:
		return 4 + fraction
	}
	return plainBytes(c.sql)
}

// sideBytes returns the bytes for the digits on one side of a decimal's point: nine digits take
// four bytes.
func sideBytes(digits int64) int64 {
	return digits/9*4 + (digits%9+1)/2
}

// plainBytes returns the size of types of fixed size.
func plainBytes(sql string) int64 {
	word, _, _ := strings.Cut(strings.ToLower(sql), " ")
	word, _, _ = strings.Cut(word, "(")
	switch word {
	case "tinyint", "bool", "boolean", "year":
		return 1
	case "smallint":
		return 2
	case "mediumint":
		return 3
	case "int", "integer", "float":
		return 4
	case "bigint", "double":
		return 8
	case "uuid", "inet6":
		return 16
	case "enum", "set", "bit":
		return 1
	}
	return 0
}
