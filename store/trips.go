package store

import (
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/roundtrip"
)

// trips sends requests to a cloud, and counts the round trips for the workers whose context they
// have. The shortest time from the end of a request to the beginning of its answer is the distance,
// with the least work that the server has; what is beyond it is the server's work, or the data.
type trips struct {
	way      http.RoundTripper
	distance roundtrip.Distance
}

func (t *trips) RoundTrip(req *http.Request) (*http.Response, error) {
	var asked, took atomic.Int64
	start := time.Now()
	ctx := httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		WroteRequest:         func(httptrace.WroteRequestInfo) { asked.Store(int64(time.Since(start))) },
		GotFirstResponseByte: func() { took.Store(int64(time.Since(start))) },
	})
	res, err := t.way.RoundTrip(req.WithContext(ctx))
	// A server may answer before it has read all.
	if turn := time.Duration(took.Load() - asked.Load()); err == nil && asked.Load() > 0 && turn > 0 {
		t.distance.Note(turn)
		if count := flow.TripsOf(req.Context()); count != nil {
			count.Add(min(turn, t.distance.RoundTrip()))
		}
	}
	return res, err
}
