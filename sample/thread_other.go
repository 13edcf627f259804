//go:build !linux

package sample

import (
	"time"

	"github.com/tidemarkdb/tidemark"
)

type thread struct {
	state byte
	call  string
	kind  tidemark.WaitKind
}

// threadOf knows no threads of servers on this system.
func threadOf(int, time.Time) (t thread, ok bool) { return t, false }

// ownThread knows none of our own either.
func ownThread(int, time.Time) (t thread, ok bool) { return t, false }

// callBelow knows no calls.
func callBelow(string) tidemark.WaitKind { return "" }

func (thread) refine(w tidemark.Wait, _ thread) map[named]float64 {
	return map[named]float64{{w.Kind, w.Event}: 1}
}
