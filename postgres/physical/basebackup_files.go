package physical

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"iter"
	"path"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/postgres/server"
	"github.com/tidemarkdb/tidemark/postgres/wal"
)

// giver receives a file that was sent.
type giver = func(f *tidemark.DataFile, content io.Reader) error

// Files emits what the server sends: the files in tar archives, one for each tablespace and the
// data folder's last, and then its backup_manifest.
func (b *BaseBackup) Files(ctx context.Context, give func(f *tidemark.DataFile, content io.Reader) error) error {
	defer b.endsWith(ctx)()
	if err := give(&tidemark.DataFile{Path: ".", Dir: true, Mode: b.mode, Modified: time.Now()}, nil); err != nil {
		return err
	}
	for _, s := range b.spaces {
		if err := give(&tidemark.DataFile{Path: fmt.Sprintf("%s/%d", spaceFolder, s.OID), Dir: true, Mode: 0o700, Modified: time.Now()}, nil); err != nil {
			return err
		}
	}
	take := func(f *tidemark.DataFile, content io.Reader) error {
		b.listed += int64(6*len(f.Path)) + 300 // a byte may be \u0001, and the rest of a line is shorter
		return give(f, content)
	}
	var err error
	if b.about.e.Major >= 15 {
		err = b.sentAtOnce(take)
	} else {
		err = b.sentOneByOne(take)
	}
	if err == nil {
		err = b.sentEnd()
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return b.failed(ctx, err)
}

// An archive is the content of one tar archive, which arrives in messages. Messages of 15 and later
// begin with an extra type byte.
type archive struct {
	b     *BaseBackup
	typed bool
	rest  []byte // of the last message
	over  bool
	next  []byte // the message that begins what follows; nil: nothing follows
}

// Read implements io.Reader.
func (a *archive) Read(p []byte) (int, error) {
	for len(a.rest) == 0 {
		if a.over {
			return 0, io.EOF
		}
		kind, body, err := a.b.message()
		switch {
		case err != nil:
			return 0, err
		case kind == 'c':
			a.over = true
		case kind != 'd' || a.typed && len(body) == 0:
			return 0, fmt.Errorf("a message of type %q in the middle of an archive", kind)
		case !a.typed:
			a.rest = body
		case body[0] == 'd':
			a.rest = body[1:]
		case body[0] == 'n' || body[0] == 'm':
			a.over, a.next = true, append([]byte{}, body...)
		case body[0] != 'p': // progress: the sizes of files say enough
			return 0, fmt.Errorf("a malformed message in the middle of an archive: %.20q", body)
		}
	}
	n := copy(p, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

// copying waits until the server begins to send.
func (b *BaseBackup) copying() error {
	kind, _, err := b.message()
	if err == nil && kind != 'H' {
		err = fmt.Errorf("a message of type %q instead of the beginning of an archive", kind)
	}
	return err
}

// sentAtOnce receives what 15 and later send: one stream for everything.
func (b *BaseBackup) sentAtOnce(take giver) error {
	if err := b.copying(); err != nil {
		return err
	}
	a := &archive{b: b, typed: true}
	if _, err := io.Copy(io.Discard, a); err != nil { // nothing precedes the first archive
		return err
	}
	for n := 0; a.next != nil; n++ {
		head := a.next
		*a = archive{b: b, typed: true}
		if head[0] == 'm' {
			if err := b.manifest(a, take); err != nil {
				return err
			}
			continue
		}
		// Their names only show their order: OID.tar, and base.tar last.
		if n >= len(b.archives) {
			return errors.New("the server sends more archives than it has tablespaces")
		}
		if err := b.unpack(b.archives[n], a, take); err != nil {
			return err
		}
	}
	return nil
}

// sentOneByOne receives what 13 and 14 send: a stream for each archive, and one for the manifest.
func (b *BaseBackup) sentOneByOne(take giver) error {
	for _, at := range b.archives {
		if err := b.copying(); err != nil {
			return err
		}
		if err := b.unpack(at, &archive{b: b}, take); err != nil {
			return err
		}
	}
	if err := b.copying(); err != nil {
		return err
	}
	return b.manifest(&archive{b: b}, take)
}

// sentEnd reads the position where the backup ends.
func (b *BaseBackup) sentEnd() error {
	rows, err := b.rows()
	if err != nil {
		return err
	}
	if b.about.end.stop, b.about.end.timeline, err = placeRow(rows); err != nil {
		return err
	}
	for {
		kind, _, err := b.message()
		switch {
		case server.SQLState(err) == "XX001": // at the very end the server reports damaged pages
			b.rotten = server.PlainCause(err)
			continue
		case err != nil:
			return err
		case kind == 'Z':
			close(b.sent)
			return nil
		}
	}
}

// unpack emits the files of an archive. at is their folder below the data folder.
func (b *BaseBackup) unpack(at string, a *archive, take giver) error {
	files := tar.NewReader(a)
	for {
		h, err := files.Next()
		if err == io.EOF {
			_, err = io.Copy(io.Discard, a) // zeros at the end
			return err
		}
		if err != nil {
			return err
		}
		if b.set.Owner.User == "" {
			b.set.Owner = tidemark.Owner{User: h.Uname, Group: h.Gname, UID: h.Uid, GID: h.Gid}
		}
		switch h.Typeflag {
		case tar.TypeReg, tar.TypeDir, tar.TypeSymlink:
		default:
			return fmt.Errorf("%q is of the type %q, which servers do not send", h.Name, h.Typeflag)
		}
		if len(h.PAXRecords) > 0 { // they could declare a sparse file of any size
			return fmt.Errorf("%q is in another tar format than the server's", h.Name)
		}
		f := tidemark.DataFile{Path: path.Join(at, h.Name), Size: h.Size, Modified: h.ModTime, Mode: uint32(h.Mode) & 0o777, Dir: h.Typeflag == tar.TypeDir}
		if !fs.ValidPath(f.Path) {
			return fmt.Errorf("a file with the path %q", h.Name)
		}
		if err := b.unpackFile(&f, h.Typeflag, files, take); err != nil {
			return err
		}
	}
}

func (b *BaseBackup) unpackFile(f *tidemark.DataFile, kind byte, content io.Reader, take giver) (err error) {
	folder, name := path.Split(f.Path)
	switch {
	case kind == tar.TypeSymlink, name == "standby.signal" && folder == "", name == "recovery.signal" && folder == "":
		return nil // the restore makes the links of tablespaces; what makes a standby is not data
	case f.Path == controlPath:
		b.control, err = small(f, content)
		return err
	case f.Path == "backup_label":
		b.label, err = small(f, content)
		if b.parts != nil { // some of it is left out
			b.parts.add(f.Path, int64(len(b.label)), crc32.Checksum(b.label, castagnoli))
		}
		return err
	case b.parts != nil && strings.HasPrefix(name, incrementalPrefix):
		return b.unpackPages(f, content, take)
	}
	b.hasPages(f)
	return take(f, content)
}

// maxSmall bounds, in bytes, the files that are kept in memory: pg_control has 8 kB, and
// backup_label less.
const maxSmall = 1 << 20

func small(f *tidemark.DataFile, content io.Reader) ([]byte, error) {
	if f.Size > maxSmall {
		return nil, fmt.Errorf("%s has %d bytes, which is more than it can have", f.Path, f.Size)
	}
	return io.ReadAll(content)
}

// hasPages records whether a file consists of pages with checksums.
func (b *BaseBackup) hasPages(f *tidemark.DataFile) {
	folder, name := path.Split(f.Path)
	_, is := parseRelation(name)
	f.Pages = is && b.about.checksums && (isDatabaseFolder(path.Clean(folder)) || folder == "global/")
}

// manifest emits backup_manifest, and records its contents. The server does not announce its size.
func (b *BaseBackup) manifest(a *archive, take giver) error {
	if b.parts != nil { // it describes pages: combining the files creates a new one
		b.parts.sort()
		b.said.parts = b.parts
		if _, err := io.Copy(&b.said, a); err != nil {
			return err
		}
		return b.said.finish()
	}
	f := &tidemark.DataFile{Path: ManifestPath, Size: b.listed + 4096, Modified: time.Now(), Mode: 0o600 | b.mode&0o040}
	if err := take(f, io.TeeReader(a, &b.said)); err != nil {
		return err
	}
	return b.said.finish()
}

// Compare checks the files against the server's manifest.
func (b *BaseBackup) Compare(files iter.Seq2[tidemark.DataSum, error]) error {
	if b.parts != nil && b.parts.left() > 0 {
		return changedOnTheWay(ManifestPath, fmt.Sprintf("%d files were received that the server's manifest does not list", b.parts.left()))
	}
	b.said.sums.sort()
	for f, err := range files {
		if err != nil {
			return err
		}
		if said, ok := b.said.sums.take(f.Path); ok {
			if err := said.compare(f.Path, f.Size, f.CRC32C); err != nil {
				return err
			}
		}
	}
	for _, left := range []string{"standby.signal", "recovery.signal"} {
		b.said.sums.take(left)
	}
	if n := b.said.sums.left(); n > 0 {
		return changedOnTheWay(ManifestPath, fmt.Sprintf("%d files of the server's manifest were not received", n))
	}
	return nil
}

// Log emits the segments of the log from the one in which the backup begins to the one in which it
// ends, and the histories of timelines.
func (b *BaseBackup) Log(ctx context.Context, give func(f *tidemark.DataFile, content io.Reader) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var last error // of the connection
	r, err := b.about.e.Receive(ReceiveOptions{From: b.about.start, System: b.set.System, Reconnect: true, Event: func(_ string, err error) {
		b.logMu.Lock()
		defer b.logMu.Unlock()
		if err != nil {
			last = err
		}
	}})
	if err != nil {
		return err
	}
	b.logMu.Lock()
	b.log = r
	b.logMu.Unlock()
	lost := func() {
		b.logMu.Lock()
		defer b.logMu.Unlock()
		stop(&tidemark.Error{Kind: tidemark.Lost, Op: backupOp, Object: b.about.e.Object, Err: fmt.Errorf("the WAL that the backup needs does not arrive: no connection for %s: %v", patience, last), Hint: "A backup uses two of max_wal_senders. Start the backup again; nothing of this one was kept."})
	}
	crash.Go(func() { b.watchLog(ctx, r, lost) })
	err = r.Run(ctx, func(_ context.Context, f *tidemark.LogFile) error { return b.takeLog(ctx, f, give) })
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// watchLog sets the receiver's end once it is known, and gives up a receiver that stays without a
// connection for too long.
func (b *BaseBackup) watchLog(ctx context.Context, r *Receiver, lost func()) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	sent, since := b.sent, time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-sent:
			sent = nil
			r.End(b.about.end.stop)
		case <-tick.C:
			if r.Status().Connected {
				since = time.Now()
			}
			if time.Since(since) > patience {
				lost()
				return
			}
		}
	}
}

// takeLog emits a file of the log, as far as the backup needs it. The server need not keep it any
// longer.
func (b *BaseBackup) takeLog(ctx context.Context, f *tidemark.LogFile, give giver) error {
	var stop uint64 // 0: not yet known
	select {
	case <-b.sent:
		stop = b.about.end.stop
	default:
	}
	out := tidemark.DataFile{Path: path.Join(logFolder, f.Name), Size: int64(f.Size), Modified: time.Now(), Mode: 0o600 | b.mode&0o040}
	if strings.HasSuffix(f.Name, ".history") {
		b.logMu.Lock()
		b.history[f.Timeline] = string(f.Bytes)
		b.logMu.Unlock()
		return give(&out, bytes.NewReader(f.Bytes))
	}
	switch {
	case stop > 0 && f.Place >= stop, // after the backup's end
		!f.Whole() && (stop == 0 || f.End() < stop): // more of it will arrive, or the next timeline has it
		return nil
	case f.Damage != "":
		return &tidemark.Error{Kind: tidemark.Corrupt, Op: backupOp, Object: f.Name, Err: errors.New("the server's segment is damaged, and a recovery would end in it: " + f.Damage), Hint: "Check the server's disk, then back up again."}
	}
	if err := give(&out, io.MultiReader(bytes.NewReader(f.Bytes), io.LimitReader(zeros{}, int64(f.Size-len(f.Bytes))))); err != nil {
		return err
	}
	if b.about.slot != "" {
		// If this fails, the server keeps more than it has to, or the session is gone and with it
		// the slot; the receiver requests what follows in any case.
		_, _ = b.about.conn.Exec(ctx, "SELECT pg_replication_slot_advance($1, $2::pg_lsn)", b.about.slot, wal.FormatLSN(f.End()))
	}
	return nil
}

// zeros are the bytes of a segment after the end of the log.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
