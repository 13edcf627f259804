package bulk

import (
	"context"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// SumRecipe returns how Sum hashes the rows of a move; "" if it cannot. Two moves with equal
// recipes have columns of equal types in the same order, and servers that store text in the same
// encoding.
func (b *Bulk) SumRecipe(m *tidemark.Move) string {
	// hash_record_extended came with PostgreSQL 14.
	if b.Major < 14 || m.From.Form == tidemark.LargeObjects || len(m.Columns()) == 0 {
		return ""
	}
	var types []string
	for _, c := range m.Columns() {
		if m.Lob.Mode == tidemark.LimitedLob && cuttable(&c) {
			return ""
		}
		types = append(types, c.Type.Native)
	}
	return b.Encoding + ": " + strings.Join(types, ", ")
}

// Sum counts the rows of a range and adds up their hashes.
//
// The server's hash of a record is a sum over its columns, hash = 31 hash + h(column)
// (utils/adt/rowtypes.c), and a sum of such sums would not change if two rows exchanged the values
// of a column. So Sum hashes the hash of the record once more.
func (v *Reader) Sum(ctx context.Context, lane int, m *tidemark.Move, r *tidemark.Range) (rows int64, sum *big.Int, err error) {
	v.readersMu.Lock()
	l := laneAt(v.readers, lane)
	v.readersMu.Unlock()
	table := sourceTable(m, r)
	object := server.QuoteTable(table)
	if l == nil {
		return 0, nil, &tidemark.Error{Kind: tidemark.Bug, Op: "hash", Object: object, Err: fmt.Errorf("there is no lane %d", lane)}
	}
	where, err := WhereSQL(m, r)
	if err != nil {
		return 0, nil, err
	}
	if err := l.join(ctx, 1); err != nil {
		return 0, nil, err
	}
	answer, err := l.Query(ctx, "SELECT count(*), coalesce(sum(hash_record_extended(ROW(int8send("+
		"hash_record_extended(ROW("+hashedSQL(m.Columns())+"), 0))), 0)), 0)"+FromSQL(m, r, where))
	if err != nil {
		l.joined = false
		return 0, nil, v.FailGrant(ctx, "hash", object, err, "SELECT ON TABLE "+object)
	}
	rows, err = strconv.ParseInt(string(answer[0][0]), 10, 64)
	sum, ok := new(big.Int).SetString(string(answer[0][1]), 10)
	if err != nil || !ok {
		return 0, nil, &tidemark.Error{Kind: tidemark.Bug, Op: "hash", Object: object, Err: fmt.Errorf("the server answered %q", answer[0])}
	}
	return rows, sum, nil
}

// sentTypes are types whose own hash is equal for some values that differ: it folds 64 bits to 32,
// treats -0 as 0, or all spellings of one instant as the same. Their wire format is hashed instead.
var sentTypes = map[string]string{
	"timestamp": "timestamp_send", "timestamp without time zone": "timestamp_send", "timestamp with time zone": "timestamptz_send",
	"time": "time_send", "time without time zone": "time_send", "time with time zone": "timetz_send",
	"real": "float4send", "double precision": "float8send", "numeric": "numeric_send",
}

// plainTypes are types whose own hash covers every bit of a value, and nothing else.
var plainTypes = map[string]bool{
	"boolean": true, "smallint": true, "integer": true, "oid": true, "date": true, "uuid": true, "bytea": true, `"char"`: true, "name": true, "inet": true, "cidr": true, "macaddr": true,
}

// textTypes are types whose text is complete.
var textTypes = map[string]bool{"json": true, "jsonb": true, "xml": true, "interval": true, "bit": true, "bit varying": true}

// hashedSQL returns the expressions that represent columns in a hash: together they differ if the
// rows do.
func hashedSQL(columns []tidemark.Column) string {
	var exprs, others []string
	for _, c := range columns {
		col := server.QuoteIdent(c.Name)
		// format_type's spelling; a user-defined type with such a name has its schema before it, or
		// quotes around it.
		base, modifier, _ := strings.Cut(c.Type.Native, "(")
		if modifier != "" {
			_, rest, _ := strings.Cut(modifier, ")")
			base += rest // timestamp(3) with time zone
		}
		switch {
		case base == "bigint":
			exprs = append(exprs, col, col+" >> 32") // its hash folds the halves
		case base == "numeric" && modifier != "":
			// Its hash ignores sign and scale; the scale is the column's.
			exprs = append(exprs, col, col+" < 0")
		case sentTypes[base] != "":
			exprs = append(exprs, sentTypes[base]+"("+col+")")
		case plainTypes[base]:
			exprs = append(exprs, col)
		case base == "text" || base == "character varying" || base == "character" && modifier != "":
			exprs = append(exprs, col+` COLLATE "C"`) // some collations hash different texts equally
		case textTypes[base]:
			exprs = append(exprs, col+"::text")
		default:
			others = append(others, col)
		}
	}
	if len(others) > 0 {
		// By their output functions, even if there are casts to text.
		exprs = append(exprs, "ROW("+strings.Join(others, ", ")+")::text")
	}
	return strings.Join(exprs, ", ")
}
