package mapping_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mapping"
)

// examples returns the code blocks of a language on the manual's page.
func examples(t *testing.T, language string) []string {
	text, err := os.ReadFile("../doc/manual/mapping.md")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, block := range strings.Split(string(text), "\n```"+language+"\n")[1:] {
		block, _, _ = strings.Cut(block, "\n```")
		out = append(out, block)
	}
	return out
}

const manualDB = `
table shop.orders
  region varchar(2)
  id int8 notnull
  key orders_pkey(id)
table shop.invoice
  id int8
  issued date
table shop.item
  id int4
  price numeric(10,2)
`

// The manual's examples are read without findings, and the one in both languages means the same in
// both, apart from filters: in one of them those are SQL.
func TestManualExamples(t *testing.T) {
	yaml, json := examples(t, "yaml"), examples(t, "json")
	if len(yaml) != 2 || len(json) != 1 {
		t.Fatalf("the manual has %d and %d examples", len(yaml), len(json))
	}
	for _, text := range yaml {
		env := func(name string) (string, bool) { return "secret", strings.HasSuffix(name, "_PASSWORD") }
		if _, findings, err := mapping.ParseYAML([]byte(text), env); err != nil || len(findings) > 0 {
			t.Errorf("%v %v in\n%s", err, findings, text)
		}
	}
	dms, findings, err := mapping.ParseDMS([]byte(json[0]))
	if err != nil || len(findings) > 0 {
		t.Fatal(err, findings)
	}
	task, _, err := mapping.ParseYAML([]byte(yaml[1]), nil)
	if err != nil {
		t.Fatal(err)
	}
	db := parseDB(t, manualDB)
	one, other := apply(t, dms, db), apply(t, task.Rules, db)
	if d := cmp.Diff(one, other); d != "" {
		t.Error(d)
	}
	if len(one) != 3 || one[0].Order != 9 || one[1].To.Schema != "store" {
		t.Errorf("the example is not what the manual says: %+v", one)
	}
}

func apply(t *testing.T, r *mapping.Rules, db *tidemark.Database) []tidemark.Move {
	moves, findings, err := r.Apply(db, mapping.Defaults{})
	if err != nil || len(findings) > 0 {
		t.Fatal(err, findings)
	}
	for i := range moves {
		if (len(moves[i].Filter) > 0) != (moves[i].From.Name == "invoice") {
			t.Errorf("%s: filters %+v", moves[i].From.ID(), moves[i].Filter)
		}
		moves[i].Filter = nil
	}
	return moves
}

// TestAtInATaskFile: what the manual says that @ understands, in each place that names columns.
func TestAtInATaskFile(t *testing.T) {
	db := parseDB(t, `
table shop.item
  id int8
  mark uuid
  doc jsonb
  raw json
  price numeric(10,2)
  other numeric(9,2)
  name varchar(20)
  long text
  seen timestamp
  shut bool
`)
	task, findings, err := mapping.ParseYAML([]byte(`
rename: {columns: {"item.*@bool": "is_*"}}
tables:
  "*":
    types: {"*@uuid": varchar(36), "*@jsonb": text, "*@numeric(10,2)": double, "l*@text": varchar(9), "@bigint": "decimal(20,0)"}
    drop: ["*@timestamp", "*@varchar(20)"]
`), nil)
	if err != nil || len(findings) > 0 {
		t.Fatal(err, findings)
	}
	moves, findings, err := task.Rules.Apply(db, mapping.Defaults{})
	if err != nil || len(findings) > 0 || len(moves) != 1 {
		t.Fatal(moves, findings, err)
	}
	var got []string
	for _, c := range moves[0].To.Columns {
		got = append(got, c.Name+" "+c.Type.Kind.String())
	}
	want := []string{"id decimal", "mark varchar", "doc text", "raw json", "price float", "other decimal", "long varchar", "is_shut bool"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for _, c := range moves[0].To.Columns {
		if c.Name == "other" && (c.Type.Precision != 9 || c.Type.Scale != 2) {
			t.Errorf("the column other is changed: %+v", c.Type)
		}
	}
}
