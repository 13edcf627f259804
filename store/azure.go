package store

import (
	"bytes"
	"cmp"
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/binary"
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

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/tidemarkdb/tidemark"
)

// azure is a Store in a container of Azure Blob Storage. An object is a block blob, written in one
// request, or block by block and made visible by the block list. Each request has an MD5 that the
// server checks; the server rejects an existing name (If-None-Match), and drops uncommitted blocks
// after a week.
type azure struct {
	c      *container.Client
	prefix string // "" or ends with a slash
	url    string
}

// openAzure opens azblob://container/prefix?account=name&endpoint=https://host. Keys come from the
// environment, as for the az command line tool; without any, from
// azidentity.DefaultAzureCredential: the environment, a managed identity, az login.
func openAzure(u *url.URL) (Store, error) {
	fail := func(cause, hint string) (Store, error) {
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "open repository", Object: "azblob://" + u.Host + u.Path, Err: errors.New(cause), Hint: hint}
	}
	account, endpoint := "", ""
	for name, values := range u.Query() {
		switch name {
		case "account":
			account = values[0]
		case "endpoint":
			endpoint = strings.TrimSuffix(values[0], "/")
		default:
			return fail(tidemark.UnknownOption(u, name), "Valid parameters are account=NAME and endpoint=URL.")
		}
	}
	if u.User != nil {
		return fail("the URL contains a key", "Set AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN instead.")
	}
	if u.Host == "" {
		return fail("no container was given", "Write azblob://container/prefix.")
	}
	if e, err := url.Parse(endpoint); endpoint != "" && (err != nil || e.Host == "" || e.User != nil || e.RawQuery != "") {
		return fail("the endpoint is not a server's URL", "Write endpoint=https://HOST, without credentials.")
	}
	c, err := azureContainer(u.Host, account, endpoint)
	if err != nil {
		var own *tidemark.Error
		if errors.As(err, &own) {
			return nil, err
		}
		return fail("the keys in the environment are invalid", "Set AZURE_STORAGE_KEY in base64, as Azure shows it, or AZURE_STORAGE_CONNECTION_STRING with AccountName and AccountKey.")
	}
	s := &azure{c: c, prefix: strings.Trim(u.Path, "/")}
	s.url = strings.TrimSuffix("azblob://"+u.Host+"/"+s.prefix, "/")
	if s.prefix != "" {
		s.prefix += "/"
	}
	return s, nil
}

// azureContainer finds the server and the keys. Its errors may hold secrets, except those of type
// tidemark.Error.
func azureContainer(name, account, endpoint string) (*container.Client, error) {
	// Retry and uploads do the retries: they must know that an answer was lost.
	way := http.DefaultTransport.(*http.Transport).Clone()
	way.MaxIdleConnsPerHost = 32
	opt := &container.ClientOptions{ClientOptions: policy.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}, Transport: &http.Client{Transport: &trips{way: way}}}}
	if text := os.Getenv("AZURE_STORAGE_CONNECTION_STRING"); text != "" && account == "" && endpoint == "" {
		return container.NewClientFromConnectionString(text, name, opt)
	}
	account = cmp.Or(account, os.Getenv("AZURE_STORAGE_ACCOUNT"))
	if endpoint == "" {
		if account == "" {
			return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "open repository", Object: "azblob://" + name, Err: errors.New("no storage account was given"), Hint: "Set AZURE_STORAGE_ACCOUNT, or add ?account=NAME."}
		}
		endpoint = "https://" + account + ".blob.core.windows.net"
	}
	at := endpoint + "/" + url.PathEscape(name)
	if key := os.Getenv("AZURE_STORAGE_KEY"); key != "" {
		cred, err := container.NewSharedKeyCredential(account, key)
		if err != nil {
			return nil, err
		}
		return container.NewClientWithSharedKeyCredential(at, cred, opt)
	}
	if sas := os.Getenv("AZURE_STORAGE_SAS_TOKEN"); sas != "" {
		return container.NewClientWithNoCredential(at+"?"+strings.TrimPrefix(sas, "?"), opt)
	}
	cred, err := azidentity.NewDefaultAzureCredential(nil)
	if err != nil {
		return nil, err
	}
	return container.NewClient(at, cred, opt)
}

