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

// A BaseBackup is an online backup of the server's files that the server itself reads and sends
// (BASE_BACKUP, https://www.postgresql.org/docs/current/protocol-replication.html), to any host
// that can connect to it. The role needs REPLICATION and nothing else.
//
// The server sends the files as tar archives in one stream, so reading them on its own host is
// faster. The WAL that the backup needs arrives through a second session meanwhile, as for a
// standby; a temporary slot of a third session retains what was not received yet.
type BaseBackup struct {
	opt BaseBackupOptions
	// about holds what is known about the server, and asks it for the names of damaged relations.
	// Its session holds the slot.
	about *Backup
	set   *tidemark.DataSet

	lane *server.Lane
	// life ends when the backup is given up: then nothing more is read from the session.
	life context.Context
	end  context.CancelCauseFunc

	timeline uint32 // in which it began
	mode     uint32 // permission bits of the data folder
	spaces   []tidemark.Tablespace
	archives []string  // the folders below the data folder that the server sends, one archive each
	said     sumsRead  // the server's own list of what it has sent
	listed   int64     // maximum size of that list, in bytes
	parts    *fileSums // of an incremental backup: sums of files sent as pages, by the server's names; else nil
	label    []byte    // backup_label
	control  []byte    // pg_control

	sent    chan struct{} // closed when all files have arrived: then about.end.stop and timeline are known
	logMu   sync.Mutex
	history map[uint32]string // of timelines
	log     *Receiver         // nil: not yet

	wrong  atomic.Int64 // pages that Check has found
	rotten string       // the server's message about damaged pages
}

// BaseBackupOptions configure a BaseBackup. The zero value is good.
type BaseBackupOptions struct {
	Label  string // for backup_label; "" means "tidemark"
	Spread bool   // spread the first checkpoint over time, instead of making it at once
	Rate   int64  // maximum bytes per second that the server sends; 0: unlimited
	// Why is the reason, for the findings, why the files are not read on the server's host.
	Why string
}

// BaseBackup prepares a backup of the server's files that the server sends. Nothing happens before
// Begin.
func (c *Cluster) BaseBackup(opt BaseBackupOptions) *BaseBackup {
	if opt.Label == "" {
		opt.Label = "tidemark"
	}
	return &BaseBackup{opt: opt, about: c.Backup(BackupOptions{}), history: map[uint32]string{}, sent: make(chan struct{})}
}

// Begin connects, and returns what is known about the server; Start or Since begins the backup.
// Kind Forbidden: the role lacks REPLICATION.
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
		b.find(tidemark.Note, "the server sends its files in one stream: "+b.opt.Why, "Run this on the server's host, as the server's user, to read them with several workers.")
	}
	if finding := b.about.holdLog(ctx); finding != nil {
		b.set.Findings = append(b.set.Findings, *finding)
	}
	_, err = b.lane.Raw(b.life)
	return b.set, b.failed(ctx, err)
}

// Start makes the server begin, and waits for its first checkpoint. Then the set also has that
// position, the tablespaces, and the expected size.
func (b *BaseBackup) Start(ctx context.Context) error {
	if b.about.start > 0 {
		return nil // builds on an earlier backup
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

// endsWith ends the backup when ctx ends, unless the returned function is called first.
func (b *BaseBackup) endsWith(ctx context.Context) (release func() bool) {
	return crash.OnDone(ctx, func() { b.end(context.Cause(ctx)) })
}

// find records a finding. Files and Log run at the same time.
func (b *BaseBackup) find(severity tidemark.Severity, text, hint string) {
	b.logMu.Lock()
	defer b.logMu.Unlock()
	b.set.Findings = append(b.set.Findings, tidemark.Finding{Severity: severity, Object: b.about.e.Object, Text: text, Hint: hint})
}

// command returns the BASE_BACKUP command, which has parentheses since 15.
func (b *BaseBackup) command() string {
	checkpoint := "fast"
	if b.opt.Spread {
		checkpoint = "spread"
	}
	rate := int64(0)
	if b.opt.Rate > 0 {
		rate = min(max(b.opt.Rate>>10, 32), 1<<20) // the server's bounds
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

// begun reads the server's answer once its checkpoint is done: the place where the backup begins,
// and the tablespaces.
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
			return fmt.Errorf("a malformed tablespace %q", row)
		}
		kilobytes, _ := strconv.ParseInt(string(row[2]), 10, 64) // stays 0 if it is unknown
		b.set.Estimate += kilobytes << 10
		if row[0] == nil {
			b.archives = append(b.archives, "")
			continue
		}
		oid, err := strconv.ParseUint(string(row[0]), 10, 32)
		if err != nil {
			return fmt.Errorf("a malformed tablespace %q", row)
		}
		b.archives = append(b.archives, spaceFolder+"/"+string(row[0]))
		if strings.HasPrefix(string(row[1]), "/") { // otherwise it is in the data folder itself
			b.spaces = append(b.spaces, tidemark.Tablespace{OID: uint32(oid), Path: string(row[1])})
		}
	}
	return nil
}

// placeRow reads a row with a log position and its timeline.
func placeRow(rows [][][]byte) (place uint64, timeline uint32, err error) {
	if len(rows) != 1 || len(rows[0]) < 2 {
		return 0, 0, fmt.Errorf("a malformed log position %q", rows)
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
					row.Values[i] = append([]byte{}, v...) // body is reused for the next message
				}
			}
			if out = append(out, row.Values); len(out) > maxRows || len(body) > maxLine {
				return nil, fmt.Errorf("%w: a result of %d rows, or a row of %d bytes", server.ErrEndless, len(out), len(body))
			}
		case 'C':
			return out, nil
		case 'Z':
			return nil, errors.New("the server ended the command without an answer")
		}
	}
}

