package kafka

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

func TestAddress(t *testing.T) {
	for url, want := range map[string]*address{
		"kafka://a":                   {brokers: []string{"a:9092"}},
		"kafka://a:1,b,[::1]:3/t.x-1": {brokers: []string{"a:1", "b:9092", "[::1]:3"}, topic: "t.x-1"},
		"kafka://[::1]":               {brokers: []string{"[::1]:9092"}},
		"kafka://u:p%40%2F:x@a:1?sasl=SCRAM-SHA-512":      {brokers: []string{"a:1"}, user: "u", password: "p@/:x", sasl: "scram-sha-512"},
		"kafka+tls://u:p@a:1/t?ca=/x/ca.pem&cert=c&key=k": {brokers: []string{"a:1"}, topic: "t", user: "u", password: "p", tls: true, ca: "/x/ca.pem", cert: "c", key: "k"},
	} {
		got, err := parse(url)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(address{})); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", url, err, diff)
		}
	}
	for url, want := range map[string]string{
		"http://a":                "it does not begin with",
		"kafka://":                "it has no hosts",
		"kafka://a:x":             "it has no hosts",
		"kafka://a,,b":            "it has no hosts",
		"kafka://u:s3/cret@a":     "not a topic name",
		"kafka://s3cret@a":        "user:password",
		"kafka://u:s3cret%zz@a":   "user:password",
		"kafka://a/b/c":           "not a topic name",
		"kafka://a/..":            "not a topic name",
		"kafka://a?x=s3cret":      "it takes sasl, ca, cert and key",
		"kafka://a?sasl=s3cret":   "sasl is plain",
		"kafka://a?sasl=plain":    "sasl needs a user",
		"kafka://a?ca=f":          "kafka+tls",
		"kafka+tls://a?cert=f":    "come together",
		"kafka://a?sasl=%zs3cret": "name=value",
	} {
		err := Check(url)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// Clients with the right login get in, and others get the reason, without a secret.
func TestLogin(t *testing.T) {
	b := testdb.Kafka(t)
	login := fmt.Sprintf("kafka://%s:%s@%s:%d", b.User, b.Password, b.Host, b.SASLPort)
	secure := fmt.Sprintf("kafka+tls://%s:%s@%s:%d/login?sasl=scram-sha-256", b.User, b.Password, b.Host, b.TLSPort)
	files := "&ca=" + b.CA + "&cert=" + b.Cert + "&key=" + b.Key
	for i, url := range []string{login, login + "/login?sasl=plain", login + "/login?sasl=scram-sha-256", login + "/login?sasl=scram-sha-512", secure + files} {
		s := open(t, Options{Queue: "login", URL: url})
		if _, err := s.Put(t.Context(), uint64(max(i, 1)), [][]byte{[]byte("x")}); err != nil {
			t.Errorf("%s: %v", url, err)
		}
		if strings.Contains(s.Name(), b.Password) {
			t.Errorf("its name is %s", s.Name())
		}
	}
	for url, want := range map[string]tidemark.Kind{
		strings.Replace(login, b.Password, "wr0ng", 1):                         tidemark.Denied,
		strings.Replace(login, b.Password, "wr0ng", 1) + "?sasl=scram-sha-256": tidemark.Denied,
		fmt.Sprintf("kafka://%s:%d", b.Host, b.SASLPort):                       tidemark.Unreachable,
		secure:                        tidemark.Unreachable, // it does not know the CA of the server's certificate
		secure + "&ca=" + b.CA:        tidemark.Unreachable,
		secure + "&ca=" + b.Key:       tidemark.Invalid,
		secure + "&ca=/there/is/none": tidemark.Invalid,
		strings.Replace(secure, "kafka+tls", "kafka", 1): tidemark.Unreachable,
		"kafka://u:wr0ng@127.0.0.1:1":                    tidemark.Unreachable,
		"kafka://u:wr0ng@127.0.0.1:x":                    tidemark.Invalid,
	} {
		_, err := Open(t.Context(), Options{Queue: "login", URL: url})
		if tidemark.KindOf(err) != want || err == nil || strings.Contains(err.Error()+tidemark.HintOf(err), "wr0ng") || strings.Contains(err.Error(), b.Password) {
			t.Errorf("%s: %v (%v)", url, err, tidemark.KindOf(err))
		}
	}
}

// A topic that would expire messages before they are applied is rejected.
func TestSettingsOfTopics(t *testing.T) {
	url := urlOf(testdb.Kafka(t))
	s := open(t, Options{Queue: "settings", URL: url})
	for name, c := range map[string]struct {
		partitions int32
		key, value string
		want       string
	}{
		"partitions": {2, "retention.ms", "-1", "topic partitions has 2 partitions"},
		"time":       {1, "retention.ms", "604800000", "topic time has retention.ms = 604800000, and would forget what was not applied"},
		"size":       {1, "retention.bytes", "1000000", "topic size has retention.bytes = 1000000, and would forget"},
		"compacted":  {1, "cleanup.policy", "compact", "topic compacted has cleanup.policy = compact, and would forget"},
		"tiny":       {1, "max.message.bytes", "200", "topic tiny has max.message.bytes = 200"},
	} {
		conf := map[string]*string{"retention.ms": new("-1"), c.key: &c.value}
		if _, err := s.asks.admin.CreateTopic(t.Context(), c.partitions, 1, conf, name); err != nil {
			t.Fatal(err)
		}
		_, err := Open(t.Context(), Options{Queue: "q", URL: url + "/" + name})
		wantError(t, err, tidemark.Invalid, c.want)
	}
	if _, err := s.asks.admin.CreateTopic(t.Context(), 1, 1, map[string]*string{"retention.ms": new("-1"), "max.message.bytes": new("300000")}, "small"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		url       string
		max, want int
	}{{url + "/small", 1 << 20, 300000 - overhead}, {url + "/large", 32 << 20, 32 << 20}, {url + "/large", 1 << 20, 1 << 20}} {
		s := open(t, Options{Queue: "q", URL: c.url, MaxMessage: c.max})
		st, err := s.State(t.Context())
		if err != nil || st.MaxMessage != c.want {
			t.Fatalf("%+v, %v; messages of %d bytes should go in", st, err, c.want)
		}
		big := make([]byte, c.want)
		if n, err := s.Put(t.Context(), st.Last+1, [][]byte{big, big}); err != nil || n != 2 {
			t.Fatal(n, err)
		}
		for seq := st.Last + 1; seq <= st.Last+2; seq++ {
			if got, err := s.Get(t.Context(), seq); err != nil || len(got) != len(big) {
				t.Fatal(seq, len(got), err)
			}
		}
	}
}
