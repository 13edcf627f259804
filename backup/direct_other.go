//go:build !linux

package backup

import (
	"errors"
	"os"

	"github.com/tidemarkdb/tidemark"
)

// readOnce is ReadAt on this system.
func readOnce(f *os.File, b []byte, at int64) (int, error) { return f.ReadAt(b, at) }

// setDirect is refused on this system. Kind Unsupported.
func setDirect(f *os.File, on bool) error {
	return &tidemark.Error{Kind: tidemark.Unsupported, Op: "direct I/O", Object: f.Name(), Err: errors.New("it is available on Linux only"), Hint: "Leave out --direct-io."}
}

func readDirect(f *os.File, b []byte, at int64) (int, error) { return f.ReadAt(b, at) }

func writeDirect(f *os.File, b []byte, at int64) error { return setDirect(f, true) }
