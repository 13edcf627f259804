package queue

import (
	"context"
	"sync"
)

// Memory is a Store that ends with its process. It is for captures whose source keeps its log until
// the target has applied it.
type Memory struct {
	limit int64

	mu      sync.Mutex
	first   uint64 // number of messages[0]
	held    [][]byte
	bytes   int64
	changed chan struct{} // closed when something was put
	asked   []byte
}

// NewMemory creates a Store with a limit in bytes.
func NewMemory(limit int64) *Memory {
	return &Memory{limit: limit, first: 1, changed: make(chan struct{})}
}

// Name implements Store, as do all its methods.
func (s *Memory) Name() string { return "queue in memory" }

func (s *Memory) Put(ctx context.Context, first uint64, messages [][]byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first != s.first+uint64(len(s.held)) {
		return 0, ErrFenced
	}
	for i, b := range messages {
		if s.bytes+int64(len(b)) > s.limit {
			return i, ErrFull
		}
		s.held = append(s.held, b)
		s.bytes += int64(len(b))
		close(s.changed)
		s.changed = make(chan struct{})
	}
	return len(messages), nil
}

func (s *Memory) Get(ctx context.Context, seq uint64) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seq < s.first || seq >= s.first+uint64(len(s.held)) {
		return nil, ErrMissing
	}
	return s.held[seq-s.first], nil
}

func (s *Memory) Wait(ctx context.Context, seq uint64) (uint64, error) {
	for {
		s.mu.Lock()
		last, changed := s.first+uint64(len(s.held))-1, s.changed
		s.mu.Unlock()
		if last >= seq {
			return last, nil
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-changed:
		}
	}
}

func (s *Memory) Purge(ctx context.Context, seq uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.first < seq && len(s.held) > 0 {
		s.bytes -= int64(len(s.held[0]))
		s.held[0] = nil
		s.held = s.held[1:]
		s.first++
	}
	return nil
}

func (s *Memory) State(ctx context.Context) (State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return State{First: s.first, Last: s.first + uint64(len(s.held)) - 1, Bytes: s.bytes, Limit: s.limit, MaxMessage: maxMessage}, nil
}

func (s *Memory) Ask(ctx context.Context, text []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = text
	return nil
}

func (s *Memory) Asked(ctx context.Context) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked, nil
}

// Close keeps the content: another Log may continue with it.
func (s *Memory) Close() error { return nil }
