package binlog

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/tidemarkdb/tidemark"
)

// A writer writes a log as servers do.
type writer struct {
	b    []byte
	sums bool
	time uint32
}

func newWriter(version string) *writer {
	w := &writer{b: slices.Clone(magic), sums: true, time: 1_700_000_000}
	w.event(kindFormat, formatBody(version, true), 0)
	return w
}

func formatBody(version string, sums bool) []byte {
	body := binary.LittleEndian.AppendUint16(nil, 4)
	body = append(body, version...)
	body = append(body, make([]byte, 52-len(body))...)
	body = append(body, 0, 0, 0, 0, headerSize)
	body = append(body, make([]byte, 40)...)
	if sums {
		return append(body, 1)
	}
	return append(body, 0, 0, 0, 0, 0)
}

func (w *writer) event(kind byte, body []byte, flags uint16) {
	w.b = appendEvent(w.b, kind, body, w.time, flags, w.sums)
}

func appendEvent(b []byte, kind byte, body []byte, at uint32, flags uint16, sums bool) []byte {
	begin := len(b)
	size := headerSize + len(body)
	if sums {
		size += 4
	}
	b = binary.LittleEndian.AppendUint32(b, at)
	b = append(b, kind)
	b = binary.LittleEndian.AppendUint32(b, 7)
	b = binary.LittleEndian.AppendUint32(b, uint32(size))
	b = binary.LittleEndian.AppendUint32(b, uint32(begin+size))
	b = binary.LittleEndian.AppendUint16(b, flags)
	b = append(b, body...)
	if sums {
		b = binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b[begin:]))
	}
	return b
}

func queryBody(sql string) []byte {
	body := make([]byte, 13)
	body[8] = 2
	return append(append(body, "db\x00"...), sql...)
}

func tableMapBody(id uint64, schema, table string) []byte {
	body := binary.LittleEndian.AppendUint64(nil, id)
	body[6], body[7] = 1, 0
	body = append(body, byte(len(schema)))
	body = append(append(body, schema...), 0, byte(len(table)))
	return append(append(body, table...), 0, 1, 3, 0, 1)
}

func rowsBody(id uint64, n int) []byte {
	body := binary.LittleEndian.AppendUint64(nil, id)
	return append(body, make([]byte, n)...)
}

func gtidBody(number, after, sequence, micros, length uint64) []byte {
	body := append([]byte{1}, make([]byte, 16)...)
	body = binary.LittleEndian.AppendUint64(body, number)
	body = append(body, 2)
	body = binary.LittleEndian.AppendUint64(body, after)
	body = binary.LittleEndian.AppendUint64(body, sequence)
	body = append(body, binary.LittleEndian.AppendUint64(nil, micros)[:7]...)
	body = append(body, 0xfe)
	body = binary.LittleEndian.AppendUint64(body, length)
	return binary.LittleEndian.AppendUint32(body, 80033)
}

// transaction writes a MySQL transaction.
func (w *writer) transaction(number uint64, rows int) {
	w.event(kindGTID, gtidBody(number, number-1, number, uint64(w.time)*1e6+5, 0), 0)
	w.event(kindQuery, queryBody("BEGIN"), 0)
	w.event(kindTableMap, tableMapBody(77, "shop", "orders"), 0)
	w.event(kindWrite, rowsBody(77, rows), 0)
	w.event(kindXID, make([]byte, 8), 0)
}

func mariaBody(seq uint64, flags byte, commit uint64) []byte {
	body := binary.LittleEndian.AppendUint64(nil, seq)
	body = append(binary.LittleEndian.AppendUint32(body, 0), flags)
	if flags&2 != 0 {
		return binary.LittleEndian.AppendUint64(body, commit)
	}
	return append(body, make([]byte, 6)...)
}

