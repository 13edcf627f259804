// Package contact knows whether a server of a stream answers.
package contact

import (
	"errors"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// Silence is how long a server may not answer before it counts as unavailable.
const Silence = 20 * time.Second

// A Contact records when a server answered last, and since when it has not. Its methods may be
// called from any goroutine.
type Contact struct {
	mu    sync.Mutex
	good  time.Time
	since time.Time // zero: it answers
	needs string    // what has to be done before it can be used again; "": nothing is known
}

// Heard records an answer, or the lack of one. An answer may be a refusal. It reports whether the
// state has changed.
func (c *Contact) Heard(now time.Time, err error) (changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	had := c.needs
	if c.needs = ""; errors.As(err, new(Handed)) {
		c.needs = err.Error()
	}
	switch {
	case err == nil || !Silent(err) && tidemark.KindOf(err) != tidemark.Cancelled:
		changed = !c.since.IsZero()
		c.good, c.since = now, time.Time{}
	case !c.since.IsZero():
		changed = c.needs != "" && c.needs != had
	case Silent(err) || now.Sub(c.good) > Silence: // a server that is busy may answer the next question
		c.since, changed = now, !c.good.IsZero()
	}
	return changed
}

// Read gives when it answered last, and since when it has not; zero: it answers.
func (c *Contact) Read() (good, since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.good, c.since
}

// Needed tells what has to be done before the server can be used again, after a colon; "": nothing
// is known.
func (c *Contact) Needed() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.needs == "" {
		return ""
	}
	return ": " + c.needs
}

// A Handed error is one that waiting alone does not resolve.
type Handed interface {
	error
	NeedsHand()
}

// Silent reports whether an error means that no server answers.
func Silent(err error) bool {
	kind := tidemark.KindOf(err)
	return kind == tidemark.Unreachable || kind == tidemark.Transient || kind == tidemark.Lost
}
