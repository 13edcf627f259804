// Package float writes floating-point numbers as PostgreSQL does: the text of them that servers of
// all kinds are compared by.
package float

import (
	"bytes"
	"math"
	"math/big"
	"strconv"
)

// Append prints as PostgreSQL does since version 12: exponents from -4 up to 15 digits (6 for
// float4) without "e". bits is 64, or 32 for a float4.
func Append(dst []byte, f float64, bits int) []byte {
	switch {
	case math.IsInf(f, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(f, -1):
		return append(dst, "-Infinity"...)
	case math.IsNaN(f):
		return append(dst, "NaN"...)
	case f == 0:
		return strconv.AppendFloat(dst, f, 'f', -1, bits)
	}
	limit := 15
	if bits == 32 {
		limit, f = 6, float64(float32(f))
	}
	at := len(dst)
	dst = shortest(dst, f, bits)
	exp, _ := strconv.Atoi(string(dst[bytes.LastIndexByte(dst, 'e')+1:]))
	if exp >= -4 && exp < limit {
		decimals := max(bytes.LastIndexByte(dst, 'e')-bytes.IndexByte(dst[at:], '.')-at-1-exp, 0)
		if bytes.IndexByte(dst[at:], '.') < 0 {
			decimals = max(-exp, 0)
		}
		return strconv.AppendFloat(dst[:at], f, 'f', decimals, bits)
	}
	return dst
}

// shortest is strconv's shortest form, except where PostgreSQL differs: a decimal exactly halfway
// between two floats does not count as either of them, though it reads back as the even one. Only
// from 2^53 (2^24 for float4) on can such a decimal be shorter than others.
func shortest(dst []byte, f float64, bits int) []byte {
	at := len(dst)
	dst = strconv.AppendFloat(dst, f, 'e', -1, bits)
	// Of two equally near decimals PostgreSQL takes the even one.
	if point := bytes.IndexByte(dst[at:], '.'); point > 0 {
		digits := bytes.LastIndexByte(dst[at:], 'e') - point - 1
		if digits >= 15 || bits == 32 && digits >= 7 {
			even := strconv.AppendFloat(nil, f, 'e', digits, bits)
			if back, err := strconv.ParseFloat(string(even), bits); err == nil && back == f && len(even) == len(dst)-at {
				copy(dst[at:], even)
			}
		}
	}
	if size := math.Abs(f); size < 1<<24 || bits == 64 && size < 1<<53 {
		return dst
	}
	for digits := 1; digits < 18 && halfway(dst[at:], f, bits); digits++ {
		if longer := strconv.AppendFloat(nil, f, 'e', digits, bits); len(longer) > len(dst)-at {
			dst = append(dst[:at], longer...)
		}
	}
	return dst
}

// halfway reports whether the decimal lies exactly between f and a neighbour of it.
func halfway(decimal []byte, f float64, bits int) bool {
	d, _, err := big.ParseFloat(string(decimal), 10, 2200, big.ToNearestEven)
	if err != nil {
		return false
	}
	exact := new(big.Float).SetPrec(2200).SetFloat64(f)
	off := d.Sub(d, exact)
	if off.Sign() == 0 {
		return false
	}
	neighbour := math.Nextafter(f, math.Inf(off.Sign()))
	if bits == 32 {
		neighbour = float64(math.Nextafter32(float32(f), float32(math.Inf(off.Sign()))))
	}
	if math.IsInf(neighbour, 0) {
		return false
	}
	gap := new(big.Float).SetPrec(2200).SetFloat64(neighbour)
	return off.Add(off, off).Cmp(gap.Sub(gap, exact)) == 0
}
