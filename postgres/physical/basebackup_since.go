package physical

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// A server of 17 and later knows from its summaries of the log (summarize_wal) what has changed
// since an earlier backup. It identifies that backup by its manifest (UPLOAD_MANIFEST), and sends
// only the changed pages of most files: instead of a file, one whose name begins with INCREMENTAL.
// (src/backend/backup/basebackup_incremental.c).

const (
	incrementalPrefix = "INCREMENTAL."
	incrementalMagic  = 0xd3ae1f0d
)

// Since sends the server an earlier backup's manifest, and starts a backup that builds on it. Kind
// Unsupported: the server cannot do this. Kind Invalid: it cannot build on that backup.
func (b *BaseBackup) Since(ctx context.Context, since tidemark.DataSince) (way string, findings []tidemark.Finding, err error) {
	defer b.endsWith(ctx)()
	e := b.about.e
	if e.Major < 17 {
		return "", nil, &tidemark.Error{Kind: tidemark.Unsupported, Op: "build on an earlier backup", Object: e.Object, Err: errors.New("a server before 17 does not record which blocks changed"), Hint: "Run this on the server's own host: changed blocks are found in the files there."}
	}
	var summarize string
	if err := b.about.conn.QueryRow(ctx, "SELECT current_setting('summarize_wal')").Scan(&summarize); err != nil {
		return "", nil, e.Fail(ctx, backupOp, e.Object, err)
	}
	if summarize != "on" {
		return "", nil, &tidemark.Error{Kind: tidemark.Unsupported, Op: "build on an earlier backup", Object: e.Object, Err: errors.New("the server does not summarize its WAL"), Hint: "ALTER SYSTEM SET summarize_wal = on; and make a full backup, on which later ones build."}
	}
	no := func(format string, args ...any) error {
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "build on an earlier backup", Object: e.Object, Err: fmt.Errorf(format, args...), Hint: "Make a full backup."}
	}
	if since.Checksums != b.about.checksums {
		return "", nil, no("the checksums of pages were switched on or off since")
	}
	if err := b.upload(since); err != nil {
		return "", nil, b.refused(ctx, err, no)
	}
	b.parts = &fileSums{}
	if err := b.begin(); err != nil {
		b.parts = nil
		return "", nil, b.refused(ctx, err, no)
	}
	return "the server's summaries of its log", nil, nil
}

// refused explains the server's error about an earlier backup. The server is then ready for another
// command.
func (b *BaseBackup) refused(ctx context.Context, err error, no func(string, ...any) error) error {
	if server.SQLState(err) == "" || server.Ended(err) || server.SQLState(err) == "42501" {
		return b.failed(ctx, err)
	}
	if sync := b.ready(); sync != nil {
		return b.failed(ctx, sync)
	}
	return no("%s", server.PlainCause(err))
}

// ready reads until the server accepts the next command.
func (b *BaseBackup) ready() error {
	for {
		kind, _, err := b.message()
		if err != nil && server.SQLState(err) == "" {
			return err
		}
		if kind == 'Z' {
			return nil
		}
	}
}

// upload sends the server a manifest with what it needs: the names and sizes of the files, and the
// log from which the backup was consistent.
func (b *BaseBackup) upload(since tidemark.DataSince) error {
	if err := b.lane.Send("UPLOAD_MANIFEST"); err != nil {
		return err
	}
	if kind, _, err := b.message(); err != nil || kind != 'G' {
		if err == nil {
			err = fmt.Errorf("a message of type %q instead of the manifest", kind)
		}
		return err
	}
	w := NewManifestWriter(server.LaneWriter{Lane: b.lane}, b.about.e.Major, b.set.System)
	err := since.Each(func(f tidemark.DataFile) error {
		if f.Path == ManifestPath {
			return nil
		}
		return w.Add(tidemark.DataSum{Path: f.Path, Size: f.Size, Modified: f.Modified}) // checksums are not needed
	})
	if err != nil {
		_ = b.lane.SendFail("the backup cannot be read") // the returned error says why
		return err
	}
	if err := w.Close(since.Ranges); err != nil {
		return err
	}
	if err := b.lane.SendDone(nil, ""); err != nil {
		return err
	}
	for {
		kind, _, err := b.message()
		if err != nil || kind == 'Z' {
			return err
		}
	}
}

// unpackPages emits the pages of a file that have changed.
func (b *BaseBackup) unpackPages(f *tidemark.DataFile, content io.Reader, take giver) error {
	name, size := f.Path, f.Size
	folder, last := path.Split(name)
	f.Path = folder + strings.TrimPrefix(last, incrementalPrefix)
	b.hasPages(f)
	sum := &sumReader{from: content}
	head := make([]byte, 12)
	if _, err := io.ReadFull(sum, head); err != nil {
		return err
	}
	le := binary.LittleEndian
	page := int64(b.about.page)
	n, limit := int64(le.Uint32(head[4:])), le.Uint32(head[8:])
	used := 12 + 4*n
	if n > 0 {
		used += (page - used%page) % page
	}
	if le.Uint32(head) != incrementalMagic || size != used+n*page || n*page > b.about.segment || int64(limit)*page > b.about.segment {
		return fmt.Errorf("%s is not a valid incremental file", name)
	}
	numbers := make([]byte, used-12)
	if _, err := io.ReadFull(sum, numbers); err != nil {
		return err
	}
	f.Change = &tidemark.FileChange{Limit: limit, Pages: make([]uint32, n)}
	f.Size = int64(limit) * page
	for i := range f.Change.Pages {
		f.Change.Pages[i] = le.Uint32(numbers[4*i:])
		if i > 0 && f.Change.Pages[i] <= f.Change.Pages[i-1] {
			return fmt.Errorf("the pages of %s are out of order", name)
		}
		if (int64(f.Change.Pages[i])+1)*page > b.about.segment {
			return fmt.Errorf("%s has a page %d, which is behind its end", name, f.Change.Pages[i])
		}
	}
	if n > 0 {
		f.Size = max(f.Size, (int64(f.Change.Pages[n-1])+1)*page)
	}
	if err := take(f, sum); err != nil {
		return err
	}
	b.parts.add(name, size, sum.crc)
	return nil
}

// A sumReader computes the checksum of what is read.
type sumReader struct {
	from io.Reader
	crc  uint32
}

func (s *sumReader) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	s.crc = crc32.Update(s.crc, castagnoli, p[:n])
	return n, err
}

// ownLabel returns a backup_label without the lines that make a server refuse to start: a restored
// backup is combined before it starts.
func ownLabel(label []byte) []byte {
	var out []byte
	for line := range bytes.Lines(label) {
		if !bytes.HasPrefix(line, []byte("INCREMENTAL FROM ")) {
			out = append(out, line...)
		}
	}
	return out
}
