package apply

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
)

// Conflict rules are conditions of the statements, single-row and multi-row alike.
func TestCheckedStatements(t *testing.T) {
	b := &change.Bound{Table: &tidemark.Table{TableID: tidemark.TableID{Schema: "s", Name: "t"}, Key: &tidemark.Index{Parts: []tidemark.IndexPart{{Column: "id"}}},
		Columns: []tidemark.Column{{Name: "id"}, {Name: "n"}, {Name: "w"}, {Name: "j"}, {Name: "g", Generated: "n + 1"}}}, Columns: []int{1, 0, 2, 3},
		Relation: change.Relation{Identity: 'f', Columns: []change.RelationColumn{{Name: "n", Key: true}, {Name: "id", Key: true}, {Name: "w", Key: true}, {Name: "j", Key: true}}}}
	d := newDestination(b)
	d.checks = []check{{'v', "numeric(9,2)"}, {'v', "integer"}, {'s', "text"}, {'j', "json"}}
	d.fill, d.domains = []int{1, 0, 2, 3, -1}, make([]bool, 5)
	told, same := change.Value{Kind: change.TextValue}, change.Value{Kind: change.UnchangedValue}
	row := change.Tuple{0, 0}
	const text = `::text COLLATE "C"`
	isJSON := func(a, b string) string {
		return "CASE WHEN " + a + text + " IS NOT DISTINCT FROM " + b + text + " THEN true ELSE " + a + "::jsonb IS NOT DISTINCT FROM " + b + "::jsonb END"
	}
	const two = ` FROM unnest($1::text[]::s.t[], $2::text[]::s.t[]) AS v(n0, n1, n2, n3, n4, o0, o1, o2, o3, o4) WHERE t.id = v.n0 AND `
	for _, x := range []struct {
		rule      tidemark.ConflictRule
		kind      tidemark.ChangeKind
		vals      []change.Value
		one, many string
	}{
		{tidemark.CheckKey, tidemark.UpdateChange, []change.Value{told, told, same, same}, `UPDATE s.t SET n = $1, id = $2 WHERE id = $3`,
			`UPDATE s.t AS t SET n = v.n FROM unnest($1::text[]::s.t[]) AS v WHERE t.id = v.id`},
		{tidemark.CheckChanged, tidemark.UpdateChange, []change.Value{told, told, told, same},
			`UPDATE s.t SET n = CASE WHEN CAST($2 AS numeric(9,2)) IS NOT DISTINCT FROM CAST($1 AS numeric(9,2)) THEN n ELSE $1 END, ` +
				`id = CASE WHEN CAST($4 AS integer) IS NOT DISTINCT FROM CAST($3 AS integer) THEN id ELSE $3 END, ` +
				`w = CASE WHEN CAST($6 AS text)` + text + ` IS NOT DISTINCT FROM CAST($5 AS text)` + text + ` THEN w ELSE $5 END WHERE id = $4 AND ` +
				`(CAST($2 AS numeric(9,2)) IS NOT DISTINCT FROM CAST($1 AS numeric(9,2)) OR n IS NOT DISTINCT FROM CAST($2 AS numeric(9,2))) AND ` +
				`(CAST($6 AS text)` + text + ` IS NOT DISTINCT FROM CAST($5 AS text)` + text + ` OR w` + text + ` IS NOT DISTINCT FROM CAST($6 AS text)` + text + `)`,
			`UPDATE s.t AS t SET n = CASE WHEN v.o1 IS NOT DISTINCT FROM v.n1 THEN t.n ELSE v.n1 END, w = CASE WHEN v.o2` + text + ` IS NOT DISTINCT FROM v.n2` + text + ` THEN t.w ELSE v.n2 END` +
				two + `(v.o1 IS NOT DISTINCT FROM v.n1 OR t.n IS NOT DISTINCT FROM v.o1) AND (v.o2` + text + ` IS NOT DISTINCT FROM v.n2` + text + ` OR t.w` + text + ` IS NOT DISTINCT FROM v.o2` + text + `)`},
		{tidemark.CheckAll, tidemark.UpdateChange, []change.Value{told, told, same, same},
			`UPDATE s.t SET n = $1, id = $2 WHERE id = $3 AND (n IS NOT DISTINCT FROM CAST($4 AS numeric(9,2))) AND (w` + text + ` IS NOT DISTINCT FROM CAST($5 AS text)` + text + `) AND (` + isJSON(`j`, "CAST($6 AS json)") + `)`,
			`UPDATE s.t AS t SET n = v.n1` + two + `(t.n IS NOT DISTINCT FROM v.o1) AND (t.w` + text + ` IS NOT DISTINCT FROM v.o2` + text + `) AND (` + isJSON(`t.j`, "v.o3") + `)`},
		{tidemark.CheckChanged, tidemark.DeleteChange, nil, `DELETE FROM s.t WHERE id = $1`, `DELETE FROM s.t AS t USING unnest($1::text[]::s.t[]) AS v WHERE t.id = v.id`},
		{tidemark.CheckAll, tidemark.DeleteChange, nil,
			`DELETE FROM s.t WHERE id = $1 AND (n IS NOT DISTINCT FROM CAST($2 AS numeric(9,2))) AND (w` + text + ` IS NOT DISTINCT FROM CAST($3 AS text)` + text + `) AND (` + isJSON(`j`, "CAST($4 AS json)") + `)`,
			`DELETE FROM s.t AS t USING unnest($1::text[]::s.t[]) AS v WHERE t.id = v.id AND (t.n IS NOT DISTINCT FROM v.n) AND (t.w` + text + ` IS NOT DISTINCT FROM v.w` + text + `) AND (` + isJSON(`t.j`, `v.j`) + `)`},
	} {
		b.Conflict.Rule = x.rule
		c := change.Change{Kind: x.kind, Old: row}
		if x.kind == tidemark.UpdateChange {
			c.New = row
		}
		olds := []change.Value{told, told, told, told}
		checks := d.checksOf(c)
		if one, _ := statement(b, c, x.vals, olds, checks); one != x.one {
			t.Errorf("%s of one row:\n%s\nwant\n%s", x.rule, one, x.one)
		}
		if many, _ := statementForMany(d, c, x.vals, checks); many != x.many {
			t.Errorf("%s of many rows:\n%s\nwant\n%s", x.rule, many, x.many)
		}
	}
}

