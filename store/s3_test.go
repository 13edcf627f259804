package store

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// s3Place makes a bucket and returns the URL of a place in it.
func s3Place(t *testing.T, bucketName string) string {
	t.Helper()
	s := testdb.S3(t)
	t.Setenv("AWS_ACCESS_KEY_ID", s.User)
	t.Setenv("AWS_SECRET_ACCESS_KEY", s.Password)
	url := fmt.Sprintf("s3://%s/some/prefix?endpoint=%s:%d&tls=off&region=us-east-1", bucketName, s.Host, s.Port)
	st, err := Open(t.Context(), url, Options{})
	if err != nil {
		t.Fatal(err)
	}
	core := unwrapped(st).(*bucket).core
	if err := core.MakeBucket(t.Context(), bucketName, minio.MakeBucketOptions{}); err != nil {
		t.Fatal(err)
	}
	return url
}

func TestS3(t *testing.T) {
	url := s3Place(t, "conform")
	conform(t, func(t *testing.T) Store {
		st, err := Open(t.Context(), url, Options{})
		if err != nil {
			t.Fatal(err)
		}
		return st
	})
	st, err := Open(t.Context(), url, Options{})
	if err != nil {
		t.Fatal(err)
	}
	// Objects of several parts: one writer of a name wins, Abort leaves no parts, and the parts of
	// a killed writer are swept.
	var wg sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for k := range 3 {
		wg.Go(func() {
			o, err := st.Create(t.Context(), "large/one", New)
			if err == nil {
				for range 9 {
					if _, err = o.Write(make([]byte, 1<<20)); err != nil {
						break
					}
				}
			}
			if err == nil {
				err = o.Commit()
			}
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won++
			} else if tidemark.KindOf(err) != tidemark.Exists {
				t.Errorf("%d: %v", k, err)
			}
		})
	}
	wg.Wait()
	if won != 1 {
		t.Errorf("%d of three have written the same name", won)
	}
	for name, finish := range map[string]func(Object){"aborted": func(o Object) { o.Abort() }, "killed": func(Object) {}} {
		o, err := st.Create(t.Context(), "large/"+name, New)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.Write(make([]byte, 2*partSize+1)); err != nil {
			t.Fatal(err)
		}
		finish(o)
		if _, err := st.Stat(t.Context(), "large/"+name); tidemark.KindOf(err) != tidemark.NotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, c := range []struct {
		before time.Time
		want   string
	}{{time.Now().Add(-time.Hour), "[]"}, {time.Now().Add(time.Hour), "[large/killed]"}, {time.Now().Add(time.Hour), "[]"}} {
		gone, err := Sweep(t.Context(), st, c.before)
		if err != nil || fmt.Sprint(gone) != c.want {
			t.Errorf("%v were swept instead of %s: %v", gone, c.want, err)
		}
	}
	if got := st.String(); got != "s3://conform/some/prefix" {
		t.Errorf("its name is %s", got)
	}
}

// Errors of the server have a hint.
func TestS3Refusals(t *testing.T) {
	url := s3Place(t, "refusals")
	look := func(url string) error {
		st, err := Open(t.Context(), url, Options{Attempts: 1})
		if err != nil {
			return err
		}
		_, err = st.Stat(t.Context(), "x")
		if err == nil {
			return errors.New("it is there")
		}
		if tidemark.KindOf(err) == tidemark.NotFound {
			for _, lerr := range st.List(t.Context(), "") {
				err = lerr
			}
		}
		return err
	}
	secret := os.Getenv("AWS_SECRET_ACCESS_KEY")
	for _, c := range []struct {
		name, url, key string
		kind           tidemark.Kind
	}{
		{"right", url, secret, tidemark.NotFound},
		{"no bucket", strings.Replace(url, "refusals", "not-there", 1), secret, tidemark.Invalid},
		{"wrong secret", url, "wr0ng-tide", tidemark.Forbidden}, // a HEAD response has no text with details
		{"key in the URL", "s3://me:wr0ng-tide@bucket/x", secret, tidemark.Invalid},
		{"parameter", url + "&password=wr0ng-tide", secret, tidemark.Invalid},
		{"no tls value", "s3://b/x?tls=maybe", secret, tidemark.Invalid},
		{"no name", "s3:///x", secret, tidemark.Invalid},
		{"short name", strings.Replace(url, "refusals", "b", 1), secret, tidemark.Invalid},
		{"no server", "s3://nobody/x?endpoint=127.0.0.1:1&tls=off&region=us-east-1", secret, tidemark.Unreachable},
		{"no tls there", strings.Replace(url, "tls=off", "tls=on", 1), secret, tidemark.Unreachable},
	} {
		t.Setenv("AWS_SECRET_ACCESS_KEY", c.key)
		err := look(c.url)
		if tidemark.KindOf(err) != c.kind {
			t.Errorf("%s: %v (%v)", c.name, err, tidemark.KindOf(err))
		}
		if text := err.Error() + tidemark.HintOf(err); strings.Contains(text, "wr0ng-tide") || strings.Contains(text, secret) {
			t.Errorf("%s: the error says a secret: %v", c.name, err)
		}
		if tidemark.HintOf(err) == "" && c.kind != tidemark.NotFound {
			t.Errorf("%s: %v has no hint", c.name, err)
		}
	}
}

// Objects written to the bucket by other means are read unchanged.
func TestS3SeesTheBucket(t *testing.T) {
	url := s3Place(t, "seen")
	s := testdb.S3(t)
	dir := filepath.Join(s.Dir, "seen", "some", "prefix", "backups")
	st, err := Open(t.Context(), url, Options{})
	if err != nil {
		t.Fatal(err)
	}
	o, err := st.Create(t.Context(), "backups/x", New)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(o, "text"); err != nil {
		t.Fatal(err)
	}
	if err := o.Commit(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "x"))
	if err != nil || string(b) != "text" {
		t.Errorf("%q is there: %v", b, err)
	}
}

// Objects encrypted with a KMS key request that, with one part and with several.
func TestS3Encryption(t *testing.T) {
	direct := s3Place(t, "kms")
	_, rest, _ := strings.Cut(direct, "endpoint=")
	host, _, _ := strings.Cut(rest, "&")
	var mu sync.Mutex
	var asked []string
	way := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", host, r.In.Host
		if q := r.In.URL.Query(); (r.In.Method == http.MethodPut || q.Has("uploads")) && !q.Has("partNumber") {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, r.In.Header.Get("X-Amz-Server-Side-Encryption")+" "+r.In.Header.Get("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id"))
		}
	}})
	defer way.Close()
	st := opened(t, strings.Replace(direct, host, strings.TrimPrefix(way.URL, "http://"), 1)+"&sse=kms&key=tide")
	for name, size := range map[string]int{"small": 1, "large": partSize + 1} {
		o, err := st.Create(t.Context(), name, New)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.Write(make([]byte, size)); err != nil {
			t.Fatal(err)
		}
		if err := o.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	if fmt.Sprint(asked) != "[aws:kms tide aws:kms tide]" {
		t.Errorf("it was asked for %q", asked)
	}
	for _, wrong := range []string{"&sse=maybe", "&key=tide", "&sse=s3&key=tide"} {
		if _, err := Open(t.Context(), direct+wrong, Options{}); tidemark.KindOf(err) != tidemark.Invalid {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}
