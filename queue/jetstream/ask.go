package jetstream

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"
)

// asks is the stream that holds the last request: one message. It is created at the first request.
func (s *Store) asks() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: "TIDEMARK-ASKED_" + s.opt.Queue, Subjects: []string{"tidemark.asked." + s.opt.Queue}, Description: "requests to the writer of a tidemark queue",
		Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardOld, Storage: jetstream.FileStorage, MaxMsgs: 1, Replicas: max(1, s.opt.Replicas),
	}
}

// Ask implements queue.Store, as does Asked.
func (s *Store) Ask(ctx context.Context, text []byte) error {
	asked, cancel := context.WithTimeout(ctx, s.pace.answer)
	defer cancel()
	want := s.asks()
	_, err := s.js.Stream(asked, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		_, err = s.js.CreateStream(asked, want)
	}
	if err == nil {
		_, err = s.js.Publish(asked, want.Subjects[0], text)
	}
	return s.fail(ctx, "ask through", err)
}

func (s *Store) Asked(ctx context.Context) ([]byte, error) {
	asked, cancel := context.WithTimeout(ctx, s.pace.answer)
	defer cancel()
	want := s.asks()
	stream, err := s.js.Stream(asked, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, s.fail(ctx, "look at", err)
	}
	m, err := stream.GetLastMsgForSubject(asked, want.Subjects[0])
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, s.fail(ctx, "look at", err)
	}
	return m.Data, nil
}
