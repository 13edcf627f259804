package capture

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidemarkdb/tidemark"
)

// NeedsOldRows checks that a source's log has the old values of changed rows of tables. Kind
// Unsupported: it lacks some.
func NeedsOldRows(ctx context.Context, from Source, tables []tidemark.TableID) error {
	source, ok := from.(OldRowSource)
	if !ok || len(tables) == 0 {
		return nil
	}
	lacking, remedy, err := source.WithoutOldRows(ctx, tables)
	if err != nil || len(lacking) == 0 {
		return err
	}
	more := ""
	if n := len(lacking) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d more)", n)
	}
	return &tidemark.Error{Kind: tidemark.Unsupported, Op: "replicate", Object: lacking[0].String(), Err: errors.New("its log does not have all old values of a changed row, which its conflict rule checks" + more), Hint: "On the source: " + remedy + " Or use --conflict-rule key."}
}
