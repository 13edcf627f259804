package tidemark

import (
	"encoding/binary"
	"iter"
	"math"
	"time"
)

// A DataList is a compact list of files: some 25 bytes each if neighbours have similar paths, so
// that a server may have millions. The zero value is an empty one. Of a file's Change it keeps
// nothing.
type DataList struct {
	chunks  [][]byte
	path    []byte // of the last file
	time    int64  // likewise, in nanoseconds
	count   int64
	bytes   int64
	largest int64
}

// dataChunk is how many bytes are allocated at a time. In each, paths and times begin anew, so that
// one by one they can be given up.
const dataChunk = 64 << 10

// What the first byte of a file's record says.
const (
	dataDir = 1 << iota
	dataPages
)

// Add appends a file.
func (l *DataList) Add(f DataFile) {
	n := len(l.chunks) - 1
	if room := len(f.Path) + 1 + 5*binary.MaxVarintLen64; n < 0 || cap(l.chunks[n])-len(l.chunks[n]) < room {
		l.chunks = append(l.chunks, make([]byte, 0, max(dataChunk, room)))
		l.path, l.time = l.path[:0], 0
		n++
	}
	same := 0
	for same < len(l.path) && same < len(f.Path) && l.path[same] == f.Path[same] {
		same++
	}
	var flags byte
	if f.Dir {
		flags |= dataDir
	} else {
		l.count, l.bytes, l.largest = l.count+1, l.bytes+f.Size, max(l.largest, f.Size)
	}
	if f.Pages {
		flags |= dataPages
	}
	modified := f.Modified.UnixNano()
	b := append(l.chunks[n], flags)
	b = binary.AppendUvarint(b, uint64(f.Size))
	b = binary.AppendUvarint(b, uint64(f.Mode))
	b = binary.AppendVarint(b, modified-l.time)
	b = binary.AppendUvarint(b, uint64(same))
	b = binary.AppendUvarint(b, uint64(len(f.Path)-same))
	l.chunks[n] = append(b, f.Path[same:]...)
	l.path, l.time = append(l.path[:same], f.Path[same:]...), modified
}

// Count returns how many files there are without the folders, and their bytes.
func (l *DataList) Count() (files, bytes int64) { return l.count, l.bytes }

// Largest is the size of the largest file.
func (l *DataList) Largest() int64 { return l.largest }

// All returns everything, in the order in which it was added.
func (l *DataList) All() iter.Seq[DataFile] {
	return func(yield func(DataFile) bool) {
		for _, c := range l.chunks {
			if !eachOf(c, 0, math.MaxInt64, true, yield) {
				return
			}
		}
	}
}

// Between returns the files of at least so many bytes and fewer than so many, without the folders.
func (l *DataList) Between(least, below int64) iter.Seq[DataFile] {
	return func(yield func(DataFile) bool) {
		for _, c := range l.chunks {
			if !eachOf(c, least, below, false, yield) {
				return
			}
		}
	}
}

// Drain is All, and empties the list.
func (l *DataList) Drain() iter.Seq[DataFile] {
	return func(yield func(DataFile) bool) {
		chunks := l.chunks
		*l = DataList{}
		for i, c := range chunks {
			if chunks[i] = nil; !eachOf(c, 0, math.MaxInt64, true, yield) {
				return
			}
		}
	}
}

// eachOf returns the files of a chunk, as far as they are of such a size, and the folders.
func eachOf(b []byte, least, below int64, folders bool, yield func(DataFile) bool) bool {
	var path []byte
	var modified int64
	number := func() uint64 {
		v, n := binary.Uvarint(b)
		b = b[n:]
		return v
	}
	for len(b) > 0 {
		flags := b[0]
		b = b[1:]
		size, mode := int64(number()), uint32(number())
		since, n := binary.Varint(b)
		b = b[n:]
		modified += since
		same, more := number(), number()
		path = append(path[:same], b[:more]...)
		b = b[more:]
		if dir := flags&dataDir != 0; dir && !folders || !dir && (size < least || size >= below) {
			continue
		}
		if !yield(DataFile{Path: string(path), Size: size, Modified: time.Unix(0, modified), Mode: mode, Dir: flags&dataDir != 0, Pages: flags&dataPages != 0}) {
			return false
		}
	}
	return true
}
