package main

import (
	"os"
	"runtime/pprof"

	"github.com/tidemarkdb/tidemark"
)

// profile writes a CPU profile of the whole command if TIDEMARK_CPUPROFILE names a file, for bench.
func profile() (stop func(), err error) {
	path := os.Getenv("TIDEMARK_CPUPROFILE")
	if path == "" {
		return func() {}, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "profile", Object: path, Err: err}
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		f.Close()
		return nil, err
	}
	return func() { pprof.StopCPUProfile(); f.Close() }, nil
}
