package store

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/encrypt"

	"github.com/tidemarkdb/tidemark"
)

// bucket is a Store in a bucket of Amazon S3, or of a compatible server. An object of one part is
// put in one request, a larger one as a multipart upload, which makes it appear on completion. The
// server rejects either if the name exists (If-None-Match). Each part has its SHA-256, which the
// server verifies.
type bucket struct {
	core   minio.Core
	once   minio.Core // without retries: the writer must know that an answer was lost
	sse    encrypt.ServerSide
	name   string
	prefix string // "" or ends with a slash
	url    string
}

// openS3 opens s3://bucket/prefix?endpoint=host:port&region=name&tls=off&sse=kms&key=id.
func openS3(u *url.URL) (Store, error) {
	fail := func(cause, hint string) (Store, error) {
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "open repository", Object: tidemark.MaskURL(u.String()), Err: errors.New(cause), Hint: hint}
	}
	endpoint, secure := "s3.amazonaws.com", true
	opt := &minio.Options{Region: cmp.Or(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"))} // if unset, the server is asked
	sse, key := "", ""
	for name, values := range u.Query() {
		switch v := values[0]; name {
		case "endpoint":
			endpoint = v
		case "region":
			opt.Region = v
		case "tls":
			if v != "on" && v != "off" {
				return fail("tls must be on or off", "Write tls=off for a server without TLS.")
			}
			secure = v == "on"
		case "sse":
			sse = v
		case "key":
			key = v
		default:
			return fail(tidemark.UnknownOption(u, name), "Valid parameters are endpoint=HOST:PORT, region=NAME, tls=off, sse=s3|kms and key=ID.")
		}
	}
	if u.User != nil {
		return fail("the URL contains a key", "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY instead, or use ~/.aws/credentials.")
	}
	if u.Host == "" {
		return fail("no bucket was given", "Write s3://bucket/prefix.")
	}
	opt.Secure = secure
	way, err := minio.DefaultTransport(secure)
	if err != nil {
		return fail(err.Error(), "")
	}
	opt.Transport = &trips{way: way}
	opt.Creds = credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{}})
	core, err := minio.NewCore(endpoint, opt)
	if err != nil {
		return fail("the endpoint is not an S3 server: "+err.Error(), "Write s3://bucket/prefix?endpoint=HOST:PORT.")
	}
	opt.MaxRetries = 1
	once, err := minio.NewCore(endpoint, opt)
	if err != nil {
		return fail(err.Error(), "")
	}
	s := &bucket{core: *core, once: *once, name: u.Host, prefix: strings.Trim(u.Path, "/")}
	s.url = strings.TrimSuffix("s3://"+s.name+"/"+s.prefix, "/")
	if s.prefix != "" {
		s.prefix += "/"
	}
	switch {
	case sse == "" && key == "":
	case sse == "s3" && key == "":
		s.sse = encrypt.NewSSE()
	case sse == "kms":
		s.sse, err = encrypt.NewSSEKMS(key, nil)
	default:
		err = errors.New("sse must be s3, or kms with or without a key")
	}
	if err != nil {
		return fail(err.Error(), "Write sse=kms&key=ID for a key of AWS KMS, or leave it out: Amazon encrypts in any case.")
	}
	return s, nil
}

func (s *bucket) String() string { return s.url }
func (s *bucket) Close() error   { return nil }

// writerMemory is the size of the part being filled and of the one being sent.
func (s *bucket) writerMemory() int64 { return 2 * partSize }

// fail describes an error of the server or of the connection.
func (s *bucket) fail(op, name string, err error) error {
	if err == nil {
		return nil
	}
	kind, hint := tidemark.Transient, ""
	var own *tidemark.Error
	var network net.Error
	var res minio.ErrorResponse
	switch {
	case errors.As(err, &own), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.As(err, &res):
		switch kind, hint = s3Kind(res); {
		case op == "delete" && s3Keeps(res):
			kind, hint, err = tidemark.Forbidden, keptHint, keptError{err}
		case op == "delete" && kind == tidemark.Forbidden:
			hint = "Allow s3:DeleteObject for these keys, and check that no object lock or retention rule holds the object."
		}
	case errors.As(err, &network) && isDial(err):
		kind, hint = tidemark.Unreachable, "Check the endpoint, and whether it needs tls=off."
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		kind, hint = tidemark.Unreachable, "Add tls=off to the URL if that server does not use TLS."
	}
	return &tidemark.Error{Op: op, Object: s.url + "/" + name, Kind: kind, Hint: hint, Err: err}
}