func write(t testing.TB, dir, name string, b []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// scan reads files whole and checks what holds for every log.
func scan(t testing.TB, opt Options, paths ...string) ([]tidemark.LogRecord, tidemark.LogScan) {
	t.Helper()
	f, err := Open(paths, opt)
	if err != nil {
		t.Fatal(err)
	}
	var all []tidemark.LogRecord
	sum := int64(0)
	place := uint64(0)
	out, err := f.Scan(context.Background(), func(r *tidemark.LogRecord) error {
		c := *r
		c.Children, c.Shares = slices.Clone(r.Children), slices.Clone(r.Shares)
		all = append(all, c)
		sum += int64(r.Size)
		if r.Place <= place {
			t.Errorf("place %x after %x", r.Place, place)
		}
		place = r.Place
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if sum+out.Headers != out.Bytes {
		t.Errorf("records have %d bytes and headers %d, of %d", sum, out.Headers, out.Bytes)
	}
	return all, out
}

func previousBody(n uint64) []byte {
	body := binary.LittleEndian.AppendUint64(nil, 1)
	body = append(body, make([]byte, 16)...)
	body = binary.LittleEndian.AppendUint64(body, 1)
	body = binary.LittleEndian.AppendUint64(body, 1)
	return binary.LittleEndian.AppendUint64(body, n+1)
}

func rotateBody(name string) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, 4), name...)
}

func TestTransactions(t *testing.T) {
	w := newWriter("8.0.33")
	w.event(kindPrevious, previousBody(0), 0)
	w.transaction(1, 100)
	w.time += 2
	begin := w.time
	w.event(kindGTID, gtidBody(2, 1, 2, uint64(w.time+3)*1e6+9, 0), 0)
	w.event(kindQuery, queryBody("ALTER TABLE t ADD c int"), 0)
	w.event(kindAnonymous, gtidBody(3, 1, 3, 0, 0), 0)
	w.event(kindQuery, queryBody("BEGIN"), 0)
	w.event(kindQuery, queryBody("SAVEPOINT `a`"), 0)
	w.event(kindQuery, queryBody("ROLLBACK TO `a`"), 0)
	w.event(kindQuery, queryBody("ROLLBACK"), 0)
	w.event(kindStop, nil, 0)
	all, out := scan(t, Options{}, write(t, t.TempDir(), "binlog.000003", w.b))

	var ends []tidemark.LogRecord
	bytes := map[uint64]int{}
	for _, r := range all {
		bytes[r.Tx] += int(r.Size)
		if r.Ended != tidemark.StillOpen {
			ends = append(ends, r)
		}
	}
	if out.End != "" || out.Version != "8.0.33" || out.Engine != "mysql" || out.System != "7" || out.Files != 1 || out.Bytes != int64(len(w.b)) || len(out.Findings) != 0 {
		t.Errorf("%+v", out)
	}
	if out.From != 3<<32|4 || out.To != 3<<32|uint64(len(w.b)) {
		t.Errorf("from %x to %x", out.From, out.To)
	}
	if len(ends) != 3 {
		t.Fatalf("%d ends: %+v", len(ends), ends)
	}
	if e := ends[0]; e.Ended != tidemark.Committed || e.Time != 1_700_000_000_000_005 || !e.Exact || e.Begun != 1_700_000_000_000_000 || e.After != 0 || e.Sequence != 1 {
		t.Errorf("first: %+v", e)
	}
	if e := ends[1]; e.Ended != tidemark.Committed || e.Begun != int64(begin)*1e6 || e.Time != int64(begin+3)*1e6+9 || e.After != 1 || e.Sequence != 2 {
		t.Errorf("DDL: %+v", e)
	}
	if e := ends[2]; e.Ended != tidemark.RolledBack || e.Exact || e.Time != int64(begin)*1e6 {
		t.Errorf("rollback: %+v", e)
	}
	if all[0].File != "binlog.000003" || all[1].File != "" || all[0].Tx != 0 || all[len(all)-1].Tx != 0 {
		t.Errorf("first %+v last %+v", all[0], all[len(all)-1])
	}
	if !slices.Equal(out.Tables, []string{"", "shop.orders"}) {
		t.Errorf("tables %q", out.Tables)
	}
	if r := all[5]; out.Classes[r.Class] != "Write_rows" || r.Table != 1 || r.Tx != 1 || r.Size != 19+8+100+4 {
		t.Errorf("rows: %+v", r)
	}
	if bytes[1] != 19+25+17+7+9+4+4+19+16+5+4+19+8+1+4+1+6+1+5+4+131+31 {
		t.Errorf("the first transaction has %d bytes", bytes[1])
	}
}

