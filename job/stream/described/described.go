// Package described is what a capture says of its source in the queue, for an apply in another
// process that is not connected to it: the source's tables, which of them are stopped, and whose
// stream that is.
//
// Start reading at Description.
package described

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"net/url"
	"slices"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/engine"
)

// A Description is what a capture reports about its source, as JSON.
type Description struct {
	Schema   string             `json:"schema"` // its default one
	Database *tidemark.Database `json:"database"`
	Stopped  []Stopped          `json:"stopped,omitempty"`
	Stream   *Stream            `json:"stream,omitempty"` // nil: by a version that did not say it
}

// A Stream says whose queue it is.
type Stream struct {
	ID     uint32    `json:"id"`               // of all its messages: see queue.Log.Of
	Source string    `json:"source"`           // its URL for the capture, without secrets
	Server string    `json:"server,omitempty"` // what tells that source from others; "" if nothing does
	Began  time.Time `json:"began"`
}

func (s *Stream) String() string {
	return "from " + s.Source + ", begun " + s.Began.Local().Format("2006-01-02 15:04:05")
}

// A Stopped is a table whose changes capture does not pass on.
type Stopped struct {
	Table    tidemark.TableID `json:"table"`
	Reason   string           `json:"reason"`
	Hint     string           `json:"hint,omitempty"`
	Answered int64            `json:"answered,omitempty"` // number of the last request for it that was answered
}

// NewID makes one. 0 is none.
func NewID() uint32 { return 1 + rand.Uint32N(math.MaxUint32) }

// Differs reports whether the stream is from another source than one with this identity and default
// schema, which a server of MySQL has many of. What is not known does not differ.
func (d *Description) Differs(identity, schema string) bool {
	if engine.Of(d.Database.Engine).SchemasAreDatabases && d.Schema != "" && schema != "" && d.Schema != schema {
		return true
	}
	return identity != "" && d.Stream.Server != "" && identity != d.Stream.Server
}

// SamePlace reports whether two masked URLs name the same database at the same address: users and
// options do not say where it is.
func SamePlace(a, b string) bool {
	place := func(masked string) string {
		u, err := url.Parse(masked)
		if err != nil || u.Host == "" {
			return masked
		}
		return u.Scheme + "://" + u.Host + u.Path
	}
	return place(a) == place(b)
}

// Message gives a description as the changes of a transaction at a place.
func Message(place uint64, text []byte) []byte {
	m := change.LogicalMessage{Transactional: true, LSN: place, Prefix: change.TablesPrefix, Data: text}
	return change.Append(nil, m.Append(nil))
}

// Parse reads a description. Kind Corrupt: it is none.
func Parse(text []byte) (d Description, _ error) {
	err := json.Unmarshal(text, &d)
	if err == nil && d.Database == nil {
		err = errors.New("no database")
	}
	if err != nil {
		return d, &tidemark.Error{Op: "apply", Object: "the tables of the source", Kind: tidemark.Corrupt, Err: err, Hint: "Run capture and apply in the same version."}
	}
	return d, nil
}

// A Source is one that is known only by its description.
type Source struct {
	Text           []byte
	engine, schema string
}

// SourceOf gives the source of a description.
func SourceOf(text []byte) (Source, error) {
	d, err := Parse(text)
	if err != nil {
		return Source{}, err
	}
	return d.Source(text), nil
}

// Source gives the source of a description, of which text is the JSON.
func (d *Description) Source(text []byte) Source { return Source{text, d.Database.Engine, d.Schema} }

// Name is the engine, as that of an open database; Default is the schema of names without one.
func (s Source) Name() string    { return s.engine }
func (s Source) Default() string { return s.schema }

// Describe gives the described tables.
func (s Source) Describe(_ context.Context, want func(tidemark.TableID) bool) (*tidemark.Database, error) {
	var all Description
	if err := json.Unmarshal(s.Text, &all); err != nil {
		return nil, err
	}
	db := all.Database
	db.Tables = slices.DeleteFunc(db.Tables, func(t *tidemark.Table) bool { return !want(t.TableID) })
	return db, nil
}

// A Target is one that is known only by its URL.
type Target struct{ Engine, Schema string }

// Name and Default are as those of a Source.
func (t Target) Name() string    { return t.Engine }
func (t Target) Default() string { return t.Schema }
