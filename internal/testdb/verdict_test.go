package testdb_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// A verdict records what a test would log as it ends.
type verdict struct {
	testing.TB
	failed   bool
	cleanups []func()
	said     []string
}

func (v *verdict) Name() string     { return v.TB.Name() + "/" + fmt.Sprintf("%p", v) }
func (v *verdict) Failed() bool     { return v.failed }
func (v *verdict) Cleanup(f func()) { v.cleanups = append(v.cleanups, f) }
func (v *verdict) Log(args ...any)  { v.said = append(v.said, fmt.Sprint(args...)) }

// TestVerdictOnData: a test that has read what a server says, and fails, says that this is final,
// unless a clock has a say in it.
func TestVerdictOnData(t *testing.T) {
	for _, c := range []struct {
		failed bool
		judges []func(testing.TB)
		final  bool
	}{
		{true, nil, false},
		{false, []func(testing.TB){testdb.OnData}, false},
		{true, []func(testing.TB){testdb.OnData, testdb.OnData}, true},
		{true, []func(testing.TB){testdb.OnData, testdb.OnClock}, false},
		{true, []func(testing.TB){testdb.OnClock, testdb.OnData}, false},
	} {
		v := &verdict{TB: t, failed: c.failed}
		for _, judge := range c.judges {
			judge(v)
		}
		for _, f := range v.cleanups {
			f()
		}
		if got := slices.Contains(v.said, testdb.Final); got != c.final {
			t.Errorf("%+v: final %v", c, got)
		}
	}
}
