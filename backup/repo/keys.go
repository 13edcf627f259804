package repo

import (
	"bytes"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"

	"filippo.io/age"
	"filippo.io/age/armor"

	"github.com/tidemarkdb/tidemark"
)

// Keys open a repository, or tell for whom to encrypt one. The zero value is for repositories that
// are not encrypted. All fields hold the keys themselves, not names of files.
type Keys struct {
	Recipients []string // for Create: public keys, age1...
	Identities string   // for Open: the text of an age identity file
	Passphrase string   // for both, instead of the others
}

// String keeps the keys out of printed output.
func (Keys) String() string { return "(keys)" }

// GoString is String.
func (k Keys) GoString() string { return k.String() }

func (k Keys) given() bool {
	return len(k.Recipients) > 0 || k.Identities != "" || k.Passphrase != ""
}

// scryptWork is the logarithm of scrypt's cost for passphrases: 64 MB and a quarter of a second.
// age's own default of 18 would take 256 MB, a backup's whole limit. Tests lower it.
var scryptWork = 16

const keySize = 32

// wrap encrypts a key for those who may open the repository.
func (k Keys) wrap(key []byte) (string, error) {
	var to []age.Recipient
	for _, text := range k.Recipients {
		more, err := age.ParseRecipients(strings.NewReader(text))
		if err != nil {
			return "", &tidemark.Error{Kind: tidemark.Invalid, Op: "encrypt", Err: errors.New("a recipient is not a public key of age"), Hint: "Give a public key, which begins with age1: age-keygen makes a pair and prints it as Public key."}
		}
		to = append(to, more...)
	}
	if k.Passphrase != "" {
		if len(to) > 0 {
			return "", &tidemark.Error{Kind: tidemark.Invalid, Op: "encrypt", Err: errors.New("both recipients and a passphrase were given"), Hint: "Give only one of them: an age file has either."}
		}
		p, err := age.NewScryptRecipient(k.Passphrase)
		if err != nil {
			return "", errPassphrase()
		}
		p.SetWorkFactor(scryptWork)
		to = append(to, p)
	}
	var out bytes.Buffer
	a := armor.NewWriter(&out)
	w, err := age.Encrypt(a, to...)
	if err == nil {
		_, err = w.Write(key)
	}
	if err == nil {
		err = errors.Join(w.Close(), a.Close())
	}
	if err != nil {
		return "", &tidemark.Error{Op: "encrypt", Kind: tidemark.Invalid, Hint: "Use recipients of one kind: a repository cannot mix them.", Err: err}
	}
	return out.String(), nil
}

func errPassphrase() error {
	return &tidemark.Error{Kind: tidemark.Invalid, Op: "encrypt", Err: errors.New("the passphrase is empty"), Hint: "Write it into the first line of the file."}
}

// unwrap returns the wrapped key. Its errors reveal nothing about the keys.
func (k Keys) unwrap(place, wrapped string) ([]byte, error) {
	fail := func(kind tidemark.Kind, cause, hint string) error {
		return &tidemark.Error{Kind: kind, Op: "open repository", Object: place, Err: errors.New(cause), Hint: hint}
	}
	var ids []age.Identity
	if k.Identities != "" {
		more, err := age.ParseIdentities(strings.NewReader(k.Identities))
		if err != nil {
			return nil, fail(tidemark.Invalid, "the identity file has no age identities", "Give a file that age-keygen -o FILE made; its key begins with AGE-SECRET-KEY-.")
		}
		ids = more
	}
	if k.Passphrase != "" {
		p, err := age.NewScryptIdentity(k.Passphrase)
		if err != nil {
			return nil, errPassphrase()
		}
		ids = append(ids, p)
	}
	if len(ids) == 0 {
		return nil, fail(tidemark.Denied, "it is encrypted, and no key was given", "Give --identity FILE or --passphrase-file FILE.")
	}
	plain, err := age.Decrypt(armor.NewReader(strings.NewReader(wrapped)), ids...)
	var none *age.NoIdentityMatchError
	if errors.As(err, &none) {
		return nil, fail(tidemark.Denied, "the repository is not encrypted for this key", "Give an identity or the passphrase that the repository was created with.")
	}
	var key []byte
	if err == nil {
		key, err = io.ReadAll(io.LimitReader(plain, keySize+1))
	}
	if err != nil || len(key) != keySize {
		return nil, fail(tidemark.Corrupt, "its key is damaged", "Restore "+configName+" from a copy: nothing can be read without the key.")
	}
	return key, nil
}

// newKey makes the key of a repository.
func newKey() []byte {
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // never fails
	return key
}

// idOf derives the id of an encrypted repository from its key, so that anyone who knows the id
// notices a substituted key.
func idOf(key []byte) (id [idSize]byte, err error) {
	b, err := hkdf.Key(sha256.New, key, nil, "tidemark repository id", idSize)
	if err != nil {
		return id, fmt.Errorf("derive the repository's id: %w", err)
	}
	return [idSize]byte(b), nil
}
