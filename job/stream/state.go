package stream

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/tidemarkdb/tidemark"
)

// A state is what a stream is at in this process. Each is a step that ends with an event, but for the final ones.
type state int

const (
	looking      state = iota // what the catalogue has of the stream is read
	beginning                 // the source is made to keep its log, and rows are copied
	resuming                  // the copy before the stream is resumed
	catchingUp                // for that, changes are applied to the tables that are whole, up to a new view of the source
	catchingAway              // a pause of that, since an end is away
	entering                  // the run is entered in the catalogue
	flowing                   // changes are captured and applied: a session
	flowingAway               // a pause before the next session, since an end is away
	held                      // a session that captures alone, since the queue is stopped
	heldAway                  // a pause before the next one of these
	changing                  // options that were set are taken over
	advancing                 // the target's sequences are set to where the source's are

	caughtUp // final, of catchingUp
	paused   // final: it was to stop after the copy
	ended    // final: it has come to where it was to end
	failed   // final, also where the user has stopped it
)

var stateNames = [...]string{"looking", "beginning", "resuming", "catching up", "catching up (away)", "entering", "flowing", "flowing (away)", "held", "held (away)",
	"changing", "advancing", "caught up", "paused", "ended", "failed"}

func (s state) String() string { return stateNames[s] }

func (s state) final() bool { return s >= caughtUp }

// An event is how a state ends.
type event int

const (
	failure       event = iota // an error that does not pass, or the user
	isNew                      // the catalogue does not have the stream
	isCopying                  // its copy was not finished
	isFollowing                // its copy was finished
	whole                      // all that comes before the stream is on the target
	wholeAndPause              // and it is to stop there
	entered                    // the run is in the catalogue
	anew                       // the stream's tables have changed, or a missing end is back: a new session has to begin
	retryQueue                 // the queue was stopped for long enough
	optionsSet                 // a command has set options
	optionsTaken               // they are those of the stream now
	queueStopped               // by --conflict stop-queue
	away                       // an error that may pass
	rested                     // the pause is over
	reached                    // the target has all up to where the stream was to go
	advanced                   // sequences are set
)

var eventNames = [...]string{"failure", "is new", "is copying", "is following", "whole", "whole, and pause", "entered", "anew", "retry the queue", "options set", "options taken", "queue stopped",
	"away", "rested", "reached", "advanced"}

func (e event) String() string { return eventNames[e] }

// An outcome is an event, with its error where it has one: failure, away and queueStopped.
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

// A transition is where an event leads, and what is done on the way; nil: nothing.
type transition struct {
	to state
	do func(*life, outcome)
}

// transitions is all that can become of a stream. What is not here cannot happen.
var transitions = map[state]map[event]transition{
	looking: {
		isNew:       {to: beginning},
		isCopying:   {to: resuming},
		isFollowing: {to: entering},
		failure:     {to: failed},
	},
	beginning: {
		whole:         {to: entering},
		wholeAndPause: {to: paused, do: (*life).pauseHere},
		failure:       {to: failed},
	},
	resuming: {
		whole:         {to: entering},
		wholeAndPause: {to: paused, do: (*life).pauseHere},
		failure:       {to: failed},
	},
	catchingUp: {
		reached: {to: caughtUp},
		anew:    {to: catchingUp},
		away:    {to: catchingAway, do: (*life).tellAway},
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
		queueStopped: {to: held, do: (*life).hold},
		away:         {to: flowingAway, do: (*life).tellAway},
		failure:      {to: failed},
	},
	flowingAway: {
		rested:  {to: flowing},
		failure: {to: failed},
	},
	held: {
		anew:         {to: flowing, do: (*life).release},
		retryQueue:   {to: flowing, do: (*life).release},
		optionsSet:   {to: changing},
		queueStopped: {to: held, do: (*life).hold},
		away:         {to: heldAway, do: (*life).tellAway},
		failure:      {to: failed},
	},
	heldAway: {
		rested:  {to: held},
		failure: {to: failed},
	},
	changing: {
		optionsTaken: {to: flowing, do: (*life).release},
		failure:      {to: failed},
	},
	advancing: {
		advanced: {to: ended},
		failure:  {to: failed},
	},
}

// run goes from state to state until a final one, and gives that with the error of the last event.
func (l *life) run(ctx context.Context, s state, step func(context.Context, state) outcome) (state, error) {
	for {
		o := step(ctx, s)
		t, ok := transitions[s][o.event]
		if !ok {
			return failed, &tidemark.Error{Op: "replicate", Object: l.spec.Name, Kind: tidemark.Bug, Err: fmt.Errorf("%v while %v", o.event, s)}
		}
		if t.do != nil {
			t.do(l, o)
		}
		if s = t.to; s.final() {
			return s, o.err
		}
	}
}

// errOver is what callbacks of a session give once it is over, so that whoever called them stops there. How it ended is noted
// in its ending, and nobody asks the error for it.
var errOver = errors.New("the session is over")

// An ending is how a session ends: as whoever comes first says. Its methods may be called from any goroutine.
type ending struct {
	ctx    context.Context // the session's, and what ends it
	cancel context.CancelFunc

	mu    sync.Mutex
	noted bool
	how   outcome
}

// under gives a session's context, under that of its process.
func (e *ending) under(ctx context.Context) context.Context {
	e.ctx, e.cancel = context.WithCancel(ctx)
	return e.ctx
}

// with notes how the session ends, and ends it. Nothing is noted of one whose process ends.
func (e *ending) with(how outcome) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.noted && e.ctx.Err() == nil {
		e.noted, e.how = true, how
		e.cancel()
	}
	return errOver
}

// read gives how the session ended; with err, if nobody has noted anything else.
func (e *ending) read(err error) outcome {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.noted {
		return e.how
	}
	return outcome{failure, err}
}
