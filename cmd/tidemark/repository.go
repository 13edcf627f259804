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
	rate           int64 // bytes a second
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

// openRepo opens a repository, or with create makes one where there is none. close ends the
// connections to its place.
func (s *settings) openRepo(ctx context.Context, url string, create bool) (r *repo.Repo, close func(), err error) {
	keys, err := s.keys()
	if err != nil {
		return nil, nil, err
	}
	place, err := store.Open(ctx, url, store.Options{Rate: s.repo.rate})
	if err != nil {
		return nil, nil, err
	}
	if create {
		r, err = repo.OpenOrCreate(ctx, place, keys)
	} else {
		r, err = repo.Open(ctx, place, keys)
	}
	if err != nil {
		place.Close()
		return nil, nil, err
	}
	return r, func() { place.Close() }, nil
}
