package contact

import (
	"errors"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// A server that refuses answers; one that is busy may be silent for a while, and only then is away.
func TestContact(t *testing.T) {
	var c Contact
	now := time.Now()
	slow := &tidemark.Error{Kind: tidemark.Cancelled, Op: "ask", Err: errors.New("took too long")}
	for i, x := range []struct {
		after   time.Duration
		err     error
		changed bool
		away    bool
	}{
		{0, nil, false, false},
		{time.Second, &tidemark.Error{Kind: tidemark.Denied, Op: "ask", Err: errors.New("no")}, false, false},
		{2 * time.Second, slow, false, false},
		{2*time.Second + Silence, slow, true, true},
		{time.Minute, slow, false, true},
		{2 * time.Minute, nil, true, false},
		{3 * time.Minute, &tidemark.Error{Kind: tidemark.Unreachable, Op: "ask", Err: errors.New("gone")}, true, true},
	} {
		changed := c.Heard(now.Add(x.after), x.err)
		if _, since := c.Read(); changed != x.changed || since.IsZero() == x.away {
			t.Errorf("%d: changed %v, away since %v", i, changed, since)
		}
	}
}