func TestGroupsOfMariaDB(t *testing.T) {
	w := newWriter("10.11.6-MariaDB-log")
	for i, c := range []uint64{40, 40, 40, 0, 41, 41, 0} {
		flags := byte(4)
		if c != 0 {
			flags |= 2
		}
		w.event(kindMariaGTID, mariaBody(uint64(i+1), flags, c), 0)
		w.event(160, []byte("insert into orders values (1)"), 0)
		w.event(kindTableMap, tableMapBody(9, "shop", "orders"), 0)
		w.event(23, rowsBody(9, 10), 0)
		w.event(kindXID, make([]byte, 8), 0)
	}
	w.event(kindMariaGTID, mariaBody(8, 1, 0), 0)
	w.event(kindQuery, queryBody("CREATE TABLE x (a int)"), 0)
	all, out := scan(t, Options{}, write(t, t.TempDir(), "m.000001", w.b))
	var groups []uint64
	for _, r := range all {
		if r.Ended == tidemark.Committed {
			groups = append(groups, r.Group)
			if r.Exact || r.Time != 1_700_000_000_000_000 {
				t.Errorf("time: %+v", r)
			}
		}
	}
	if !slices.Equal(groups, []uint64{1, 1, 1, 0, 2, 2, 0, 0}) || out.Engine != "mariadb" || out.End != "" {
		t.Errorf("groups %v, %+v", groups, out)
	}
}

// The event is from Percona Server 8.4.11: transaction 1 with the tag test_tag, 337 bytes.
func TestTaggedGTID(t *testing.T) {
	body := []byte("\x02\x7c\x00\x00\x02\x02\xee\x45\x03\x41\x02\x58\x02\x69\x03\x22\xc5\x03\x69\x02\x82\x41\x02\x35\x02\xdc\xbe\xdc\x35\x02\x04\x04\x06" +
		"\x10test_tag\x08\x00\x0a\x04\x0c\x7f\x00\x3e\x89\x00\xfa\x5b\x06\x10\x45\x05\x12\xdb\xd0\x09")
	g := readTagged(body)
	if at := time.UnixMicro(g.time).UTC(); g.length != 337 || g.after != 0 || g.sequence != 1 || at.Year() != 2026 {
		t.Errorf("%+v, %v", g, at)
	}
	for n := range len(body) {
		if g := readTagged(body[:n]); g.length == 337 && n < 58 {
			t.Errorf("%d bytes give %+v", n, g)
		}
	}
	w := newWriter("8.4.11-11")
	w.event(kindGTIDTagged, body, 0)
	w.event(kindQuery, queryBody("BEGIN"), 0)
	w.event(kindXID, make([]byte, 8), 0)
	all, _ := scan(t, Options{}, write(t, t.TempDir(), "binlog.000001", w.b))
	if e := all[3]; e.Ended != tidemark.Committed || e.Sequence != 1 || !e.Exact || e.Time != g.time {
		t.Errorf("%+v", e)
	}
}

func TestXA(t *testing.T) {
	w := newWriter("8.0.33")
	w.event(kindGTID, gtidBody(1, 0, 1, 1e15, 0), 0)
	w.event(kindQuery, queryBody("XA START X'61',X'',1"), 0)
	w.event(kindWrite, rowsBody(1, 10), 0)
	w.event(kindQuery, queryBody("XA END X'61',X'',1"), 0)
	w.event(kindXAPrepare, []byte{0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 'a'}, 0)
	w.transaction(2, 50)
	w.event(kindGTID, gtidBody(3, 0, 3, 1e15+1, 0), 0)
	w.event(kindQuery, queryBody("XA ROLLBACK X'61',X'',1"), 0)
	all, _ := scan(t, Options{}, write(t, t.TempDir(), "binlog.000001", w.b))
	prepared, last := all[5], all[len(all)-1]
	if prepared.Ended != tidemark.Prepared || prepared.Tx != 1 {
		t.Errorf("%+v", prepared)
	}
	if last.Ended != tidemark.RolledBack || last.Tx != 3 || !slices.Equal(last.Children, []uint64{1}) {
		t.Errorf("%+v", last)
	}
}

func payloadBody(t testing.TB, events []byte, pack bool) []byte {
	t.Helper()
	method := byte(255)
	if pack {
		z, err := zstd.NewWriter(nil)
		if err != nil {
			t.Fatal(err)
		}
		events = z.EncodeAll(events, nil)
		method = 0
	}
	field := []byte{method}
	if method == 255 {
		field = []byte{0xfc, 255, 0}
	}
	body := append([]byte{2, byte(len(field))}, field...)
	body = append(body, 1, 9, 0xfe)
	body = append(binary.LittleEndian.AppendUint64(body, uint64(len(events))), 0)
	return append(body, events...)
}

