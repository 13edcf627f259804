package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/internal/plainfile"
	"github.com/tidemarkdb/tidemark/store"
)

// repoOptions are the options of everything that uses a repository.
type repoOptions struct {
	codec          repo.Codec // --compress zstd:1: a third of the size at a gigabyte a second and more
	stripe         bool       // --stripe off: each place then has everything
	places         []string   // --stripe-place; none: a stripe's places are where it says
	encrypt        []string   // --encrypt; none: nobody has named a key
	identity       string     // --identity; none: the repository is open
	passphraseFile string     // --passphrase-file; none, as --identity
	rate           int64      // --max-rate 0, bytes a second: no limit
	uncached       bool       // bypass the page cache for files of the repository: --direct-io
	named          []string   // how another command line names what was opened
}

func (o *repoOptions) table() option.Table {
	return option.Table{
		option.New("compress", "text", "zstd:1", "Compression: none, lz4, s2, or zstd:1 to zstd:22. If it is not set, archive compresses with s2 while it is more than 128 MB behind.", func(v string) (err error) {
			if o.codec, err = repo.ParseCodec(v); err != nil {
				err = fmt.Errorf("must be none, lz4, s2, zstd or zstd:1 to zstd:22")
			}
			return err
		}).For("backup archive archive-push").CommonTo("backup"),
		option.New("stripe", "on/off", "off", "Spread a new repository over all named places, so that each has a part of it and their rates add up, instead of writing all of it to each. An existing one records where its places are now.", option.OnOff(&o.stripe)).For("backup"),
		option.New("stripe-place", "list", "", "Where a place of a striped repository is now, if it is not where the repository says: it has moved, or has another name as seen from here. May be repeated.", option.List(&o.places)).For("backup restore backups verify prune archive archive-push archive-get"),
		option.New("encrypt", "list", "", "Encrypt a new repository for this age public key. It begins with age1; may be repeated. An existing repository keeps its keys.", option.List(&o.encrypt)).For("backup archive").CommonTo("backup"),
		option.New("identity", "file", "", "File with the private key that opens the repository. It is an age key: age-keygen creates one.", option.Text(&o.identity)).For("backup restore backups verify prune archive archive-push archive-get").CommonTo("backup restore backups verify prune archive archive-push archive-get"),
		option.New("passphrase-file", "file", "", "File with the passphrase, instead of keys. The passphrase is its first line.", option.Text(&o.passphraseFile)).For("backup restore backups verify prune archive archive-push archive-get").CommonTo("archive-push archive-get"),
		option.New("max-rate", "size", "0", "Maximum bytes a second to and from the repository; 0: no limit.", option.Size(&o.rate)).For("backup restore backups verify prune archive archive-push archive-get").CommonTo("backup"),
	}.In(option.Repositories)
}

func (o *repoOptions) repository() *repoOptions { return o }

// keys reads the files that hold keys.
func (o *repoOptions) keys() (k repo.Keys, err error) {
	k.Recipients = o.encrypt
	read := func(what, path string, into *string) error {
		if path == "" {
			return nil
		}
		text, err := plainfile.ReadSecret(path)
		if errors.Is(err, plainfile.ErrOpen) {
			return tidemark.FileError("read "+what, path, "Whoever read it can read the backups: chmod 600 "+path+".", err)
		}
		if err != nil {
			return &tidemark.Error{Kind: tidemark.NotFound, Op: "read " + what, Object: path, Err: errors.New(cause(err).Error()), Hint: "Check the path; a relative path starts at the current folder."}
		}
		*into = string(text)
		return nil
	}
	if err := read("identity", o.identity, &k.Identities); err != nil {
		return k, err
	}
	if err := read("passphrase", o.passphraseFile, &k.Passphrase); err != nil {
		return k, err
	}
	k.Passphrase, _, _ = strings.Cut(k.Passphrase, "\n")
	k.Passphrase = strings.TrimSuffix(k.Passphrase, "\r")
	if o.passphraseFile != "" && k.Passphrase == "" {
		return k, &tidemark.Error{Kind: tidemark.Invalid, Op: "read passphrase", Object: o.passphraseFile, Err: errors.New("its first line is empty"), Hint: "Write the passphrase into its first line."}
	}
	return k, nil
}