func (s *azure) String() string { return s.url }
func (s *azure) Close() error   { return nil }
func (s *azure) maxParts() int  { return 50_000 }

func (s *azure) writerMemory() int64 { return 2 * partSize }

func (s *azure) blob(name string) *blockblob.Client { return s.c.NewBlockBlobClient(s.prefix + name) }

// fail describes an error of the server or of the connection. The library's errors have many lines,
// and may have a URL with a token.
func (s *azure) fail(op, name string, err error) error {
	if err == nil {
		return nil
	}
	kind, hint := tidemark.Transient, ""
	var own *tidemark.Error
	var res *azcore.ResponseError
	var login *azidentity.AuthenticationFailedError
	var network net.Error
	var way *url.Error
	switch {
	case errors.As(err, &own):
		return err
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return context.DeadlineExceeded
	case errors.As(err, &login), strings.Contains(err.Error(), "DefaultAzureCredential"):
		kind, hint = tidemark.Denied, azureKeys
		err = errors.New("found no credentials: no key or token in the environment, no managed identity, no az login")
	case errors.As(err, &res):
		kind, hint = azureKind(res)
		err = errors.New(strings.ToLower(http.StatusText(res.StatusCode)))
		if res.ErrorCode != "" {
			err = errors.New(res.ErrorCode)
		}
		if op == "delete" && res.ErrorCode == "BlobImmutableDueToPolicy" {
			hint, err = keptHint, keptError{err}
		}
	case errors.As(err, &network) && isDial(err):
		kind, hint = tidemark.Unreachable, "Check the account's name and the endpoint."
	}
	if errors.As(err, &way) {
		err = way.Err // without the URL
	}
	return &tidemark.Error{Op: op, Object: s.url + "/" + name, Kind: kind, Hint: hint, Err: err}
}

const azureKeys = "Set AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, or give the role Storage Blob Data Contributor to the machine's identity or that of az login."

func azureKind(res *azcore.ResponseError) (tidemark.Kind, string) {
	switch res.ErrorCode {
	case "ContainerNotFound", "InvalidResourceName", "ContainerDisabled":
		return tidemark.Invalid, "Create the container first, or check its name and the account's."
	case "BlobAlreadyExists", "ConditionNotMet":
		return tidemark.Exists, ""
	case "LeaseIdMissing", "BlobImmutableDueToPolicy":
		return tidemark.Forbidden, "a lease or a policy makes the object immutable"
	case "AuthenticationFailed", "InvalidAuthenticationInfo", "NoAuthenticationInformation":
		return tidemark.Denied, azureKeys
	case "InvalidBlockList":
		return tidemark.Exists, "" // another writer has written the name, and the server has dropped our blocks
	}
	switch res.StatusCode {
	case http.StatusNotFound:
		return tidemark.NotFound, ""
	case http.StatusPreconditionFailed:
		return tidemark.Exists, ""
	case http.StatusUnauthorized:
		return tidemark.Denied, azureKeys
	case http.StatusForbidden:
		return tidemark.Forbidden, "Allow the key or the role to read, write, list and delete there (Storage Blob Data Contributor), and allow this machine in the account's firewall."
	case http.StatusInsufficientStorage:
		return tidemark.Full, "Free space there, for example with tidemark prune."
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return tidemark.Unsupported, "Use a server with block blobs: this one does not know the request."
	}
	return tidemark.Transient, ""
}

func (s *azure) Create(ctx context.Context, name string, mode Mode) (Object, error) {
	return createInParts(ctx, s, name, mode)
}

// unless returns the condition for writing an object.
func unless(mode Mode) *blob.AccessConditions {
	if mode == Replace {
		return nil
	}
	any := azcore.ETagAny
	return &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: &any}}
}

