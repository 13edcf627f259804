package postgres

import (
	"context"

	"github.com/tidemarkdb/tidemark"
)

// AlterSQL returns the statements of an alteration. They do nothing where it was made before, as far as SQL can say it.
func (e *Engine) AlterSQL(a tidemark.Alteration) []string {
	column := "ALTER TABLE " + quoteTable(a.Table) + " ALTER COLUMN " + quoteIdent(a.Column)
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
		return []string{"ALTER TABLE " + quoteTable(a.Table) + " ADD COLUMN IF NOT EXISTS " + quoteIdent(a.Column) + " " + addedSQL(a.Add)}
	case a.DropColumn:
		return []string{"ALTER TABLE " + quoteTable(a.Table) + " DROP COLUMN IF EXISTS " + quoteIdent(a.Column)}
	case a.Rename != "":
		return []string{"ALTER TABLE " + quoteTable(a.Table) + " RENAME COLUMN " + quoteIdent(a.Column) + " TO " + quoteIdent(a.Rename)}
	case a.Retype != nil:
		return []string{column + " TYPE " + a.Retype.Native + collateSQL(a.Retype)}
	case a.Attach != nil:
		return []string{"ALTER TABLE " + quoteTable(a.Table) + " ATTACH PARTITION " + quoteTable(a.Attach.Table) + " " + a.Attach.Bound}
	case a.Detach != nil:
		return []string{"ALTER TABLE " + quoteTable(a.Table) + " DETACH PARTITION " + quoteTable(*a.Detach)}
	case a.Drop != nil:
		return []string{"DROP TABLE IF EXISTS " + quoteTable(*a.Drop)}
	case a.Part != nil:
		sql := "CREATE TABLE IF NOT EXISTS " + quoteTable(a.Part.Table) + " PARTITION OF " + quoteTable(a.Table) + " " + a.Part.Bound
		if a.Part.By != "" {
			sql += " PARTITION BY " + a.Part.By
		}
		return []string{sql}
	case a.AddLabel != "":
		sql := "ALTER TYPE " + a.Type + " ADD VALUE IF NOT EXISTS " + quoteLiteral(a.AddLabel)
		if a.Before != "" {
			sql += " BEFORE " + quoteLiteral(a.Before)
		}
		return []string{sql}
	case a.To != "":
		return []string{"ALTER TYPE " + a.Type + " RENAME VALUE " + quoteLiteral(a.Label) + " TO " + quoteLiteral(a.To)}
	}
	return nil
}

// addedSQL is what stands behind the name of a column that is added. Rows that are there get what those of the source
// had got; the default for later ones is set by itself.
func addedSQL(c *tidemark.DefinedColumn) string {
	sql := c.Native + collateSQL(c)
	switch {
	case c.Generated != "" && c.Virtual:
		sql += " GENERATED ALWAYS AS (" + c.Generated + ") VIRTUAL"
	case c.Generated != "":
		sql += " GENERATED ALWAYS AS (" + c.Generated + ") STORED"
	case c.Missing != nil:
		sql += " DEFAULT " + quoteLiteral(*c.Missing) + "::" + c.Native
	}
	return sql
}

func collateSQL(c *tidemark.DefinedColumn) string {
	if c.Collation == "" {
		return ""
	}
	return " COLLATE " + c.Collation
}

// EmptyTable reports whether a table has no rows.
func (e *Engine) EmptyTable(ctx context.Context, table tidemark.TableID) (yes bool, _ error) {
	conn, release, err := e.controlConn(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	err = conn.QueryRow(ctx, "SELECT NOT EXISTS (SELECT FROM "+quoteTable(table)+")").Scan(&yes)
	return yes, e.fail(ctx, "look at", quoteTable(table), err)
}
