package ha

// marks store the flush counts of each candidate at log positions a second or more apart, so that a
// server's count over a part of the log can be compared.
type marks struct {
	all   []mark
	last  int64
	every int64 // microseconds
}

type mark struct {
	place  uint64
	counts []int64
}

// maxMarks bounds their memory: beyond it, every other one is dropped.
const maxMarks = 2048

func (m *marks) add(now int64, place uint64, counts func() []int64) {
	if m.every == 0 {
		m.every = 1e6
	}
	if len(m.all) > 0 && now-m.last < m.every {
		return
	}
	m.last = now
	m.all = append(m.all, mark{place, counts()})
	if len(m.all) == maxMarks {
		for i := range maxMarks / 2 {
			m.all[i] = m.all[2*i]
		}
		m.all = m.all[:maxMarks/2]
		m.every *= 2
	}
}

// between returns the counts from the mark at or before the position from to the first mark after
// to; end are the counts at the end of the log.
func (m *marks) between(from, to uint64, end []int64) []int64 {
	out := append([]int64(nil), end...)
	var begin []int64
	for _, x := range m.all {
		if x.place <= from {
			begin = x.counts
		}
		if x.place >= to {
			copy(out, x.counts)
			break
		}
	}
	for i := range begin {
		out[i] -= begin[i]
	}
	return out
}
