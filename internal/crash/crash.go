// Package crash runs the goroutines of the program that are no workers of a flow.Group, so that a panic in one of them
// does not end the process amid what the others do: it is told to who watches, which ends the command in order, and to
// who waits for the goroutine. Where nobody watches, as in tests of packages, a panic is one.
package crash

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// An Error is a panic in a goroutine.
type Error struct {
	Value any
	Stack []byte // of the goroutine, as debug.Stack gives it
}

// Error gives one line, without the stack.
func (e *Error) Error() string { return fmt.Sprintf("a worker panicked: %v", e.Value) }

// Unwrap gives the panic's value where that is an error.
func (e *Error) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

var watchers struct {
	sync.Mutex
	next int
	all  map[int]func(*Error)
}

// Watch has f called with each panic from now on, in the goroutine that panicked, until stop is called.
func Watch(f func(*Error)) (stop func()) {
	watchers.Lock()
	defer watchers.Unlock()
	if watchers.all == nil {
		watchers.all = map[int]func(*Error){}
	}
	watchers.next++
	n := watchers.next
	watchers.all[n] = f
	return func() {
		watchers.Lock()
		defer watchers.Unlock()
		delete(watchers.all, n)
	}
}

// tell tells all who watch. It reports whether there is anybody.
func tell(e *Error) bool {
	watchers.Lock()
	defer watchers.Unlock()
	for _, f := range watchers.all {
		f(e)
	}
	return len(watchers.all) > 0
}

// run runs f, and gives its panic.
func run(f func()) (e *Error) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		var is bool
		if e, is = v.(*Error); !is { // of a Group that f has waited for
			e = &Error{Value: v, Stack: debug.Stack()}
		}
		if !tell(e) {
			panic(v)
		}
	}()
	f()
	return nil
}

// Run runs f in this goroutine, and returns where it panics, too: for calls from a library that would make something
// else of a panic.
func Run(f func()) { run(f) }

// Go runs f in a goroutine. Who waits for what f does has to heed a context too: a panic ends f, and who watches
// ends the contexts.
func Go(f func()) { go run(f) }

// OnDone is context.AfterFunc.
func OnDone(ctx context.Context, f func()) (stop func() bool) {
	return context.AfterFunc(ctx, func() { run(f) })
}

// After is time.AfterFunc.
func After(d time.Duration, f func()) *time.Timer {
	return time.AfterFunc(d, func() { run(f) })
}

// A Group is a sync.WaitGroup whose Wait panics with the Error of the first goroutine that did: who waits must not
// take what they have done for whole.
type Group struct {
	sync.WaitGroup
	first atomic.Pointer[Error]
}

// Go runs f in a goroutine of the group.
func (g *Group) Go(f func()) {
	g.WaitGroup.Go(func() {
		if e := run(f); e != nil {
			g.first.CompareAndSwap(nil, e)
		}
	})
}

// Wait waits for the goroutines.
func (g *Group) Wait() {
	g.WaitGroup.Wait()
	if e := g.first.Load(); e != nil {
		panic(e)
	}
}