// cause is an error of the file system without the path, which the message already has.
func cause(err error) error {
	if p, ok := err.(*os.PathError); ok {
		return p.Err
	}
	return err
}

// openMirror opens, or creates, one repository in several places: the same in each, or spread over
// them.
func (o *repoOptions) openMirror(ctx context.Context, urls []string) (r *repo.Repo, close func(), err error) {
	if len(o.places) > 0 && (len(urls) > 1 || o.stripe) {
		return nil, nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "open repository", Object: tidemark.MaskURL(urls[0]), Err: errors.New("--stripe-place needs exactly one named place"), Hint: "Name one place with --stripe-place, or all places with --stripe, in their order."}
	}
	if len(urls) == 1 || o.stripe {
		return o.openPlaces(ctx, urls, repo.PlacesOptions{Create: true, Stripe: o.stripe})
	}
	keys, err := o.keys()
	if err != nil {
		return nil, nil, err
	}
	var places []store.Store
	close = func() {
		for _, p := range places {
			p.Close()
		}
	}
	seen := map[string]bool{}
	for _, url := range urls {
		p, err := store.Open(ctx, url, store.Options{Pace: store.NewPace(o.rate)})
		if err == nil {
			places = append(places, p)
			if seen[p.String()] {
				err = &tidemark.Error{Kind: tidemark.Invalid, Op: "mirror", Object: p.String(), Err: errors.New("is named twice"), Hint: "Name each place once."}
			}
			seen[p.String()] = true
		}
		if err != nil {
			close()
			return nil, nil, err
		}
	}
	if r, err = repo.OpenMirror(ctx, places, keys); err != nil {
		close()
		return nil, nil, err
	}
	return r, close, nil
}

// openRepo opens a repository by one of its places, or with create creates one if there is none.
// close ends the connections to its places.
func (o *repoOptions) openRepo(ctx context.Context, url string, create bool) (r *repo.Repo, close func(), err error) {
	return o.openPlaces(ctx, append([]string{url}, o.places...), repo.PlacesOptions{Create: create})
}

// openPlaces opens the repository in some places, or to which they belong.
func (o *repoOptions) openPlaces(ctx context.Context, urls []string, opt repo.PlacesOptions) (r *repo.Repo, close func(), err error) {
	if opt.Keys, err = o.keys(); err != nil {
		return nil, nil, err
	}
	pace := store.NewPace(o.rate) // of all places together: each byte is in one of them
	opt.Open = func(ctx context.Context, url string) (store.Store, error) {
		return store.Open(ctx, url, store.Options{Pace: pace, Uncached: o.uncached, Meter: &store.Meter{}})
	}
	var given []repo.Place
	for _, url := range urls {
		p, err := opt.Open(ctx, url)
		if err != nil {
			closePlaces(given)
			return nil, nil, err
		}
		given = append(given, repo.Place{URL: placeName(url, p), Store: p})
	}
	if r, err = repo.OpenPlaces(ctx, given, opt); err != nil {
		closePlaces(given)
		return nil, nil, err
	}
	o.named = []string{given[0].URL}
	if !o.stripe {
		for _, p := range given[1:] {
			o.named = append(o.named, "--stripe-place", p.URL)
		}
	}
	return r, func() { r.Store().Close() }, nil
}

func closePlaces(all []repo.Place) {
	for _, p := range all {
		p.Store.Close()
	}
}

// placeName is the name of a place for other command lines, in other folders: without secrets.
func placeName(url string, p store.Store) string {
	if folder, ok := strings.CutPrefix(p.String(), "file://"); ok {
		return folder
	}
	return tidemark.MaskURL(url)
}
