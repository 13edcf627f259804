package schema

import "testing"

// TestRecordEnd: a page begins with 24 bytes of header, the first of a segment with 40, and a
// record that ends with its page ends before that.
func TestRecordEnd(t *testing.T) {
	const block, segment = 8 << 10, 16 << 20
	for next, want := range map[uint64]uint64{
		5*block + 24: 5 * block, 5*block + 32: 5*block + 32, 5*block + 40: 5*block + 40, 7: 7,
		3*segment + 40: 3 * segment, 3*segment + 24: 3*segment + 24, 3*segment + block + 24: 3*segment + block,
	} {
		if got := recordEnd(next, block, segment); got != want {
			t.Errorf("%d: %d, want %d", next, got, want)
		}
	}
}
