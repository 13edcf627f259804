package plainfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

func (e *LinkError) Error() string {
	return fmt.Sprintf("%s is a symbolic link of another user (uid %d), which root does not follow", e.Path, e.User)
}

// Unwrap returns ErrLink.
func (e *LinkError) Unwrap() error { return ErrLink }

// guarded reports whether links of others are refused.
func guarded() bool { return os.Geteuid() == 0 }

// walk opens a folder in d, and refuses links of others on the way.
func (d Dir) walk(name string) (folder, error) {
	in, err := openRoot(filepath.Clean(string(d)))
	if err != nil || name == "." {
		return in, err
	}
	for part := range strings.SplitSeq(filepath.Clean(name), string(filepath.Separator)) {
		to, err := leads(in, part)
		var next *os.Root
		switch {
		case err != nil:
		case to != "":
			next, err = openRoot(to)
		default:
			// A link that was put there since is one that the root does not leave.
			next, err = in.OpenRoot(part)
			var at *fs.PathError
			if errors.As(err, &at) && !errors.As(err, new(syscall.Errno)) {
				err = &fs.PathError{Op: "open", Path: filepath.Join(in.Name(), part), Err: syscall.ENOTDIR}
			}
		}
		in.Close()
		if err != nil {
			return nil, err
		}
		in = next
	}
	return in, nil
}

func openRoot(path string) (*os.Root, error) {
	st, err := os.Stat(path) // a named pipe would hang
	if err == nil && !st.IsDir() {
		err = &fs.PathError{Op: "open", Path: path, Err: syscall.ENOTDIR}
	}
	if err != nil {
		return nil, err
	}
	return os.OpenRoot(path)
}

// leads returns where a symbolic link leads that may be followed; "": it is none, or is missing.
func leads(in folder, name string) (string, error) {
	root, ok := in.(*os.Root)
	if !ok {
		return "", nil
	}
	if st, err := root.Lstat(name); err != nil || st.Mode()&fs.ModeSymlink == 0 {
		return "", nil
	}
	// The link is opened so that its owner and its target are those of one link.
	f, err := root.OpenFile(name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || st.Mode()&fs.ModeSymlink == 0 {
		return "", err
	}
	path := filepath.Join(root.Name(), name)
	if user := int(st.Sys().(*syscall.Stat_t).Uid); user != 0 {
		return "", &LinkError{path, user}
	}
	to := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(f.Fd()), "", to)
	switch text := string(to[:max(n, 0)]); {
	case err != nil:
		return "", &fs.PathError{Op: "readlink", Path: path, Err: err}
	case strings.Contains(text, ":["): // a pipe among /proc/self/fd
		return path, nil
	case filepath.IsAbs(text):
		return text, nil
	default:
		return filepath.Join(root.Name(), text), nil
	}
}
