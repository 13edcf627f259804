package load

import (
	"errors"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// TestAfterWaitsAndDoesNotNeed: what comes After another object waits for its
// end, and is made although the other one failed; what Depends on it is not.
func TestAfterWaitsAndDoesNotNeed(t *testing.T) {
	b := newBoard(&Plan{Owner: map[string]int{}}, nil, []tidemark.Object{
		{ID: "index a", Phase: tidemark.AfterTable}, {ID: "key", Phase: tidemark.AfterTable, After: []string{"index a", "unknown"}},
		{ID: "needs a", Phase: tidemark.AfterTable, Depends: []string{"index a"}}}, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.ready()
	if a == nil || a.ID != "index a" {
		t.Fatalf("first comes %v", a)
	}
	a.state = running
	if w := b.ready(); w != nil {
		t.Fatalf("%s does not wait", w.ID)
	}
	b.mu.Unlock()
	b.objectDone(a, errors.New("no room"), time.Second)
	b.mu.Lock()
	if w := b.ready(); w == nil || w.ID != "key" {
		t.Fatalf("then comes %v", w)
	}
	if b.byID["needs a"].state != broken {
		t.Fatal("what needs a failed object is still wanted")
	}
}
