package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"mime/multipart"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	google "golang.org/x/oauth2/google"

	"github.com/tidemarkdb/tidemark"
)

// gcs is a Store in a bucket of Google Cloud Storage, through its JSON API. A small object is put
// in one request with its CRC-32C, which the server verifies; a large one by a resumable upload,
// which makes it appear with its last part; its CRC-32C is verified then. The server rejects either
// if the name exists (ifGenerationMatch=0), and drops unfinished uploads after a week.
type gcs struct {
	base   string // the server
	name   string
	prefix string // "" or ends with a slash
	open   bool   // no login is needed: an emulator

	mu     sync.Mutex
	client *http.Client // nil: not yet logged in
}

const googleServer = "https://storage.googleapis.com"

// openGoogle opens gs://bucket/prefix?endpoint=https://host. Credentials are found as by Google's
// tools: GOOGLE_APPLICATION_CREDENTIALS, gcloud auth application-default login, the machine's
// service account. None are used at STORAGE_EMULATOR_HOST, or at an endpoint without TLS.
func openGoogle(u *url.URL) (Store, error) {
	fail := func(cause, hint string) (Store, error) {
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "open repository", Object: "gs://" + u.Host + u.Path, Err: errors.New(cause), Hint: hint}
	}
	s := &gcs{base: googleServer, name: u.Host, prefix: strings.Trim(u.Path, "/")}
	if host := os.Getenv("STORAGE_EMULATOR_HOST"); host != "" {
		if !strings.Contains(host, "://") {
			host = "http://" + host
		}
		s.base, s.open = host, true
	}
	for name, values := range u.Query() {
		if name != "endpoint" {
			return fail(tidemark.UnknownOption(u, name), "The only parameter is endpoint=URL.")
		}
		s.base = values[0]
		s.open = strings.HasPrefix(s.base, "http://")
	}
	if u.User != nil {
		return fail("the URL contains a key", "Leave it out, and name the key file in GOOGLE_APPLICATION_CREDENTIALS.")
	}
	if u.Host == "" {
		return fail("no bucket was given", "Write gs://bucket/prefix.")
	}
	if e, err := url.Parse(s.base); err != nil || e.Host == "" || e.User != nil || e.RawQuery != "" {
		return fail("the endpoint is not a server's URL", "Write endpoint=https://HOST, without credentials.")
	}
	s.base = strings.TrimSuffix(s.base, "/")
	if s.prefix != "" {
		s.prefix += "/"
	}
	return s, nil
}

func (s *gcs) String() string { return strings.TrimSuffix("gs://"+s.name+"/"+s.prefix, "/") }
func (s *gcs) Close() error   { return nil }
func (s *gcs) maxParts() int  { return 5 << 40 / partSize }

func (s *gcs) writerMemory() int64 { return 2 * partSize }

const googleKeys = "Name a service account's key file in GOOGLE_APPLICATION_CREDENTIALS, run gcloud auth application-default login, or give the machine a service account."

// login returns the client, whose requests have a token.
func (s *gcs) login() (*http.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		return s.client, nil
	}
	way := http.DefaultTransport.(*http.Transport).Clone()
	way.DisableCompression = true // ranges are of the uncompressed bytes
	way.MaxIdleConnsPerHost = 32
	counted := &trips{way: way}
	client := &http.Client{Transport: counted}
	if !s.open {
		// Not the context of a call: the client fetches tokens as long as the process lives.
		cred, err := google.FindDefaultCredentials(context.Background(), "https://www.googleapis.com/auth/devstorage.read_write")
		if err != nil {
			return nil, &tidemark.Error{Op: "log in", Object: s.String(), Kind: tidemark.Denied, Hint: googleKeys, Err: errors.New("found no credentials, or cannot read them")}
		}
		client.Transport = &oauth2.Transport{Base: counted, Source: cred.TokenSource}
	}
	s.client = client
	return client, nil
}

// A gcsAnswer is an error response.
type gcsAnswer struct {
	status int
	text   string
	reason string
}

func (a *gcsAnswer) Error() string {
	return fmt.Sprintf("%s (%d)", cmp.Or(a.text, strings.ToLower(http.StatusText(a.status))), a.status)
}

