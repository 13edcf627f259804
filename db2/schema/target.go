package schema

import (
	"context"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/db2/server"
)

// Types returns the types of a table's columns, by name; none if there is no such table.
func (e *Schema) Types(ctx context.Context, s *server.Session, id tidemark.TableID) (map[string]tidemark.Type, error) {
	rows, err := s.Strings(ctx, "SELECT COLNAME, TYPENAME, LENGTH, SCALE, CODEPAGE FROM "+server.Quote(e.Catalog)+".COLUMNS WHERE TABSCHEMA = "+server.Literal(id.Schema)+" AND TABNAME = "+server.Literal(id.Name))
	if err != nil {
		return nil, err
	}
	out := map[string]tidemark.Type{}
	for _, row := range rows {
		length, _ := strconv.ParseInt(*row[2], 10, 64)
		scale, _ := strconv.Atoi(*row[3])
		out[*row[0]] = typeOf(catalogType{name: strings.TrimSpace(*row[1]), length: length, scale: scale, bits: row[4] != nil && *row[4] == "0"})
	}
	return out, nil
}

// Inspect returns the state of these names, in the same order.
func (e *Schema) Inspect(ctx context.Context, tables []tidemark.TableID) ([]tidemark.TableState, error) {
	out := make([]tidemark.TableState, len(tables))
	err := e.Do(ctx, "inspect", e.Masked, func(s *server.Session) error {
		there := map[tidemark.TableID]bool{}
		schemas := map[string]bool{}
		for i, id := range tables {
			if !schemas[id.Schema] {
				schemas[id.Schema] = true
				rows, err := s.Strings(ctx, "SELECT TABNAME FROM "+server.Quote(e.Catalog)+".TABLES WHERE TABSCHEMA = "+server.Literal(id.Schema))
				if err != nil {
					return err
				}
				for _, row := range rows {
					there[tidemark.TableID{Schema: id.Schema, Name: *row[0]}] = true
				}
			}
			out[i] = tidemark.TableState{Table: id, Exists: there[id]}
			if there[id] {
				rows, err := s.Strings(ctx, "SELECT 1 FROM "+server.QuoteTable(id)+" FETCH FIRST 1 ROWS ONLY")
				if err != nil {
					return e.Fail("inspect", id.String(), err)
				}
				out[i].Rows = len(rows) > 0
			}
		}
		return nil
	})
	return out, err
}
