package load

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
)

// TestAfterWaitsAndDoesNotNeed: an object that comes After another waits for its end, and is
// created even if the other failed; an object that Depends on it is not.
func TestAfterWaitsAndDoesNotNeed(t *testing.T) {
	b := newBoard(&Plan{Owner: map[string]int{}}, nil, refs([]tidemark.Object{
		{ID: "index a", Phase: tidemark.AfterTable}, {ID: "key", Phase: tidemark.AfterTable, After: []string{"index a", "unknown"}},
		{ID: "needs a", Phase: tidemark.AfterTable, Depends: []string{"index a"}}}), 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	some := b.ready(false, 9)
	if len(some) != 1 || some[0].ID != "index a" {
		t.Fatalf("first come %v", some)
	}
	some[0].state = running
	if w := b.ready(false, 9); w != nil {
		t.Fatalf("%s does not wait", w[0].ID)
	}
	b.mu.Unlock()
	b.objectDone(some[0], errors.New("no room"), time.Second)
	b.mu.Lock()
	if w := b.ready(false, 9); len(w) != 1 || w[0].ID != "key" {
		t.Fatalf("then comes %v", w)
	}
	if b.byID["needs a"].state != broken {
		t.Fatal("what needs a failed object is still wanted")
	}
}

// Of objects that wait for each other, which no plan should have, one fails, and what needs it; the
// run ends.
func TestObjectsThatWaitForEachOther(t *testing.T) {
	b := newBoard(&Plan{Owner: map[string]int{}}, nil, refs([]tidemark.Object{{ID: "a", Phase: tidemark.AfterTable, After: []string{"b"}}, {ID: "b", Phase: tidemark.AfterTable, After: []string{"c"}},
		{ID: "c", Phase: tidemark.AfterRows, Depends: []string{"a"}}, {ID: "d", Phase: tidemark.AfterTable}}), 1)
	var made []string
	for {
		some, _, err := b.nextObjects(t.Context(), &flow.Clock{}, false, false, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(some) == 0 {
			break
		}
		for _, w := range some {
			made = append(made, w.ID)
			b.objectDone(w, nil, 0)
		}
	}
	if !slices.Equal(made, []string{"d", "b"}) || b.progress.failed != 2 {
		t.Errorf("%q were made, and %d failed", made, b.progress.failed)
	}
}
