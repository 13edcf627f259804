package testdb

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// SlowFolder mounts a folder at a second path, on a file system (FUSE) that is as slow as
// requested, until the test ends. ok is false if this machine has no FUSE.
func SlowFolder(tb testing.TB, folder string, how Slow) (path string, ok bool) {
	tb.Helper()
	own, err := processHome()
	if err != nil {
		tb.Fatal(err)
	}
	at, err := os.MkdirTemp(own, "slow-")
	if err != nil {
		tb.Fatal(err)
	}
	root, err := fs.NewLoopbackRoot(folder)
	if err != nil {
		tb.Fatal(err)
	}
	server, err := fs.Mount(at, &slowNode{root.(*fs.LoopbackNode), how}, &fs.Options{MountOptions: fuse.MountOptions{
		FsName: "tidemark-test", DirectMountStrict: true, AllowOther: true, MaxWrite: 512 << 10, MaxBackground: 64}})
	if err != nil {
		tb.Logf("no slow file system here: %v", err)
		return "", false
	}
	tb.Cleanup(func() {
		if err := syscall.Unmount(at, 0); err != nil { // still in use
			_ = syscall.Unmount(at, syscall.MNT_DETACH)
			return
		}
		server.Wait()
		_ = os.Remove(at)
	})
	return at, true
}

// slowNode is a file or folder of a SlowFolder.
type slowNode struct {
	*fs.LoopbackNode
	how Slow
}

func (n *slowNode) WrapChild(_ context.Context, ops fs.InodeEmbedder) fs.InodeEmbedder {
	return &slowNode{ops.(*fs.LoopbackNode), n.how}
}

func (n *slowNode) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	path := filepath.Join(n.RootData.Path, n.Path(n.Root()))
	f, err := os.OpenFile(path, int(flags)&^(syscall.O_APPEND|syscall.O_CREAT|syscall.O_EXCL), 0)
	if err != nil {
		return nil, 0, fs.ToErrno(err)
	}
	return &slowFile{fs.NewLoopbackFileFromOS(f), n.how}, fuse.FOPEN_DIRECT_IO, 0
}

func (n *slowNode) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	inode, h, _, errno := n.LoopbackNode.Create(ctx, name, flags, mode, out)
	if errno != 0 {
		return nil, nil, 0, errno
	}
	return inode, &slowFile{h.(*fs.LoopbackFile), n.how}, fuse.FOPEN_DIRECT_IO, 0
}

// slowFile is an open file. All its data passes through this process, since the kernel does not
// know the file below.
type slowFile struct {
	*fs.LoopbackFile
	how Slow
}

func (*slowFile) PassthroughFd() (int, bool) { return 0, false }

func pause(bytes, rate int64) {
	if rate > 0 {
		time.Sleep(time.Duration(float64(bytes) / float64(rate) * float64(time.Second)))
	}
}

func (f *slowFile) Read(ctx context.Context, buf []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	pause(int64(len(buf)), f.how.Stream)
	return f.LoopbackFile.Read(ctx, buf, off)
}

func (f *slowFile) Write(ctx context.Context, data []byte, off int64) (uint32, syscall.Errno) {
	pause(int64(len(data)), f.how.Stream)
	return f.LoopbackFile.Write(ctx, data, off)
}

func (f *slowFile) Fsync(ctx context.Context, flags uint32) syscall.Errno {
	time.Sleep(f.how.Sync)
	return f.LoopbackFile.Fsync(ctx, flags)
}

func (f *slowFile) Allocate(ctx context.Context, off, size uint64, mode uint32) syscall.Errno {
	pause(int64(size), f.how.Allocate)
	return f.LoopbackFile.Allocate(ctx, off, size, mode)
}
