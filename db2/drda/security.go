package drda

import (
	"crypto/cipher"
	"crypto/des"
	"crypto/rand"
	"errors"
	"math/big"
)

// The group of the key exchange is fixed by DRDA (volume 3, "Diffie-Hellman key distribution"): 256
// bits, which is little today.
var (
	prime, _     = new(big.Int).SetString("C62112D73EE613F0947AB31F0F6846A1BFF5B3A4CA0D60BC1E4C7A0D8C16B3E3", 16)
	generator, _ = new(big.Int).SetString("4690FA1F7B9E1D4442C86C9114603FDECF071EDCEC5F626E21E256AED9EA34E4", 16)
)

const tokenSize = 32

// An exchange is our half of a key exchange, and the server's token.
type exchange struct {
	private *big.Int
	theirs  []byte
}

func newExchange() (*exchange, error) {
	private, err := rand.Int(rand.Reader, prime)
	if err != nil {
		return nil, err
	}
	return &exchange{private: private}, nil
}

// token returns our token.
func (e *exchange) token() []byte {
	return new(big.Int).Exp(generator, e.private, prime).FillBytes(make([]byte, tokenSize))
}

// seal encrypts a secret for the server: DES in CBC mode, padded to whole blocks. The key is the
// middle of the shared secret, and the first block is mixed with the middle of the server's token.
func (e *exchange) seal(secret []byte) ([]byte, error) {
	if len(e.theirs) != tokenSize {
		return nil, errors.New("the server sent no token for an encrypted login")
	}
	public := new(big.Int).SetBytes(e.theirs)
	if public.Cmp(big.NewInt(1)) <= 0 || public.Cmp(prime) >= 0 {
		return nil, errors.New("the server sent an invalid token for an encrypted login")
	}
	shared := new(big.Int).Exp(public, e.private, prime).FillBytes(make([]byte, tokenSize))
	block, err := des.NewCipher(shared[12:20])
	if err != nil {
		return nil, err
	}
	pad := des.BlockSize - len(secret)%des.BlockSize
	out := append([]byte(nil), secret...)
	for range pad {
		out = append(out, byte(pad))
	}
	cipher.NewCBCEncrypter(block, e.theirs[12:20]).CryptBlocks(out, out)
	return out, nil
}
