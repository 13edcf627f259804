package engines

import (
	"context"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// Relate reports how two open databases are related, and returns how their servers compare table
// names. Two of different kinds, and files, are unrelated.
func Relate(ctx context.Context, a, b any) (k tidemark.Kinship, fold func(tidemark.TableID) tidemark.TableID, err error) {
	fold = func(id tidemark.TableID) tidemark.TableID { return id }
	switch a := a.(type) {
	case pg:
		if b, ok := b.(pg); ok {
			k, err = a.Relate(ctx, b.Server)
		}
	case my:
		if b, ok := b.(my); ok {
			var lower bool
			if k, lower, err = a.Relate(ctx, b.Server); lower {
				fold = func(id tidemark.TableID) tidemark.TableID {
					return tidemark.TableID{Schema: strings.ToLower(id.Schema), Name: strings.ToLower(id.Name)}
				}
			}
		}
	}
	return k, fold, err
}
