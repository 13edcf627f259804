package queue

import (
	"context"
	"errors"

	"github.com/tidemarkdb/tidemark"
)

// A Store keeps messages under numbers that rise by one from 1. One Log writes to it, any number
// read it. Its methods may be called concurrently.
//
// Its errors are of type *tidemark.Error, except those below.
type Store interface {
	// Name returns the name of the queue for messages to people. It contains no secret.
	Name() string
	// Put stores messages under first and the numbers that follow, if first is after the last one.
	// It returns how many of them are stored durably: all, if there is no error. The others will
	// not be stored later. ErrFull and ErrFenced.
	Put(ctx context.Context, first uint64, messages [][]byte) (int, error)
	// Get returns a message, which must not be modified. ErrMissing.
	Get(ctx context.Context, seq uint64) ([]byte, error)
	// Wait returns the number of the last message: as soon as the one numbered seq exists, or after
	// a while, so that the caller can check other things.
	Wait(ctx context.Context, seq uint64) (last uint64, err error)
	// Purge removes all messages before the one numbered seq.
	Purge(ctx context.Context, seq uint64) error
	State(ctx context.Context) (State, error)
	// Ask leaves a text of up to 4,000 bytes beside the messages, replacing an earlier one; Asked
	// returns it, nil if there is none.
	Ask(ctx context.Context, text []byte) error
	Asked(ctx context.Context) ([]byte, error)
	Close() error
}

// State is what a Store holds.
type State struct {
	// First is the number of the first message, Last that of the last one ever put. There are none
	// if First > Last.
	First, Last uint64
	Bytes       int64
	Limit       int64 // bytes that it can hold
	Disk        int64 // and that it could hold with what is free on its disk; 0: not known
	MaxMessage  int   // size of the largest message that it accepts
}

// room is how many bytes it can hold now.
func (st *State) room() int64 {
	if st.narrow() {
		return st.Disk
	}
	return st.Limit
}

// narrow reports whether its disk has less room than its limit allows.
func (st *State) narrow() bool { return st.Disk != 0 && st.Disk < st.Limit }

// A NoRoom is the cause of a Store's error if its disk is full: with room on it, the same may
// succeed.
type NoRoom struct{ Err error }

func (e *NoRoom) Error() string { return e.Err.Error() }
func (e *NoRoom) Unwrap() error { return e.Err }

// WithoutRoom marks the error of a Store whose disk is full; it gives others as they are.
func WithoutRoom(err error) error {
	var e *tidemark.Error
	if !errors.As(err, &e) || e.Kind != tidemark.Full {
		return err
	}
	return &tidemark.Error{Op: e.Op, Object: e.Object, Kind: e.Kind, Hint: e.Hint, Err: &NoRoom{e.Err}}
}

// ErrOther means that a queue has messages of another stream than that of its Log. OtherHint says
// what to do.
var ErrOther = errors.New("it has messages of another stream; they were left alone")

const OtherHint = "If tidemark capture has begun its stream again (--anew), begin apply again with --anew, too. Otherwise give one of the two streams another --name, or another topic if its URL names one."

// Errors of a Store.
var (
	ErrFull    = errors.New("the queue is full")
	ErrFenced  = errors.New("another process writes to the queue")
	ErrMissing = errors.New("there is no such message")
)
