package bulk

import (
	"testing"

	"github.com/tidemarkdb/tidemark"
)

// TestRangesOfKeys: a range has its lower bound and not its upper one, and only one range has
// NULLs.
func TestRangesOfKeys(t *testing.T) {
	table := &tidemark.Table{Columns: []tidemark.Column{{Name: "A", Type: tidemark.Type{Kind: tidemark.Int}}, {Name: "B", NotNull: true, Type: tidemark.Type{Kind: tidemark.Int}}}}
	for _, c := range []struct {
		columns []string
		lower   []string
		upper   []string
		nulls   bool
		want    string
	}{
		{[]string{"B"}, []string{"10"}, []string{"20"}, false, `"B" >= 10 AND "B" < 20`},
		{[]string{"B"}, nil, []string{"20"}, true, `"B" < 20`},
		{[]string{"A"}, nil, []string{"20"}, true, `"A" < 20 OR "A" IS NULL`},
		{[]string{"A"}, []string{"20"}, nil, false, `"A" >= 20 AND "A" IS NOT NULL`},
		{[]string{"B", "A"}, []string{"1", "2"}, []string{"3", "4"}, false,
			`("B" > 1 OR "B" = 1 AND "A" >= 2) AND ("B" < 3 OR "B" = 3 AND "A" < 4) AND "A" IS NOT NULL`},
	} {
		got, err := ofRange(table, &tidemark.Range{Kind: tidemark.Keys, Columns: c.columns, Lower: c.lower, Upper: c.upper, Nulls: c.nulls})
		if err != nil || got != c.want {
			t.Errorf("%s, %v, want %s", got, err, c.want)
		}
	}
}
