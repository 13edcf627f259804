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

// pinPrefix begins the names of pins: a backup is pinned while a pin of its name exists. Its
// content is for people.
const pinPrefix = "pins/"

// A Pin records since when a backup is pinned.
type Pin struct {
	Since time.Time `json:"since"`
	Host  string    `json:"host"`
}

// Pin keeps a backup, and those it needs, whatever prune's rules. Pinning twice is harmless. Kind
// NotFound: there is no such backup.
func (r *Repo) Pin(ctx context.Context, id string) error {
	l, err := r.Lock(ctx, LockSpec{Purpose: "pin", Needs: []string{id}}) // a running prune will see it
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

// Unpin removes the pin. Kind NotFound: it is not pinned.
func (r *Repo) Unpin(ctx context.Context, id string) error {
	err := r.store.Delete(ctx, pinPrefix+id)
	if tidemark.KindOf(err) == tidemark.NotFound && err != nil {
		return &tidemark.Error{Kind: tidemark.NotFound, Op: "unpin", Object: id, Err: errors.New("it is not pinned"), Hint: "Run tidemark backups: it shows which backups are pinned."}
	}
	return err
}

// Pins returns the ids of pinned backups.
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