// do sends a request. The caller owns the response's body. A response that is neither 2xx nor among
// good is an error.
func (s *gcs) do(ctx context.Context, method, to string, body []byte, header map[string]string, good ...int) (*http.Response, error) {
	client, err := s.login()
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, to, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, v := range header {
		req.Header.Set(name, v)
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	for _, code := range good {
		if res.StatusCode == code {
			return res, nil
		}
	}
	if res.StatusCode >= 200 && res.StatusCode < 300 {
		return res, nil
	}
	defer res.Body.Close()
	a := &gcsAnswer{status: res.StatusCode}
	var told struct {
		Error struct {
			Message string
			Errors  []struct{ Reason string }
		}
	}
	text, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10)) // it only adds detail
	if json.Unmarshal(text, &told) == nil {
		a.text, _, _ = strings.Cut(told.Error.Message, "\n")
		if len(told.Error.Errors) > 0 {
			a.reason = told.Error.Errors[0].Reason
		}
	}
	return nil, a
}

// finish reads a short response to its end.
func finish(res *http.Response, into any) error {
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 8<<20))
	if err == nil && into != nil {
		err = json.Unmarshal(text, into)
	}
	return err
}

// fail describes an error of the server or of the connection. The latter have URLs.
func (s *gcs) fail(op, name string, err error) error {
	if err == nil {
		return nil
	}
	kind, hint := tidemark.Transient, ""
	var own *tidemark.Error
	var answer *gcsAnswer
	var token *oauth2.RetrieveError
	var network net.Error
	var way *url.Error
	switch {
	case errors.As(err, &own):
		return err
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return context.DeadlineExceeded
	case errors.As(err, &answer):
		kind, hint = gcsKind(answer)
		if op == "delete" && answer.status == http.StatusForbidden && (answer.reason == "retentionPolicyNotMet" || answer.reason == "objectUnderActiveHold") {
			hint, err = keptHint, keptError{err}
		}
	case errors.As(err, &token):
		kind, hint, err = tidemark.Denied, googleKeys, errors.New("the credentials that were found got no token")
	case errors.As(err, &network) && isDial(err):
		kind, hint = tidemark.Unreachable, "Check the network and the endpoint."
	}
	if errors.As(err, &way) {
		err = way.Err // without the URL, which may be an upload's
	}
	return &tidemark.Error{Op: op, Object: s.String() + "/" + name, Kind: kind, Hint: hint, Err: err}
}

func gcsKind(a *gcsAnswer) (tidemark.Kind, string) {
	switch {
	case a.status == http.StatusNotFound && strings.Contains(strings.ToLower(a.text), "bucket"):
		return tidemark.Invalid, "Create the bucket first, or check its name."
	case a.status == http.StatusNotFound:
		return tidemark.NotFound, ""
	case a.status == http.StatusPreconditionFailed:
		return tidemark.Exists, ""
	case a.status == http.StatusUnauthorized:
		return tidemark.Denied, googleKeys
	case a.status == http.StatusForbidden && (a.reason == "rateLimitExceeded" || a.reason == "userRateLimitExceeded"):
		return tidemark.Transient, ""
	case a.status == http.StatusForbidden && a.reason == "quotaExceeded", a.status == http.StatusInsufficientStorage:
		return tidemark.Full, "Free space there, for example with tidemark prune."
	case a.status == http.StatusForbidden:
		return tidemark.Forbidden, "Give the account the role Storage Object User on the bucket, and check that no retention policy holds the object."
	case a.status == http.StatusBadRequest, a.status == http.StatusMethodNotAllowed, a.status == http.StatusNotImplemented:
		return tidemark.Unsupported, "Check the bucket's name, and that the server has Google's JSON API."
	}
	return tidemark.Transient, "" // a conflict, 429, 5xx
}

func (s *gcs) at(name string) string {
	return s.base + "/storage/v1/b/" + url.PathEscape(s.name) + "/o/" + url.PathEscape(s.prefix+name)
}

func (s *gcs) uploadAt(kind string, mode Mode) string {
	q := url.Values{"uploadType": {kind}, "fields": {"size,crc32c"}}
	if mode == New {
		q.Set("ifGenerationMatch", "0")
	}
	return s.base + "/upload/storage/v1/b/" + url.PathEscape(s.name) + "/o?" + q.Encode()
}

