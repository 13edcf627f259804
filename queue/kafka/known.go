package kafka

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A place is the position of a message. The zero place is none.
type place struct {
	seq    uint64
	offset int64
	total  int64 // bytes of all messages up to this one
	size   int64 // and of this one
}

// before returns the bytes of all messages before this one.
func (p place) before() int64 { return p.total - p.size }

const keySize = 16

// errForeign means that a record is not ours.
var errForeign = errors.New("not a message of a queue: another process writes to the topic")

func keyOf(seq uint64, total int64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(make([]byte, 0, keySize), seq), uint64(total))
}

func placeOf(r *kgo.Record) (place, error) {
	if len(r.Key) != keySize {
		return place{}, fmt.Errorf("the record at offset %d is %w", r.Offset, errForeign)
	}
	return place{seq: binary.BigEndian.Uint64(r.Key), offset: r.Offset, total: int64(binary.BigEndian.Uint64(r.Key[8:])), size: int64(len(r.Value))}, nil
}

// A known is what is known of the topic.
type known struct {
	mu     sync.Mutex
	places []place // some of those that exist, by number

	start, end  int64 // offsets that bounded the committed records when first and seen were found
	first, seen place // the first message, and the last readable one
	put         place // the last one that we have put
	tail        int64 // offset from which on nothing was read yet

	// Messages read ahead; each is returned once. They serve a reader that continues from message
	// to message.
	cache  map[uint64][]byte
	order  []uint64
	cached int
}

const (
	mostPlaces = 4096
	mostCached = 8 << 20 // bytes
)

// add records records that were read, and returns the value of the one numbered seq if it is among
// them.
func (k *known) add(records []*kgo.Record, seq uint64) (value []byte, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range records {
		p, err := placeOf(r)
		if err != nil {
			return nil, err
		}
		k.note(p)
		// A fetch is one block of memory, and a message would keep all of it alive.
		b := append(make([]byte, 0, len(r.Value)), r.Value...)
		if p.seq == seq {
			value = b
			continue
		}
		if _, ok := k.cache[p.seq]; !ok {
			k.cache[p.seq] = b
			k.order = append(k.order, p.seq)
			k.cached += len(b)
		}
	}
	if len(k.order) > 64+2*len(k.cache) { // most were taken
		k.order = slices.DeleteFunc(k.order, func(seq uint64) bool { _, ok := k.cache[seq]; return !ok })
	}
	for k.cached > mostCached {
		k.forget(k.order[0])
		k.order = k.order[1:]
	}
	return value, nil
}

func (k *known) forget(seq uint64) {
	k.cached -= len(k.cache[seq])
	delete(k.cache, seq)
}

// remove returns a message that was read ahead, and forgets it.
func (k *known) remove(seq uint64) []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	b := k.cache[seq]
	if b != nil {
		k.forget(seq)
		if len(k.cache) == 0 {
			k.order = nil
		}
	}
	return b
}

// note records a place.
func (k *known) note(p place) {
	if p.seq > k.seen.seq {
		k.seen, k.tail = p, p.offset+1
	}
	i, found := slices.BinarySearchFunc(k.places, p.seq, bySeq)
	if found {
		k.places[i] = p
		return
	}
	k.places = slices.Insert(k.places, i, p)
	if len(k.places) > mostPlaces {
		half := k.places[:0]
		for i := 0; i < len(k.places); i += 2 {
			half = append(half, k.places[i])
		}
		k.places = half
	}
}

func bySeq(p place, seq uint64) int {
	switch {
	case p.seq < seq:
		return -1
	case p.seq > seq:
		return 1
	}
	return 0
}

// around returns the places nearest to a number: the last at or before it, and the first after it.
// ok: the message is between the first one and the last readable one.
func (k *known) around(seq uint64) (lo, hi place, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if seq < k.first.seq || seq > k.seen.seq || k.first.seq == 0 {
		return place{}, place{}, false
	}
	i, found := slices.BinarySearchFunc(k.places, seq, bySeq)
	switch {
	case found:
		return k.places[i], k.places[i], true
	case seq == k.seen.seq:
		return k.seen, k.seen, true
	}
	lo, hi = k.first, k.seen
	if i > 0 && k.places[i-1].seq > lo.seq {
		lo = k.places[i-1]
	}
	if i < len(k.places) {
		hi = k.places[i]
	}
	return lo, hi, true
}

// begins records where the committed records begin, and the first ones, if there are any.
func (k *known) begins(start int64, records []*kgo.Record) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case len(records) > 0:
		p, _ := placeOf(records[0]) // add has checked it
		k.trim(p)
	case k.put.seq > k.seen.seq: // the last ones cannot be read yet
	default:
		k.first = place{}
	}
	k.start = start
}

// trimmed records that the servers have deleted everything before p.
func (k *known) trimmed(p place) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p.seq > k.first.seq {
		k.trim(p)
		k.start = p.offset
	}
}

func (k *known) trim(first place) {
	k.first = first
	i, _ := slices.BinarySearchFunc(k.places, first.seq, bySeq)
	k.places = slices.Delete(k.places, 0, i)
}

// committed records what we have put.
func (k *known) committed(first, last place) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.put = last; k.first.seq == 0 {
		k.first = first
	}
}

// ends returns the first message and the last: ours, or the last readable one.
func (k *known) ends() (first, last place) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.put.seq > k.seen.seq {
		return k.first, k.put
	}
	return k.first, k.seen
}
