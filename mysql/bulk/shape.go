package bulk

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/schema"
	"github.com/tidemarkdb/tidemark/mysql/server"
	"github.com/tidemarkdb/tidemark/mysqltype"
)

// A tableShape is what Write needs to know about a table on the target.
type tableShape struct {
	transactional bool
	columns       map[string]columnShape   // those that convert treats specially
	types         map[string]tidemark.Type // of all columns that have values, if there are generated ones
}

type columnShape struct {
	kind, charset string
	counts        bool // AUTO_INCREMENT
}

// shapes are the shapes of target tables. Bulk.mu guards them.
type shapes struct {
	known  map[string]tableShape         // by quoted name
	wanted map[tidemark.TableID]struct{} // tables that Inspect was asked about, whose shapes are unknown
}

// shapesAtOnce is how many tables are looked up in one query: far away, each costs a round trip.
const shapesAtOnce = 64

// shapeOf returns a table's shape; Exec makes it query again. It looks up other tables, which the
// caller of Inspect is about to fill, in the same query.
func (e *Bulk) shapeOf(ctx context.Context, s *server.Session, id tidemark.TableID) (tableShape, error) {
	name := server.QuoteTable(id)
	e.mu.Lock()
	shape, known := e.shapes.known[name]
	var some []tidemark.TableID
	if !known {
		some = e.shapes.next(id)
	}
	e.mu.Unlock()
	if known {
		return shape, nil
	}
	found, err := askShapes(ctx, e, s, some)
	if err != nil {
		return shape, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for table, shape := range found {
		e.shapes.known[table] = shape
	}
	if shape, known = found[name]; !known {
		return shape, &tidemark.Error{Kind: tidemark.NotFound, Op: "write", Object: id.String(), Err: errors.New("there is no such table on the target, or the user may not see it")}
	}
	return shape, nil
}

// next takes further tables to look up with id.
func (h *shapes) next(id tidemark.TableID) []tidemark.TableID {
	delete(h.wanted, id)
	some := []tidemark.TableID{id}
	for other := range h.wanted {
		if len(some) == shapesAtOnce {
			break
		}
		delete(h.wanted, other)
		some = append(some, other)
	}
	return some
}

// askShapes looks up those of the tables that exist. Each name has its own SELECT: with a list of
// names MariaDB would open all tables of all databases.
func askShapes(ctx context.Context, e *Bulk, s *server.Session, tables []tidemark.TableID) (map[string]tableShape, error) {
	selects := make([]string, 0, 2*len(tables))
	for i, id := range tables {
		in := " WHERE TABLE_SCHEMA=" + e.schemaLiteral(id) + " AND TABLE_NAME=" + server.Literal(id.Name)
		selects = append(selects, fmt.Sprintf("SELECT %d, ENGINE, NULL, NULL, 0, NULL, 0 FROM information_schema.TABLES", i)+in,
			fmt.Sprintf("SELECT %d, COLUMN_NAME, DATA_TYPE, CHARACTER_SET_NAME, EXTRA LIKE '%%auto_increment%%', COLUMN_TYPE, GENERATION_EXPRESSION <> '' FROM information_schema.COLUMNS", i)+in)
	}
	r, err := s.Query(ctx, strings.Join(selects, " UNION ALL "))
	if err != nil {
		return nil, err
	}
	out := map[string]tableShape{}
	for i := range r.RowNumber() {
		n, err := r.GetInt(i, 0)
		if err != nil || n < 0 || int(n) >= len(tables) {
			return nil, server.ErrMalformed
		}
		name := server.QuoteTable(tables[n])
		shape, column := out[name], strings.Clone(server.Cell(r, i, 1))
		kind := strings.ToLower(server.Cell(r, i, 2))
		if kind == "" {
			shape.transactional = schema.Transactional(server.Cell(r, i, 1))
		} else if c := (columnShape{kind, strings.ToLower(server.Cell(r, i, 3)), server.Cell(r, i, 4) == "1"}); c.special() {
			if shape.columns == nil {
				shape.columns = map[string]columnShape{}
			}
			shape.columns[column] = c
		}
		if server.Cell(r, i, 6) == "1" && shape.types == nil {
			shape.types = map[string]tidemark.Type{}
		}
		out[name] = shape
	}
	for i := range r.RowNumber() { // the types of tables with generated columns, which are few
		n, _ := r.GetInt(i, 0) // checked above
		if types := out[server.QuoteTable(tables[n])].types; types != nil && server.Cell(r, i, 2) != "" && server.Cell(r, i, 6) != "1" {
			types[strings.Clone(server.Cell(r, i, 1))] = mysqltype.Parse(strings.Clone(server.Cell(r, i, 5)))
		}
	}
	return out, nil
}

// special reports whether bytes of the column's values may need an expression, see convert.
func (c columnShape) special() bool { return c.counts || c.text() || !c.unicode() }

// text reports whether the type is made of text only.
func (c columnShape) text() bool {
	return c.kind == "json" || c.kind == "uuid" || strings.HasPrefix(c.kind, "inet")
}

// unicode reports whether UTF-8 can be stored as it is.
func (c columnShape) unicode() bool {
	return c.charset == "" || strings.HasPrefix(c.charset, "utf8") || c.charset == "ascii" || c.charset == "binary"
}

// forgetShapes forgets what statements may have changed; without any, all shapes.
func forgetShapes(e *Bulk, statements ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, sql := range statements {
		alter, is := strings.CutPrefix(sql, "ALTER TABLE ")
		name := quotedName(alter)
		if _, known := e.shapes.known[name]; is && known && !strings.Contains(strings.ToUpper(alter), "RENAME") {
			delete(e.shapes.known, name)
		} else if !strings.HasPrefix(sql, "ANALYZE TABLE ") {
			clear(e.shapes.known)
		}
	}
	if len(statements) == 0 {
		clear(e.shapes.known)
	}
}

// quotedName returns the `schema`.`table` that sql begins with; "" if it begins with anything else.
func quotedName(sql string) string {
	at, parts := 0, 0
	for at < len(sql) && sql[at] == '`' {
		end := strings.IndexByte(sql[at+1:], '`')
		if end < 0 {
			return ""
		}
		if at += end + 2; at < len(sql) && sql[at] == '`' { // a doubled quote
			continue
		}
		if parts++; parts == 1 && at < len(sql) && sql[at] == '.' {
			at++
			continue
		}
		break
	}
	if parts == 2 {
		return sql[:at]
	}
	return ""
}

func (e *Bulk) schemaLiteral(id tidemark.TableID) string {
	if id.Schema == "" {
		return "DATABASE()"
	}
	return server.Literal(id.Schema)
}
