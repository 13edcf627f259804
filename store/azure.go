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

// azure is a Store in a container of Azure Blob Storage. An object is a block blob: put at once, or
// block by block, of which the list makes it appear. Each goes with its MD5, which the server
// compares, and is refused by the server where there is one of the name (If-None-Match). Blocks that
// no list has named the server forgets after a week by itself.
type azure struct {
	c      *container.Client
	prefix string // "" or with a slash at its end
	url    string
}

// openAzure takes azblob://container/prefix?account=name&endpoint=https://host. Keys are those of
// the environment, as the command line tool az has them; without any, those that
// azidentity.DefaultAzureCredential finds: of the environment, a managed identity, az login.
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
			return fail(name+" is no parameter of an azblob URL", "account=NAME and endpoint=URL are")
		}
	}
	if u.User != nil {
		return fail("keys do not belong into the URL", "give them by AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN")
	}
	if u.Host == "" {
		return fail("no container was given", "write azblob://container/prefix")
	}
	if e, err := url.Parse(endpoint); endpoint != "" && (err != nil || e.Host == "" || e.User != nil || e.RawQuery != "") {
		return fail("the endpoint is no URL of a server", "write endpoint=https://HOST, without anything secret")
	}
	c, err := azureContainer(u.Host, account, endpoint)
	if err != nil {
		var own *tidemark.Error
		if errors.As(err, &own) {
			return nil, err
		}
		return fail("the keys in the environment cannot be used", "AZURE_STORAGE_KEY is base64, as Azure shows it; AZURE_STORAGE_CONNECTION_STRING has AccountName=...;AccountKey=...")
	}
	s := &azure{c: c, prefix: strings.Trim(u.Path, "/")}
	s.url = strings.TrimSuffix("azblob://"+u.Host+"/"+s.prefix, "/")
	if s.prefix != "" {
		s.prefix += "/"
	}
	return s, nil
}

// azureContainer finds the server and the keys. Its errors may hold secrets, but for those that are worded.
func azureContainer(name, account, endpoint string) (*container.Client, error) {
	// Tried again by Retry and by uploads, who have to know that an answer was lost.
	opt := &container.ClientOptions{ClientOptions: policy.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}}}
	if text := os.Getenv("AZURE_STORAGE_CONNECTION_STRING"); text != "" && account == "" && endpoint == "" {
		return container.NewClientFromConnectionString(text, name, opt)
	}
	account = cmp.Or(account, os.Getenv("AZURE_STORAGE_ACCOUNT"))
	if endpoint == "" {
		if account == "" {
			return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "open repository", Object: "azblob://" + name, Err: errors.New("no storage account was given"), Hint: "name it by AZURE_STORAGE_ACCOUNT, or with ?account=NAME"}
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

// fail words an error of the server, or of the way there. Those of the library have many lines, and may
// have a URL with a token.
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
		err = errors.New("there is nothing to log in with: neither a key nor a token in the environment, no managed identity, no az login")
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
		kind, hint = tidemark.Unreachable, "check the name of the account, or the endpoint"
	}
	if errors.As(err, &way) {
		err = way.Err // without the URL
	}
	return &tidemark.Error{Op: op, Object: s.url + "/" + name, Kind: kind, Hint: hint, Err: err}
}

const azureKeys = "give AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, or let the machine's identity, or that of az login, be one with the role Storage Blob Data Contributor"

func azureKind(res *azcore.ResponseError) (tidemark.Kind, string) {
	switch res.ErrorCode {
	case "ContainerNotFound", "InvalidResourceName", "ContainerDisabled":
		return tidemark.Invalid, "make the container first, or check its name and the account's"
	case "BlobAlreadyExists", "ConditionNotMet":
		return tidemark.Exists, ""
	case "LeaseIdMissing", "BlobImmutableDueToPolicy":
		return tidemark.Forbidden, "the object is under a lease or a policy that keeps it as it is"
	case "AuthenticationFailed", "InvalidAuthenticationInfo", "NoAuthenticationInformation":
		return tidemark.Denied, azureKeys
	case "InvalidBlockList":
		return tidemark.Exists, "" // another has written the name, and the server has forgotten our blocks
	}
	switch res.StatusCode {
	case http.StatusNotFound:
		return tidemark.NotFound, ""
	case http.StatusPreconditionFailed:
		return tidemark.Exists, ""
	case http.StatusUnauthorized:
		return tidemark.Denied, azureKeys
	case http.StatusForbidden:
		return tidemark.Forbidden, "the key or the role has to allow reading, writing, listing and deleting there (Storage Blob Data Contributor), and the account's firewall this machine"
	case http.StatusInsufficientStorage:
		return tidemark.Full, "make room there, for example with tidemark prune"
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return tidemark.Unsupported, "that server does not know the request: it has to have block blobs"
	}
	return tidemark.Transient, ""
}

func (s *azure) Create(ctx context.Context, name string, mode Mode) (Object, error) {
	return createInParts(ctx, s, name, mode)
}

// unless is the condition under which an object is written.
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
	up.id = up.mark                         // blocks need no beginning
	return vacant(ctx, s, up.name, up.mode) // early, before much is sent
}

// blockID has the same length for all, as it must, and is another for each writer of a name.
func blockID(up *upload, n int) string {
	mark, _ := hex.DecodeString(up.mark) // is made as that
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(mark, uint32(n)))
}

func (s *azure) part(ctx context.Context, up *upload, body []byte, _ bool) (string, error) {
	sum, id := md5.Sum(body), blockID(up, len(up.tags))
	_, err := s.blob(up.name).StageBlock(ctx, id, streaming.NopCloser(bytes.NewReader(body)), &blockblob.StageBlockOptions{TransactionalValidation: blob.TransferValidationTypeMD5(sum[:])})
	return id, s.fail("write", up.name, err)
}

// azureMark is markKey as names have to be in Azure.
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

func (s *azure) abort(context.Context, *upload) {} // the server forgets the blocks

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
					continue // somebody else's, or a folder of an account that has such
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