func (s *gcs) Create(ctx context.Context, name string, mode Mode) (Object, error) {
	return createInParts(ctx, s, name, mode)
}

func crcText(crc uint32) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc))
}

// gcsObject is an object as Google describes it.
type gcsObject struct {
	Name        string            `json:"name,omitempty"`
	Size        string            `json:"size,omitempty"` // decimal
	Updated     *time.Time        `json:"updated,omitempty"`
	ContentType string            `json:"contentType,omitempty"`
	CRC         string            `json:"crc32c,omitempty"`
	Metadata    map[string]string `json:"metadata,omitempty"`
}

func (o gcsObject) info(name string) Info {
	i := Info{Name: name}
	i.Size, _ = strconv.ParseInt(o.Size, 10, 64) // is always there
	if o.Updated != nil {
		i.Time = *o.Updated
	}
	return i
}

func (s *gcs) whole(ctx context.Context, name string, body []byte, mode Mode) error {
	about, err := json.Marshal(gcsObject{Name: s.prefix + name, ContentType: "application/octet-stream", CRC: crcText(crc32.Checksum(body, castagnoli))})
	if err != nil {
		return err
	}
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, part := range []struct {
		kind string
		text []byte
	}{{"application/json; charset=UTF-8", about}, {"application/octet-stream", body}} {
		to, _ := w.CreatePart(textproto.MIMEHeader{"Content-Type": {part.kind}}) // writes to memory, so it cannot fail
		_, _ = to.Write(part.text)
	}
	_ = w.Close()
	res, err := s.do(ctx, http.MethodPost, s.uploadAt("multipart", mode), b.Bytes(), map[string]string{"Content-Type": "multipart/related; boundary=" + w.Boundary()})
	if err == nil {
		err = finish(res, nil)
	}
	return s.fail("write", name, err)
}

func (s *gcs) begin(ctx context.Context, up *upload) error {
	about, err := json.Marshal(gcsObject{Name: s.prefix + up.name, ContentType: "application/octet-stream", Metadata: map[string]string{markKey: up.mark}})
	if err != nil {
		return err
	}
	res, err := s.do(ctx, http.MethodPost, s.uploadAt("resumable", up.mode), about, map[string]string{"Content-Type": "application/json; charset=UTF-8"})
	if err == nil {
		if up.id = res.Header.Get("Location"); up.id == "" {
			err = errors.New("the server did not start an upload")
		}
		_ = finish(res, nil) // it adds nothing
	}
	return s.fail("write", up.name, err)
}

// more sends bytes of an upload from an offset on; total is the object's size, or -1 while unknown.
// It returns how many bytes the server has in all, and the object once it is complete. Without
// bytes it only queries.
func (s *gcs) more(ctx context.Context, up *upload, from int64, body []byte, total int64) (has int64, o *gcsObject, err error) {
	size := "*"
	if total >= 0 {
		size = strconv.FormatInt(total, 10)
	}
	span := "bytes */" + size
	if len(body) > 0 {
		span = fmt.Sprintf("bytes %d-%d/%s", from, from+int64(len(body))-1, size)
	}
	res, err := s.do(ctx, http.MethodPut, up.id, body, map[string]string{"Content-Range": span}, http.StatusPermanentRedirect)
	if err != nil {
		return 0, nil, err
	}
	if res.StatusCode != http.StatusPermanentRedirect {
		o = new(gcsObject)
		return total, o, finish(res, o)
	}
	if _, end, ok := strings.Cut(res.Header.Get("Range"), "-"); ok {
		if has, err = strconv.ParseInt(end, 10, 64); err == nil {
			has++
		}
	}
	return has, nil, errors.Join(err, finish(res, nil))
}

// send sends a part, some of which the server may already have.
func (s *gcs) send(ctx context.Context, up *upload, body []byte, total int64, again bool) (*gcsObject, error) {
	has := up.size
	var o *gcsObject
	var err error
	if again {
		if has, o, err = s.more(ctx, up, 0, nil, total); err != nil || o != nil {
			return o, err
		}
	}
	end := up.size + int64(len(body))
	for has < end {
		if has < up.size {
			return nil, fmt.Errorf("the server lost bytes it had acknowledged: %d of %d", has, up.size)
		}
		was := has
		if has, o, err = s.more(ctx, up, has, body[has-up.size:], total); err != nil || o != nil {
			return o, err
		}
		if has <= was {
			return nil, errors.New("the server accepts no more data")
		}
	}
	if total >= 0 {
		return nil, errors.New("the server has all bytes but created no object")
	}
	return nil, nil
}

