// Package crash runs the program's goroutines outside a flow.Group, so that a panic in one of them
// does not end the process in the middle of the others' work. The panic goes to the watcher, which
// ends the command in an orderly way, and to the goroutine's waiter. Without a watcher, as in
// package tests, it stays a panic.
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
	Stack []byte // of the goroutine, as returned by debug.Stack
}

// Error returns one line, without the stack.
func (e *Error) Error() string { return fmt.Sprintf("a worker panicked: %v", e.Value) }

// Unwrap returns the panic's value if that is an error.
func (e *Error) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

var watchers struct {
	sync.Mutex
	next int
	all  map[int]func(*Error)
}

// Watch calls f with each panic from now on, in the goroutine that panicked, until stop is called.
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

// notify notifies all watchers, and reports whether there are any.
func notify(e *Error) bool {
	watchers.Lock()
	defer watchers.Unlock()
	for _, f := range watchers.all {
		f(e)
	}
	return len(watchers.all) > 0
}

// run runs f, and returns its panic.
func run(f func()) (e *Error) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		var is bool
		if e, is = v.(*Error); !is { // re-raised by a Group that f has waited for
			e = &Error{Value: v, Stack: debug.Stack()}
		}
		if !notify(e) {
			panic(v)
		}
	}()
	f()
	return nil
}

// Run runs f in this goroutine, and returns even if f panics: for callbacks from a library that
// would handle a panic in its own way.
func Run(f func()) { run(f) }

// Go runs f in a goroutine. Code that waits for f must also watch a context: a panic ends f, and
// the watcher cancels the contexts.
func Go(f func()) { go run(f) }

// Beside runs f in a goroutine until stop is called, which ends f's context and waits for f.
func Beside(ctx context.Context, f func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var g Group
	g.Go(func() { f(ctx) })
	return func() {
		cancel()
		g.Wait()
	}
}

// OnDone is context.AfterFunc.
func OnDone(ctx context.Context, f func()) (stop func() bool) {
	return context.AfterFunc(ctx, func() { run(f) })
}

// After is time.AfterFunc.
func After(d time.Duration, f func()) *time.Timer {
	return time.AfterFunc(d, func() { run(f) })
}

// A Group is a sync.WaitGroup whose Wait panics with the Error of the first goroutine that did:
// waiters must not take unfinished work for complete.
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
