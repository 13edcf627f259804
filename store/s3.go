package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/tidemarkdb/tidemark"
)

// bucket is a Store in a bucket of Amazon S3, or of what speaks as it does. An object of one part
// is put at once, a larger one as a multipart upload, which makes it appear when it is
// completed; either is refused by the server itself where there is one of that name
// (If-None-Match). Each part goes with its SHA-256, which the server compares.
type bucket struct {
	core   minio.Core
	name   string
	prefix string // "" or with a slash at its end
	url    string
}

// partSize is how large parts are: so an object has up to 80 GB, and each that is written two of
// them in memory at most.
const partSize = 8 << 20

// openS3 takes s3://bucket/prefix?endpoint=host:port&region=name&tls=off.
func openS3(u *url.URL) (Store, error) {
	fail := func(cause, hint string) (Store, error) {
		return nil, tidemark.Errorf(tidemark.Invalid, "open repository", tidemark.MaskURL(u.String()), cause, hint)
	}
	endpoint, secure := "s3.amazonaws.com", true
	opt := new(minio.Options)
	for name, values := range u.Query() {
		switch v := values[0]; name {
		case "endpoint":
			endpoint = v
		case "region":
			opt.Region = v
		case "tls":
			if v != "on" && v != "off" {
				return fail("tls has to be on or off", "write tls=off for a server without TLS")
			}
			secure = v == "on"
		default:
			return fail(name+" is no parameter of an s3 URL", "endpoint=HOST:PORT, region=NAME and tls=off are")
		}
	}
	if u.User != nil {
		return fail("keys do not belong into the URL", "give them by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or in ~/.aws/credentials")
	}
	if u.Host == "" {
		return fail("no bucket was given", "write s3://bucket/prefix")
	}
	opt.Secure = secure
	opt.Creds = credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{}})
	core, err := minio.NewCore(endpoint, opt)
	if err != nil {
		return fail("it names no server of S3: "+err.Error(), "write s3://bucket/prefix?endpoint=HOST:PORT")
	}
	s := &bucket{core: *core, name: u.Host, prefix: strings.Trim(u.Path, "/")}
	s.url = strings.TrimSuffix("s3://"+s.name+"/"+s.prefix, "/")
	if s.prefix != "" {
		s.prefix += "/"
	}
	return s, nil
}

func (s *bucket) String() string { return s.url }
func (s *bucket) Close() error   { return nil }

// fail words an error of the server, or of the way there.
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
		kind, hint = s3Kind(res)
	case errors.As(err, &network) && isDial(err):
		kind, hint = tidemark.Unreachable, "check the endpoint, and whether tls=off is wanted"
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		kind, hint = tidemark.Unreachable, "add tls=off to the URL if that server speaks no TLS"
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
		return tidemark.Invalid, "make the bucket first, or check its name and region"
	case "NoSuchKey", "NoSuchUpload", "NotFound":
		return tidemark.NotFound, ""
	case "PreconditionFailed", "ConditionalRequestConflict":
		return tidemark.Exists, ""
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken":
		return tidemark.Denied, "give the keys by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or in ~/.aws/credentials"
	case "AccessDenied":
		return tidemark.Forbidden, "the keys need s3:GetObject, PutObject, DeleteObject and ListBucket, and AbortMultipartUpload and ListBucketMultipartUploads"
	case "QuotaExceeded", "XMinioStorageFull", "InsufficientStorage":
		return tidemark.Full, "make room there, for example with tidemark prune"
	}
	switch res.StatusCode {
	case http.StatusNotFound:
		return tidemark.NotFound, ""
	case http.StatusPreconditionFailed:
		return tidemark.Exists, ""
	case http.StatusForbidden:
		return tidemark.Forbidden, "give the keys the right to read, write, list and delete there"
	case http.StatusUnauthorized:
		return tidemark.Denied, "give the keys by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or in ~/.aws/credentials"
	case http.StatusInsufficientStorage:
		return tidemark.Full, "make room there, for example with tidemark prune"
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return tidemark.Unsupported, "that server does not know the request: it has to have multipart uploads, ListObjectsV2 and If-None-Match"
	}
	return tidemark.Transient, ""
}

func (s *bucket) Create(ctx context.Context, name string, mode Mode) (Object, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	return &bucketObject{s: s, ctx: ctx, cancel: cancel, name: name, mode: mode}, nil
}

type bucketObject struct {
	s      *bucket
	ctx    context.Context
	cancel context.CancelFunc
	name   string
	mode   Mode
	buf    []byte // of the next part
	upload string // "": no part was sent yet
	parts  []minio.CompletePart
	sent   chan part // of the part that is under way, if one is
	over   bool
}

// A part that was sent.
type part struct {
	minio.CompletePart
	buf []byte
	err error
}

// fullParts holds buffers of partSize.
var fullParts = sync.Pool{New: func() any { b := make([]byte, 0, partSize); return &b }}

