package store

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// lossy is a proxy to a server. It answers one in three writing requests with "busy", and loses the
// answer of another one after the server has executed it.
func lossy(t *testing.T, server string) *httptest.Server {
	t.Helper()
	to, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	way := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = to.Scheme, to.Host, r.In.Host // Host is signed
	}}
	var n atomic.Int64
	var self string
	h := func(w http.ResponseWriter, r *http.Request) {
		what := int64(1)
		if r.Method == http.MethodPut || r.Method == http.MethodPost {
			what = n.Add(1) % 3
		}
		if what == 2 {
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, "<?xml version=\"1.0\"?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>")
			return
		}
		answer := httptest.NewRecorder()
		way.ServeHTTP(answer, r)
		if what == 0 {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				conn.Close()
			}
			return
		}
		for name, v := range answer.Header() {
			w.Header()[name] = v
		}
		if at := answer.Header().Get("Location"); at != "" {
			w.Header().Set("Location", strings.Replace(at, server, self, 1))
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	}
	s := httptest.NewServer(http.HandlerFunc(h))
	t.Cleanup(s.Close)
	self = s.URL
	return s
}

// Busy servers and lost answers do no harm: each object exists once, with its bytes, and its writer
// succeeds.
func TestLostAnswers(t *testing.T) {
	was := patience.opt.Pause
	patience.opt.Pause = time.Millisecond
	t.Cleanup(func() { patience.opt.Pause = was })
	for kind, place := range map[string]func(*testing.T, string) string{"s3": s3Place, "azblob": azurePlace, "gs": googlePlace} {
		t.Run(kind, func(t *testing.T) {
			direct := place(t, "lossy")
			_, rest, _ := strings.Cut(direct, "endpoint=")
			host, path, _ := strings.Cut(strings.TrimPrefix(rest, "http://"), "/")
			host, _, _ = strings.Cut(host, "&")
			if _, _, err := net.SplitHostPort(host); err != nil {
				t.Fatalf("%q of %s: %v %s", host, direct, err, path)
			}
			way := strings.TrimPrefix(lossy(t, "http://"+host).URL, "http://")
			st := Retry(unwrapped(opened(t, strings.Replace(direct, host, way, 1))), RetryOptions{Attempts: 8, Pause: time.Millisecond})
			for n, size := range []int{0, 10, 100_000, partSize + 100, keptMost + 100, 20} {
				if kind == "gs" && size > keptMost {
					continue // fake-gcs-server takes a status query for the end of an upload
				}
				body := bytes.Repeat([]byte{byte(n + 1)}, size)
				for _, mode := range []Mode{New, Replace} {
					name := fmt.Sprintf("objects/%d", n)
					o, err := st.Create(t.Context(), name, mode)
					if err != nil {
						t.Fatal(err)
					}
					if _, err := o.Write(body); err != nil {
						t.Fatalf("%s: %v", name, err)
					}
					if err := o.Commit(); err != nil {
						t.Fatalf("%s: %v", name, err)
					}
					r, err := opened(t, direct).Read(t.Context(), name, 0, -1)
					if err != nil {
						t.Fatal(err)
					}
					b, err := io.ReadAll(r)
					r.Close()
					if err != nil || !bytes.Equal(b, body) {
						t.Errorf("%s has %d bytes instead of %d, or others: %v", name, len(b), size, err)
					}
				}
			}
		})
	}
}
