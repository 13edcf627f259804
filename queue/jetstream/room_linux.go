package jetstream

import "golang.org/x/sys/unix"

// freeOn is how many bytes are free for us on the disk of a folder.
func freeOn(dir string) (bytes int64, ok bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, false
	}
	return int64(st.Bavail) * int64(st.Bsize), true
}