func (s *azure) whole(ctx context.Context, name string, body []byte, mode Mode) error {
	sum := md5.Sum(body)
	_, err := s.blob(name).Upload(ctx, streaming.NopCloser(bytes.NewReader(body)), &blockblob.UploadOptions{AccessConditions: unless(mode), TransactionalValidation: blob.TransferValidationTypeMD5(sum[:])})
	return s.fail("write", name, err)
}

func (s *azure) begin(ctx context.Context, up *upload) error {
	up.id = up.mark                         // blocks need no begin request
	return vacant(ctx, s, up.name, up.mode) // early, before much is sent
}

// blockID returns an ID of the same length for all blocks, as required, and different for each
// writer of a name.
func blockID(up *upload, n int) string {
	mark, _ := hex.DecodeString(up.mark) // it is always hexadecimal
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(mark, uint32(n)))
}

func (s *azure) part(ctx context.Context, up *upload, body []byte, _ bool) (string, error) {
	sum, id := md5.Sum(body), blockID(up, len(up.tags))
	_, err := s.blob(up.name).StageBlock(ctx, id, streaming.NopCloser(bytes.NewReader(body)), &blockblob.StageBlockOptions{TransactionalValidation: blob.TransferValidationTypeMD5(sum[:])})
	return id, s.fail("write", up.name, err)
}

// azureMark is markKey in a form that Azure accepts.
const azureMark = "tidemarkupload"

func (s *azure) complete(ctx context.Context, up *upload, last []byte, _ bool) error {
	if err := lastPart(ctx, s, up, last); err != nil {
		return err
	}
	_, err := s.blob(up.name).CommitBlockList(ctx, append(slices.Clone(up.tags), up.last), &blockblob.CommitBlockListOptions{AccessConditions: unless(up.mode), Metadata: map[string]*string{azureMark: &up.mark}})
	return s.fail("write", up.name, err)
}

func (s *azure) mine(ctx context.Context, up *upload) bool {
	p, err := s.blob(up.name).GetProperties(ctx, nil)
	for name, v := range p.Metadata {
		if err == nil && strings.EqualFold(name, azureMark) && v != nil && *v == up.mark {
			return true
		}
	}
	return false
}

func (s *azure) abort(context.Context, *upload) {} // the server drops the blocks

func (s *azure) Read(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	return readCloud(ctx, s, name, length, func() (body io.ReadCloser, beyond bool, err error) {
		r, err := s.blob(name).DownloadStream(ctx, &blob.DownloadStreamOptions{Range: blob.HTTPRange{Offset: offset, Count: max(length, 0)}})
		var res *azcore.ResponseError
		return r.Body, errors.As(err, &res) && res.StatusCode == http.StatusRequestedRangeNotSatisfiable, err
	})
}

func (s *azure) Stat(ctx context.Context, name string) (Info, error) {
	if err := CheckName(name); err != nil {
		return Info{}, err
	}
	p, err := s.blob(name).GetProperties(ctx, nil)
	if err != nil {
		return Info{}, s.fail("look at", name, err)
	}
	i := Info{Name: name}
	if p.ContentLength != nil {
		i.Size = *p.ContentLength
	}
	if p.LastModified != nil {
		i.Time = *p.LastModified
	}
	return i, nil
}

func (s *azure) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		from := s.prefix + prefix
		pages := s.c.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{Prefix: &from})
		for pages.More() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				yield(Info{}, s.fail("list", prefix, err))
				return
			}
			for _, b := range page.Segment.BlobItems {
				name := strings.TrimPrefix(*b.Name, s.prefix)
				p := b.Properties
				if CheckName(name) != nil || p == nil || p.ContentLength == nil || p.LastModified == nil || p.ResourceType != nil && *p.ResourceType == "directory" {
					continue // foreign, or a folder of an account with a hierarchical namespace
				}
				if !yield(Info{Name: name, Size: *p.ContentLength, Time: *p.LastModified}, nil) {
					return
				}
			}
		}
	}
}

func (s *azure) Delete(ctx context.Context, name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	_, err := s.blob(name).Delete(ctx, nil)
	return s.fail("delete", name, err)
}