func TestCompressedTransaction(t *testing.T) {
	for _, pack := range []bool{true, false} {
		for _, large := range []bool{false, true} {
			n := 1000
			if large {
				n = 3 << 20
			}
			var in []byte
			in = appendEvent(in, kindQuery, queryBody("BEGIN"), 1_699_999_990, 0, false)
			in = appendEvent(in, kindTableMap, tableMapBody(1, "shop", "orders"), 1_699_999_995, 0, false)
			in = appendEvent(in, kindTableMap, tableMapBody(2, "shop", "items"), 1_699_999_995, 0, false)
			noise := rowsBody(1, n)
			for i := 8; i < len(noise); i++ {
				noise[i] = byte(i * i >> 7 * 31)
			}
			in = appendEvent(in, kindWrite, noise, 1_699_999_995, 0, false)
			in = appendEvent(in, kindWrite, rowsBody(2, n/3), 1_699_999_995, 0, false)
			in = appendEvent(in, kindXID, make([]byte, 8), 1_699_999_995, 0, false)
			w := newWriter("8.0.33")
			w.event(kindGTID, gtidBody(1, 0, 1, 1e15, 0), 0)
			body := payloadBody(t, in, pack)
			w.event(kindPayload, body, 0)
			all, out := scan(t, Options{}, write(t, t.TempDir(), "binlog.000001", w.b))
			r := all[len(all)-1]
			if r.Ended != tidemark.Committed || r.Size != uint32(headerSize+len(body)+4) || r.Begun != 1_699_999_990e6 && r.Begun != 1e15 || len(r.Shares) != 2 || len(out.Findings) != 0 {
				t.Fatalf("pack %v large %v: %+v %+v", pack, large, r, out.Findings)
			}
			a, b := r.Shares[0], r.Shares[1]
			if a.Size+b.Size != r.Size || a.Table != 1 || b.Table != 2 || a.Size < 2*b.Size || a.Size > 4*b.Size {
				t.Errorf("pack %v large %v: shares %+v", pack, large, r.Shares)
			}
		}
	}
}

// An event larger than the buffer is read in pieces.
func TestLargeEvents(t *testing.T) {
	w := newWriter("8.0.33")
	w.transaction(1, 5<<20)
	w.transaction(2, 10)
	dir := t.TempDir()
	all, out := scan(t, Options{}, write(t, dir, "binlog.000001", w.b))
	if len(all) != 11 || all[4].Size != 5<<20+31 || all[4].Table != 1 || out.End != "" {
		t.Fatalf("%d records, %+v, %q", len(all), all[4], out.End)
	}
	w.b[4<<20] ^= 1
	all, out = scan(t, Options{}, write(t, dir, "binlog.000002", w.b))
	if len(all) != 4 || !strings.Contains(out.End, "binlog.000002 ends at offset 303: the event there cannot be read, its checksum is ") {
		t.Errorf("%d records, %q", len(all), out.End)
	}
}

