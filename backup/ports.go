package backup

import (
	"context"
	"os"

	"github.com/tidemarkdb/tidemark"
)

// A Source is a server whose files are here.
type Source interface {
	// Begin begins the backup and lists what is to be read.
	Begin(ctx context.Context) (*tidemark.DataSet, error)
	// Open opens a file of the set, or of the log. An error that is fs.ErrNotExist says that it was
	// removed since it was listed.
	Open(f *tidemark.DataFile) (*os.File, error)
	// End ends the backup when all files of the set were read.
	End(ctx context.Context) (*tidemark.DataEnd, error)
	// Manifest makes the engine's own list of what is in the backup, from all its files in the order of their paths.
	Manifest(files []tidemark.DataSum) tidemark.MadeFile
}

// Pages is a Source whose pages can be checked.
type Pages interface {
	// Check gives the offsets in content of pages that are damaged, or were being written. content is
	// what the file has at an offset.
	Check(f *tidemark.DataFile, at int64, content []byte) (wrong []int)
	// NamePage says of what the page at an offset of the file is.
	NamePage(ctx context.Context, f *tidemark.DataFile, at int64) string
}
