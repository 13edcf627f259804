package long

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestByName(t *testing.T) {
	got := ByName([]Test{{"b", "TestX", 4}, {"a", "TestX", 50}, {"a", "TestA", 7}})
	if diff := cmp.Diff([]Test{{"", "TestA", 7}, {"", "TestX", 54}}, got); diff != "" {
		t.Error(diff)
	}
}