func (o *bucketObject) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		if len(o.buf) == partSize {
			if err := o.send(); err != nil {
				return 0, err
			}
		}
		// Small objects need no large buffer.
		if need := min(len(o.buf)+len(p), partSize); need > cap(o.buf) && need > partSize/8 {
			full := *fullParts.Get().(*[]byte)
			o.buf = append(full[:0], o.buf...)
		}
		k := min(len(p), partSize-len(o.buf))
		o.buf = append(o.buf, p[:k]...)
		p = p[k:]
	}
	return n, o.ctx.Err()
}

// send begins to send what is in buf, when the part before has been sent.
func (o *bucketObject) send() error {
	if o.upload == "" {
		id, err := o.s.core.NewMultipartUpload(o.ctx, o.s.name, o.s.prefix+o.name, minio.PutObjectOptions{ContentType: "application/octet-stream"})
		if err != nil {
			return o.s.fail("write", o.name, err)
		}
		o.upload = id
	}
	if err := o.wait(); err != nil {
		return err
	}
	o.sent = make(chan part, 1)
	buf, n, sent := o.buf, len(o.parts)+1, o.sent
	o.buf = nil
	go func() {
		sum := sha256.Sum256(buf)
		p, err := o.s.core.PutObjectPart(o.ctx, o.s.name, o.s.prefix+o.name, o.upload, n, bytes.NewReader(buf), int64(len(buf)),
			minio.PutObjectPartOptions{Sha256Hex: hex.EncodeToString(sum[:])})
		sent <- part{minio.CompletePart{PartNumber: n, ETag: p.ETag}, buf, err}
	}()
	return nil
}

// wait waits for the part that is under way.
func (o *bucketObject) wait() error {
	if o.sent == nil {
		return nil
	}
	p := <-o.sent
	o.sent = nil
	if cap(p.buf) == partSize {
		p.buf = p.buf[:0]
		fullParts.Put(&p.buf)
	}
	if p.err != nil {
		return o.s.fail("write", o.name, p.err)
	}
	o.parts = append(o.parts, p.CompletePart)
	return nil
}

func (o *bucketObject) Commit() error {
	err := o.commit()
	if err != nil {
		o.Abort()
	}
	o.over = true
	o.cancel()
	return err
}

func (o *bucketObject) commit() error {
	if err := o.ctx.Err(); err != nil {
		return err
	}
	opt := minio.PutObjectOptions{ContentType: "application/octet-stream"}
	if o.mode == New {
		opt.SetMatchETagExcept("*")
		// Servers that do not know the condition would put it over the other.
		if _, err := o.s.Stat(o.ctx, o.name); err == nil {
			return tidemark.Errorf(tidemark.Exists, "write", o.s.url+"/"+o.name, "there is one already", "")
		} else if tidemark.KindOf(err) != tidemark.NotFound {
			return err
		}
	}
	if o.upload == "" {
		sum := sha256.Sum256(o.buf)
		_, err := o.s.core.PutObject(o.ctx, o.s.name, o.s.prefix+o.name, bytes.NewReader(o.buf), int64(len(o.buf)), "", hex.EncodeToString(sum[:]), opt)
		return o.s.fail("write", o.name, err)
	}
	if len(o.buf) > 0 {
		if err := o.send(); err != nil {
			return err
		}
	}
	if err := o.wait(); err != nil {
		return err
	}
	_, err := o.s.core.CompleteMultipartUpload(o.ctx, o.s.name, o.s.prefix+o.name, o.upload, o.parts, opt)
	return o.s.fail("write", o.name, err)
}

func (o *bucketObject) Abort() {
	if o.over {
		return
	}
	o.over = true
	o.cancel()
	_ = o.wait() // it was cancelled
	if o.upload == "" {
		return
	}
	// What stays is swept later.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(o.ctx), 30*time.Second)
	defer cancel()
	_ = o.s.core.AbortMultipartUpload(ctx, o.s.name, o.s.prefix+o.name, o.upload)
}

func (s *bucket) Read(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	if length == 0 {
		_, err := s.Stat(ctx, name)
		return io.NopCloser(bytes.NewReader(nil)), err
	}
	var opt minio.GetObjectOptions
	switch {
	case length > 0:
		_ = opt.SetRange(offset, offset+length-1) // valid numbers
	case offset > 0:
		_ = opt.SetRange(offset, 0)
	}
	r, _, _, err := s.core.GetObject(ctx, s.name, s.prefix+name, opt)
	var res minio.ErrorResponse
	if errors.As(err, &res) && (res.Code == "InvalidRange" || res.StatusCode == http.StatusRequestedRangeNotSatisfiable) {
		return io.NopCloser(bytes.NewReader(nil)), nil // all of it is beyond the end
	}
	if err != nil {
		return nil, s.fail("read", name, err)
	}
	return &bucketReader{r, s, name}, nil
}

type bucketReader struct {
	io.ReadCloser
	s    *bucket
	name string
}

func (r *bucketReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = r.s.fail("read", r.name, err)
	}
	return n, err
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
				continue // somebody else's
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
		return err // the server does not say whether there was one
	}
	return s.fail("delete", name, s.core.RemoveObject(ctx, s.name, s.prefix+name, minio.RemoveObjectOptions{}))
}

// Sweep implements Sweeper: it ends uploads that were not completed, of which the parts cost as
// much as if they had been.
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
