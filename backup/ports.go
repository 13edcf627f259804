package backup

import (
	"context"
	"io"
	"iter"
	"os"

	"github.com/tidemarkdb/tidemark"
)

// A Server is what is backed up: a Source or a Stream.
type Server interface {
	// Begin begins the backup. A Source also lists what is to be read.
	Begin(ctx context.Context) (*tidemark.DataSet, error)
}

// A Source is a server whose files are on this host.
type Source interface {
	Server
	// Open opens a file of the set, or of the log. fs.ErrNotExist: it was removed since it was
	// listed.
	Open(f *tidemark.DataFile) (*os.File, error)
	// End ends the backup after all files of the set were read.
	End(ctx context.Context) (*tidemark.DataEnd, error)
	// Manifest is the engine's own list of the backup's content: write writes it, given all files
	// in any order.
	Manifest() (f tidemark.DataFile, write func(w io.Writer, files iter.Seq2[tidemark.DataSum, error]) error)
}

// A Stream is a server that sends its files, each once, in an order of its choice.
type Stream interface {
	Server
	// Start makes the server begin, unless Builder's Since did.
	Start(ctx context.Context) error
	// Files sends the files and folders, and the engine's own list of what it has sent. give reads
	// a content to its end; it may be shorter than the announced size. For a file with a Change,
	// the content is the pages of that Change.
	Files(ctx context.Context, give func(f *tidemark.DataFile, content io.Reader) error) error
	// Log emits the part of the server's log that the backup needs, while Files runs. It returns
	// once Files has and all of that part is emitted.
	Log(ctx context.Context, give func(f *tidemark.DataFile, content io.Reader) error) error
	// End returns what else belongs in the backup, once everything sent has been checked. Findings
	// since Begin are added to those of Begin's set.
	End(ctx context.Context) (*tidemark.DataEnd, error)
	// Compare checks that the files, in any order, are what the server has sent.
	Compare(files iter.Seq2[tidemark.DataSum, error]) error
}

// Pages is a Source or Stream whose pages can be checked.
type Pages interface {
	// Check returns the offsets in content of pages that are damaged, or were being written.
	// content is read from the file at an offset.
	Check(f *tidemark.DataFile, at int64, content []byte) (wrong []int)
	// NamePage names what the page at an offset of the file belongs to.
	NamePage(ctx context.Context, f *tidemark.DataFile, at int64) string
}

// A Builder is a Server that can build on an earlier backup.
type Builder interface {
	// Since finds what has changed, after Begin; way describes how, and what was read for it. Kind
	// Invalid: that backup cannot be built on. Kind Unsupported: no backup can.
	Since(ctx context.Context, since tidemark.DataSince) (way string, findings []tidemark.Finding, err error)
}

// Changes is a Source that knows which pages have changed since an earlier backup.
type Changes interface {
	Builder
	// Changed returns what has changed in a file of the set. The caller owns Pages.
	Changed(f *tidemark.DataFile) tidemark.FileChange
}

// Resumable is a Server whose stopped backups can be resumed.
type Resumable interface {
	// Place returns the part of the log with all changes that a running backup may have read so
	// far; From is where the backup began. Kind Lost: the server has ended it. Kind Unsupported:
	// the backup cannot be resumed.
	Place(ctx context.Context) (tidemark.DataLog, error)
}

// FreeSpaceReader is a Source that knows free space within files.
type FreeSpaceReader interface {
	// Free returns a file's relation, how many bytes of content, read at an offset, are free space
	// in pages, and how many are pages at all. of is 0 if nothing is known about it.
	Free(f *tidemark.DataFile, at int64, content []byte) (relation string, free, of int64)
	// NameRelation names it as users do; "" if its name is not known, or no longer.
	NameRelation(ctx context.Context, relation string) string
}
