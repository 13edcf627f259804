package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestStreamKafka has its queue in Kafka: first the process is killed repeatedly, and then Kafka
// is, while the process keeps running.
func TestStreamKafka(t *testing.T) {
	t.Parallel()
	b := testdb.Kafka(t)
	src, dst, name := pg15(t).NewDatabase(t, "src"), pg15(t).NewDatabase(t, "dst"), streamName()
	queue := fmt.Sprintf("kafka://%s:%s@%s:%d?sasl=scram-sha-256", b.User, b.Password, b.Host, b.SASLPort)
	args := []string{"replicate", src, dst, "--name", name, "--queue", queue}
	testdb.Load(t, src, strings.NewReader(ledger+"CREATE TABLE seen (id int PRIMARY KEY);"))
	must(t, append(args, "--until", "now")...)
	seed, stop := testdb.Seed(t), make(chan struct{})
	rnd := rand.New(rand.NewPCG(seed, 7))
	var wg sync.WaitGroup
	wg.Go(func() { trade(t, src, seed, stop) })
	for range 5 {
		f := running(t, args...)
		time.Sleep(time.Duration(200+rnd.IntN(1000)) * time.Millisecond)
		_ = f.Process.Kill()
		_ = f.Wait() // its state tells more
		if f.ProcessState.Exited() {
			t.Errorf("it ended by itself: exit %d\n%s", f.ProcessState.ExitCode(), &f.err)
		}
	}
	f := running(t, args...)
	f.follows(src, dst, "seen", 1)
	b.Kill(t)
	b.Restart(t)
	f.follows(src, dst, "seen", 2)
	_ = f.Process.Kill()
	_ = f.Wait() // it was killed
	close(stop)
	wg.Wait()
	equal(t, src, dst, name, "--queue", queue)

	state, err := os.ReadFile(statePath(t))
	if err != nil {
		t.Fatal(err)
	}
	if login := b.User + ":" + b.Password + "@" + b.Host; bytes.Contains(state, []byte(login)) || strings.Contains(f.err.String(), b.Password) {
		t.Error("the password of the queue was written down")
	}
	for _, want := range []bool{true, false} {
		c, err := kgo.NewClient(kgo.SeedBrokers(fmt.Sprintf("%s:%d", b.Host, b.Port))) // a new client, since it caches metadata
		if err != nil {
			t.Fatal(err)
		}
		topics, err := kadm.NewClient(c).ListTopics(t.Context())
		if c.Close(); err != nil || topics.Has("tidemark_"+name) != want {
			t.Errorf("topics %v, %v", topics.Names(), err)
		}
		if want {
			must(t, append(args, "--remove")...)
		}
	}
}
