package physical

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// playedConn is a connection whose server replays recorded bytes, and hangs up.
type playedConn struct {
	io.Reader
	net.Conn
}

func (c playedConn) Read(p []byte) (int, error)       { return c.Reader.Read(p) }
func (c playedConn) Write(p []byte) (int, error)      { return len(p), nil }
func (c playedConn) Close() error                     { return nil }
func (c playedConn) SetDeadline(time.Time) error      { return nil }
func (c playedConn) SetReadDeadline(time.Time) error  { return nil }
func (c playedConn) SetWriteDeadline(time.Time) error { return nil }

// sentBackup is what a server of that version sends in answer to BASE_BACKUP.
func sentBackup(f testing.TB, major int, incremental bool) []byte {
	f.Helper()
	var out []byte
	say := func(kind byte, body []byte) {
		out = binary.BigEndian.AppendUint32(append(out, kind), uint32(len(body)+4))
		out = append(out, body...)
	}
	row := func(values ...string) {
		body := binary.BigEndian.AppendUint16(nil, uint16(len(values)))
		for _, v := range values {
			if v == "" {
				body = append(body, 255, 255, 255, 255)
				continue
			}
			body = append(binary.BigEndian.AppendUint32(body, uint32(len(v))), v...)
		}
		say('D', body)
		say('C', []byte("SELECT\x00"))
	}
	files := map[string]string{"base/5/1259": string(make([]byte, 8192)), "global/pg_control": string(make([]byte, 8192)), "backup_label": "START WAL LOCATION\n", "standby.signal": ""}
	if incremental {
		head := binary.LittleEndian.AppendUint32(nil, incrementalMagic)
		head = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(head, 1), 3)
		head = binary.LittleEndian.AppendUint32(head, 2)
		files["base/5/INCREMENTAL.1260"] = string(append(head, make([]byte, 2*8192-len(head))...))
	}
	var archived bytes.Buffer
	w := tar.NewWriter(&archived)
	names := []string{"backup_label", "base/5/1259", "base/5/INCREMENTAL.1260", "standby.signal", "global/pg_control"}
	list := "{ \"PostgreSQL-Backup-Manifest-Version\": 1,\n\"Files\": [\n"
	for _, name := range names {
		content, ok := files[name]
		if !ok {
			continue
		}
		if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(content)), Mode: 0o600, Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}); err != nil {
			f.Fatal(err)
		}
		_, _ = io.WriteString(w, content)
		list += fmt.Sprintf("{ \"Path\": %q, \"Size\": %d, \"Checksum-Algorithm\": \"CRC32C\", \"Checksum\": \"%x\" },\n", name, len(content), binary.LittleEndian.AppendUint32(nil, crc32.Checksum([]byte(content), castagnoli)))
	}
	_ = w.WriteHeader(&tar.Header{Name: "pg_tblspc/7", Linkname: "/there", Typeflag: tar.TypeSymlink, Format: tar.FormatUSTAR})
	_ = w.WriteHeader(&tar.Header{Name: "base/6/", Mode: 0o700, Typeflag: tar.TypeDir, Format: tar.FormatUSTAR})
	_ = w.Close()
	list += "],\n"
	list += fmt.Sprintf("\"Manifest-Checksum\": \"%x\"}\n", sha256.Sum256([]byte(list)))
	row("0/2000028", "1")
	row("", "", "32")
	begin := func() { say('H', []byte{0, 0, 0}) }
	data := func(mark string, text []byte) {
		for len(text) > 0 {
			n := min(len(text), 9000)
			say('d', append([]byte(mark), text[:n]...))
			text = text[n:]
		}
	}
	begin()
	if major >= 15 {
		say('d', []byte("nbase.tar\x00\x00"))
		data("d", archived.Bytes())
		say('d', append([]byte("p"), make([]byte, 8)...))
		say('d', []byte("m"))
		data("d", []byte(list))
		say('c', nil)
	} else {
		data("", archived.Bytes())
		say('c', nil)
		begin()
		data("", []byte(list))
		say('c', nil)
	}
	row("0/2000100", "1")
	say('C', []byte("BASE_BACKUP\x00"))
	say('Z', []byte("I"))
	return out
}

// Whatever a server sends as a base backup is accepted or refused, in bounded memory: with paths
// within the data folder, and no more bytes for a file than announced.
func FuzzBaseBackup(f *testing.F) {
	for _, major := range []int{14, 15, 17} {
		for _, incremental := range []bool{false, major == 17} {
			f.Add(uint8(major), incremental, sentBackup(f, major, incremental))
		}
	}
	f.Fuzz(func(t *testing.T, major uint8, incremental bool, said []byte) {
		_ = playBackup(t, int(major), incremental, said)
	})
}

// playBackup receives what a server sends as a base backup.
func playBackup(t *testing.T, major int, incremental bool, said []byte) error {
	t.Helper()
	played, err := pgx.ParseConfig("postgres://me@127.0.0.1:1/played")
	if err != nil {
		t.Fatal(err)
	}
	fake := playedConn{Reader: bytes.NewReader(said)}
	conn, err := pgconn.Construct(&pgconn.HijackedConn{Conn: fake, Frontend: pgproto3.NewFrontend(fake, fake), TxStatus: 'I', Config: played.Config.Copy()})
	if err != nil {
		t.Fatal(err)
	}
	e := &Cluster{&server.Server{Config: played.Copy(), Object: "postgres://played", Major: major}}
	b := e.BaseBackup(BaseBackupOptions{})
	b.life, b.end = t.Context(), func(error) {}
	b.lane = e.NewLane(conn)
	b.lane.Buffer(16 << 10)
	b.set = &tidemark.DataSet{}
	b.about.page, b.about.segment, b.about.checksums = 8192, 1<<30, true
	if incremental {
		b.parts = new(fileSums)
	}
	if err := b.begun(); err != nil {
		return err
	}
	return b.Files(t.Context(), func(f *tidemark.DataFile, content io.Reader) error {
		if !fs.ValidPath(f.Path) || f.Size < 0 {
			t.Errorf("%+v", f)
		}
		if f.Change != nil && (f.Size > b.about.segment || len(f.Change.Pages) > 1<<17) {
			t.Errorf("%+v", f)
		}
		if content == nil {
			return nil
		}
		n, err := io.Copy(io.Discard, content)
		if f.Change == nil && f.Path != ManifestPath && n > f.Size {
			t.Errorf("%s has %d bytes, and %d have come", f.Path, f.Size, n)
		}
		if n > int64(len(said)) {
			t.Errorf("%s: %d bytes of %d", f.Path, n, len(said))
		}
		return err
	})
}

// A server's honest answer is read to its end: otherwise fuzzing would only reach the beginning.
func TestPlayedBaseBackup(t *testing.T) {
	for _, major := range []int{14, 15, 17} {
		for _, incremental := range []bool{false, major == 17} {
			if err := playBackup(t, major, incremental, sentBackup(t, major, incremental)); err != nil {
				t.Errorf("%d, %v: %v", major, incremental, err)
			}
		}
	}
}
