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
	"slices"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/store"
)

// A Repo is an open repository. Its methods may be called concurrently.
type Repo struct {
	*objects
	logs

	sides []*Repo // of a mirror: the repository in each place, in store's order
}

// objects are the objects in a repository's store: sealed, each with its checksum.
type objects struct {
	store store.Store
	id    [idSize]byte
	key   []byte // nil: not encrypted
	made  time.Time

	makeMu sync.Mutex
	unmade []configWrite // what configName will be in each place, until the first write; nil: it is there
	keys   Keys          // that it will be made with
	side   bool          // one of a mirror's places, which never becomes another repository
}

// logs are the servers' logs in a repository.
type logs struct{ *objects }

// over makes the repository that consists of objects.
func over(o *objects) *Repo { return &Repo{objects: o, logs: logs{o}} }

// configName is the object that makes a place a repository.
const configName = "tidemark-repo.json"

// config is its content, after its checksum.
type config struct {
	Format  int       `json:"format"`
	ID      string    `json:"id"`
	Created time.Time `json:"created"`
	Cipher  string    `json:"cipher"`          // none or AES-256-GCM
	Key     string    `json:"key,omitempty"`   // the repository's key, as an armored age file
	Dumps   string    `json:"dumps,omitempty"` // the identity for plain objects, likewise: nothing of ours reads it
	Stripe  *striping `json:"stripe,omitempty"`
}

// A configWrite is what to write to configName in a place; without text, what is there stays.
type configWrite struct {
	text []byte
	mode store.Mode
}

const (
	cipherNone = "none"
	cipherAES  = "AES-256-GCM"
)

// sealConfig prepends a checksum to the text: a JSON document in which every byte counts.
func sealConfig(text []byte) []byte {
	sum := sha256.Sum256(text)
	return fmt.Appendf(nil, "{\"sha256\":\"%x\",\"repository\":%s}\n", sum, text)
}

func openConfig(b []byte) (config, error) {
	var c config
	const before, between, after = `{"sha256":"`, `","repository":`, "}\n"
	n := len(before) + 2*sha256.Size
	if len(b) < n+len(between)+len(after) {
		return c, errors.New("it is truncated")
	}
	text := b[n+len(between) : len(b)-len(after)]
	if !bytes.Equal(b, sealConfig(text)) {
		return c, errTag
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return c, err
	}
	if want := formatOf(c.Stripe); c.Format != want || !c.Stripe.sound() {
		return c, errVersion
	}
	return c, nil
}

// formatOf is the format recorded in configName: a program that does not know stripes must not take
// one of a stripe's places for the whole repository.
func formatOf(s *striping) int {
	if s != nil {
		return formatStripe
	}
	return formatVersion
}

// Create makes a repository in a place that has none: encrypted if keys are given, for the
// recipients or by the passphrase. Kind Exists: there is one already; NotEmpty: the place has other
// things that look like ours.
func Create(ctx context.Context, s store.Store, keys Keys) (*Repo, error) {
	r, err := prepare(ctx, s, keys, nil)
	if err != nil {
		return nil, err
	}
	return r, r.write(ctx)
}

// prepare is Create without writing anything yet. urls are those of the places if s is a stripe.
func prepare(ctx context.Context, s store.Store, keys Keys, urls []string) (*Repo, error) {
	r := over(&objects{store: s, made: time.Now().UTC().Truncate(time.Second)})
	c := config{Format: formatVersion, Created: r.made, Cipher: cipherNone}
	if keys.given() {
		if len(keys.Recipients) == 0 && keys.Passphrase == "" {
			return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "create repository", Object: s.String(), Err: errors.New("an identity opens a repository, but does not name a recipient for a new one"), Hint: "Give --encrypt age1..., the public key of that identity."}
		}
		r.key = newKey()
		var err error
		if c.Key, err = keys.wrap(r.key); err != nil {
			return nil, err
		}
		if r.id, err = idOf(r.key); err != nil {
			return nil, err
		}
		identity, err := identityText(r.key)
		if err != nil {
			return nil, err
		}
		if c.Dumps, err = keys.wrap([]byte(identity + "\n")); err != nil {
			return nil, err
		}
		c.Cipher = cipherAES
	} else {
		r.id = newSalt()
	}
	c.ID = hex.EncodeToString(r.id[:])
	if err := mayBeMade(ctx, s); err != nil {
		return nil, err
	}
	r.keys = keys
	for _, text := range c.texts(urls) {
		r.unmade = append(r.unmade, configWrite{text: text})
	}
	return r, nil
}

// texts returns configName's content in each place: for a stripe, in the places of the URLs.
func (c config) texts(urls []string) (out [][]byte) {
	seal := func() {
		c.Format = formatOf(c.Stripe)
		text, _ := json.Marshal(c) // nothing in it can fail
		out = append(out, sealConfig(text))
	}
	for i := range urls {
		c.Stripe = &striping{Place: i, Places: urls}
		seal()
	}
	if len(urls) == 0 {
		seal()
	}
	return out
}

// mayBeMade rejects a place that has backups but has lost its configName.
func mayBeMade(ctx context.Context, s store.Store) error {
	for i, err := range s.List(ctx, "backups/") {
		if err != nil {
			return err
		}
		return &tidemark.Error{Kind: tidemark.NotEmpty, Op: "create repository", Object: s.String(), Err: errors.New("it has " + i.Name + ", and no " + configName), Hint: "Restore that file from a copy, or choose another place."}
	}
	return nil
}

