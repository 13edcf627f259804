package binlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/archive"
)

var (
	magic          = []byte("\xfebin")
	magicEncrypted = []byte("\xfdbin")
)

const (
	hintForeign = "Name binary logs of MySQL or MariaDB, a folder of them, or their index file."
	hintRelay   = "A relay log is a replica's copy: name the binary logs of its source, which have the original groups and times."
)

// A format is the content of a file's first event.
type format struct {
	version string
	engine  string
	sums    bool
}

// readFormat reads the body of a Format_description event.
func readFormat(body []byte) (format, error) {
	if len(body) < 57+5 || binary.LittleEndian.Uint16(body) != 4 || body[56] != headerSize {
		return format{}, damaged("it is not a known format description")
	}
	version, _, _ := bytes.Cut(body[2:52], []byte{0})
	f := format{version: strings.ToValidUTF8(string(version), "?"), engine: "mysql"}
	if strings.Contains(strings.ToLower(f.version), "mariadb") {
		f.engine = "mariadb"
	}
	major, minor := 0, 0
	if n, _ := fmt.Sscanf(f.version, "%d.%d", &major, &minor); n < 2 || major < 5 || major == 5 && minor < 6 {
		return format{}, &tidemark.Error{Kind: tidemark.BadInput, Op: "scan", Err: fmt.Errorf("the log is of the version %q", f.version), Hint: "Logs of MySQL 5.6 and MariaDB 10.0 and of later versions are read."}
	}
	f.sums = body[len(body)-5] == 1
	return f, nil
}

// checkMagic returns an error that names what a file is if it is not a binary log.
func checkMagic(name string, head []byte) error {
	switch {
	case bytes.HasPrefix(head, magic):
		return nil
	case bytes.HasPrefix(head, magicEncrypted):
		return &tidemark.Error{Kind: tidemark.BadInput, Op: "scan", Object: name, Err: errors.New("it is encrypted from offset 0 on (MySQL, binlog_encryption)"), Hint: "Read it from the server, which decrypts it: tidemark ha scan mysql://USER@HOST, or mysqlbinlog --read-from-remote-server --raw."}
	case len(head) == 0:
		return &tidemark.Error{Kind: tidemark.BadInput, Op: "scan", Object: name, Err: errors.New("it is empty"), Hint: hintForeign}
	}
	return &tidemark.Error{Kind: tidemark.BadInput, Op: "scan", Object: name, Err: fmt.Errorf("it is not a binary log: it begins with % x at offset 0, and not with % x", head[:min(4, len(head))], magic), Hint: hintForeign}
}

// Number returns the number at the end of a log file's name, compressed or not.
func Number(name string) (uint32, bool) {
	name = archive.Plain(name)
	n, err := strconv.ParseUint(name[strings.LastIndexByte(name, '.')+1:], 10, 32)
	return uint32(n), err == nil
}

// A member is a file of the log, and what its content says about it.
type member struct {
	path   string
	name   string // for messages and records
	number uint32 // 0: unknown
	time   uint32 // when it was begun
	server uint32
	packed bool
	listed bool // found in a folder, which may have other files too
}

// errRelay returns the error for a relay log.
func errRelay(name string) error {
	return &tidemark.Error{Kind: tidemark.BadInput, Op: "scan", Object: name, Err: errors.New("it is a relay log"), Hint: hintRelay}
}

// inspect reads a file's description of itself: its head, and unless it is compressed the Rotate
// event at its end, which has the number more reliably than a name that may have been changed.
func (m *member) inspect() error {
	f, err := archive.Open(m.path)
	if err != nil {
		return err
	}
	defer f.Close()
	head := make([]byte, 4<<10)
	n, err := io.ReadFull(f, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF && n < len(magic) { // else the scan reports where it is truncated
		return err
	}
	head = head[:n]
	if err := checkMagic(m.name, head); err != nil {
		return err
	}
	m.packed = f.Packed
	sums, err := m.readHead(head[len(magic):])
	if err != nil {
		return err
	}
	if number, ok := Number(m.path); ok {
		m.number = number
	}
	tail, err := f.Tail(1 << 10)
	if err != nil {
		return archive.OpenError(m.path, err)
	}
	if next, ok := Number(lastRotate(tail, sums)); ok && next > 0 {
		m.number = next - 1
	}
	return nil
}

// readHead reads the first events. The scan reports a file that is truncated within them.
func (m *member) readHead(p []byte) (sums bool, err error) {
	at := uint64(len(magic))
	for i := 0; i < 3 && len(p) >= headerSize; i++ {
		kind, size := p[4], binary.LittleEndian.Uint32(p[9:])
		flags := binary.LittleEndian.Uint16(p[17:])
		if size < headerSize || uint64(size) > uint64(len(p)) {
			break
		}
		ev := p[:size]
		p = p[size:]
		here := at
		at += uint64(size)
		switch {
		case i == 0 && kind != kindFormat:
			return sums, &tidemark.Error{Kind: tidemark.BadInput, Op: "scan", Object: m.name, Err: fmt.Errorf("its first event, at offset %d, is of the kind %d and describes no format", here, kind), Hint: hintForeign}
		case i == 0:
			h, err := readFormat(ev[headerSize:])
			if err != nil {
				return sums, atOffset(err, m.name, here)
			}
			sums, m.time, m.server = h.sums, binary.LittleEndian.Uint32(ev), binary.LittleEndian.Uint32(ev[5:])
			if flags&flagRelay != 0 {
				return sums, errRelay(m.name)
			}
		case kind == kindRotate && flags&flagArtificial != 0, kind == kindFormat:
			return sums, errRelay(m.name)
		case kind == kindEncryption:
			return sums, errEncrypted(m.name, here)
		}
	}
	return sums, nil
}

// lastRotate returns the file in which a log continues, if the last event in tail names it.
func lastRotate(tail []byte, sums bool) string {
	sum := 0
	if sums {
		sum = 4
	}
	for at := len(tail) - headerSize - 8 - 1 - sum; at >= 0; at-- {
		ev := tail[at:]
		if ev[4] != kindRotate || uint64(binary.LittleEndian.Uint32(ev[9:])) != uint64(len(ev)) {
			continue
		}
		n := len(ev) - sum
		if sums && crc32.ChecksumIEEE(ev[:n]) != binary.LittleEndian.Uint32(ev[n:]) {
			continue
		}
		return filepath.Base(string(ev[headerSize+8 : n]))
	}
	return ""
}

// errEncrypted returns the error for MariaDB's encrypted logs, whose first events are plain.
func errEncrypted(name string, at uint64) error {
	return &tidemark.Error{Kind: tidemark.BadInput, Op: "scan", Object: name, Err: fmt.Errorf("it is encrypted from offset %d on (MariaDB, encrypt_binlog)", at), Hint: "Read it from the server, which decrypts it: tidemark ha scan mariadb://USER@HOST, or mariadb-binlog --read-from-remote-server --raw."}
}

// atOffset adds the offset to an error of a file.
func atOffset(err error, name string, at uint64) error {
	switch e := err.(type) {
	case *damage:
		return &tidemark.Error{Kind: tidemark.BadInput, Op: "scan", Object: name, Err: fmt.Errorf("the event at offset %d cannot be read: %s", at, e.text), Hint: hintForeign}
	case *tidemark.Error:
		if e.Object == "" {
			e.Object = name
		}
	}
	return err
}
