package flow

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
)

// A Group runs the workers of one job. The first error cancels the others. Workers may be added
// while it runs: by workers, or by the goroutine that will call Wait.
type Group struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup

	mu    sync.Mutex
	roles []groupRole
	err   error
}

type groupRole struct {
	name   string
	clocks []*Clock
}

// A PanicError is the error of a worker that panicked.
type PanicError struct {
	Role   string
	Worker int // its number within the role, from 0
	Value  any
	Stack  []byte // of the worker, as debug.Stack returns it
}

// Error returns one line, without the stack.
func (e *PanicError) Error() string {
	return fmt.Sprintf("%s %03d panicked: %v", e.Role, e.Worker, e.Value)
}

// Unwrap returns the panic's value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// NewGroup returns an empty group whose workers live at most as long as ctx.
func NewGroup(ctx context.Context) *Group {
	g := &Group{}
	g.ctx, g.cancel = context.WithCancelCause(ctx)
	return g
}

// Go starts a worker of a role with its own clock, which counts the round trips of its context.
// fn's error, or its panic as a *PanicError, becomes the group's error if it is the first one, and
// cancels ctx.
func (g *Group) Go(role string, fn func(ctx context.Context, c *Clock) error) {
	number, c := g.enlist(role)
	g.wg.Go(func() {
		err := errors.New("the worker ended its goroutine") // fn called runtime.Goexit
		defer func() {
			if v := recover(); v != nil {
				err = &PanicError{Role: role, Worker: number, Value: v, Stack: debug.Stack()}
			}
			c.Stop()
			g.fail(err)
		}()
		err = fn(c.Counting(g.ctx), c)
	})
}

func (g *Group) enlist(role string) (number int, c *Clock) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := 0
	for i < len(g.roles) && g.roles[i].name != role {
		i++
	}
	if i == len(g.roles) {
		g.roles = append(g.roles, groupRole{name: role})
	}
	r := &g.roles[i]
	c = NewClock()
	r.clocks = append(r.clocks, c)
	return len(r.clocks) - 1, c
}

func (g *Group) fail(err error) {
	if err == nil {
		return
	}
	g.mu.Lock()
	first := g.err == nil
	if first {
		g.err = err
	}
	g.mu.Unlock()
	if first {
		g.cancel(err)
	}
}

// Context returns the workers' context; it ends with the first error, or with Wait.
func (g *Group) Context() context.Context { return g.ctx }

// Wait waits until all workers have ended and returns the first error. It never returns earlier: a
// worker that ignores its context is visible in the Report.
func (g *Group) Wait() error {
	g.wg.Wait()
	g.cancel(nil)
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// States returns what each worker of a role is doing, by its number.
func (g *Group) States(role string) []State { return ofEach(g, role, (*Clock).State) }

// Threads returns on which thread of this process each worker of a role is pinned, by its number.
// It is 0 for one that is not.
func (g *Group) Threads(role string) []int {
	return ofEach(g, role, func(c *Clock) int { return int(c.thread.Load()) })
}

func ofEach[T any](g *Group, role string, get func(*Clock) T) []T {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range g.roles {
		if r.name == role {
			out := make([]T, len(r.clocks))
			for i, c := range r.clocks {
				out[i] = get(c)
			}
			return out
		}
	}
	return nil
}

// Report returns where the workers' time went until now. It may be called while they run.
func (g *Group) Report() Report {
	g.mu.Lock()
	defer g.mu.Unlock()
	var r Report
	for _, role := range g.roles {
		times := make([]Times, len(role.clocks))
		for i, c := range role.clocks {
			times[i] = c.Snapshot()
		}
		r.Roles = append(r.Roles, Role{Name: role.name, Workers: times})
	}
	return r
}