// make makes the place a repository, if it is not one yet: every writer calls it first. If another
// process has made it meanwhile, r becomes that repository: nothing was read before.
func (r *objects) make(ctx context.Context) error {
	r.makeMu.Lock()
	defer r.makeMu.Unlock()
	if r.unmade == nil {
		return nil
	}
	err := r.write(ctx)
	if err == nil || tidemark.KindOf(err) != tidemark.Exists {
		return err
	}
	if store.StripeOf(r.store) != nil {
		return &tidemark.Error{Op: "create repository", Object: r.store.String(), Kind: tidemark.Transient, Hint: "Run it again.", Err: errors.New("another process is creating one there")}
	}
	other, err := Open(ctx, r.store, r.keys)
	if err != nil {
		return err
	}
	if r.side && other.id != r.id {
		return notTheSame(r.store)
	}
	r.id, r.key, r.made, r.unmade = other.id, other.key, other.made, nil
	return nil
}

// there reports whether the place is a repository by now.
func (r *objects) there(ctx context.Context) (bool, error) {
	r.makeMu.Lock()
	made := r.unmade == nil
	r.makeMu.Unlock()
	if made {
		return true, nil
	}
	if _, err := r.places()[0].Stat(ctx, configName); err != nil {
		if tidemark.KindOf(err) == tidemark.NotFound {
			err = nil
		}
		return false, err
	}
	return true, r.make(ctx) // r becomes the existing one
}

// write writes configName. In a stripe, the first place is last, so that the repository exists only
// once it is complete. Kind Exists: it exists.
func (r *objects) write(ctx context.Context) error {
	places := r.places()
	for i, u := range slices.Backward(r.unmade) {
		if u.text == nil {
			continue
		}
		err := u.write(ctx, places[i])
		if err != nil && tidemark.KindOf(err) == tidemark.Exists {
			if there, rerr := configText(ctx, places[i]); rerr == nil && bytes.Equal(there, u.text) {
				err = nil // another process completes the same stripe
			}
		}
		if err != nil {
			return err
		}
	}
	r.unmade = nil
	r.makeSpare(ctx)
	return nil
}

func (u configWrite) write(ctx context.Context, s store.Store) error {
	o, err := s.Create(ctx, configName, u.mode)
	if err != nil {
		return existing(s, err)
	}
	defer o.Abort()
	if _, err := o.Write(u.text); err != nil {
		return err
	}
	return existing(s, o.Commit())
}

func existing(s store.Store, err error) error {
	if tidemark.KindOf(err) == tidemark.Exists && err != nil {
		return &tidemark.Error{Kind: tidemark.Exists, Op: "create repository", Object: s.String(), Err: errors.New("the repository already exists")}
	}
	return err
}

// Open opens a repository. Kind NotFound: there is none; Denied: no key was given, or a wrong one;
// Invalid: keys were given, but it is not encrypted, so that nobody believes it is; Corrupt;
// Unsupported: of a newer format.
func Open(ctx context.Context, s store.Store, keys Keys) (*Repo, error) {
	c, err := readConfig(ctx, s)
	if err != nil {
		return nil, err
	}
	if c.Stripe != nil {
		return nil, oneOfStripe(s, c.Stripe)
	}
	return openAs(c, s, keys)
}

// openAs opens the repository that configName describes.
func openAs(c config, s store.Store, keys Keys) (*Repo, error) {
	r := over(&objects{store: s, made: c.Created})
	id, err := hex.DecodeString(c.ID)
	if err != nil || len(id) != idSize {
		return nil, damaged(configName, errors.New("its id is invalid"))
	}
	r.id = [idSize]byte(id)
	switch c.Cipher {
	case cipherNone:
		if keys.given() {
			return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "open repository", Object: s.String(), Err: errors.New("a key was given, but the repository is not encrypted"), Hint: "Leave out the key, or create a new repository with --encrypt or --passphrase-file."}
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
		err = damaged(configName, errors.New("its key is not the one it was created with"))
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

func readConfig(ctx context.Context, s store.Store) (config, error) {
	b, err := configText(ctx, s)
	if err != nil {
		return config{}, err
	}
	c, err := openConfig(b)
	return c, damaged(configName, err)
}

// configText reads configName.
func configText(ctx context.Context, s store.Store) ([]byte, error) {
	in, err := s.Read(ctx, configName, 0, 1<<20)
	if tidemark.KindOf(err) == tidemark.NotFound && err != nil {
		return nil, &tidemark.Error{Op: "open repository", Object: s.String(), Kind: tidemark.NotFound, Hint: "Check the folder or prefix. tidemark backup creates a repository.", Err: errors.New("there is no repository")}
	}
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return io.ReadAll(in)
}

// OpenOrCreate opens a repository, or prepares one if there is none: it is made by the first write,
// so that an earlier error leaves nothing behind.
func OpenOrCreate(ctx context.Context, s store.Store, keys Keys) (*Repo, error) {
	r, err := Open(ctx, s, keys)
	if err == nil || tidemark.KindOf(err) != tidemark.NotFound {
		return r, err
	}
	return prepare(ctx, s, keys, nil)
}

// ID distinguishes the repository from all others: 32 hexadecimal digits.
func (r *objects) ID() string { return hex.EncodeToString(r.id[:]) }

// Encrypted reports whether the repository is encrypted.
func (r *objects) Encrypted() bool { return r.key != nil }

// Store returns the repository's place.
func (r *objects) Store() store.Store { return r.store }

// AnyPlace returns a URL, without secrets, by which the repository can be opened.
func (r *objects) AnyPlace() string { return r.places()[0].String() }

// places returns those of a stripe, or the only one.
func (r *objects) places() []store.Store {
	if s := store.StripeOf(r.store); s != nil {
		return s.Places()
	}
	return []store.Store{r.store}
}
