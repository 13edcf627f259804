package physical

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/postgres/server"
	"github.com/tidemarkdb/tidemark/postgres/wal"
)

// A BaseBackup is an online backup of the server's files that the server itself reads and
// sends (BASE_BACKUP, https://www.postgresql.org/docs/current/protocol-replication.html): from
// wherever it can be connected to. The role needs REPLICATION and nothing else.
//
// The server sends the files as tar archives in one stream, which is why reading them on its
// own host is faster. The log that the backup needs comes through a second session meanwhile, as a
// standby gets it; a temporary slot of a third one keeps what has not come yet.
type BaseBackup struct {
	opt BaseBackupOptions
	// about is what is known of the server, and asks it for the names of what is damaged. Its
	// session holds the slot.
	about *Backup
	set   *tidemark.DataSet

	lane *server.Lane
	// life ends when the backup is given up: then nothing is read from the session any more.
	life context.Context
	end  context.CancelCauseFunc

	timeline uint32 // in which it has begun
	mode     uint32 // permission bits of the data folder
	spaces   []tidemark.Tablespace
	archives []string  // in which the server sends files: where below the data folder they are
	said     sumsRead  // the server's own list of what it has sent
	listed   int64     // bytes that this has at most
	parts    *fileSums // of an incremental one: what came as pages, by the names that the server gives; else nil
	label    []byte    // backup_label
	control  []byte    // pg_control

	sent    chan struct{} // closed when all files have come: then about.end.stop and timeline are known
	logMu   sync.Mutex
	history map[uint32]string // of timelines

	wrong  atomic.Int64 // pages that Check has found
	rotten string       // what the server says of pages that it has found
}

// BaseBackupOptions of a BaseBackup. The zero value is good.
type BaseBackupOptions struct {
	Label  string // what backup_label says; "" means "tidemark"
	Spread bool   // let the first checkpoint take its time, instead of making it at once
	Rate   int64  // bytes that the server sends a second at most; 0: as many as it can
	// Why says, for the findings, why the files are not read on the server's host.
	Why string
}

// BaseBackup prepares a backup of the server's files that the server sends. Nothing is done
// before Begin.
func (c *Cluster) BaseBackup(opt BaseBackupOptions) *BaseBackup {
	if opt.Label == "" {
		opt.Label = "tidemark"
	}
	return &BaseBackup{opt: opt, about: c.Backup(BackupOptions{}), history: map[uint32]string{}, sent: make(chan struct{})}
}

// Begin connects, and says what is known of the server; Start or Since begins the backup. Kind
// Forbidden: the role lacks REPLICATION.
func (b *BaseBackup) Begin(ctx context.Context) (*tidemark.DataSet, error) {
	e := b.about.e
	b.life, b.end = context.WithCancelCause(context.WithoutCancel(ctx))
	defer b.endsWith(ctx)()
	conn, err := e.ReplicationConn(ctx)
	if err != nil {
		return nil, b.forbidden(err)
	}
	b.lane = b.about.e.NewLane(conn)
	if b.about.conn, err = e.Connect(ctx); err != nil {
		return nil, err
	}
	if err := b.about.ask(ctx, "''"); err != nil {
		return nil, err
	}
	var mode string
	if err := b.about.conn.QueryRow(ctx, "SELECT current_setting('data_directory_mode')").Scan(&mode); err != nil {
		return nil, e.Fail(ctx, backupOp, e.Object, err)
	}
	bits, err := strconv.ParseUint(mode, 8, 9)
	if err != nil {
		return nil, e.Fail(ctx, backupOp, e.Object, err)
	}
	b.mode = uint32(bits)
	b.about.mode = b.mode
	b.set = b.about.newSet()
	if b.opt.Why != "" {
		b.find(tidemark.Note, "the server sends its files, in one stream: "+b.opt.Why, "On the server's host, as its user, they are read by many workers at once.")
	}
	if finding := b.about.holdLog(ctx); finding != nil {
		b.set.Findings = append(b.set.Findings, *finding)
	}
	_, err = b.lane.Raw(b.life)
	return b.set, b.failed(ctx, err)
}

// Start has the server begin, and waits for its first checkpoint. Then the set has also where that
// is, the tablespaces, and how much will come.
func (b *BaseBackup) Start(ctx context.Context) error {
	if b.about.start > 0 {
		return nil // on an earlier backup
	}
	defer b.endsWith(ctx)()
	return b.failed(ctx, b.begin())
}

func (b *BaseBackup) begin() error {
	if err := b.lane.Send(b.command()); err != nil {
		return err
	}
	if err := b.begun(); err != nil {
		return err
	}
	b.set.Start = wal.FormatLSN(b.about.start)
	b.set.Tablespaces = b.spaces
	return nil
}

// endsWith gives the backup up when ctx ends, until the function that it gives is called.
func (b *BaseBackup) endsWith(ctx context.Context) (release func() bool) {
	return crash.OnDone(ctx, func() { b.end(context.Cause(ctx)) })
}

