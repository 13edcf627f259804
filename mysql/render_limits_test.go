package mysql

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/schema"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// The server refuses (1118) a table that Render reports as too wide, and creates one that Render
// does not report: at the limit with each type alone, and with random types.
func TestTooWideForAPage(t *testing.T) {
	t.Parallel()
	kinds := []tidemark.Type{pgText, pgInt, pgBigint, pg("character varying(5)", tidemark.Varchar, size(5)), pg("character varying(9)", tidemark.Varchar, size(9)), pg("character varying(10)", tidemark.Varchar, size(10)), pg("character varying(50)", tidemark.Varchar, size(50)), pg("character varying(63)", tidemark.Varchar, size(63)), pg("character varying(64)", tidemark.Varchar, size(64)), pg("character varying(70)", tidemark.Varchar, size(70)),
		pg("character(8)", tidemark.Char, size(8)), pg("character(30)", tidemark.Char, size(30)), pg("bytea", tidemark.Blob), pg("jsonb", tidemark.JSON), pg("uuid", tidemark.UUID),
		pg("numeric(38,9)", tidemark.Decimal, precise(38, 9)), pg("numeric(65,30)", tidemark.Decimal, precise(65, 30)), pg("boolean", tidemark.Bool), pg("date", tidemark.Date),
		pg("timestamp(6) without time zone", tidemark.DateTime, precise(6, 0)), pg("time(3) without time zone", tidemark.Time, precise(3, 0)), pg("double precision", tidemark.Float, width(64)), pgMood}
	for _, srv := range []*testdb.Server{testdb.MySQL(t), testdb.MariaDB(t)} {
		t.Run(srv.Engine, func(t *testing.T) {
			t.Parallel()
			url := srv.NewDatabase(t, "wide")
			e, err := Open(context.Background(), url, server.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			try := func(types []tidemark.Type, key bool, random uint64) (blocked bool) {
				from := &tidemark.Table{TableID: tidemark.TableID{Schema: "public", Name: "w"}}
				for i, typ := range types {
					c := tidemark.Column{Name: fmt.Sprintf("c%d", i), Type: typ, NotNull: random>>(i%64)&1 == 1}
					from.Columns = append(from.Columns, c)
				}
				if key {
					from.Columns = append(from.Columns, tidemark.Column{Name: "id", Type: pgBigint, NotNull: true})
					from.Key = &tidemark.Index{Name: "w_pkey", Unique: true, Parts: on("id")}
				}
				to := *from
				to.Schema = e.DB
				m := tidemark.Move{From: from, To: &to, Source: schema.StoredNames(from)}
				objects, findings := e.Render(&tidemark.Database{Engine: "postgres", Tables: []*tidemark.Table{from}}, []tidemark.Move{m})
				text := ""
				for _, f := range findings {
					if f.Severity == tidemark.Blocker {
						blocked, text = true, f.Text
					}
				}
				for _, o := range objects {
					if o.Kind != "table" {
						continue
					}
					_, err := testdb.TryQuery(url, o.SQL[0])
					if refused := err != nil; refused != blocked {
						t.Errorf("%d columns of %s and so on: blocked is %v (%s), the server says %v", len(types), types[0].Native, blocked, text, err)
					}
					if err == nil {
						testdb.Query(t, url, "DROP TABLE "+server.QuoteTable(to.TableID))
					} else if !strings.Contains(err.Error(), "1118") && !strings.Contains(strings.ToLower(err.Error()), "row size") {
						t.Errorf("another error: %v", err)
					}
				}
				return blocked
			}
			says := func(typ tidemark.Type, n int, key bool) []tidemark.Type {
				out := make([]tidemark.Type, n)
				for i := range out {
					out[i] = typ
				}
				return out
			}
			for _, typ := range kinds {
				lo, hi := 1, 1010 // lo is accepted
				if !try(says(typ, hi, true), true, 0) {
					continue
				}
				for hi-lo > 1 {
					if mid := (lo + hi) / 2; try(says(typ, mid, true), true, 0) {
						hi = mid
					} else {
						lo = mid
					}
				}
			}
			r := rand.New(rand.NewPCG(7, 26))
			rounds := 30
			if testdb.Long() {
				rounds = 500
			}
			wide := 0
			for range rounds {
				types := make([]tidemark.Type, 150+r.IntN(350))
				for i := range types {
					types[i] = kinds[r.IntN(len(kinds))]
				}
				if try(types, r.IntN(2) == 0, r.Uint64()) {
					wide++
				}
			}
			if wide == 0 || wide == rounds {
				t.Errorf("%d of %d random tables are too wide, which tests nothing", wide, rounds)
			}
		})
	}
}