func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

func s3Kind(res minio.ErrorResponse) (tidemark.Kind, string) {
	switch res.Code {
	case "NoSuchBucket", "InvalidBucketName":
		return tidemark.Invalid, "Create the bucket first, or check its name and region."
	case "NoSuchKey", "NoSuchUpload", "NotFound":
		return tidemark.NotFound, ""
	case "PreconditionFailed":
		return tidemark.Exists, ""
	case "ConditionalRequestConflict": // another writer is changing the object at this moment: the result is still open
		return tidemark.Transient, ""
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "TokenRefreshRequired":
		return tidemark.Denied, "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or use ~/.aws/credentials."
	case "AccessDenied":
		return tidemark.Forbidden, "Allow these keys s3:GetObject, PutObject, DeleteObject, ListBucket, AbortMultipartUpload and ListBucketMultipartUploads."
	case "QuotaExceeded", "XMinioStorageFull", "InsufficientStorage":
		return tidemark.Full, "Free space there, for example with tidemark prune."
	}
	switch res.StatusCode {
	case http.StatusNotFound:
		return tidemark.NotFound, ""
	case http.StatusPreconditionFailed:
		return tidemark.Exists, ""
	case http.StatusForbidden:
		return tidemark.Forbidden, "Allow these keys to read, write, list and delete there."
	case http.StatusUnauthorized:
		return tidemark.Denied, "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or use ~/.aws/credentials."
	case http.StatusInsufficientStorage:
		return tidemark.Full, "Free space there, for example with tidemark prune."
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return tidemark.Unsupported, "Use a server with multipart uploads, ListObjectsV2 and If-None-Match: this one does not know the request."
	}
	return tidemark.Transient, ""
}