func (s *gcs) part(ctx context.Context, up *upload, body []byte, again bool) (string, error) {
	_, err := s.send(ctx, up, body, -1, again)
	return "", s.fail("write", up.name, err)
}

func (s *gcs) complete(ctx context.Context, up *upload, last []byte, again bool) error {
	o, err := s.send(ctx, up, last, up.size+int64(len(last)), again)
	if err != nil {
		return s.fail("write", up.name, err)
	}
	if o.CRC != "" && o.CRC != crcText(up.crc) {
		_ = s.Delete(context.WithoutCancel(ctx), up.name) // nobody knows about it yet
		return &tidemark.Error{Op: "write", Object: s.String() + "/" + up.name, Kind: tidemark.Corrupt, Hint: "Run it again: the data was corrupted in transit.", Err: errors.New("the server has other data than was sent")}
	}
	return nil
}

func (s *gcs) mine(ctx context.Context, up *upload) bool {
	var o gcsObject
	res, err := s.do(ctx, http.MethodGet, s.at(up.name), nil, nil)
	if err == nil {
		err = finish(res, &o)
	}
	return err == nil && o.Metadata[markKey] == up.mark && o.CRC == crcText(up.crc)
}

func (s *gcs) abort(ctx context.Context, up *upload) {
	if res, err := s.do(ctx, http.MethodDelete, up.id, nil, nil, 499); err == nil {
		_ = finish(res, nil) // the server drops it on its own
	}
}

func (s *gcs) Read(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	return readCloud(ctx, s, name, length, func() (body io.ReadCloser, beyond bool, err error) {
		header := map[string]string{}
		switch {
		case length > 0:
			header["Range"] = fmt.Sprintf("bytes=%d-%d", offset, offset+length-1)
		case offset > 0:
			header["Range"] = fmt.Sprintf("bytes=%d-", offset)
		}
		res, err := s.do(ctx, http.MethodGet, s.at(name)+"?alt=media", nil, header)
		if err == nil {
			return res.Body, false, nil
		}
		var answer *gcsAnswer
		return nil, errors.As(err, &answer) && answer.status == http.StatusRequestedRangeNotSatisfiable, err
	})
}

func (s *gcs) Stat(ctx context.Context, name string) (Info, error) {
	if err := CheckName(name); err != nil {
		return Info{}, err
	}
	var o gcsObject
	res, err := s.do(ctx, http.MethodGet, s.at(name)+"?fields=size,updated", nil, nil)
	if err == nil {
		err = finish(res, &o)
	}
	return o.info(name), s.fail("look at", name, err)
}

func (s *gcs) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		q := url.Values{"prefix": {s.prefix + prefix}, "fields": {"nextPageToken,items(name,size,updated)"}}
		for {
			var page struct {
				Next  string `json:"nextPageToken"`
				Items []gcsObject
			}
			res, err := s.do(ctx, http.MethodGet, s.base+"/storage/v1/b/"+url.PathEscape(s.name)+"/o?"+q.Encode(), nil, nil)
			if err == nil {
				err = finish(res, &page)
			}
			var answer *gcsAnswer
			if errors.As(err, &answer) && answer.status == http.StatusNotFound {
				answer.text = "there is no such bucket" // only the bucket can be missing
			}
			if err != nil {
				yield(Info{}, s.fail("list", prefix, err))
				return
			}
			for _, o := range page.Items {
				name := strings.TrimPrefix(o.Name, s.prefix)
				if CheckName(name) == nil && !yield(o.info(name), nil) { // others are foreign
					return
				}
			}
			if page.Next == "" {
				return
			}
			q.Set("pageToken", page.Next)
		}
	}
}

func (s *gcs) Delete(ctx context.Context, name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	res, err := s.do(ctx, http.MethodDelete, s.at(name), nil, nil)
	if err == nil {
		err = finish(res, nil)
	}
	return s.fail("delete", name, err)
}
