package repo

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/store"
)

// pinPrefix is before the names of pins: a backup is pinned while there is one of its name. What it holds is
// for people.
const pinPrefix = "pins/"

// A Pin says since when a backup is pinned.
type Pin struct {
	Since time.Time `json:"since"`
	Host  string    `json:"host"`
}

// Pin lets a backup, and those that it needs, stay whatever prune is told to keep. Once more is as good.
// Kind NotFound: there is no such backup.
func (r *Repo) Pin(ctx context.Context, id string) error {
	l, err := r.Lock(ctx, LockSpec{Purpose: "pin", Needs: []string{id}}) // no prune that runs misses it
	if err != nil {
		return err
	}
	defer l.Release()
	host, _ := os.Hostname() // for people only
	text, err := json.Marshal(Pin{Since: time.Now().UTC().Truncate(time.Second), Host: host})
	if err != nil {
		return err
	}
	return r.writeObject(l.Context(), pinPrefix+id, store.Replace, text)
}

// Unpin takes that back. Kind NotFound: it is not pinned.
func (r *Repo) Unpin(ctx context.Context, id string) error {
	err := r.store.Delete(ctx, pinPrefix+id)
	if tidemark.KindOf(err) == tidemark.NotFound && err != nil {
		return &tidemark.Error{Kind: tidemark.NotFound, Op: "unpin", Object: id, Err: errors.New("it is not pinned"), Hint: "tidemark backups shows which backups are"}
	}
	return err
}

// Pins gives the ids of pinned backups.
func (r *Repo) Pins(ctx context.Context) (map[string]bool, error) {
	pins := map[string]bool{}
	for i, err := range r.store.List(ctx, pinPrefix) {
		if err != nil {
			return nil, err
		}
		pins[strings.TrimPrefix(i.Name, pinPrefix)] = true
	}
	return pins, nil
}
