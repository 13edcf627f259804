package ddl

import (
	"errors"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
)

// Unlisted is the error that stops a table whose changes the source no longer sends as it did, or
// not all of them; nil: it does. logged: the log says which tables become partitions. Kind
// Unsupported.
func Unlisted(id tidemark.TableID, was string, is change.Published, logged bool) error {
	text, hint := "", "The stream needs its publication as it has made it"
	switch {
	case is.As == "":
		text = "was removed from the stream's publication on the source, which no longer sends its changes"
	case was != "" && was != is.As:
		text = "somebody has changed how the stream's publication on the source sends its changes, or has removed it there for a while"
	case is.Under.Name != "" && !logged:
		text = "is a partition of " + is.Under.String() + " now, and its changes come with those of that table"
		hint = "Leave it stopped; its rows are those of " + is.Under.String()
	default:
		return nil
	}
	return &tidemark.Error{Kind: tidemark.Unsupported, Op: "replicate", Object: id.String(), Err: errors.New(text), Hint: hint}
}
