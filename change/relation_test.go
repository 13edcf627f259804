package change

import (
	"github.com/tidemarkdb/tidemark"
	"reflect"
	"testing"
)

// The identities of columns survive a message R, and a truncated one is rejected.
func TestRelationIdentities(t *testing.T) {
	plain := Relation{ID: 5, Table: tidemark.TableID{Schema: "s", Name: "t"}, Identity: 'd', Columns: []RelationColumn{{Name: "id", Key: true, Type: 23, Mod: -1}, {Name: "x", Type: 25, Mod: 7}}}
	numbered, looked := plain, plain
	numbered.Columns = []RelationColumn{{Name: "id", Key: true, Type: 23, Mod: -1, Number: 1}, {Name: "x", Type: 25, Mod: 7, Number: 3}}
	looked.Catalogue = &CatalogueLook{At: 1 << 40, Columns: []CatalogueColumn{{Number: 1, Name: "id", Type: 23, Mod: -1}, {Number: 2, Gone: true}, {Number: 3, Name: "x", Type: 25, Mod: 7, Generated: true}}}
	for _, r := range []Relation{plain, numbered, looked} {
		b := r.Append(nil)
		got, err := ParseRelation(b[1:])
		if err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%+v became %+v, %v", r, got, err)
		}
		short := len(plain.Append(nil))
		for n := range len(b) {
			if _, err := ParseRelation(b[1:max(n, 1)]); err == nil && n != short {
				t.Errorf("cut at %d of %d, it is taken", n, len(b))
			}
		}
	}
}
