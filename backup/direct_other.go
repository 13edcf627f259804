//go:build !linux

package backup

import (
	"errors"
	"os"

	"github.com/tidemarkdb/tidemark"
)

// readOnce is ReadAt here.
func readOnce(f *os.File, b []byte, at int64) (int, error) { return f.ReadAt(b, at) }

// setDirect refuses. Kind Unsupported.
func setDirect(f *os.File, on bool) error {
	return &tidemark.Error{Kind: tidemark.Unsupported, Op: "direct I/O", Object: f.Name(), Err: errors.New("it is for Linux"), Hint: "Leave --direct-io away."}
}

func readDirect(f *os.File, b []byte, at int64) (int, error) { return f.ReadAt(b, at) }

func writeDirect(f *os.File, b []byte, at int64) error { return setDirect(f, true) }
