package main

import (
	"context"
	"os"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/store"
)

// repoSettings are the options of all that has to do with a repository.
type repoSettings struct {
	encrypt        []string // recipients
	identity       string   // file
	passphraseFile string
	codec          repo.Codec
	rate           int64    // bytes a second
	stripe         bool     // what is made is spread over the places
	places         []string // of a stripe, that are not where it says
	named          []string // how a command line names what was opened
}

// onRepo are the commands that open a repository.
const onRepo = "backup restore backups verify prune archive archive-push archive-get"

// keys reads the files that hold keys.
func (s *settings) keys() (k repo.Keys, err error) {
	k.Recipients = s.repo.encrypt
	read := func(what, path string, into *string) error {
		if path == "" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return tidemark.Errorf(tidemark.NotFound, "read "+what, path, cause(err).Error(), "check the path; a relative one is taken from the current folder")
		}
		*into = string(text)
		return nil
	}
	if err := read("identity", s.repo.identity, &k.Identities); err != nil {
		return k, err
	}
	if err := read("passphrase", s.repo.passphraseFile, &k.Passphrase); err != nil {
		return k, err
	}
	k.Passphrase, _, _ = strings.Cut(k.Passphrase, "\n")
	k.Passphrase = strings.TrimSuffix(k.Passphrase, "\r")
	if s.repo.passphraseFile != "" && k.Passphrase == "" {
		return k, tidemark.Errorf(tidemark.Invalid, "read passphrase", s.repo.passphraseFile, "its first line is empty", "write the passphrase there")
	}
	return k, nil
}

// cause is an error of the file system without the path, which the message has already.
func cause(err error) error {
	if p, ok := err.(*os.PathError); ok {
		return p.Err
	}
	return err
}

// openMirror opens, or makes, one repository in several places: the same in each, or spread over them.
func (s *settings) openMirror(ctx context.Context, urls []string) (r *repo.Repo, close func(), err error) {
	if len(s.repo.places) > 0 && (len(urls) > 1 || s.repo.stripe) {
		return nil, nil, tidemark.Errorf(tidemark.Invalid, "open repository", tidemark.MaskURL(urls[0]), "--stripe-place is for a repository of which one place is named", "with --stripe, name all places where they are now, in their order")
	}
	if len(urls) == 1 || s.repo.stripe {
		return s.openPlaces(ctx, urls, repo.PlacesOptions{Create: true, Stripe: s.repo.stripe})
	}
	keys, err := s.keys()
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
		p, err := store.Open(ctx, url, store.Options{Pace: store.NewPace(s.repo.rate)})
		if err == nil {
			places = append(places, p)
			if seen[p.String()] {
				err = tidemark.Errorf(tidemark.Invalid, "mirror", p.String(), "is named twice", "name each place once")
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

// openRepo opens a repository by one of its places, or with create makes one where there is none. close ends the
// connections to its places.
func (s *settings) openRepo(ctx context.Context, url string, create bool) (r *repo.Repo, close func(), err error) {
	return s.openPlaces(ctx, append([]string{url}, s.repo.places...), repo.PlacesOptions{Create: create})
}

// openPlaces opens the repository that is in some places, or of which they are a part.
func (s *settings) openPlaces(ctx context.Context, urls []string, opt repo.PlacesOptions) (r *repo.Repo, close func(), err error) {
	if opt.Keys, err = s.keys(); err != nil {
		return nil, nil, err
	}
	pace := store.NewPace(s.repo.rate) // of all places together: each byte is in one of them
	opt.Open = func(ctx context.Context, url string) (store.Store, error) {
		return store.Open(ctx, url, store.Options{Pace: pace, Uncached: s.backup.direct})
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
	s.repo.named = []string{given[0].URL}
	if !s.repo.stripe {
		for _, p := range given[1:] {
			s.repo.named = append(s.repo.named, "--stripe-place", p.URL)
		}
	}
	return r, func() { r.Store().Close() }, nil
}

func closePlaces(all []repo.Place) {
	for _, p := range all {
		p.Store.Close()
	}
}

// placeName is how other command lines, in other folders, can name a place: without secrets.
func placeName(url string, p store.Store) string {
	if folder, ok := strings.CutPrefix(p.String(), "file://"); ok {
		return folder
	}
	return tidemark.MaskURL(url)
}
