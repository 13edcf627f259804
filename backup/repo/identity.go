package repo

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"strings"

	"filippo.io/age"
)

// identity is the age key pair for plain objects of an encrypted repository. It is derived from the
// repository's key, so nobody can substitute another one and have the next backup encrypted for it.
func (r *objects) identity() (*age.X25519Identity, error) {
	text, err := identityText(r.key)
	if err != nil {
		return nil, err
	}
	return age.ParseX25519Identity(text)
}

func identityText(key []byte) (string, error) {
	scalar, err := hkdf.Key(sha256.New, key, nil, "tidemark dumps", 32)
	if err != nil {
		return "", err
	}
	return strings.ToUpper(bech32("age-secret-key-", scalar)), nil
}

// WrappedIdentity returns the identity that opens plain objects, as an armored age file for those
// who can open the repository; empty if the repository is not encrypted, or is older than plain
// objects.
func (r *objects) WrappedIdentity(ctx context.Context) (string, error) {
	c, err := readConfig(ctx, r.store)
	return c.Dumps, err
}

// bech32 encodes bytes as in BIP 173, under a lowercase name.
func bech32(name string, data []byte) string {
	const letters = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
	var fives []byte
	var bits, n uint
	for _, b := range data {
		bits, n = bits<<8|uint(b), n+8
		for ; n >= 5; n -= 5 {
			fives = append(fives, byte(bits>>(n-5))&31)
		}
	}
	if n > 0 {
		fives = append(fives, byte(bits<<(5-n))&31)
	}
	var sum []byte
	for _, c := range []byte(name) {
		sum = append(sum, c>>5)
	}
	sum = append(sum, 0)
	for _, c := range []byte(name) {
		sum = append(sum, c&31)
	}
	rest := polymod(append(append(sum, fives...), 0, 0, 0, 0, 0, 0)) ^ 1
	for i := range 6 {
		fives = append(fives, byte(rest>>(5*(5-i)))&31)
	}
	out := name + "1"
	for _, v := range fives {
		out += letters[v : v+1]
	}
	return out
}

// polymod is the checksum of BIP 173.
func polymod(values []byte) uint32 {
	sum := uint32(1)
	for _, v := range values {
		top := sum >> 25
		sum = sum&0x1ffffff<<5 ^ uint32(v)
		for i, g := range [5]uint32{0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3} {
			if top>>i&1 == 1 {
				sum ^= g
			}
		}
	}
	return sum
}
