package physical

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// A controlFile is what a backup needs from pg_control (src/include/catalog/pg_control.h, the same
// from 11 to 18).
type controlFile struct {
	system   uint64
	redo     uint64 // where the last checkpoint's redo begins
	timeline uint32 // of that checkpoint
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// parseControl reads pg_control. It is not ok while the server is writing it: then its checksum, a
// CRC-32C after the last field over all before it, is wrong.
//
// The checksum's offset depends on the version and on how the server was built, so every offset is
// tried: that one of some sixty matches random bytes happens once in 10^8.
func parseControl(b []byte) (c controlFile, ok bool) {
	const first, last = 200, 508
	if len(b) < last+4 {
		return c, false
	}
	le := binary.LittleEndian
	crc := crc32.Checksum(b[:first], castagnoli)
	for at := first; at <= last && !ok; at += 4 {
		ok = le.Uint32(b[at:]) == crc
		crc = crc32.Update(crc, castagnoli, b[at:at+4])
	}
	return controlFile{system: le.Uint64(b), redo: le.Uint64(b[40:]), timeline: le.Uint32(b[48:])}, ok
}

// SystemOf reads the cluster's system identifier from pg_control; not ok if that is damaged.
func SystemOf(control []byte) (system string, ok bool) {
	c, ok := parseControl(control)
	return strconv.FormatUint(c.system, 10), ok
}

// control reads pg_control until it is consistent. Its pages are not those of relations, and no log
// covers it.
func (d *dataFolder) control(ctx context.Context) (c controlFile, text []byte, err error) {
	name := filepath.Join(d.dir, filepath.FromSlash(controlPath))
	wrong := errors.New("its checksum is wrong")
	for range 100 {
		text, err := os.ReadFile(name)
		if err != nil {
			wrong = tidemark.Pathless(err)
			break
		}
		if c, ok := parseControl(text); ok {
			return c, text, nil
		}
		select {
		case <-ctx.Done():
			return c, nil, d.e.Fail(ctx, backupOp, controlPath, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
	return c, nil, &tidemark.Error{Op: "read", Object: controlPath, Kind: tidemark.Lost, Err: wrong,
		Hint: "A server could not be started with that file: look at it with pg_controldata."}
}
