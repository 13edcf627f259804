package engines

import (
	"context"
	"slices"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/db2"
	db2schema "github.com/tidemarkdb/tidemark/db2/schema"
	"github.com/tidemarkdb/tidemark/engine"
)

var db2Engine = Engine{Name: engine.Db2, Open: openDb2, Types: db2Types}

// d2 is an open Db2 database: a source and a target of copies.
type d2 struct{ *db2.Engine }

// Db2 is what Open returns for Db2.
type Db2 = d2

func openDb2(ctx context.Context, url string, opt Options) (Database, error) {
	e, err := db2.Open(ctx, url, opt.MySQL.Warn)
	if err != nil {
		return nil, err
	}
	return d2{e}, nil
}

func db2Types() TypeMap {
	m := TypeMap{Title: "PostgreSQL, MySQL and MariaDB to Db2"}
	for _, r := range db2schema.TypeMap() {
		m.Rules = append(m.Rules, TypeRule{r.From, r.To, r.Loses})
	}
	return m
}

// Default returns the user's own schema, whose name is in capitals.
func (e d2) Default() string { return e.Home() }

func (e d2) Tables(ctx context.Context, names []tidemark.TableID) ([]*tidemark.Table, error) {
	db, err := e.Defined(ctx, names)
	if err != nil {
		return nil, err
	}
	wanted := among(names)
	return slices.DeleteFunc(db.Tables, func(t *tidemark.Table) bool { return !wanted(t.TableID) }), nil
}

func (e d2) Defined(ctx context.Context, names []tidemark.TableID) (*tidemark.Database, error) {
	return e.Describe(ctx, among(names))
}

// Look sees no lock: two Db2 databases are not compared yet.
func (e d2) Look(context.Context, Lock) (Sight, error) { return Sight{}, nil }
