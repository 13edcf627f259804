//go:build !linux

package plainfile

func (e *LinkError) Error() string { return e.Path + " is " + ErrLink.Error() }

// Unwrap returns ErrLink.
func (e *LinkError) Unwrap() error { return ErrLink }

func guarded() bool { return false }

func (d Dir) walk(name string) (folder, error) { return plain(d.path(name)), nil }

func leads(folder, string) (string, error) { return "", nil }