// Wherever a file is cut, everything before is read, and the scan reports where it ends.
func TestCutAnywhere(t *testing.T) {
	w := newWriter("8.0.33")
	w.transaction(1, 30)
	w.transaction(2, 40)
	var ends []int
	s := NewScanner(func(r *tidemark.LogRecord) error { ends = append(ends, int(uint32(r.Place))+int(r.Size)); return nil })
	feed(t, s, w.b)
	dir := t.TempDir()
	for n := 4; n < len(w.b); n++ {
		path := write(t, dir, "binlog.000001", w.b[:n])
		f, err := Open([]string{path}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		records := 0
		out, err := f.Scan(context.Background(), func(r *tidemark.LogRecord) error { records++; return nil })
		if err != nil {
			t.Fatalf("at %d: %v", n, err)
		}
		whole := slices.IndexFunc(ends, func(e int) bool { return e > n })
		if records != whole {
			t.Errorf("at %d: %d records, not %d", n, records, whole)
		}
		if clean := whole%5 == 1 && (whole == 0 || ends[whole-1] == n) || n == 4; clean != (out.End == "") {
			t.Errorf("at %d: %q", n, out.End)
		}
	}
}

func feed(t testing.TB, s *Scanner, b []byte) {
	t.Helper()
	s.File("binlog.000001", 1, 0)
	for b = b[len(magic):]; len(b) > 0; {
		n := binary.LittleEndian.Uint32(b[9:])
		if err := s.Event(b[:n]); err != nil {
			t.Fatal(err)
		}
		b = b[n:]
	}
}

// An error about a file is a sentence with its offset.
func TestBadFiles(t *testing.T) {
	good := newWriter("8.0.33")
	good.transaction(1, 10)
	relay := &writer{b: slices.Clone(magic), sums: true}
	relay.event(kindFormat, formatBody("8.0.33", true), flagRelay)
	second := newWriter("10.11.6-MariaDB")
	second.event(kindRotate, rotateBody("source.000009"), flagArtificial)
	encrypted := newWriter("10.11.6-MariaDB")
	encrypted.event(kindEncryption, make([]byte, 17), 0)
	encrypted.b = append(encrypted.b, "!$%&/()=?`garbage that is longer than a header"...)
	old := &writer{b: slices.Clone(magic)}
	old.event(kindFormat, formatBody("5.1.73", false), 0)
	headless := &writer{b: slices.Clone(magic)}
	headless.event(kindQuery, queryBody("BEGIN"), 0)
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"empty", nil, "scan empty.000001: it is empty"},
		{"text", []byte("hello there"), "scan text.000001: it is not a binary log: it begins with 68 65 6c 6c at offset 0, and not with fe 62 69 6e"},
		{"short", magic[:2], "scan short.000001: it is not a binary log: it begins with fe 62 at offset 0, and not with fe 62 69 6e"},
		{"mysql-encrypted", []byte("\xfdbin\x01\x02"), "scan mysql-encrypted.000001: it is encrypted from offset 0 on (MySQL, binlog_encryption)"},
		{"maria-encrypted", encrypted.b, "scan maria-encrypted.000001: it is encrypted from offset 125 on (MariaDB, encrypt_binlog)"},
		{"relay", relay.b, "scan relay.000001: it is a relay log"},
		{"relay2", second.b, "scan relay2.000001: it is a relay log"},
		{"old", old.b, `scan old.000001: the log is of the version "5.1.73"`},
		{"headless", headless.b, "scan headless.000001: its first event, at offset 4, is of the kind 2 and describes no format"},
	} {
		path := write(t, t.TempDir(), c.name+".000001", c.b)
		_, err := Open([]string{path}, Options{})
		if err == nil || err.Error() != c.want || tidemark.KindOf(err) != tidemark.BadInput || tidemark.HintOf(err) == "" {
			t.Errorf("%s: %v (kind %v, hint %q)", c.name, err, tidemark.KindOf(err), tidemark.HintOf(err))
		}
		// The same is found if files are not inspected beforehand.
		f, err := Open([]string{path}, Options{Retrieve: "true"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Scan(context.Background(), func(*tidemark.LogRecord) error { return nil })
		if c.name == "headless" || c.name == "relay2" {
			continue
		}
		if err == nil || err.Error() != c.want {
			t.Errorf("%s, retrieved: %v", c.name, err)
		}
	}
	if _, err := Open(nil, Options{}); tidemark.KindOf(err) != tidemark.Invalid {
		t.Errorf("no path: %v", err)
	}
	if _, err := Open([]string{filepath.Join(t.TempDir(), "x.000001")}, Options{}); tidemark.KindOf(err) != tidemark.NotFound {
		t.Errorf("no file: %v", err)
	}
	if _, err := Open([]string{t.TempDir()}, Options{}); tidemark.KindOf(err) != tidemark.NotFound {
		t.Errorf("empty folder: %v", err)
	}
	path := write(t, t.TempDir(), "binlog.000001", good.b)
	f, err := Open([]string{path}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	mine := errors.New("mine")
	if _, err := f.Scan(context.Background(), func(*tidemark.LogRecord) error { return mine }); err != mine {
		t.Errorf("error of emit: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := f.Scan(ctx, func(*tidemark.LogRecord) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// Events that a server wrote while it had the file open have a flag that the checksum leaves out.
func TestFileInUse(t *testing.T) {
	w := newWriter("8.0.33")
	w.b[4+17] |= flagInUse
	w.transaction(1, 1)
	_, out := scan(t, Options{}, write(t, t.TempDir(), "binlog.000001", w.b))
	if out.End != "" {
		t.Error(out.End)
	}
	w.b[4+30] ^= 1
	_, out = scan(t, Options{}, write(t, t.TempDir(), "binlog.000001", w.b))
	if !strings.Contains(out.End, "offset 4: ") {
		t.Errorf("%q", out.End)
	}
}

// Unknown events are part of the transaction around them.
func TestUnknownEvents(t *testing.T) {
	w := newWriter("9.9.0")
	w.event(200, nil, 0)
	w.event(kindGTID, gtidBody(1, 0, 1, 1e15, 0), 0)
	w.event(kindQuery, queryBody("BEGIN"), 0)
	w.event(255, make([]byte, 100), 0)
	w.event(kindXID, make([]byte, 8), 0)
	all, out := scan(t, Options{}, write(t, t.TempDir(), "binlog.000001", w.b))
	if all[1].Tx != 0 || all[4].Tx != 1 || out.Classes[all[4].Class] != "Event 255" || len(out.Findings) != 2 || out.End != "" {
		t.Errorf("%+v %+v", all, out.Findings)
	}
}

// A transaction without an end was never committed: the server stopped while it wrote it.
func TestTransactionWithoutEnd(t *testing.T) {
	w := newWriter("8.0.33")
	w.event(kindGTID, gtidBody(1, 0, 1, 1e15, 0), 0)
	w.event(kindQuery, queryBody("BEGIN"), 0)
	dir := t.TempDir()
	first := write(t, dir, "binlog.000001", w.b)
	_, out := scan(t, Options{}, first)
	if out.End != "binlog.000001 ends within a transaction, which begins at offset 125" {
		t.Errorf("%q", out.End)
	}
	next := newWriter("8.0.33")
	next.transaction(2, 5)
	all, out := scan(t, Options{}, first, write(t, dir, "binlog.000002", next.b))
	if g := gaps(all); len(g) != 1 || g[0] != "binlog.000001 ends within a transaction, which begins at offset 125" || out.End != "" {
		t.Errorf("%q %q", g, out.End)
	}
	w.transaction(3, 5)
	all, _ = scan(t, Options{}, write(t, t.TempDir(), "binlog.000001", w.b))
	if g := gaps(all); len(g) != 1 || all[3].Gap != "binlog.000001, offset 254: the transaction that begins at offset 125 has no end" || all[3].Tx != 2 {
		t.Errorf("%q %+v", g, all[3])
	}
}

func FuzzScan(f *testing.F) {
	w := newWriter("8.0.33")
	w.event(kindPrevious, previousBody(5), 0)
	w.transaction(6, 20)
	w.event(kindGTID, gtidBody(7, 0, 1, 1e15, 0), 0)
	w.event(kindPayload, payloadBody(f, appendEvent(nil, kindTableMap, tableMapBody(1, "a", "b"), 9, 0, false), true), 0)
	w.event(kindGTID, gtidBody(7, 0, 1, 1e15, 0), 0)
	w.event(kindQuery, queryBody("XA START X'61',X'',1"), 0)
	w.event(kindXAPrepare, []byte{0, 1}, 0)
	f.Add(w.b, true)
	m := newWriter("10.11.6-MariaDB")
	m.event(kindMariaList, []byte("\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00"), 0)
	m.event(kindMariaGTID, mariaBody(1, 2, 5), 0)
	m.event(kindXID, make([]byte, 8), 0)
	f.Add(m.b, false)
	f.Fuzz(func(t *testing.T, b []byte, sums bool) {
		if len(b) > 1<<16 {
			return
		}
		// Otherwise hardly anything would get past the checksums.
		for at := 4; at+headerSize+4 <= len(b); {
			n := int(binary.LittleEndian.Uint32(b[at+9:]))
			if n < headerSize+4 || at+n > len(b) {
				break
			}
			if !sums && at == 4 {
				b[at+n-5] = 0
			}
			binary.LittleEndian.PutUint32(b[at+n-4:], crc32.ChecksumIEEE(b[at:at+n-4]))
			at += n
		}
		records, size := 0, int64(0)
		s := NewScanner(func(r *tidemark.LogRecord) error { records++; size += int64(r.Size); return nil })
		s.File("x.000001", 1, 0)
		in := input{ctx: context.Background(), r: bytes.NewReader(b[min(4, len(b)):]), buf: make([]byte, 300)}
		for next(s, &in) == nil {
		}
		s.Close("")
		if out := s.Result(); out.Headers+size != out.Bytes || out.Bytes > int64(max(len(b), 4)) {
			t.Errorf("%d + %d bytes of %d, %d", out.Headers, size, out.Bytes, len(b))
		}
	})
}
