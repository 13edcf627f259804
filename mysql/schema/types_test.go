package schema

import (
	"testing"

	"github.com/tidemarkdb/tidemark"
)

// TestTypeMap: a type of another engine becomes what the manual says, also at the edges of its
// rules.
func TestTypeMap(t *testing.T) {
	for _, c := range []struct {
		from tidemark.Type
		want string
	}{
		{tidemark.Type{Kind: tidemark.Bool}, "tinyint(1)"},
		{tidemark.Type{Kind: tidemark.Float, Bits: 32}, "float"},
		{tidemark.Type{Kind: tidemark.Float, Bits: 64}, "double"},
		{tidemark.Type{Kind: tidemark.Char, Length: 255}, "char(255)"},
		{tidemark.Type{Kind: tidemark.Varchar, Length: 16383}, "varchar(16383)"},
		{tidemark.Type{Kind: tidemark.Bit, Length: 64}, "bit(64)"},
		{tidemark.Type{Kind: tidemark.Date}, "date"},
		{tidemark.Type{Kind: tidemark.Time, Precision: 3}, "time(3)"},
		{tidemark.Type{Kind: tidemark.DateTime}, "datetime"},
		{tidemark.Type{Kind: tidemark.Timestamp, Precision: 6}, "datetime(6)"},
		{tidemark.Type{Kind: tidemark.Timestamp, Precision: -1}, "datetime(6)"},
		{tidemark.Type{Kind: tidemark.JSON}, "json"},
		{tidemark.Type{Kind: tidemark.Array}, "longtext"},
		{tidemark.Type{Kind: tidemark.Text, Native: "public.citext"}, "longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_as_ci"},
		{tidemark.Type{Kind: tidemark.Text, Native: `"My (own).Schema".citext`}, "longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_as_ci"},
		{tidemark.Type{Kind: tidemark.Text, Native: "citext"}, "longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_as_ci"},
		{tidemark.Type{Kind: tidemark.Text, Native: "public.mycitext"}, "longtext"},
		{tidemark.Type{Kind: tidemark.Text, Native: "text"}, "longtext"},
	} {
		if got := ruleFor(&c.from).spell(&c.from, dialect{major: 8}); got != c.want {
			t.Errorf("%+v: %s, want %s", c.from, got, c.want)
		}
	}
}
