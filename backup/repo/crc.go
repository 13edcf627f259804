package repo

// CRC-32C is linear: the checksum of two concatenated runs of bytes follows from the checksums of
// each and the second one's length. So several readers can share a file. The operator for a number
// of zero bytes is made by squaring that of one bit, as in zlib's crc32_combine.

const crcPoly = 0x82f63b78 // Castagnoli's polynomial, reversed

// A matrix over GF(2): column i is what bit i becomes.
type matrix [32]uint32

func (m *matrix) times(v uint32) (sum uint32) {
	for i := 0; v != 0; i, v = i+1, v>>1 {
		if v&1 != 0 {
			sum ^= m[i]
		}
	}
	return sum
}

func (m *matrix) squared() (out matrix) {
	for i := range m {
		out[i] = m.times(m[i])
	}
	return out
}

// zeroBytes[k] is the operator of 1<<k zero bytes.
var zeroBytes = func() (all [63]matrix) {
	var bit matrix
	bit[0] = crcPoly
	for i := 1; i < 32; i++ {
		bit[i] = 1 << (i - 1)
	}
	two := bit.squared()
	four := two.squared()
	all[0] = four.squared()
	for k := 1; k < len(all); k++ {
		all[k] = all[k-1].squared()
	}
	return all
}()

// CombineCRC returns the CRC-32C of two concatenated runs of bytes, from those of each and the
// length of the second.
func CombineCRC(first, second uint32, length int64) uint32 {
	for k := 0; length > 0; k, length = k+1, length>>1 {
		if length&1 != 0 {
			first = zeroBytes[k].times(first)
		}
	}
	return first ^ second
}

// ZerosCRC returns the CRC-32C of length zero bytes.
func ZerosCRC(length int64) uint32 {
	// The register starts with all ones, and is inverted after the zeros.
	return CombineCRC(0xffffffff, 0, length) ^ 0xffffffff
}
