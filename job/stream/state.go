package stream

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/tidemarkdb/tidemark"
)

// A state of a stream in this process. Each is a step that ends with an event, except the final
// ones.
type state int

const (
	looking      state = iota // reads the catalogue's record of the stream
	beginning                 // makes the source keep its log, and copies rows
	resuming                  // resumes the copy before the stream
	catchingUp                // for that, applies changes to the complete tables, up to a new snapshot of the source
	catchingAway              // a pause of that, while a server is unavailable
	entering                  // enters the run in the catalogue
	flowing                   // captures and applies changes: a session
	flowingAway               // a pause before the next session, while a server is unavailable
	held                      // a session that captures only, while the queue is stopped
	heldAway                  // a pause before the next one of these
	changing                  // takes over options that were set
	advancing                 // sets the target's sequences to the source's values

	caughtUp // final, of catchingUp
	paused   // final: it was to stop after the copy
	ended    // final: it has reached its end
	failed   // final, also after the user has stopped it
)

var stateNames = [...]string{"looking", "beginning", "resuming", "catching up", "catching up (away)", "entering", "flowing", "flowing (away)", "held", "held (away)",
	"changing", "advancing", "caught up", "paused", "ended", "failed"}

func (s state) String() string { return stateNames[s] }

func (s state) final() bool { return s >= caughtUp }

// An event is how a state ends.
type event int

const (
	failure       event = iota // a permanent error, or the user
	isNew                      // the catalogue does not have the stream
	isCopying                  // its copy is unfinished
	isFollowing                // its copy is finished
	whole                      // everything before the stream is on the target
	wholeAndPause              // and it is to stop there
	entered                    // the run is in the catalogue
	anew                       // the stream's tables have changed, or a missing server is back: a new session has to begin
	retryQueue                 // the queue was stopped for long enough
	optionsSet                 // a command has set options
	optionsTaken               // the stream has taken them over
	queueStopped               // by --conflict stop-queue
	away                       // an error that may be temporary
	rested                     // the pause is over
	reached                    // the target has everything up to the stream's end
	advanced                   // sequences are set
)

var eventNames = [...]string{"failure", "is new", "is copying", "is following", "whole", "whole, and pause", "entered", "anew", "retry the queue", "options set", "options taken", "queue stopped",
	"away", "rested", "reached", "advanced"}

func (e event) String() string { return eventNames[e] }

// An outcome is an event, with its error for failure, away and queueStopped.
type outcome struct {
	event event
	err   error
}

// done is a step's outcome: event if there is no error.
func done(e event, err error) outcome {
	if err != nil {
		return outcome{failure, err}
	}
	return outcome{event: e}
}

// A transition is the state to which an event leads, and the action on the way; nil: none.
type transition struct {
	to state
	do func(*process, outcome)
}

// transitions are all possible ones. What is not here cannot happen.
var transitions = map[state]map[event]transition{
	looking: {
		isNew:       {to: beginning},
		isCopying:   {to: resuming},
		isFollowing: {to: entering},
		failure:     {to: failed},
	},
	beginning: {
		whole:         {to: entering},
		wholeAndPause: {to: paused, do: (*process).pauseHere},
		failure:       {to: failed},
	},
	resuming: {
		whole:         {to: entering},
		wholeAndPause: {to: paused, do: (*process).pauseHere},
		failure:       {to: failed},
	},
	catchingUp: {
		reached: {to: caughtUp},
		anew:    {to: catchingUp},
		away:    {to: catchingAway, do: (*process).announceAway},
		failure: {to: failed},
	},
	catchingAway: {
		rested:  {to: catchingUp},
		failure: {to: failed},
	},
	entering: {
		entered: {to: flowing},
		failure: {to: failed},
	},
	flowing: {
		reached:      {to: advancing},
		anew:         {to: flowing},
		optionsSet:   {to: changing},
		queueStopped: {to: held, do: (*process).hold},
		away:         {to: flowingAway, do: (*process).announceAway},
		failure:      {to: failed},
	},
	flowingAway: {
		rested:  {to: flowing},
		failure: {to: failed},
	},
	held: {
		anew:         {to: flowing, do: (*process).release},
		retryQueue:   {to: flowing, do: (*process).release},
		optionsSet:   {to: changing},
		queueStopped: {to: held, do: (*process).hold},
		away:         {to: heldAway, do: (*process).announceAway},
		failure:      {to: failed},
	},
	heldAway: {
		rested:  {to: held},
		failure: {to: failed},
	},
	changing: {
		optionsTaken: {to: flowing, do: (*process).release},
		failure:      {to: failed},
	},
	advancing: {
		advanced: {to: ended},
		failure:  {to: failed},
	},
}

// run moves from state to state until a final one, and gives that with the error of the last event.
func (p *process) run(ctx context.Context, s state, step func(context.Context, state) outcome) (state, error) {
	for {
		o := step(ctx, s)
		t, ok := transitions[s][o.event]
		if !ok {
			return failed, &tidemark.Error{Op: "replicate", Object: p.spec.Name, Kind: tidemark.Bug, Err: fmt.Errorf("%v while %v", o.event, s)}
		}
		if t.do != nil {
			t.do(p, o)
		}
		if s = t.to; s.final() {
			return s, o.err
		}
	}
}

// errOver is what callbacks of a session give once it is over, so that their callers stop there.
// How the session ended is in its ending, not in this error.
var errOver = errors.New("the session is over")

// An ending is how a session ends: the first to end it decides. Its methods may be called from any
// goroutine.
type ending struct {
	ctx    context.Context // the session's, and what ends it
	cancel context.CancelFunc

	mu    sync.Mutex
	noted bool
	how   outcome
}

// under gives a session's context, derived from that of its process.
func (e *ending) under(ctx context.Context) context.Context {
	e.ctx, e.cancel = context.WithCancel(ctx)
	return e.ctx
}

// with records how the session ends, and ends it. Nothing is recorded if the process is ending.
func (e *ending) with(how outcome) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.noted && e.ctx.Err() == nil {
		e.noted, e.how = true, how
		e.cancel()
	}
	return errOver
}

// read gives how the session ended; with err, if nothing else was recorded.
func (e *ending) read(err error) outcome {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.noted {
		return e.how
	}
	return outcome{failure, err}
}
