package spool

import (
	"bufio"
	"bytes"
	"container/heap"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"slices"
)

// A Sorter sorts records by bytes.Compare. Records that exceed its memory spill to a file in sorted
// runs, which are merged as they are read.
type Sorter struct {
	memory int // bytes of records and their bookkeeping

	arena   []byte
	ends    []int    // of the records in arena
	ordered [][2]int // start and end of each record, sorted; nil: not known

	file *File
	runs []int64 // where each run ends in file
}

// NewSorter returns a Sorter that uses at most memory bytes for records, unless a single one is
// larger.
func NewSorter(memory int) *Sorter { return &Sorter{memory: memory} }

// Add adds a copy of a record. Errors of Kind Denied or Full come from the spill file.
func (s *Sorter) Add(record []byte) error {
	if len(s.ends) > 0 && len(s.arena)+len(record)+24*(len(s.ends)+1) > s.memory {
		if err := s.spill(); err != nil {
			return err
		}
	}
	if s.ordered = nil; cap(s.arena)-len(s.arena) < len(record) { // append would grow by a quarter each time, and beyond the limit
		s.arena = append(make([]byte, 0, max(min(2*cap(s.arena), s.memory), len(s.arena)+len(record), 64<<10)), s.arena...)
	}
	s.arena = append(s.arena, record...)
	s.ends = append(s.ends, len(s.arena))
	return nil
}

// order sorts the records in memory, and returns where each begins and ends.
func (s *Sorter) order() [][2]int {
	if s.ordered != nil {
		return s.ordered
	}
	all := make([][2]int, len(s.ends))
	from := 0
	for i, end := range s.ends {
		all[i] = [2]int{from, end}
		from = end
	}
	slices.SortFunc(all, func(a, b [2]int) int { return bytes.Compare(s.arena[a[0]:a[1]], s.arena[b[0]:b[1]]) })
	s.ordered = all
	return all
}

// spill writes the records in memory as a run.
func (s *Sorter) spill() error {
	if s.file == nil {
		var err error
		if s.file, err = New("", ""); err != nil {
			return err
		}
	}
	out := bufio.NewWriterSize(appender{s.file}, 256<<10)
	var head [binary.MaxVarintLen64]byte
	for _, r := range s.order() {
		n := binary.PutUvarint(head[:], uint64(r[1]-r[0]))
		_, _ = out.Write(head[:n]) // Flush returns the error
		_, _ = out.Write(s.arena[r[0]:r[1]])
	}
	if err := out.Flush(); err != nil {
		return err
	}
	s.runs = append(s.runs, s.file.size)
	s.arena, s.ends, s.ordered = s.arena[:0], s.ends[:0], nil
	return nil
}

type appender struct{ f *File }

func (a appender) Write(b []byte) (int, error) { return len(b), a.f.Append(b) }

// Sorted returns the records in order, as often as it is called. A record is valid until the next
// one.
func (s *Sorter) Sorted() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		var m merge
		from := int64(0)
		for _, end := range s.runs {
			m = append(m, &run{in: bufio.NewReaderSize(s.file.section(from, end), 64<<10)})
			from = end
		}
		if len(s.ends) > 0 {
			m = append(m, &run{s: s, left: s.order()})
		}
		for _, r := range slices.Clone(m) {
			if err := r.next(); err != nil { // every run has a record
				yield(nil, err)
				return
			}
		}
		heap.Init(&m)
		for len(m) > 0 {
			if !yield(m[0].record, nil) {
				return
			}
			switch err := m[0].next(); err {
			case nil:
				heap.Fix(&m, 0)
			case io.EOF:
				heap.Pop(&m)
			default:
				yield(nil, err)
				return
			}
		}
	}
}

// Close discards the records and removes the file.
func (s *Sorter) Close() {
	if s.file != nil {
		s.file.Close()
	}
	*s = Sorter{memory: s.memory}
}

// A run returns records in order: those of a section of a file, or those in memory.
type run struct {
	in     *bufio.Reader
	s      *Sorter
	left   [][2]int
	record []byte
}

func (r *run) next() error {
	if r.in == nil {
		if len(r.left) == 0 {
			return io.EOF
		}
		r.record, r.left = r.s.arena[r.left[0][0]:r.left[0][1]], r.left[1:]
		return nil
	}
	n, err := binary.ReadUvarint(r.in)
	if err != nil {
		return err // io.EOF at the end of the run
	}
	r.record = slices.Grow(r.record[:0], int(n))[:n]
	if _, err = io.ReadFull(r.in, r.record); err == io.EOF || err == io.ErrUnexpectedEOF {
		err = fmt.Errorf("read what was spooled: %w", io.ErrUnexpectedEOF)
	}
	return err
}

type merge []*run

func (m merge) Len() int           { return len(m) }
func (m merge) Less(i, j int) bool { return bytes.Compare(m[i].record, m[j].record) < 0 }
func (m merge) Swap(i, j int)      { m[i], m[j] = m[j], m[i] }
func (m *merge) Push(x any)        { *m = append(*m, x.(*run)) }
func (m *merge) Pop() any {
	last := len(*m) - 1
	r := (*m)[last]
	*m = (*m)[:last]
	return r
}
