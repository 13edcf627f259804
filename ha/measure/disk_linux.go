package measure

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// openWay opens an existing file for writes in a way.
func openWay(path string, way DiskWay) (*os.File, error) {
	flags := os.O_WRONLY
	if way.Sync == ODSync {
		flags |= unix.O_DSYNC
	}
	if way.Direct {
		flags |= unix.O_DIRECT
	}
	return os.OpenFile(path, flags, 0)
}

// syncWay makes written data durable.
func syncWay(f *os.File, how SyncCall) error {
	switch how {
	case FDataSync:
		for {
			if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
				return os.NewSyscallError("fdatasync", err)
			}
		}
	case FSync:
		return f.Sync()
	}
	return nil // O_DSYNC: the write has done it
}

// unavailable reports whether an error means that this way of writing is not available.
func unavailable(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, errors.ErrUnsupported)
}

func diskFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// fileSystems are the numbers of statfs(2) for file systems that databases use.
var fileSystems = map[int64]string{
	unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs", 0x2FC12FC1: "zfs",
	unix.TMPFS_MAGIC: "tmpfs", unix.RAMFS_MAGIC: "ramfs", unix.NFS_SUPER_MAGIC: "nfs", unix.OVERLAYFS_SUPER_MAGIC: "overlay",
	unix.F2FS_SUPER_MAGIC: "f2fs", 0x65735546: "fuse", 0x01021997: "9p", unix.CEPH_SUPER_MAGIC: "ceph",
}

// fileSystemOf returns the file system of dir, and how many of its bytes are free for us.
func fileSystemOf(dir string) (name string, free int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "", 0, os.NewSyscallError("statfs", err)
	}
	name, ok := fileSystems[int64(st.Type)]
	if !ok {
		name = fmt.Sprintf("file system %x", st.Type)
	}
	return name, int64(st.Bavail) * int64(st.Bsize), nil
}
