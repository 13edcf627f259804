package postgres

import (
	"github.com/tidemarkdb/tidemark"
)

// Render gives the objects that make db's tables, as moves have them, on PostgreSQL.
func (e *Engine) Render(db *tidemark.Database, moves []tidemark.Move) ([]tidemark.Object, []tidemark.Finding) {
	return db.Objects, nil
}
