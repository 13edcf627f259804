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
	teller, ok := from.(OldRowSource)
	if !ok || len(tables) == 0 {
		return nil
	}
	untold, remedy, err := teller.Untold(ctx, tables)
	if err != nil || len(untold) == 0 {
		return err
	}
	more := ""
	if n := len(untold) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d more)", n)
	}
	return &tidemark.Error{Kind: tidemark.Unsupported, Op: "replicate", Object: untold[0].String(), Err: errors.New("its log does not have all old values of a changed row, which its conflict rule checks" + more), Hint: "On the source: " + remedy + " Or use --conflict-rule key."}
}
