//go:build !linux

package backup

import (
	"os"

	"github.com/tidemarkdb/tidemark"
)

// readOnce is ReadAt here.
func readOnce(f *os.File, b []byte, at int64) (int, error) { return f.ReadAt(b, at) }

// setDirect refuses. Kind Unsupported.
func setDirect(f *os.File, on bool) error {
	return tidemark.Errorf(tidemark.Unsupported, "direct I/O", f.Name(), "it is for Linux", "Leave --direct-io away.")
}

func readDirect(f *os.File, b []byte, at int64) (int, error) { return f.ReadAt(b, at) }

func writeDirect(f *os.File, b []byte, at int64) error { return setDirect(f, true) }