// message reads the next message about the backup. Its body is valid until the next call.
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

// failed explains why the sending session has ended.
func (b *BaseBackup) failed(ctx context.Context, err error) error {
	var own *tidemark.Error
	switch {
	case err == nil || errors.As(err, &own):
		return err
	case ctx.Err() == nil && server.Broken(err) || server.SQLState(err) != "" && server.Ended(err):
		return &tidemark.Error{Kind: tidemark.Lost, Op: backupOp, Object: b.about.e.Object, Err: errors.New("the session in which the server sends its files is gone: " + server.PlainCause(err)), Hint: "Start the backup again; nothing of this one was kept."}
	case server.SQLState(err) == "55000":
		return b.about.spoilt(err)
	case server.SQLState(err) == "42501":
		return b.forbidden(&tidemark.Error{Op: backupOp, Object: b.about.e.Object, Kind: tidemark.Forbidden, Err: errors.New(server.PlainCause(err))})
	}
	return b.about.e.Fail(ctx, backupOp, b.about.e.Object, err)
}

// Sessions returns the server's processes that send: the one of the files as 0, that of the log as
// 1.
func (b *BaseBackup) Sessions() map[uint32]int {
	out := map[uint32]int{b.lane.PID(): 0}
	b.logMu.Lock()
	defer b.logMu.Unlock()
	if b.log != nil {
		out[b.log.Status().PID] = 1
	}
	return out
}

// Check returns the offsets in content of pages whose checksums are wrong. Pages written since the
// backup began may be torn, and what was sent cannot be read again: WAL replay restores them. A
// page without a header is new, and may be in the middle of being written. So the server decides:
// it rereads a page that looks wrong.
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

// NamePage returns the relation that the page at an offset of a file belongs to, as Backup does.
func (b *BaseBackup) NamePage(ctx context.Context, f *tidemark.DataFile, at int64) string {
	return b.about.NamePage(ctx, f, at)
}

// End returns what was not emitted as a file. Kind Corrupt: the server found a damaged page that
// arrived undamaged.
func (b *BaseBackup) End(ctx context.Context) (*tidemark.DataEnd, error) {
	if b.rotten != "" && b.wrong.Load() == 0 {
		return nil, &tidemark.Error{Kind: tidemark.Corrupt, Op: "read", Object: b.about.e.Object, Err: errors.New("the server found damage that the files it sent do not have: " + b.rotten), Hint: "Check the disk and the memory of the server's host, then back up again."}
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
		return nil, &tidemark.Error{Kind: tidemark.Lost, Op: backupOp, Object: b.about.e.Object, Err: errors.New("the server has not sent backup_label and pg_control"), Hint: "Start the backup again; nothing of this one was kept."}
	}
	return &tidemark.DataEnd{Ranges: b.about.dataLogs(), Made: []tidemark.MadeFile{b.about.made("backup_label", ownLabel(b.label)), b.about.made(controlPath, b.control)}, Spaces: spaceMap(b.spaces)}, nil
}

// spaceMap returns PostgreSQL's tablespace_map.
func spaceMap(spaces []tidemark.Tablespace) string {
	var text strings.Builder
	escape := strings.NewReplacer("\\", "\\\\", "\n", "\\\n", "\r", "\\\r")
	for _, s := range spaces {
		fmt.Fprintf(&text, "%d %s\n", s.OID, escape.Replace(s.Path))
	}
	return text.String()
}

// Close ends the sessions. The server aborts an unfinished backup.
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

// patience is how long the session that receives the log may stay without a connection.
const patience = time.Minute
