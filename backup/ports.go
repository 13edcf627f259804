package backup

import (
	"context"
	"io"
	"iter"
	"os"

	"github.com/tidemarkdb/tidemark"
)

// A Server is backed up: it is a Source or a Stream.
type Server interface {
	// Begin begins the backup. Of a Source it lists what is to be read.
	Begin(ctx context.Context) (*tidemark.DataSet, error)
}

// A Source is a server whose files are here.
type Source interface {
	Server
	// Open opens a file of the set, or of the log. An error that is fs.ErrNotExist says that it was
	// removed since it was listed.
	Open(f *tidemark.DataFile) (*os.File, error)
	// End ends the backup when all files of the set were read.
	End(ctx context.Context) (*tidemark.DataEnd, error)
	// Manifest is the engine's own list of what is in the backup: write writes it, of all its files in no order.
	Manifest() (f tidemark.DataFile, write func(w io.Writer, files iter.Seq2[tidemark.DataSum, error]) error)
}

// A Stream is a server that sends its files, each once, in the order that it likes.
type Stream interface {
	Server
	// Start has the server begin, unless Builder's Since has.
	Start(ctx context.Context) error
	// Files gives the files and folders, and the engine's own list of what it has sent. give reads a
	// content to its end; it may be shorter than the file was said to be. Of one with a Change it is
	// the pages of that.
	Files(ctx context.Context, give func(f *tidemark.DataFile, content io.Reader) error) error
	// Log gives what the backup needs of the server's log, which goes on while Files does. It returns
	// when all is given that is needed once Files has.
	Log(ctx context.Context, give func(f *tidemark.DataFile, content io.Reader) error) error
	// End says what else belongs into the backup, when all that was given has been checked. What it
	// found meanwhile is among the findings of Begin's set.
	End(ctx context.Context) (*tidemark.DataEnd, error)
	// Compare looks whether the files, in no order, are what the server has sent.
	Compare(files iter.Seq2[tidemark.DataSum, error]) error
}

// Pages is a Source or Stream whose pages can be checked.
type Pages interface {
	// Check gives the offsets in content of pages that are damaged, or were being written. content is
	// what the file has at an offset.
	Check(f *tidemark.DataFile, at int64, content []byte) (wrong []int)
	// NamePage says of what the page at an offset of the file is.
	NamePage(ctx context.Context, f *tidemark.DataFile, at int64) string
}

// A Builder is a Server that can build on an earlier backup.
type Builder interface {
	// Since finds what has changed, after Begin; way says how, and what was read for it. Kind
	// Invalid: nothing can be built on that backup. Kind Unsupported: nor on any other.
	Since(ctx context.Context, since tidemark.DataSince) (way string, findings []tidemark.Finding, err error)
}

// Changes is a Source that knows which pages have changed since an earlier backup.
type Changes interface {
	Builder
	// Changed says it of a file of the set. Pages is the caller's.
	Changed(f *tidemark.DataFile) tidemark.FileChange
}

// Placed is a Server of which a backup that was stopped can be gone on with.
type Placed interface {
	// Place says which part of the log has all changes that may be in what was read until now of a backup that
	// is still under way: From is where it has begun. Kind Lost: the server has ended it. Kind
	// Unsupported: nobody could go on with it.
	Place(ctx context.Context) (tidemark.DataLog, error)
}

// Spacious is a Source that knows free space within files.
type Spacious interface {
	// Free says of what relation a file is, how much of content, what it has at an offset, is free space
	// in pages, and how much is pages at all. of is 0 where nothing is known of it.
	Free(f *tidemark.DataFile, at int64, content []byte) (relation string, free, of int64)
	// NameRelation names it as users do; "" where it is not known (any more).
	NameRelation(ctx context.Context, relation string) string
}
