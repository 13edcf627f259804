package schema

import (
	"context"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// AlterSQL returns the statements of an alteration. As far as SQL can express that, they do nothing
// if it is already in effect.
func (s *Schema) AlterSQL(a change.Alteration) []string {
	column := "ALTER TABLE " + server.QuoteTable(a.Table) + " ALTER COLUMN " + server.QuoteIdent(a.Column)
	switch {
	case a.SetDefault != "":
		return []string{column + " SET DEFAULT " + a.SetDefault}
	case a.NoDefault:
		return []string{column + " DROP DEFAULT"}
	case a.NotNull:
		return []string{column + " SET NOT NULL"}
	case a.Null:
		return []string{column + " DROP NOT NULL"}
	case a.NoFormula:
		return []string{column + " DROP EXPRESSION"}
	case a.Add != nil:
		return []string{"ALTER TABLE " + server.QuoteTable(a.Table) + " ADD COLUMN IF NOT EXISTS " + server.QuoteIdent(a.Column) + " " + addedSQL(a.Add)}
	case a.DropColumn:
		return []string{"ALTER TABLE " + server.QuoteTable(a.Table) + " DROP COLUMN IF EXISTS " + server.QuoteIdent(a.Column)}
	case a.Rename != "":
		return []string{"ALTER TABLE " + server.QuoteTable(a.Table) + " RENAME COLUMN " + server.QuoteIdent(a.Column) + " TO " + server.QuoteIdent(a.Rename)}
	case a.Retype != nil:
		return []string{column + " TYPE " + a.Retype.Native + collateSQL(a.Retype)}
	case a.Attach != nil:
		return []string{"ALTER TABLE " + server.QuoteTable(a.Table) + " ATTACH PARTITION " + server.QuoteTable(a.Attach.Table) + " " + a.Attach.Bound}
	case a.Detach != nil:
		return []string{"ALTER TABLE " + server.QuoteTable(a.Table) + " DETACH PARTITION " + server.QuoteTable(*a.Detach)}
	case a.Drop != nil:
		return []string{"DROP TABLE IF EXISTS " + server.QuoteTable(*a.Drop)}
	case a.Part != nil:
		sql := "CREATE TABLE IF NOT EXISTS " + server.QuoteTable(a.Part.Table) + " PARTITION OF " + server.QuoteTable(a.Table) + " " + a.Part.Bound
		if a.Part.By != "" {
			sql += " PARTITION BY " + a.Part.By
		}
		return []string{sql}
	case a.AddLabel != "":
		sql := "ALTER TYPE " + a.Type + " ADD VALUE IF NOT EXISTS " + server.QuoteLiteral(a.AddLabel)
		if a.Before != "" {
			sql += " BEFORE " + server.QuoteLiteral(a.Before)
		}
		return []string{sql}
	case a.To != "":
		return []string{"ALTER TYPE " + a.Type + " RENAME VALUE " + server.QuoteLiteral(a.Label) + " TO " + server.QuoteLiteral(a.To)}
	}
	return nil
}

// addedSQL returns what follows the name of an added column. Existing rows get the value that the
// source's rows got; the default for later rows is set separately.
func addedSQL(c *change.DefinedColumn) string {
	sql := c.Native + collateSQL(c)
	switch {
	case c.Generated != "" && c.Virtual:
		sql += " GENERATED ALWAYS AS (" + c.Generated + ") VIRTUAL"
	case c.Generated != "":
		sql += " GENERATED ALWAYS AS (" + c.Generated + ") STORED"
	case c.Missing != nil:
		sql += " DEFAULT " + server.QuoteLiteral(*c.Missing) + "::" + c.Native
	}
	return sql
}

func collateSQL(c *change.DefinedColumn) string {
	if c.Collation == "" {
		return ""
	}
	return " COLLATE " + c.Collation
}

// EmptyTable reports whether a table has no rows.
func (s *Schema) EmptyTable(ctx context.Context, table tidemark.TableID) (yes bool, _ error) {
	conn, release, err := s.Control(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	err = conn.QueryRow(ctx, "SELECT NOT EXISTS (SELECT FROM "+server.QuoteTable(table)+")").Scan(&yes)
	return yes, s.Fail(ctx, "look at", server.QuoteTable(table), err)
}
