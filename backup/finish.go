package backup

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
)

// spaceFolder has a folder for each tablespace, by number.
const spaceFolder = "pg_tblspc"

// lose notes that a file is not there any more.
func (j *Job) lose(f *file) {
	j.suspect.mu.Lock()
	f.gone = &gone{}
	j.suspect.mu.Unlock()
}

// forget leaves out what is in tablespaces that were made after the backup had begun:
// the log makes them, and what is in them.
func (j *Job) forget(end *tidemark.DataEnd) {
	for i := len(j.set.Tablespaces) - 1; i >= 0; i-- {
		oid := strconv.FormatUint(uint64(j.set.Tablespaces[i].OID), 10)
		if strings.HasPrefix(end.Spaces, oid+" ") || strings.Contains(end.Spaces, "\n"+oid+" ") {
			continue
		}
		j.set.Tablespaces = slices.Delete(j.set.Tablespaces, i, i+1)
		root := spaceFolder + "/" + oid
		j.files = slices.DeleteFunc(j.files, func(f *file) bool { return f.Path == root || strings.HasPrefix(f.Path, root+"/") })
	}
}

// length gives the size that a large file had: up to the last byte that was read of it. What
// was cut off it before that was read, and came again, are zeros: the log has them.
func (f *file) length(size int64) int64 {
	if len(f.pieces) == 0 || f.seen {
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

// sum gives the CRC-32C of a file as it is restored.
func (f *file) sum(size int64) uint32 {
	if len(f.pieces) == 0 || f.seen {
		return f.crc
	}
	var sum uint32
	var at int64 // up to where it is of
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

// sums lists all files that are there, in the order of their paths.
func (j *Job) sums() []tidemark.DataSum {
	out := make([]tidemark.DataSum, 0, len(j.files))
	for _, f := range j.files {
		if !f.Dir && f.gone == nil {
			out = append(out, tidemark.DataSum{Path: f.Path, Size: f.length(j.opt.BufferSize), Modified: f.Modified, CRC32C: f.sum(j.opt.BufferSize)})
		}
	}
	slices.SortFunc(out, func(a, b tidemark.DataSum) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// entry is the file as the repository lists it.
func (f *file) entry(size int64) (e repo.File, there bool) {
	if f.gone != nil {
		return e, false
	}
	e = repo.File{Path: repo.Path(f.Path), Mode: f.Mode, MTime: f.Modified.UnixNano()}
	if f.Dir {
		e.Type = repo.Folder
		return e, true
	}
	e.Size, e.CRC = f.length(size), f.sum(size)
	for i, p := range f.pieces {
		if p.n > 0 {
			e.Extents = append(e.Extents, repo.Extent{At: int64(i) * size, Length: uint32(p.n), Skip: f.skip, Ref: p.ref})
		}
	}
	return e, true
}
