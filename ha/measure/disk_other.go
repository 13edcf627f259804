//go:build !linux

package measure

import (
	"errors"
	"math"
	"os"
	"runtime"
)

// openWay opens an existing file for writes in a way. Systems other than Linux offer only fsync,
// the one call that all of them have under the same name.
func openWay(path string, way DiskWay) (*os.File, error) {
	if way.Sync != FSync || way.Direct {
		return nil, errors.ErrUnsupported
	}
	return os.OpenFile(path, os.O_WRONLY, 0)
}

func syncWay(f *os.File, _ SyncCall) error { return f.Sync() }

func unavailable(err error) bool { return errors.Is(err, errors.ErrUnsupported) }

func diskFull(error) bool { return false }

func fileSystemOf(string) (name string, free int64, err error) {
	return runtime.GOOS, math.MaxInt64, nil
}
