package load

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tidemarkdb/tidemark"
)

// manyPlan is a plan with everything that a plan can have, and many tables.
func manyPlan() *Plan {
	p := &Plan{Source: "postgres", Target: "mysql", Position: tidemark.Position{Engine: "postgres", Text: "0/1", Place: 1, Stamp: "s"}, Owner: map[string]int{},
		Findings: []tidemark.Finding{{Severity: tidemark.Warning, Object: "o", Text: "t", Hint: "h"}}, Clear: []tidemark.TableID{{Schema: "a", Name: "b"}}, Prep: DropTables,
		Rejected: []Failed{{Object: tidemark.Object{ID: "x", SQL: []string{"y"}}, Error: "z", Skipped: true}}}
	for i := range 3000 {
		t := &tidemark.Table{TableID: tidemark.TableID{Schema: "s", Name: fmt.Sprintf("t%d.é\"\n", i)}, Rows: -1, Bytes: int64(i), Comment: "c",
			Columns: []tidemark.Column{{Name: "a", Type: tidemark.Type{Kind: tidemark.Array, Elem: &tidemark.Type{Kind: tidemark.Enum, Labels: []string{"x"}}}, Default: &tidemark.Default{Text: "1"},
				Identity: &tidemark.Identity{Next: 1 << 63}}}, Key: &tidemark.Index{Name: "k", Parts: []tidemark.IndexPart{{Column: "a"}}}}
		to := t
		if i%3 == 0 {
			other := *t
			other.Schema = "other"
			to = &other
		}
		p.Moves = append(p.Moves, tidemark.Move{From: t, To: to, Source: []string{"a"}, Filter: []tidemark.Filter{{SQL: "a > 1"}}, Order: i, Lob: tidemark.Lob{Mode: tidemark.LimitedLob, MaxBytes: 9}, Direct: i%3 > 0})
		p.Formats, p.Fresh = append(p.Formats, tidemark.Format(i%3)), append(p.Fresh, i%2 == 0)
		p.Ranges = append(p.Ranges, tidemark.Range{ID: i + 1, Move: i, Kind: tidemark.Keys, Lower: []string{"\x00"}, Part: &tidemark.Part{Table: tidemark.TableID{Schema: "s", Name: "leaf"}}})
		p.Objects = append(p.Objects, tidemark.Object{ID: fmt.Sprintf("table s.t%d", i), Kind: "table", Table: t.TableID, SQL: []string{"CREATE", "<&>"}, Depends: []string{"schema s"}, After: []string{"z"}, Bytes: 1, Heavy: true})
		p.Owner[to.String()] = i
		p.Owner[fmt.Sprintf("s.leaf%d", i)] = i
	}
	return p
}

var samePlan = cmp.Options{cmpopts.IgnoreUnexported(Plan{}), cmpopts.EquateEmpty()}

// TestPlanIsStoredInParts: a plan that is stored and read again is the same, and none of its parts
// is large.
func TestPlanIsStoredInParts(t *testing.T) {
	p := manyPlan()
	head, err := p.Head()
	if err != nil || len(head) > 1000 {
		t.Fatalf("a head of %d bytes: %v", len(head), err)
	}
	var parts [][]byte
	if err := p.Parts(func(part []byte) error { parts = append(parts, append([]byte(nil), part...)); return nil }); err != nil {
		t.Fatal(err)
	}
	for _, part := range parts {
		if len(part) > 2*partSize {
			t.Errorf("a part of %d bytes", len(part))
		}
	}
	got, err := ReadPlan(head, func(use func([]byte) error) error {
		for _, part := range parts {
			if err := use(part); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(p, got, samePlan); d != "" {
		t.Error(d)
	}
	for i := range got.Moves {
		if (got.Moves[i].To == got.Moves[i].From) != (p.Moves[i].To == p.Moves[i].From) {
			t.Fatalf("move %d: the target's definition is another copy than it was", i)
		}
	}
}

// TestPlanOfOneDocument reads a plan as older versions stored it.
func TestPlanOfOneDocument(t *testing.T) {
	p := manyPlan()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadPlan(text, func(func([]byte) error) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(p, got, samePlan); d != "" {
		t.Error(d)
	}
}