// find notes a finding. Files and Log go on at the same time.
func (b *BaseBackup) find(severity tidemark.Severity, text, hint string) {
	b.logMu.Lock()
	defer b.logMu.Unlock()
	b.set.Findings = append(b.set.Findings, tidemark.Finding{Severity: severity, Object: b.about.e.Object, Text: text, Hint: hint})
}

// command is BASE_BACKUP, which has parentheses since 15.
func (b *BaseBackup) command() string {
	checkpoint := "fast"
	if b.opt.Spread {
		checkpoint = "spread"
	}
	rate := int64(0)
	if b.opt.Rate > 0 {
		rate = min(max(b.opt.Rate>>10, 32), 1<<20) // the bounds that the server has
	}
	if b.about.e.Major >= 15 {
		options := []string{"LABEL " + server.QuoteLiteral(b.opt.Label), "PROGRESS", "CHECKPOINT '" + checkpoint + "'", "WAIT 0", "MANIFEST 'yes'", "MANIFEST_CHECKSUMS 'CRC32C'"}
		if rate > 0 {
			options = append(options, fmt.Sprint("MAX_RATE ", rate))
		}
		if b.parts != nil {
			options = append(options, "INCREMENTAL")
		}
		return "BASE_BACKUP (" + strings.Join(options, ", ") + ")"
	}
	command := "BASE_BACKUP LABEL " + server.QuoteLiteral(b.opt.Label) + " PROGRESS NOWAIT MANIFEST 'yes' MANIFEST_CHECKSUMS 'CRC32C'"
	if !b.opt.Spread {
		command += " FAST"
	}
	if rate > 0 {
		command += fmt.Sprint(" MAX_RATE ", rate)
	}
	return command
}

// begun reads what the server says when its checkpoint is made: the place where the backup
// begins, and the tablespaces.
func (b *BaseBackup) begun() (err error) {
	rows, err := b.rows()
	if err != nil {
		return err
	}
	if b.about.start, b.timeline, err = placeRow(rows); err != nil {
		return err
	}
	if rows, err = b.rows(); err != nil {
		return err
	}
	for _, row := range rows {
		if len(row) < 3 {
			return fmt.Errorf("a tablespace that is not in its format: %q", row)
		}
		kilobytes, _ := strconv.ParseInt(string(row[2]), 10, 64) // none where it is not known
		b.set.Estimate += kilobytes << 10
		if row[0] == nil {
			b.archives = append(b.archives, "")
			continue
		}
		oid, err := strconv.ParseUint(string(row[0]), 10, 32)
		if err != nil {
			return fmt.Errorf("a tablespace that is not in its format: %q", row)
		}
		b.archives = append(b.archives, spaceFolder+"/"+string(row[0]))
		if strings.HasPrefix(string(row[1]), "/") { // else it is in the data folder itself
			b.spaces = append(b.spaces, tidemark.Tablespace{OID: uint32(oid), Path: string(row[1])})
		}
	}
	return nil
}

// placeRow reads the one row that says a place of the log and its timeline.
func placeRow(rows [][][]byte) (place uint64, timeline uint32, err error) {
	if len(rows) != 1 || len(rows[0]) < 2 {
		return 0, 0, fmt.Errorf("a place of the log that is not in its format: %q", rows)
	}
	n, err := strconv.ParseUint(string(rows[0][1]), 10, 32)
	if err != nil {
		return 0, 0, err
	}
	place, err = wal.ParseLSN(string(rows[0][0]))
	return place, uint32(n), err
}

// maxRows bounds results of the replication protocol: one row for each tablespace.
const maxRows = 1 << 16

// rows reads a result.
func (b *BaseBackup) rows() (out [][][]byte, err error) {
	for {
		kind, body, err := b.message()
		if err != nil {
			return nil, err
		}
		switch kind {
		case 'D':
			var row pgproto3.DataRow
			if err := row.Decode(body); err != nil {
				return nil, err
			}
			for i, v := range row.Values {
				if v != nil {
					row.Values[i] = append([]byte{}, v...) // body is read into again
				}
			}
			if out = append(out, row.Values); len(out) > maxRows || len(body) > maxLine {
				return nil, fmt.Errorf("%w: a result of %d rows, or a row of %d bytes", server.ErrEndless, len(out), len(body))
			}
		case 'C':
			return out, nil
		case 'Z':
			return nil, errors.New("the server ended the command and did not answer it")
		}
	}
}

// message reads the next message that has to do with the backup. Its body is valid until
// the next one is read.
func (b *BaseBackup) message() (kind byte, body []byte, err error) {
	for {
		kind, n, err := b.lane.Head()
		if err != nil {
			return 0, nil, err
		}
		if body, err = b.lane.Body(n); err != nil {
			return 0, nil, err
		}
		switch kind {
		case 'E':
			var msg pgproto3.ErrorResponse
			if err := msg.Decode(body); err != nil {
				return 0, nil, err
			}
			return 0, nil, pgconn.ErrorResponseToPgError(&msg)
		case 'N':
			var msg pgproto3.NoticeResponse
			if err := msg.Decode(body); err == nil && msg.Code == "XX001" && b.rotten == "" {
				b.rotten = msg.Message
			}
		case 'S': // a setting that was changed
		default:
			return kind, body, nil
		}
	}
}

