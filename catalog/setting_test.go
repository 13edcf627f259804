package catalog

import (
	"maps"
	"testing"
	"time"
)

// A setting applies whatever the clock says, until the next process starts.
func TestSettingsWithoutAClock(t *testing.T) {
	c := fresh(t)
	now := time.Now()
	must(t, c.PutStream(t.Context(), Stream{Name: "shop", State: "following"}))
	for _, at := range []time.Time{now, now.Add(-time.Hour), now.Add(time.Hour)} {
		want := map[string]string{"agents": at.String()}
		if err := c.PutSettings(t.Context(), "shop", at, want); err != nil {
			t.Fatal(err)
		}
		if got, err := c.Settings(t.Context(), "shop"); err != nil || !maps.Equal(got, want) {
			t.Errorf("got %v, %v", got, err)
		}
	}
	if err := c.DropSettings(t.Context(), "shop"); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Settings(t.Context(), "shop"); err != nil || len(got) != 0 {
		t.Errorf("got %v, %v", got, err)
	}
}
