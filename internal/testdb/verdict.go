package testdb

import (
	"strings"
	"sync"
	"testing"
)

// Final is the line that a failed test ends with if what failed is a verdict on data: rows,
// definitions, exit codes, secrets. script/suite reads it, and does not run such a test a second
// time.
const Final = "verdict: data"

type judgement int

const (
	onData  judgement = iota + 1 // by what servers and programs said
	onClock                      // by a deadline, or by figures that a busy machine moves
)

var (
	judgedMu sync.Mutex
	judged   = map[string]judgement{}
)

// judges notes what tb is judged by; a clock counts more.
func judges(tb testing.TB, by judgement) {
	judgedMu.Lock()
	defer judgedMu.Unlock()
	name := tb.Name()
	was := judged[name]
	judged[name] = max(was, by)
	if was != 0 {
		return
	}
	tb.Cleanup(func() {
		judgedMu.Lock()
		defer judgedMu.Unlock()
		if tb.Failed() && judged[name] == onData {
			tb.Log(Final)
		}
		delete(judged, name)
	})
}

// OnData says that this test is judged by what servers and programs said, unless it is said to be
// judged by a clock too: if it fails, that is final. Whatever here reads rows, dumps databases or
// runs tidemark says it.
func OnData(tb testing.TB) { judges(tb, onData) }

// OnClock says that this test is judged by figures that depend on how busy the machine is: if it
// fails, script/suite runs it once more, alone.
func OnClock(tb testing.TB) { judges(tb, onClock) }

// FirstDifference returns the lines around the first that differs in two texts.
func FirstDifference(source, target string) string {
	x, y := strings.Split(source, "\n"), strings.Split(target, "\n")
	for i := range x {
		if i >= len(y) || x[i] != y[i] {
			from := max(0, i-5)
			return "source:\n" + strings.Join(x[from:min(len(x), i+6)], "\n") + "\ntarget:\n" + strings.Join(y[min(len(y), from):min(len(y), i+6)], "\n")
		}
	}
	return "target is longer:\n" + strings.Join(y[len(x):min(len(y), len(x)+10)], "\n")
}