// forbidden is the error of a role that may not have the files sent.
func (b *BaseBackup) forbidden(err error) error {
	err = b.about.e.forbidden(err)
	var own *tidemark.Error
	if b.opt.Why != "" && errors.As(err, &own) && own.Kind == tidemark.Forbidden {
		own.Hint = fmt.Sprintf("The server's files cannot be read here (%s), and the role may not have them sent: %s", b.opt.Why, own.Hint)
	}
	return err
}

// failed words what ends the session that sends.
func (b *BaseBackup) failed(ctx context.Context, err error) error {
	var own *tidemark.Error
	switch {
	case err == nil || errors.As(err, &own):
		return err
	case ctx.Err() == nil && server.Broken(err) || server.SQLState(err) != "" && server.Ended(err):
		return &tidemark.Error{Kind: tidemark.Lost, Op: backupOp, Object: b.about.e.Object, Err: errors.New("the session in which the server sends its files is gone: " + server.PlainCause(err)), Hint: "Nothing was kept: begin again."}
	case server.SQLState(err) == "55000":
		return b.about.spoilt(err)
	case server.SQLState(err) == "42501":
		return b.forbidden(&tidemark.Error{Op: backupOp, Object: b.about.e.Object, Kind: tidemark.Forbidden, Err: errors.New(server.PlainCause(err))})
	}
	return b.about.e.Fail(ctx, backupOp, b.about.e.Object, err)
}

// Check gives the offsets in content of pages that are not as their checksums say. Those that
// were written since the backup began may be torn, and no one can look again at what was sent:
// the log brings them back. A page without a header is new, and may be just being written. So
// the server judges itself, and it has read a page that seems wrong to it once more.
func (b *BaseBackup) Check(f *tidemark.DataFile, at int64, content []byte) (wrong []int) {
	page, block := b.about.page, b.about.block(f, at)
	for off := 0; off+page <= len(content); off += page {
		p := content[off : off+page : off+page]
		lsn := uint64(binary.LittleEndian.Uint32(p))<<32 | uint64(binary.LittleEndian.Uint32(p[4:]))
		if fresh := binary.LittleEndian.Uint16(p[14:]) == 0; !fresh && lsn < b.about.start && !pageRight(p, block) {
			wrong = append(wrong, off)
			b.wrong.Add(1)
		}
		block++
	}
	return wrong
}

// NamePage says of which relation the page at an offset of a file is, as Backup does.
func (b *BaseBackup) NamePage(ctx context.Context, f *tidemark.DataFile, at int64) string {
	return b.about.NamePage(ctx, f, at)
}

// End says what was not given as a file. Kind Corrupt: the server has found a damaged page
// that has come undamaged.
func (b *BaseBackup) End(ctx context.Context) (*tidemark.DataEnd, error) {
	if b.rotten != "" && b.wrong.Load() == 0 {
		return nil, &tidemark.Error{Kind: tidemark.Corrupt, Op: "read", Object: b.about.e.Object, Err: errors.New("the server has found damage, and what it has sent has none: " + b.rotten), Hint: "Look at the disk and the memory of the server's host, and back up again."}
	}
	end := &b.about.end
	b.logMu.Lock()
	history := b.history[end.timeline]
	b.logMu.Unlock()
	var err error
	if end.ranges, err = logRanges(history, b.timeline, end.timeline, b.about.start, end.stop); err != nil {
		return nil, b.about.e.Fail(ctx, backupOp, b.about.e.Object, err)
	}
	if b.label == nil || b.control == nil {
		return nil, &tidemark.Error{Kind: tidemark.Lost, Op: backupOp, Object: b.about.e.Object, Err: errors.New("the server has not sent backup_label and pg_control"), Hint: "Nothing was kept: begin again."}
	}
	return &tidemark.DataEnd{Ranges: b.about.dataLogs(), Made: []tidemark.MadeFile{b.about.made("backup_label", ownLabel(b.label)), b.about.made(controlPath, b.control)}, Spaces: spaceMap(b.spaces)}, nil
}

// spaceMap is PostgreSQL's tablespace_map.
func spaceMap(spaces []tidemark.Tablespace) string {
	var text strings.Builder
	escape := strings.NewReplacer("\\", "\\\\", "\n", "\\\n", "\r", "\\\r")
	for _, s := range spaces {
		fmt.Fprintf(&text, "%d %s\n", s.OID, escape.Replace(s.Path))
	}
	return text.String()
}

// Close ends the sessions. A backup that has not ended is given up by the server.
func (b *BaseBackup) Close() {
	if b.lane != nil {
		select {
		case <-b.sent:
			b.lane.Close()
		default:
			b.lane.Abandon()
		}
	}
	if b.end != nil {
		b.end(nil)
	}
	b.about.Close()
}

// patience is how long the session that receives the log may be without a connection.
const patience = time.Minute
