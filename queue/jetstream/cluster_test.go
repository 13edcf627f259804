package jetstream

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/queue"
)

// A cluster of three loses its leader in the middle of transactions: everything is there, once, and
// readers continue.
func TestCluster(t *testing.T) {
	servers := map[string]*server.Server{}
	var urls []string
	var ports []int
	var routes []*url.URL // each must know the others when it starts
	for range 3 {
		l, err := testdb.Listen()
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
		routes = append(routes, &url.URL{Scheme: "nats", Host: l.Addr().String()})
		l.Close()
	}
	for i, port := range ports {
		s := startServer(t, &server.Options{ServerName: fmt.Sprintf("n%d", i), Routes: routes,
			Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: port}})
		servers[s.Name()] = s
		urls = append(urls, "nats://"+s.Addr().String())
	}
	opt := Options{Queue: "q", URL: strings.Join(urls, ","), Replicas: 3}
	var s *Store
	for deadline := time.Now().Add(5 * time.Minute); s == nil; time.Sleep(100 * time.Millisecond) {
		var err error
		if s, err = Open(t.Context(), opt); err != nil && time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	defer s.Close()
	l := openLog(t, s, queue.Options{})
	if _, _, err := l.Begin(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	far := openLog(t, open(t, opt), queue.Options{})
	go func() {
		_, err := readPlaces(far, t.Context(), 0, 200, 20_000)
		done <- err
	}()
	for place := uint64(1); place <= 200; place++ {
		if place == 100 {
			in, err := s.stream.Info(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			leader := servers[in.Cluster.Leader]
			if leader == nil {
				t.Fatalf("there is no server %q", in.Cluster.Leader)
			}
			go leader.Shutdown()
		}
		appendPlaces(t, l, place, place, 20_000)
	}
	if err := testdb.From(t, "the reader's end", done); err != nil {
		t.Logf("the reader received: %v", err) // and its caller reads again
	}
	if _, err := readPlaces(far, t.Context(), 0, 200, 20_000); err != nil {
		t.Fatal(err)
	}
	if err := l.Trim(t.Context(), 150); err != nil {
		t.Fatal(err)
	}
	if place, _, err := l.Begin(t.Context(), 1); err != nil || place != 200 {
		t.Fatal(place, err)
	}
}
