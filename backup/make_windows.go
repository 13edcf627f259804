package backup

import "os"

// makeWith creates a file with its content.
func (x *files) makeWith(path string, mode uint32, b []byte) error {
	return x.create(path, mode, func(f *os.File) error {
		_, err := f.Write(b)
		return err
	})
}
