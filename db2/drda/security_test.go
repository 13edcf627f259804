package drda

import (
	"crypto/cipher"
	"crypto/des"
	"math/big"
	"testing"
)

// Both ends of an exchange have the same key, and what one seals the other opens.
func TestSealedLogin(t *testing.T) {
	if !prime.ProbablyPrime(32) || prime.BitLen() != 256 || generator.Cmp(prime) >= 0 {
		t.Fatal("not DRDA's group")
	}
	client, err := newExchange()
	if err != nil {
		t.Fatal(err)
	}
	server, err := newExchange()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.seal([]byte("x")); err == nil {
		t.Error("sealed without the server's token")
	}
	client.theirs = server.token()
	for _, secret := range []string{"", "secret", "12345678", "a long password with blanks"} {
		sealed, err := client.seal([]byte(secret))
		if err != nil {
			t.Fatal(err)
		}
		shared := new(big.Int).Exp(new(big.Int).SetBytes(client.token()), server.private, prime).FillBytes(make([]byte, 32))
		block, err := des.NewCipher(shared[12:20])
		if err != nil {
			t.Fatal(err)
		}
		open := make([]byte, len(sealed))
		cipher.NewCBCDecrypter(block, client.theirs[12:20]).CryptBlocks(open, sealed)
		if got := string(open[:len(open)-int(open[len(open)-1])]); got != secret {
			t.Errorf("%q became %q", secret, got)
		}
	}
	for _, bad := range [][]byte{make([]byte, 32), prime.Bytes(), {1}} {
		client.theirs = bad
		if _, err := client.seal([]byte("x")); err == nil {
			t.Errorf("sealed for the token % x", bad)
		}
	}
}

// Requests of any size are cut into segments that our own reader joins again.
func TestSegments(t *testing.T) {
	for _, n := range []int{0, 1, 32756, 32757, 32758, 32763, 32764, 32765, 65526, 200000} {
		var f frames
		f.begin(dssRequest)
		m := f.open(cpSQLSTT)
		for i := range n {
			f.body = append(f.body, byte(i*7))
		}
		f.close(m)
		f.end()
		f.out[3] = f.out[3]&^0x0F | dssObject // as a server would send it
		r := newReader(&replay{server: [][]byte{f.out}})
		r.start()
		code, err := r.next()
		if err != nil || code != cpSQLSTT {
			t.Fatalf("%d bytes: %04X, %v", n, code, err)
		}
		got, err := r.all()
		if err != nil || len(got) != n {
			t.Fatalf("%d bytes came back as %d, %v", n, len(got), err)
		}
		for i := range got {
			if got[i] != byte(i*7) {
				t.Fatalf("of %d bytes, number %d differs", n, i)
			}
		}
		if code, err := r.next(); code != 0 || err != nil {
			t.Errorf("after %d bytes: %04X, %v", n, code, err)
		}
	}
}

func TestDecimals(t *testing.T) {
	for _, c := range []struct {
		packed        []byte
		digits, scale int
		want          string
	}{
		{[]byte{0x12, 0x3C}, 3, 0, "123"}, {[]byte{0x12, 0x3D}, 3, 3, "-0.123"}, {[]byte{0x00, 0x0D}, 3, 2, "0.00"}, {[]byte{0x00, 0x5F}, 3, 1, "0.5"},
		{[]byte{0x01, 0x23, 0x4B}, 4, 2, "-12.34"}, {[]byte{0x0C}, 1, 0, "0"}, {[]byte{0x9A}, 1, 1, "0.9"}, {[]byte{0x00, 0x10, 0x0C}, 5, 0, "100"},
		{[]byte{0x1A, 0x3C}, 3, 0, ""}, {[]byte{0x12, 0x33}, 3, 0, ""},
	} {
		got, ok := appendDecimal(nil, c.packed, c.digits, c.scale)
		if ok != (c.want != "") || ok && string(got) != c.want {
			t.Errorf("% x of (%d,%d) is %s, %t", c.packed, c.digits, c.scale, got, ok)
		}
	}
}

// UTF-16 of GRAPHIC values, which Derby does not have.
func TestGraphic(t *testing.T) {
	if got, ok := appendUTF16(nil, []byte{0, 'a', 0x20, 0xAC, 0xD8, 0x3D, 0xDE, 0x00}); string(got) != "a€😀" || !ok {
		t.Errorf("%q, %t", got, ok)
	}
	for _, bad := range [][]byte{{0}, {0xD8, 0x3D}, {0xDE, 0, 0, 'a'}, {0xD8, 0x3D, 0, 'a'}} {
		if _, ok := appendUTF16(nil, bad); ok {
			t.Errorf("% x is accepted", bad)
		}
	}
}
