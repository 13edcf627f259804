package backup

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
)

// spaceFolder has a folder for each tablespace, named by its number.
const spaceFolder = "pg_tblspc"

// lose records that a file no longer exists.
func (j *Job) lose(f *file) { f.gone.Store(true) }

// forget excludes what turned out not to belong in the backup, and the content of tablespaces
// created after it had begun: the log creates those, and their content.
func (j *Job) forget(ctx context.Context, end *tidemark.DataEnd) error {
	if end.Left != nil {
		for f, err := range j.w.Listed(ctx) {
			if err != nil {
				return err
			}
			if end.Left(string(f.Path)) {
				j.left = append(j.left, f.Path)
			}
		}
	}
	j.set.Tablespaces = slices.DeleteFunc(j.set.Tablespaces, func(t tidemark.Tablespace) bool {
		oid := strconv.FormatUint(uint64(t.OID), 10)
		if strings.HasPrefix(end.Spaces, oid+" ") || strings.Contains(end.Spaces, "\n"+oid+" ") {
			return false
		}
		j.left = append(j.left, repo.Path(spaceFolder+"/"+oid))
		return true
	})
	return nil
}

// nothing reports whether the file has nothing to read.
func (f *file) nothing() bool { return f.Dir || f.Size == 0 }

// put records where the n-th piece of a file is.
func (f *file) put(n int, p piece) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.pieces) <= n {
		f.pieces = append(f.pieces, piece{})
	}
	f.pieces[n] = p
}

// release lists a file once nothing of it is under way. Then it is forgotten.
func (j *Job) release(f *file) error {
	if f.open.Add(-1) > 0 {
		return nil
	}
	switch {
	case f.gone.Load() && f.needed:
		return &tidemark.Error{Kind: tidemark.Lost, Op: "read", Object: f.Path, Err: errors.New("the server has removed this log file, which the backup needs"), Hint: "Raise wal_keep_size, or max_slot_wal_keep_size if it is set."}
	case f.gone.Load():
		j.goneN.Add(1)
		return nil
	}
	entry := j.entry(f)
	f.pieces, f.inc = nil, nil // a suspect may hold the file for a while
	return j.w.AddFile(entry)
}

func (j *Job) releaseAll(files []*file) error {
	for _, f := range files {
		if err := j.release(f); err != nil {
			return err
		}
	}
	return nil
}

// length returns the size that a large file had: up to its last byte that was read. If it was
// truncated before it was read and grew again, that part is zeros: the log has it.
func (f *file) length(size int64) int64 {
	if !f.large {
		return f.Size
	}
	var end int64
	for i, p := range f.pieces {
		if p.n > 0 {
			end = int64(i)*size + int64(p.n)
		}
	}
	return end
}

// sum returns the CRC-32C of a file as it is restored.
func (f *file) sum(size int64) uint32 {
	if !f.large {
		return f.crc
	}
	var sum uint32
	var at int64 // the offset covered so far
	for i, p := range f.pieces {
		if p.n == 0 {
			continue
		}
		if hole := int64(i)*size - at; hole > 0 {
			sum = repo.CombineCRC(sum, repo.ZerosCRC(hole), hole)
		}
		sum = repo.CombineCRC(sum, p.ref.CRC, int64(p.n))
		at = int64(i)*size + int64(p.n)
	}
	return sum
}

// sums yields those of all files that are listed whole, in no order.
func (j *Job) sums(ctx context.Context) iter.Seq2[tidemark.DataSum, error] {
	left := (&repo.Manifest{Left: j.left}).Excluded()
	return func(yield func(tidemark.DataSum, error) bool) {
		for f, err := range j.w.Listed(ctx) {
			if err == nil && (f.Type != "" || f.Blocks != nil || left(f.Path)) {
				continue
			}
			if !yield(tidemark.DataSum{Path: string(f.Path), Size: f.Size, Modified: time.Unix(0, f.MTime), CRC32C: f.CRC}, err) {
				return
			}
		}
	}
}

// entry returns the file as the repository lists it.
func (j *Job) entry(f *file) repo.File {
	e := repo.File{Path: repo.Path(f.Path), Mode: f.Mode, MTime: f.Modified.UnixNano()}
	size := j.opt.BufferSize
	switch {
	case f.Dir:
		e.Type = repo.Folder
	case f.inc != nil:
		f.inc.fill(&e, f.Size, int64(j.set.PageSize))
	default:
		e.Size, e.CRC = f.length(size), f.sum(size)
		for i, p := range f.pieces {
			if p.n > 0 {
				e.Extents = append(e.Extents, repo.Extent{At: int64(i) * size, Length: uint32(p.n), Skip: f.skip, Ref: p.ref})
			}
		}
	}
	return e
}
