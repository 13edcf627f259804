package binlog

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// before is what was committed before a log position.
type before struct {
	known  bool
	count  uint64            // MySQL: number of GTIDs
	last   map[uint64]uint64 // MariaDB: the number by domain and server
	key    uint64            // a key of last whose number
	number uint64            // is this one, not yet stored in last
}

// lost discards a transaction without an end.
func (s *Scanner) lost(at uint64) {
	s.missing(fmt.Sprintf("%s, offset %d: the transaction that begins at offset %d has no end", s.name, at, s.open.begin))
	s.forget()
}

// previous compares MySQL's set of GTIDs before a file with those seen.
func (s *Scanner) previous(body []byte) {
	n, ok := countGTIDs(body)
	b := &s.before
	switch {
	case !b.known || !ok || n == 0 && b.count == 0: // without GTIDs
		s.missing(s.doubt)
	case n != b.count:
		s.missing(cmp.Or(s.doubt, fmt.Sprintf("%s begins after %d GTIDs, and %d were seen up to it", s.name, n, b.count)))
	}
	s.doubt = ""
	b.known, b.count = ok, n
}

// missing notes that something is missing before the record.
func (s *Scanner) missing(text string) {
	if text != "" && s.rec.Gap == "" {
		s.rec.Gap = text
		s.forget()
	}
	s.doubt = ""
}

// countGTIDs counts the transactions of a set: intervals of numbers for each server, and since 8.3
// for each of its tags.
func countGTIDs(body []byte) (n uint64, ok bool) {
	r := fields{p: body}
	head := r.uint(8)
	tagged := head>>56 == 1
	servers := head
	if tagged {
		servers = head << 8 >> 16
	}
	for range servers {
		r.take(16)
		if tagged {
			r.take(int(r.byte() >> 1))
		}
		intervals := r.uint(8)
		for range intervals {
			first, last := r.uint(8), r.uint(8)
			if r.bad || last < first {
				return 0, false
			}
			n += last - first
		}
		if r.bad {
			return 0, false
		}
	}
	return n, !r.bad
}

// see records a GTID of MariaDB.
func (b *before) see(key, number uint64) {
	if key != b.key {
		b.settle()
		b.key = key
	}
	b.number = number
}

func (b *before) settle() {
	if b.number != 0 {
		b.last[b.key] = b.number
	}
	b.number = 0
}

// list compares MariaDB's last GTIDs before a file with those seen.
func (s *Scanner) list(body []byte) {
	b := &s.before
	b.settle()
	r := fields{p: body}
	listed := map[uint64]uint64{}
	for range r.uint(4) & (1<<28 - 1) {
		domain, server, number := r.uint(4), r.uint(4), r.uint(8)
		if r.bad {
			break
		}
		listed[domain<<32|server] = number
	}
	if !b.known || r.bad || len(listed) == 0 && len(b.last) == 0 {
		s.missing(s.doubt)
	} else {
		for _, key := range slices.Sorted(maps.Keys(listed)) {
			if listed[key] != b.last[key] {
				s.missing(cmp.Or(s.doubt, fmt.Sprintf("%s begins after GTID %d-%d-%d, and the last seen before it is %d-%d-%d", s.name, key>>32, uint32(key), listed[key], key>>32, uint32(key), b.last[key])))
				break
			}
		}
	}
	s.doubt = ""
	b.known, b.last = !r.bad, listed
}
