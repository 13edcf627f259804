package garbled

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

var (
	lengthLine = regexp.MustCompile(`(?i)(content-length: *)[^\r]*`)
	statusLine = regexp.MustCompile(`^HTTP/1\.[01] [0-9]+`)
)

// httpWire treats a server's bytes as they arrive: response heads, and pieces of bodies.
var httpWire = protocol{
	read: func(r *bufio.Reader, _ *sync.Map) (m message, err error) {
		if _, err := r.Peek(1); err != nil {
			return m, err
		}
		p, _ := r.Peek(r.Buffered())
		n := len(p)
		m.kind = "body"
		if bytes.HasPrefix(p, []byte("HTTP/1.")) {
			m.kind = "head " + string(p[9:min(12, n)])
			if end := bytes.Index(p, []byte("\r\n\r\n")); end >= 0 {
				n = end + 4
			}
			line := bytes.IndexByte(p[:n], '\n') + 1
			if at := lengthLine.FindIndex(p[:n]); at != nil {
				line = at[1]
			}
			m.head, m.body = bytes.Clone(p[:line]), bytes.Clone(p[line:n])
		} else {
			m.body = bytes.Clone(p)
			if bytes.HasPrefix(p, []byte("<")) || bytes.HasPrefix(p, []byte("{")) {
				m.kind = "listing"
			}
		}
		_, err = r.Discard(n)
		return m, err
	},
	join: func(m message) []byte { return append(bytes.Clone(m.head), m.body...) },
	lie: func(head []byte, rnd *rand.Rand) []byte {
		lengths := []string{"9223372036854775807", "-1", "99999999999999999999", "0", "1", "1073741824", "x", ""}
		status := []string{"HTTP/1.1 500", "HTTP/1.1 200", "HTTP/1.1 301", "HTTP/1.1 403", "HTTP/1.1 999", "HTTP/9.9 200", "HTTP/1.1 -1", "HTTP/1.1 206", "HTTP/1.1 416", "HTTP/1.1 429"}
		if rnd.IntN(2) == 0 {
			return lengthLine.ReplaceAll(head, []byte("${1}"+lengths[rnd.IntN(len(lengths))]))
		}
		return statusLine.ReplaceAll(head, []byte(status[rnd.IntN(len(status))]))
	},
}

// places are scenes of a repository at a URL.
func places(db string, url func(at, name string) string) []scene {
	filled := func(t *testing.T, at string) string {
		place := url(at, strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name())))
		testdb.Must(t, "backup", "--logical", db, place)
		return place
	}
	return []scene{
		{"backup", func(t *testing.T, at string) []string {
			return []string{"backup", "--logical", db, url(at, strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name())))}
		}},
		{"backups", func(t *testing.T, at string) []string { return []string{"backups", filled(t, at)} }},
		{"verify", func(t *testing.T, at string) []string { return []string{"verify", filled(t, at)} }},
		{"prune", func(t *testing.T, at string) []string { return []string{"prune", filled(t, at), "--keep", "last=1"} }},
		{"restore", func(t *testing.T, at string) []string {
			return []string{"restore", filled(t, at), "latest", t.TempDir() + "/out"}
		}},
	}
}

// environ sets variables for all tests: they run in parallel.
func environ(pairs ...string) {
	for i := 0; i < len(pairs); i += 2 {
		os.Setenv(pairs[i], pairs[i+1])
	}
}

func TestStores(t *testing.T) {
	t.Parallel()
	db := testdb.Postgres(t, 15).NewDatabase(t, "stored")
	testdb.Load(t, db, strings.NewReader(postgresRows))

	t.Run("s3", func(t *testing.T) {
		s3 := testdb.S3(t)
		environ("AWS_ACCESS_KEY_ID", s3.User, "AWS_SECRET_ACCESS_KEY", s3.Password)
		dir := filepath.Join(s3.Dir, "garbled")
		if err := os.Mkdir(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		lies(t, httpWire, fmt.Sprintf("%s:%d", s3.Host, s3.Port), places(db, func(at, name string) string {
			return "s3://garbled/" + name + "?endpoint=" + at + "&tls=off&region=us-east-1"
		}), some(1), 300)
	})
	t.Run("azure", func(t *testing.T) {
		s := testdb.Azure(t)
		environ("AZURE_STORAGE_ACCOUNT", s.User, "AZURE_STORAGE_KEY", s.Password)
		key, err := container.NewSharedKeyCredential(s.User, s.Password)
		if err != nil {
			t.Fatal(err)
		}
		c, err := container.NewClientWithSharedKeyCredential(fmt.Sprintf("http://%s:%d/%s/garbled", s.Host, s.Port, s.User), key, nil)
		if err == nil {
			_, err = c.Create(t.Context(), nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		lies(t, httpWire, fmt.Sprintf("%s:%d", s.Host, s.Port), shorter(places(db, func(at, name string) string {
			return "azblob://garbled/" + name + "?endpoint=http://" + at + "/" + s.User
		}), 1), some(1), 300)
	})
	t.Run("google", func(t *testing.T) {
		s := testdb.GCS(t)
		base := fmt.Sprintf("http://%s:%d", s.Host, s.Port)
		res, err := http.Post(base+"/storage/v1/b?project=p", "application/json", strings.NewReader(`{"name":"garbled"}`))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		lies(t, httpWire, fmt.Sprintf("%s:%d", s.Host, s.Port), shorter(places(db, func(at, name string) string {
			return "gs://garbled/" + name + "?endpoint=http://" + at
		}), 1), some(1), 300)
	})
}
