package backup

import (
	"errors"
	"io"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tidemarkdb/tidemark"
)

// A backup reads everything once, and its reads should not evict what the server needs in the
// system's cache. Since Linux 6.14 a read can request that (RWF_DONTCACHE): what was cached stays,
// and the rest is dropped at once. Direct I/O, which bypasses the cache, is used only on request:
// it is slower if files are cached, since it reads them from the disk anyway.

const rwfDontCache = 0x80 // RWF_DONTCACHE of linux/fs.h

// readOnce is ReadAt that leaves nothing in the cache.
func readOnce(f *os.File, b []byte, at int64) (n int, err error) {
	for n < len(b) {
		m, err := unix.Preadv2(int(f.Fd()), [][]byte{b[n:]}, at+int64(n), rwfDontCache)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS):
			m, err := f.ReadAt(b[n:], at+int64(n)) // the kernel or the file system does not support such reads
			return n + m, err
		case err != nil:
			return n, &os.PathError{Op: "read", Path: f.Name(), Err: err}
		case m == 0:
			return n, io.EOF
		}
		n += max(m, 0)
	}
	return n, nil
}

// directUnit is the alignment of memory, offsets and lengths for direct I/O, valid for any disk.
const directUnit = 4096

// setDirect makes reads and writes of a file bypass the cache, or stops that. Kind Unsupported.
func setDirect(f *os.File, on bool) error {
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err == nil {
		flags &^= unix.O_DIRECT
		if on {
			flags |= unix.O_DIRECT
		}
		_, err = unix.FcntlInt(f.Fd(), unix.F_SETFL, flags)
	}
	if err != nil {
		return &tidemark.Error{Op: "direct I/O", Object: f.Name(), Kind: tidemark.Unsupported, Err: err, Hint: "The file system does not support it: leave out --direct-io."}
	}
	return nil
}

// bounces are aligned buffers.
var bounces = sync.Pool{New: func() any {
	b := make([]byte, 1<<20+directUnit)
	off := int(-uintptr(unsafe.Pointer(&b[0])) & (directUnit - 1))
	b = b[off : off+1<<20]
	return &b
}}

// readDirect is ReadAt of a file set to direct I/O; at is a multiple of directUnit.
func readDirect(f *os.File, b []byte, at int64) (n int, err error) {
	room := bounces.Get().(*[]byte)
	defer bounces.Put(room)
	for n < len(b) {
		want := min(len(b)-n, len(*room))
		m, err := unix.Pread(int(f.Fd()), (*room)[:(want+directUnit-1)&^(directUnit-1)], at+int64(n))
		if err != nil {
			if errors.Is(err, unix.EINTR) {
				continue
			}
			return n, &os.PathError{Op: "read", Path: f.Name(), Err: err}
		}
		n += copy(b[n:], (*room)[:min(m, want)])
		if m < want { // the next read would be unaligned
			return n, io.EOF
		}
	}
	return n, nil
}

// writeDirect is WriteAt that bypasses the cache, except for an unaligned rest at the end.
func writeDirect(f *os.File, b []byte, at int64) error {
	whole := len(b) &^ (directUnit - 1)
	if at%directUnit != 0 {
		whole = 0
	}
	if whole > 0 {
		if err := setDirect(f, true); err != nil {
			return err
		}
		room := bounces.Get().(*[]byte)
		defer bounces.Put(room)
		for n := 0; n < whole; {
			m := copy(*room, b[n:whole])
			if _, err := f.WriteAt((*room)[:m], at+int64(n)); err != nil {
				return err
			}
			n += m
		}
		if err := setDirect(f, false); err != nil {
			return err
		}
	}
	if whole == len(b) {
		return nil
	}
	_, err := f.WriteAt(b[whole:], at+int64(whole))
	return err
}
