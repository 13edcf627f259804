package ddl

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/tidemarkdb/tidemark/change"
)

// TestRedone renames and drops columns on the target: rows that are read again have the names that
// their columns had before.
func TestRedone(t *testing.T) {
	shape := []byte(`{"place":1,"columns":[{"name":"id","type":3,"mod":0},{"name":"n","type":3,"mod":0},{"name":"m","type":3,"mod":0}],"gone":[{"name":"m","type":0,"mod":0,"number":9}]}`)
	rename := func(from, to string) Change { return Change{Kind: RenameColumn, Column: from, To: to} }
	for _, x := range []struct {
		changes []Change
		want    map[string]string // by the earlier name; "" if it is gone
	}{
		{[]Change{rename("n", "x")}, map[string]string{"id": "id", "n": "x", "m": "m"}},
		{[]Change{rename("n", "x"), rename("x", "y")}, map[string]string{"n": "y", "x": "y"}},
		{[]Change{rename("n", "x"), rename("x", "n")}, map[string]string{"n": "n", "x": "n"}},
		{[]Change{rename("n", "x"), {Kind: DropColumn, Column: "x"}}, map[string]string{"n": "", "x": ""}},
		{[]Change{{Kind: DropColumn, Column: "m"}, rename("n", "m")}, map[string]string{"n": "m", "m": "m"}},
		{[]Change{{Kind: ChangeType, Column: "n"}}, map[string]string{"n": "n", "m": "m"}},
	} {
		text, err := Redone(slices.Clone(shape), 5, x.changes)
		var o Outline
		if err == nil {
			err = json.Unmarshal(text, &o)
		}
		if err != nil || o.Place != 5 || o.Index(0, x.changes[0].Column) >= 0 {
			t.Errorf("%v: %v, %s", x.changes, err, text)
		}
		for name, want := range x.want {
			columns, gone := []change.RelationColumn{{Name: name}}, []bool{false}
			if o.Earlier(columns, gone); gone[0] != (want == "") || want != "" && columns[0].Name != want {
				t.Errorf("%v: %s is %s, gone: %v, want %q", x.changes, name, columns[0].Name, gone[0], want)
			}
		}
	}
	if text, err := Redone(shape, 5, nil); err != nil || string(text) != string(shape) {
		t.Errorf("without changes it is %s, %v", text, err)
	}
	if text, err := Redone(nil, 5, []Change{rename("n", "x")}); err != nil || text != nil {
		t.Errorf("without a shape it is %s, %v", text, err)
	}
	if text, err := InDoubt(shape, "n"); err != nil || !slices.Equal(columnsInDoubt(t, text), []string{"n"}) {
		t.Errorf("in doubt: %s, %v", text, err)
	}
}

func columnsInDoubt(t *testing.T, text []byte) (out []string) {
	var o Outline
	if err := json.Unmarshal(text, &o); err != nil {
		t.Fatal(err)
	}
	for _, c := range o.Columns {
		if c.Doubt {
			out = append(out, c.Name)
		}
	}
	return out
}

// TestGoneTwice: of two columns of one name that are gone, rows that are read again have the last.
func TestGoneTwice(t *testing.T) {
	o := Outline{Columns: []OutlineColumn{{Name: "y", Number: 1}, {Name: "z", Number: 2}}}
	o.Lose(OutlineColumn{Name: "x", Number: 1})
	o.Lose(OutlineColumn{Name: "x", Number: 2})
	columns, gone := []change.RelationColumn{{Name: "x"}}, []bool{false}
	if o.Earlier(columns, gone); columns[0].Name != "z" || gone[0] {
		t.Errorf("it is %s, gone: %v", columns[0].Name, gone[0])
	}
}