// s3Keeps reports whether a refusal means retention. There is no error code for that: Amazon and
// others say AccessDenied, MinIO InvalidRequest.
func s3Keeps(res minio.ErrorResponse) bool {
	text := strings.ToLower(res.Code + " " + res.Message)
	for _, word := range []string{"object lock", "objectlocked", "worm", "retention", "legal hold"} {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}

func (s *bucket) Create(ctx context.Context, name string, mode Mode) (Object, error) {
	return createInParts(ctx, s, name, mode)
}

func (s *bucket) maxParts() int { return 10_000 }

// markKey is the object metadata that identifies its upload.
const markKey = "Tidemark-Upload"

func (s *bucket) putOptions(mode Mode) minio.PutObjectOptions {
	opt := minio.PutObjectOptions{ContentType: "application/octet-stream", ServerSideEncryption: s.sse}
	if mode == New {
		opt.SetMatchETagExcept("*")
	}
	return opt
}

func (s *bucket) whole(ctx context.Context, name string, body []byte, mode Mode) error {
	// Servers without If-None-Match would overwrite the existing object.
	if err := vacant(ctx, s, name, mode); err != nil {
		return err
	}
	sum := sha256.Sum256(body)
	_, err := s.once.PutObject(ctx, s.name, s.prefix+name, bytes.NewReader(body), int64(len(body)), "", hex.EncodeToString(sum[:]), s.putOptions(mode))
	return s.fail("write", name, err)
}

func (s *bucket) begin(ctx context.Context, up *upload) (err error) {
	opt := s.putOptions(Replace) // the condition applies to its completion
	opt.UserMetadata = map[string]string{markKey: up.mark}
	up.id, err = s.once.NewMultipartUpload(ctx, s.name, s.prefix+up.name, opt)
	return s.fail("write", up.name, err)
}

func (s *bucket) part(ctx context.Context, up *upload, body []byte, _ bool) (tag string, err error) {
	sum := sha256.Sum256(body)
	p, err := s.once.PutObjectPart(ctx, s.name, s.prefix+up.name, up.id, len(up.tags)+1, bytes.NewReader(body), int64(len(body)),
		minio.PutObjectPartOptions{Sha256Hex: hex.EncodeToString(sum[:])})
	return p.ETag, s.fail("write", up.name, err)
}

func (s *bucket) complete(ctx context.Context, up *upload, last []byte, _ bool) error {
	if err := vacant(ctx, s, up.name, up.mode); err != nil {
		return err
	}
	if err := lastPart(ctx, s, up, last); err != nil {
		return err
	}
	parts := make([]minio.CompletePart, 0, len(up.tags)+1)
	for n, t := range append(slices.Clone(up.tags), up.last) {
		parts = append(parts, minio.CompletePart{PartNumber: n + 1, ETag: t})
	}
	_, err := s.once.CompleteMultipartUpload(ctx, s.name, s.prefix+up.name, up.id, parts, s.putOptions(up.mode))
	return s.fail("write", up.name, err)
}

func (s *bucket) mine(ctx context.Context, up *upload) bool {
	i, err := s.core.StatObject(ctx, s.name, s.prefix+up.name, minio.StatObjectOptions{})
	return err == nil && i.UserMetadata[markKey] == up.mark
}

func (s *bucket) abort(ctx context.Context, up *upload) {
	_ = s.once.AbortMultipartUpload(ctx, s.name, s.prefix+up.name, up.id)
}

func (s *bucket) Read(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	return readCloud(ctx, s, name, length, func() (body io.ReadCloser, beyond bool, err error) {
		var opt minio.GetObjectOptions
		switch {
		case length > 0:
			_ = opt.SetRange(offset, offset+length-1) // valid numbers
		case offset > 0:
			_ = opt.SetRange(offset, 0)
		}
		r, _, _, err := s.core.GetObject(ctx, s.name, s.prefix+name, opt)
		var res minio.ErrorResponse
		return r, errors.As(err, &res) && (res.Code == "InvalidRange" || res.StatusCode == http.StatusRequestedRangeNotSatisfiable), err
	})
}

func (s *bucket) Stat(ctx context.Context, name string) (Info, error) {
	if err := CheckName(name); err != nil {
		return Info{}, err
	}
	i, err := s.core.StatObject(ctx, s.name, s.prefix+name, minio.StatObjectOptions{})
	if err != nil {
		return Info{}, s.fail("look at", name, err)
	}
	return Info{Name: name, Size: i.Size, Time: i.LastModified}, nil
}

func (s *bucket) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		for i := range s.core.Client.ListObjects(ctx, s.name, minio.ListObjectsOptions{Prefix: s.prefix + prefix, Recursive: true}) {
			if i.Err != nil {
				yield(Info{}, s.fail("list", prefix, i.Err))
				return
			}
			name := strings.TrimPrefix(i.Key, s.prefix)
			if CheckName(name) != nil {
				continue // foreign
			}
			if !yield(Info{Name: name, Size: i.Size, Time: i.LastModified}, nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(Info{}, err)
		}
	}
}

func (s *bucket) Delete(ctx context.Context, name string) error {
	if _, err := s.Stat(ctx, name); err != nil {
		return err // the server does not report whether the object existed
	}
	return s.fail("delete", name, s.core.RemoveObject(ctx, s.name, s.prefix+name, minio.RemoveObjectOptions{}))
}

// Sweep implements Sweeper: it aborts incomplete uploads, whose parts cost as much as stored
// objects.
func (s *bucket) Sweep(ctx context.Context, before time.Time) ([]string, error) {
	var gone []string
	for u := range s.core.ListIncompleteUploads(ctx, s.name, s.prefix, true) {
		if u.Err != nil {
			return gone, s.fail("list uploads", "", u.Err)
		}
		if !u.Initiated.Before(before) {
			continue
		}
		if err := s.core.AbortMultipartUpload(ctx, s.name, u.Key, u.UploadID); err != nil {
			return gone, s.fail("end upload", strings.TrimPrefix(u.Key, s.prefix), err)
		}
		gone = append(gone, strings.TrimPrefix(u.Key, s.prefix))
	}
	return gone, nil
}
