package event

import (
	"encoding/binary"
	"testing"
)

// TestValues reads values as the log stores them, at the ends of their ranges.
func TestValues(t *testing.T) {
	inverted := func(v ...byte) []byte {
		for i := range v {
			v[i] ^= 0xff
		}
		return v
	}
	// TIME(2): hours, minutes and seconds, and hundredths in the last byte; negative ones are below
	// the middle.
	hours := uint32((1<<12|2<<6|3)<<8 | 50)
	for _, c := range []struct {
		column Column
		stored []byte
		want   string
	}{
		{Column{op: opInt}, []byte{0xff}, "-1"},
		{Column{op: opInt}, []byte{0, 0, 0x80}, "-8388608"},
		{Column{op: opInt}, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, "9223372036854775807"},
		{Column{op: opUint}, []byte{0xff}, "255"},
		{Column{op: opUint}, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, "18446744073709551615"},
		{Column{op: opDecimal, digits: 20, scale: 3}, []byte{0x80, 0xbc, 0x61, 0x4e, 0, 0, 0, 42, 0, 5}, "12345678000000042.005"},
		{Column{op: opDecimal, digits: 20, scale: 3}, inverted(0x80, 0xbc, 0x61, 0x4e, 0, 0, 0, 42, 0, 5), "-12345678000000042.005"},
		{Column{op: opDecimal, digits: 3, scale: 2}, inverted(0x80, 7), "-0.07"},
		{Column{op: opDecimal, digits: 3, scale: 2}, inverted(0x80, 0), "0.00"},
		{Column{op: opTime}, binary.BigEndian.AppendUint32(nil, 1<<31+hours), "01:02:03.5"},
		{Column{op: opTime}, binary.BigEndian.AppendUint32(nil, 1<<31-hours), "-01:02:03.5"},
		{Column{op: opTime}, []byte{0x7f, 0xff, 0xff}, "-00:00:01"},
		{Column{op: opBinary, width: 3}, []byte{1}, `\x010000`},
		{Column{op: opBinary, width: 3}, []byte{1, 2}, `\x010200`},
		{Column{op: opBinary, width: 3}, []byte{1, 2, 3}, `\x010203`},
		{Column{op: opBit, digits: 10}, []byte{2, 1}, "1000000001"},
	} {
		got, err := c.column.text(nil, c.stored)
		if err != nil || string(got) != c.want {
			t.Errorf("op %d of % x: %s, %v, want %s", c.column.op, c.stored, got, err, c.want)
		}
	}
}
