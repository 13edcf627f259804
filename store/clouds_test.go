package store

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/minio/minio-go/v7"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// azurePlace makes a container and returns the URL of a place in it.
func azurePlace(t *testing.T, name string) string {
	t.Helper()
	s := testdb.Azure(t)
	t.Setenv("AZURE_STORAGE_ACCOUNT", s.User)
	t.Setenv("AZURE_STORAGE_KEY", s.Password)
	url := fmt.Sprintf("azblob://%s/some/prefix?endpoint=http://%s:%d/%s", name, s.Host, s.Port, s.User)
	if _, err := unwrapped(opened(t, url)).(*azure).c.Create(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return url
}

// googlePlace does the same with a Google bucket.
func googlePlace(t *testing.T, name string) string {
	t.Helper()
	s := testdb.GCS(t)
	base := fmt.Sprintf("http://%s:%d", s.Host, s.Port)
	res, err := http.Post(base+"/storage/v1/b?project=p", "application/json", strings.NewReader(`{"name":"`+name+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatalf("the bucket was not made: %s", res.Status)
	}
	return "gs://" + name + "/some/prefix?endpoint=" + base
}

func opened(t *testing.T, url string) Store {
	t.Helper()
	st, err := Open(t.Context(), url, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func TestAzure(t *testing.T) {
	url := azurePlace(t, "conform")
	conform(t, func(t *testing.T) Store { return opened(t, url) })
	largeObjects(t, opened(t, url))
	if got := opened(t, url).String(); got != "azblob://conform/some/prefix" {
		t.Errorf("its name is %s", got)
	}
}

func TestGoogle(t *testing.T) {
	url := googlePlace(t, "conform")
	conform(t, func(t *testing.T) Store { return opened(t, url) })
	largeObjects(t, opened(t, url))
	if got := opened(t, url).String(); got != "gs://conform/some/prefix" {
		t.Errorf("its name is %s", got)
	}
}

// largeObjects tests objects of several parts: one writer of a name wins, and the object has its
// bytes; aborted or killed uploads stay invisible.
func largeObjects(t *testing.T, st Store) {
	t.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	won := -1
	for k := range 3 {
		wg.Go(func() {
			o, err := st.Create(t.Context(), "large/one", New)
			if err == nil {
				for range 17 {
					if _, err = o.Write([]byte(strings.Repeat(fmt.Sprint(k), 1<<20))); err != nil {
						break
					}
				}
			}
			if err == nil {
				err = o.Commit()
			}
			mu.Lock()
			defer mu.Unlock()
			if err == nil && won < 0 {
				won = k
			} else if tidemark.KindOf(err) != tidemark.Exists || err == nil {
				t.Errorf("%d: %v", k, err)
			}
		})
	}
	wg.Wait()
	r, err := st.Read(t.Context(), "large/one", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if b, err := io.ReadAll(r); err != nil || string(b) != strings.Repeat(fmt.Sprint(won), 17<<20) {
		t.Errorf("%d of %d bytes are those of %d, who has won: %v", strings.Count(string(b), fmt.Sprint(won)), len(b), won, err)
	}
	killed := func(o Object) { // after what it was sending, which would outlive the test
		if err := o.(*retriedObject).to.(*partsObject).wait(); err != nil {
			t.Error(err)
		}
	}
	for name, finish := range map[string]func(Object){"aborted": func(o Object) { o.Abort() }, "killed": killed} {
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
	for i, err := range st.List(t.Context(), "large/") {
		if err != nil || i.Name != "large/one" || i.Size != 17<<20 {
			t.Errorf("%+v is listed: %v", i, err)
		}
	}
}

// Errors of clouds have a hint, and no secret.
func TestCloudRefusals(t *testing.T) {
	azure, google := azurePlace(t, "refusals"), googlePlace(t, "refusals")
	key := os.Getenv("AZURE_STORAGE_KEY")
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
	for _, c := range []struct {
		name, url string
		env       map[string]string
		kind      tidemark.Kind
	}{
		{"right", azure, nil, tidemark.NotFound},
		{"no container", strings.Replace(azure, "refusals", "not-there", 1), nil, tidemark.Invalid},
		{"wrong key", azure, map[string]string{"AZURE_STORAGE_KEY": "d3IwbmctdGlkZQ=="}, tidemark.Forbidden}, // Azure itself says AuthenticationFailed
		{"no key", azure, map[string]string{"AZURE_STORAGE_KEY": "wr0ng-tide"}, tidemark.Invalid},
		{"wrong token", azure, map[string]string{"AZURE_STORAGE_KEY": "", "AZURE_STORAGE_SAS_TOKEN": "sv=2020-02-10&sig=wr0ng-tide"}, tidemark.Forbidden},
		{"no connection string", "azblob://b/x", map[string]string{"AZURE_STORAGE_CONNECTION_STRING": "AccountKey=wr0ng-tide"}, tidemark.Invalid},
		{"connection string", "azblob://not-there/x", map[string]string{"AZURE_STORAGE_CONNECTION_STRING": "AccountName=tidemark;AccountKey=" + key + ";BlobEndpoint=" + strings.SplitAfter(azure, "endpoint=")[1]}, tidemark.Invalid},
		{"no account", "azblob://b/x", map[string]string{"AZURE_STORAGE_ACCOUNT": ""}, tidemark.Invalid},
		{"key in the URL", "azblob://me:wr0ng-tide@b/x", nil, tidemark.Invalid},
		{"parameter", azure + "&password=wr0ng-tide", nil, tidemark.Invalid},
		{"token in the endpoint", "azblob://b/x?endpoint=https%3A%2F%2Fhost%2F%3Fsig%3Dwr0ng-tide", nil, tidemark.Invalid},
		{"no container's name", "azblob:///x", nil, tidemark.Invalid},
		{"no server", "azblob://b/x?endpoint=http://127.0.0.1:1/tidemark", nil, tidemark.Unreachable},
		{"no server, token", "azblob://b/x?endpoint=http://127.0.0.1:1/tidemark", map[string]string{"AZURE_STORAGE_KEY": "", "AZURE_STORAGE_SAS_TOKEN": "sig=wr0ng-tide"}, tidemark.Unreachable},

		{"right", google, nil, tidemark.NotFound},
		{"no bucket", strings.Replace(google, "refusals", "not-there", 1), nil, tidemark.Invalid},
		{"no login", "gs://b/x", map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": "/not/there"}, tidemark.Denied},
		{"emulator of the environment", "gs://not-there/x", map[string]string{"STORAGE_EMULATOR_HOST": strings.TrimPrefix(strings.SplitAfter(google, "endpoint=")[1], "http://")}, tidemark.Invalid},
		{"key in the URL", "gs://me:wr0ng-tide@b/x", nil, tidemark.Invalid},
		{"parameter", google + "&password=wr0ng-tide", nil, tidemark.Invalid},
		{"no bucket's name", "gs:///x", nil, tidemark.Invalid},
		{"no server", "gs://b/x?endpoint=http://127.0.0.1:1", nil, tidemark.Unreachable},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, v := range c.env {
				t.Setenv(name, v)
			}
			err := look(c.url)
			if tidemark.KindOf(err) != c.kind {
				t.Errorf("%v (%v)", err, tidemark.KindOf(err))
			}
			if text := err.Error() + tidemark.HintOf(err); strings.Contains(text, "wr0ng-tide") || strings.Contains(text, key) || strings.Contains(text, "\n") {
				t.Errorf("the error says a secret, or many lines: %v", err)
			}
			if tidemark.HintOf(err) == "" && c.kind != tidemark.NotFound {
				t.Errorf("%v has no hint", err)
			}
		})
	}
}

// A store's answer about a retained object is distinguished from a missing right, and only for
// deletes.
func TestKept(t *testing.T) {
	g, a, b := &gcs{}, &azure{}, &bucket{}
	for what, c := range map[string]struct {
		err  error
		want bool
	}{
		"Google's policy":   {g.fail("delete", "x", &gcsAnswer{status: 403, reason: "retentionPolicyNotMet"}), true},
		"Google's hold":     {g.fail("delete", "x", &gcsAnswer{status: 403, reason: "objectUnderActiveHold"}), true},
		"no right there":    {g.fail("delete", "x", &gcsAnswer{status: 403, reason: "forbidden"}), false},
		"Google's write":    {g.fail("write", "x", &gcsAnswer{status: 403, reason: "retentionPolicyNotMet"}), false},
		"Azure's policy":    {a.fail("delete", "x", &azcore.ResponseError{StatusCode: 409, ErrorCode: "BlobImmutableDueToPolicy"}), true},
		"Azure's lease":     {a.fail("delete", "x", &azcore.ResponseError{StatusCode: 412, ErrorCode: "LeaseIdMissing"}), false},
		"Amazon's lock":     {b.fail("delete", "x", minio.ErrorResponse{StatusCode: 403, Code: "AccessDenied", Message: "Access Denied because object protected by object lock."}), true},
		"MinIO's lock":      {b.fail("delete", "x", minio.ErrorResponse{StatusCode: 400, Code: "InvalidRequest", Message: "Object is WORM protected and cannot be overwritten"}), true},
		"no right at S3":    {b.fail("delete", "x", minio.ErrorResponse{StatusCode: 403, Code: "AccessDenied", Message: "Access Denied."}), false},
		"a write at Amazon": {b.fail("write", "x", minio.ErrorResponse{StatusCode: 403, Code: "AccessDenied", Message: "object lock"}), false},
	} {
		if tidemark.KindOf(c.err) != tidemark.Forbidden || Kept(c.err) != c.want || tidemark.HintOf(c.err) == "" {
			t.Errorf("%s: %v, %v, kept %v", what, c.err, tidemark.KindOf(c.err), Kept(c.err))
		}
	}
}
