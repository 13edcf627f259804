package physical

import (
	"encoding/binary"
	"math"
	"path"

	"github.com/tidemarkdb/tidemark"
)

const (
	checksumLanes = 32
	checksumPrime = 16777619
)

// checksumStart are the lanes' values before the first word (src/include/storage/checksum_impl.h).
var checksumStart = [checksumLanes]uint32{
	0x5B1F36E9, 0xB8525960, 0x02AB50AA, 0x1DE66D2A, 0x79FF467A, 0x9BB9F8A3, 0x217E7CD2, 0x83E13D2C,
	0xF8D4474F, 0xE39EB970, 0x42C6AE16, 0x993216FA, 0x7B093B5D, 0x98DAFF3C, 0xF718902A, 0x0B1C9CDB,
	0xE58F764B, 0x187636BC, 0x5D7B3BB1, 0xE73DE7DE, 0x92BEC979, 0xCCA6C0B2, 0x304A0979, 0x85AA43D4,
	0x783125BB, 0x6CA8EAA2, 0xE407EAC6, 0x4B5CFC3E, 0x9FBF8C76, 0x15CA20BE, 0xF2CA9FD3, 0x959BD756,
}

// pageChecksum returns the checksum that a page should have at a block of its relation. The page's
// own checksum, at offset 8, counts as zero: it is cleared meanwhile.
//
// A page is 32 columns of words, each hashed separately: a chain of a multiplication, two exclusive
// ors and a shift for each word. Eight chains at a time are as many as fit in registers, and keep
// the multiplier busy.
func pageChecksum(page []byte, block uint32) uint16 {
	own := [2]byte{page[8], page[9]}
	page[8], page[9] = 0, 0
	var sum uint32
	for lane := 0; lane < checksumLanes; lane += 8 {
		sum ^= eightLanes(page[lane*4:], (*[8]uint32)(checksumStart[lane:]))
	}
	page[8], page[9] = own[0], own[1]
	return uint16((sum^block)%math.MaxUint16 + 1)
}

// eightLanes hashes eight columns of words that begin at b, and returns their exclusive or.
func eightLanes(b []byte, start *[8]uint32) uint32 {
	const row = checksumLanes * 4
	s0, s1, s2, s3, s4, s5, s6, s7 := start[0], start[1], start[2], start[3], start[4], start[5], start[6], start[7]
	for ; len(b) >= 32; b = b[min(row, len(b)):] {
		w := (*[32]byte)(b)
		a := binary.LittleEndian.Uint64(w[0:])
		t0, t1 := s0^uint32(a), s1^uint32(a>>32)
		a = binary.LittleEndian.Uint64(w[8:])
		t2, t3 := s2^uint32(a), s3^uint32(a>>32)
		a = binary.LittleEndian.Uint64(w[16:])
		t4, t5 := s4^uint32(a), s5^uint32(a>>32)
		a = binary.LittleEndian.Uint64(w[24:])
		t6, t7 := s6^uint32(a), s7^uint32(a>>32)
		s0, s1 = t0*checksumPrime^t0>>17, t1*checksumPrime^t1>>17
		s2, s3 = t2*checksumPrime^t2>>17, t3*checksumPrime^t3>>17
		s4, s5 = t4*checksumPrime^t4>>17, t5*checksumPrime^t5>>17
		s6, s7 = t6*checksumPrime^t6>>17, t7*checksumPrime^t7>>17
	}
	var sum uint32
	for _, s := range [8]uint32{s0, s1, s2, s3, s4, s5, s6, s7} {
		for range 2 { // two rounds of zeros
			s = s*checksumPrime ^ s>>17
		}
		sum ^= s
	}
	return sum
}

// pageRight reports whether a page matches its checksum, or was never written.
func pageRight(page []byte, block uint32) bool {
	if binary.LittleEndian.Uint16(page[14:]) == 0 { // pd_upper: a new page
		for _, b := range page {
			if b != 0 {
				return false
			}
		}
		return true
	}
	return pageChecksum(page, block) == binary.LittleEndian.Uint16(page[8:])
}

// Check returns the offsets in content of pages whose checksums are wrong. content begins at offset
// at of the file, a multiple of the page size. A partial page at the end, which is being written,
// is not checked.
func (d *dataFolder) Check(f *tidemark.DataFile, at int64, content []byte) (wrong []int) {
	block := d.block(f, at)
	for off := 0; off+d.page <= len(content); off += d.page {
		if !pageRight(content[off:off+d.page:off+d.page], block) {
			wrong = append(wrong, off)
		}
		block++
	}
	return wrong
}

// block returns the number of the page at an offset of a file within its relation.
func (d *dataFolder) block(f *tidemark.DataFile, at int64) uint32 {
	r, _ := parseRelation(path.Base(f.Path))
	return uint32((r.segment*d.segment + at) / int64(d.page))
}
