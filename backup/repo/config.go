package repo

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/store"
)

// A Repo is a repository that is open. All methods may be called at once.
type Repo struct {
	store store.Store
	id    [idSize]byte
	key   []byte // nil: not encrypted
	made  time.Time
}

// configName is the object that makes a place a repository.
const configName = "tidemark-repo.json"

// config is what it holds, behind its checksum.
type config struct {
	Format  int       `json:"format"`
	ID      string    `json:"id"`
	Created time.Time `json:"created"`
	Cipher  string    `json:"cipher"`        // none or AES-256-GCM
	Key     string    `json:"key,omitempty"` // the repository's key, as an armored file of age
}

const (
	cipherNone = "none"
	cipherAES  = "AES-256-GCM"
)

// sealConfig puts a checksum before the text: a document of JSON in which each byte counts.
func sealConfig(text []byte) []byte {
	sum := sha256.Sum256(text)
	return fmt.Appendf(nil, "{\"sha256\":\"%x\",\"repository\":%s}\n", sum, text)
}

func openConfig(b []byte) (config, error) {
	var c config
	const before, between, after = `{"sha256":"`, `","repository":`, "}\n"
	n := len(before) + 2*sha256.Size
	if len(b) < n+len(between)+len(after) {
		return c, errors.New("it is cut")
	}
	text := b[n+len(between) : len(b)-len(after)]
	if !bytes.Equal(b, sealConfig(text)) {
		return c, errTag
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return c, err
	}
	if c.Format != formatVersion {
		return c, errVersion
	}
	return c, nil
}

// Create makes a repository in a place that has none: encrypted if keys are given, for the
// recipients or by the passphrase. Kind Exists: there is one; NotEmpty: the place has other things
// in it that look like ours.
func Create(ctx context.Context, s store.Store, keys Keys) (*Repo, error) {
	r := &Repo{store: s, made: time.Now().UTC().Truncate(time.Second)}
	c := config{Format: formatVersion, Created: r.made, Cipher: cipherNone}
	if keys.given() {
		if len(keys.Recipients) == 0 && keys.Passphrase == "" {
			return nil, tidemark.Errorf(tidemark.Invalid, "create repository", s.String(), "an identity opens a repository, and says not for whom a new one is encrypted", "give --encrypt age1..., the public key of that identity")
		}
		r.key = newKey()
		var err error
		if c.Key, err = keys.wrap(r.key); err != nil {
			return nil, err
		}
		if r.id, err = idOf(r.key); err != nil {
			return nil, err
		}
		c.Cipher = cipherAES
	} else {
		r.id = newSalt()
	}
	c.ID = hex.EncodeToString(r.id[:])
	for i, err := range s.List(ctx, "backups/") {
		if err != nil {
			return nil, err
		}
		return nil, tidemark.Errorf(tidemark.NotEmpty, "create repository", s.String(), "it has "+i.Name+", and no "+configName, "put that file back from a copy, or choose another place")
	}
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	o, err := s.Create(ctx, configName, store.New)
	if err != nil {
		return nil, existing(s, err)
	}
	defer o.Abort()
	if _, err := o.Write(sealConfig(text)); err != nil {
		return nil, err
	}
	return r, existing(s, o.Commit())
}

func existing(s store.Store, err error) error {
	if tidemark.KindOf(err) == tidemark.Exists && err != nil {
		return tidemark.Errorf(tidemark.Exists, "create repository", s.String(), "there is one already", "")
	}
	return err
}

// Open opens a repository. Kind NotFound: there is none; Denied: no key was given, or another
// one; Invalid: keys were given, and it is not encrypted, so that nobody believes it is; Corrupt;
// Unsupported: of a newer format.
func Open(ctx context.Context, s store.Store, keys Keys) (*Repo, error) {
	c, err := readConfig(ctx, s)
	if err != nil {
		return nil, err
	}
	r := &Repo{store: s, made: c.Created}
	id, err := hex.DecodeString(c.ID)
	if err != nil || len(id) != idSize {
		return nil, damaged(configName, errors.New("its id is none"))
	}
	r.id = [idSize]byte(id)
	switch c.Cipher {
	case cipherNone:
		if keys.given() {
			return nil, tidemark.Errorf(tidemark.Invalid, "open repository", s.String(), "a key was given, and it is not encrypted", "leave the key away, or begin a new repository with --encrypt or --passphrase-file")
		}
		return r, nil
	case cipherAES:
	default:
		return nil, damaged(configName, errVersion)
	}
	if r.key, err = keys.unwrap(s.String(), c.Key); err != nil {
		return nil, err
	}
	own, err := idOf(r.key)
	if err == nil && own != r.id {
		err = damaged(configName, errors.New("its key is not the one that it was made with"))
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

func readConfig(ctx context.Context, s store.Store) (config, error) {
	in, err := s.Read(ctx, configName, 0, 1<<20)
	if tidemark.KindOf(err) == tidemark.NotFound && err != nil {
		return config{}, &tidemark.Error{Op: "open repository", Object: s.String(), Kind: tidemark.NotFound, Hint: "tidemark backup makes one; is it another folder or prefix?", Err: errors.New("there is none")}
	}
	if err != nil {
		return config{}, err
	}
	defer in.Close()
	b, err := io.ReadAll(in)
	if err != nil {
		return config{}, err
	}
	c, err := openConfig(b)
	return c, damaged(configName, err)
}

// OpenOrCreate opens a repository, or makes one where there is none.
func OpenOrCreate(ctx context.Context, s store.Store, keys Keys) (*Repo, error) {
	r, err := Open(ctx, s, keys)
	if err == nil || tidemark.KindOf(err) != tidemark.NotFound {
		return r, err
	}
	r, err = Create(ctx, s, keys)
	if tidemark.KindOf(err) == tidemark.Exists && err != nil {
		return Open(ctx, s, keys) // another was faster
	}
	return r, err
}

// ID tells the repository from all others: 32 hexadecimal digits.
func (r *Repo) ID() string { return hex.EncodeToString(r.id[:]) }

// Encrypted says whether it is.
func (r *Repo) Encrypted() bool { return r.key != nil }

// Store is the place that it is in.
func (r *Repo) Store() store.Store { return r.store }