// TestRecords: in an array of rows NULL is nothing, and ” is a text.
func TestRecords(t *testing.T) {
	value := func(s string) change.Value { return change.Value{Kind: change.TextValue, Data: []byte(s)} }
	values := []change.Value{value(`a"b\c`), value(""), {Kind: change.NullValue}, value("4")}
	if got, want := string(appendRecord(nil, values, []int{3, 0, 1, -1, 2})), `("4","a""b\\c","",,)`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestShapes: updates share a statement only if they leave out the same columns.
func TestShapes(t *testing.T) {
	b := &change.Bound{Table: &tidemark.Table{TableID: tidemark.TableID{Schema: "s", Name: "t"}, Key: &tidemark.Index{Parts: []tidemark.IndexPart{{Column: "id"}}},
		Columns: []tidemark.Column{{Name: "id"}, {Name: "a"}, {Name: "b"}, {Name: "c"}}}, Columns: []int{0, 1, 2, 3},
		Relation: change.Relation{Columns: []change.RelationColumn{{Name: "id", Key: true}, {Name: "a"}, {Name: "b"}, {Name: "c"}}}}
	d := newDestination(b)
	a := new(applier)
	sql := map[string]bool{}
	for _, same := range []string{"", "a", "b", "c", "ab", "ac", "bc"} {
		a.vals = []change.Value{{Kind: change.TextValue, Data: []byte("1")}}
		for _, name := range []string{"a", "b", "c"} {
			v := change.Value{Kind: change.TextValue}
			if strings.Contains(same, name) {
				v.Kind = change.UnchangedValue
			}
			a.vals = append(a.vals, v)
		}
		s := a.shape(d, change.Change{Kind: tidemark.UpdateChange, New: change.Tuple{0, 0}})
		for _, name := range []string{"a", "b", "c"} {
			if strings.Contains(s.one.sql, name+" = $") == strings.Contains(same, name) {
				t.Errorf("with %q unchanged: %s", same, s.one.sql)
			}
		}
		sql[s.one.sql] = true
	}
	if len(sql) != 7 {
		t.Errorf("%d statements", len(sql))
	}
}
