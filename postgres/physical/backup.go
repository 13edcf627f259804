package physical

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
	"github.com/tidemarkdb/tidemark/postgres/wal"
)

// A Backup is an online backup of the server's files, which are read here, on the server's own
// host, while it runs (https://www.postgresql.org/docs/current/continuous-archiving.html, "Making a
// Base Backup Using the Low Level API").
//
// The session that began it stays open until Close: if it is lost, the server ends the backup, and
// End reports that. Until then a temporary slot of that session retains the WAL that the backup
// needs.
type Backup struct {
	dataFolder
	begun    time.Time
	start    uint64
	slot     string // retains the log; "": none could be created
	timeline uint32 // of the last checkpoint when it began
	end      ending

	unlogged  map[string]numbers  // by database folder, as of the listing
	versions  []tidemark.DataFile // those of these folders that record its version
	relations int64               // bytes of relations' files
	changes                       // since an earlier backup
	base      *changes            // changes since the base of an unfinished earlier backup; nil: it has none
}

// A dataFolder is a server's data folder, with the session that holds a backup of it, and what the
// server has reported about itself.
type dataFolder struct {
	e    *Cluster
	opt  BackupOptions
	conn *pgx.Conn
	dir  string
	mode uint32 // its permission bits
	facts

	namesMu sync.Mutex
	names   map[string]*pgx.Conn // sessions that look up relation names, by database
}

// BackupOptions configure a Backup. The zero value is good.
type BackupOptions struct {
	Label  string // for backup_label; "" means "tidemark"
	Dir    string // the data folder, if its path here differs from that on the server, as outside its container
	Spread bool   // spread the first checkpoint over time, instead of making it at once
	Way    Way    // how to find out what has changed
}

// facts are what the server reports about itself at the beginning.
type facts struct {
	checksums      bool
	page           int    // bytes
	segment        int64  // maximum bytes of a relation's file
	segmentSize    int64  // bytes of a WAL file
	standby        bool   // it is one
	system         uint64 // identifier
	catalogVersion uint32
	names          []tidemark.DatabaseName // of databases
}

const backupOp = "back up"

// Backup prepares a backup of the server's files. Nothing happens before Begin.
func (c *Cluster) Backup(opt BackupOptions) *Backup {
	if opt.Label == "" {
		opt.Label = "tidemark"
	}
	return &Backup{dataFolder: dataFolder{e: c, opt: opt, names: map[string]*pgx.Conn{}}}
}

// Begin begins the backup, waits for its first checkpoint, and lists what to read. Kind Forbidden:
// the files cannot be read here, or the user may not begin a backup. Kind Invalid: the files here
// are not those of the server.
func (b *Backup) Begin(ctx context.Context) (*tidemark.DataSet, error) {
	if err := b.find(ctx); err != nil {
		return nil, err
	}
	set := b.newSet()
	if finding := b.holdLog(ctx); finding != nil {
		set.Findings = append(set.Findings, *finding)
	}
	if err := b.begin(ctx); err != nil {
		return nil, err
	}
	set.Start = wal.FormatLSN(b.start)
	if err := b.checkSame(ctx); err != nil {
		return nil, err
	}
	return set, b.list(set)
}

// find connects to the server and checks whether its data folder can be read here.
func (d *dataFolder) find(ctx context.Context) error {
	if d.conn != nil {
		return nil // Elsewhere has already done it
	}
	var err error
	if d.conn, err = d.e.Connect(ctx); err != nil {
		return err
	}
	if err := d.ask(ctx, "current_setting('data_directory')"); err != nil {
		return err
	}
	return d.checkFolder()
}

// Elsewhere returns why the server's files cannot be read here; "" if they can.
func (d *dataFolder) Elsewhere(ctx context.Context) (why string, err error) {
	err = d.find(ctx)
	var own *tidemark.Error
	if !errors.As(err, &own) || own.Op != backupOp || own.Kind != tidemark.Forbidden && own.Kind != tidemark.Invalid {
		return "", err
	}
	if own.Object == d.e.Object {
		return "the role may not read where they are", nil
	}
	return fmt.Sprintf("%s on this host: %s", own.Object, own.Err), nil
}

// newSet returns what is known about the data before anything is read.
func (d *dataFolder) newSet() *tidemark.DataSet {
	set := &tidemark.DataSet{Engine: "postgres", System: strconv.FormatUint(d.system, 10), Version: d.e.Version(), Major: d.e.Major, Standby: d.standby,
		PageSize: d.page, Checksums: d.checksums, LogFile: d.segmentSize, Databases: d.facts.names}
	if !d.checksums {
		set.Findings = append(set.Findings, tidemark.Finding{Severity: tidemark.Warning, Object: d.e.Object,
			Text: "its data checksums are off: damage to its files goes unnoticed", Hint: "Stop the server and run pg_checksums --enable."})
	}
	return set
}

// ask reads the server's facts about its data. folder is the SQL expression for the data folder.
func (d *dataFolder) ask(ctx context.Context, folder string) error {
	var checksums, page, segment, log, catalog string
	var system int64
	err := d.conn.QueryRow(ctx, `SELECT `+folder+`, current_setting('data_checksums'), current_setting('block_size'),
			(SELECT setting FROM pg_settings WHERE name = 'segment_size'), (SELECT setting FROM pg_settings WHERE name = 'wal_segment_size'),
			pg_is_in_recovery(), system_identifier, catalog_version_no::text FROM pg_control_system()`).
		Scan(&d.dir, &checksums, &page, &segment, &log, &d.standby, &system, &catalog)
	if err != nil {
		err = d.e.FailGrant(ctx, backupOp, d.e.Object, err, "pg_read_all_settings")
		var own *tidemark.Error
		if errors.As(err, &own) && own.Kind == tidemark.Forbidden {
			own.Hint = "Give the role what it needs: GRANT pg_read_all_settings, pg_monitor TO " + server.QuoteIdent(d.e.Config.User) + "; or use a superuser."
		}
		return err
	}
	if d.opt.Dir != "" {
		d.dir = d.opt.Dir
	}
	d.checksums = checksums == "on"
	d.system = uint64(system)
	numbers := []struct {
		text string
		to   *int64
	}{{page, new(int64)}, {segment, &d.segment}, {log, &d.segmentSize}, {catalog, new(int64)}}
	for _, n := range numbers {
		if *n.to, err = strconv.ParseInt(n.text, 10, 64); err != nil {
			return d.e.Fail(ctx, backupOp, d.e.Object, err)
		}
	}
	d.page, d.catalogVersion = int(*numbers[0].to), uint32(*numbers[3].to)
	d.segment *= int64(d.page) // the setting counts pages
	return d.askDatabases(ctx)
}

func (d *dataFolder) askDatabases(ctx context.Context) error {
	found, err := d.conn.Query(ctx, "SELECT oid, datname FROM pg_database ORDER BY 1")
	if err == nil {
		d.facts.names, err = pgx.CollectRows(found, pgx.RowToStructByPos[tidemark.DatabaseName])
	}
	return d.e.Fail(ctx, backupOp, d.e.Object, err)
}

// checkFolder checks whether the server's data folder can be read here, and is its own.
func (d *dataFolder) checkFolder() error {
	control, err := os.ReadFile(filepath.Join(d.dir, controlPath))
	if err != nil {
		kind, hint := tidemark.Forbidden, "Run it as the user that the server runs as, or as root."
		if errors.Is(err, fs.ErrNotExist) {
			kind, hint = tidemark.Invalid, "Run it on the server's own host, or have the server send its files: --via protocol."
		}
		return &tidemark.Error{Op: backupOp, Object: d.dir, Kind: kind, Hint: hint, Err: tidemark.Pathless(err)}
	}
	if c, ok := parseControl(control); ok && c.system != d.system {
		return d.foreign("its system identifier is not the server's")
	}
	return nil
}

// checkSame checks whether the folder is the server's own. A copy of it, such as that of a standby
// which runs here while the server runs elsewhere, has its identifier too, and may be in a folder
// of the same name. But a copy lacks the slot that the server has just created, and the checkpoint
// that the backup has begun with; and its server was started at another time.
func (b *Backup) checkSame(ctx context.Context) error {
	c, _, err := b.control(ctx)
	if err != nil {
		return err
	}
	b.timeline = c.timeline
	if c.redo < b.start {
		return b.foreign("it lacks the checkpoint that the server has just made")
	}
	if b.slot != "" {
		if _, err := os.Stat(filepath.Join(b.dir, "pg_replslot", b.slot)); err != nil {
			return b.foreign("it lacks the slot that the server has just created")
		}
		return nil
	}
	var started int64
	if err := b.conn.QueryRow(ctx, "SELECT extract(epoch FROM pg_postmaster_start_time())::bigint").Scan(&started); err != nil {
		return b.e.Fail(ctx, backupOp, b.e.Object, err)
	}
	text, err := os.ReadFile(filepath.Join(b.dir, "postmaster.pid"))
	if lines := strings.Split(string(text), "\n"); err == nil && len(lines) > 2 {
		if here, err := strconv.ParseInt(lines[2], 10, 64); err == nil && here-started < startSlack && started-here < startSlack {
			return nil
		}
	}
	return b.foreign("the server there was started at another time than the one that answers")
}

// startSlack is how many seconds may lie between the two times that a server records when it
// starts.
const startSlack = 30

func (d *dataFolder) foreign(cause string) error {
	return &tidemark.Error{Kind: tidemark.Invalid, Op: backupOp, Object: d.dir, Err: errors.New(cause), Hint: "On this host that folder is not the server's data directory: run it on the server's host, or in its container, or have the server send its files (--via protocol)."}
}

// holdLog creates the slot that retains the log. Without one the server may remove log that the
// backup needs before it was read: then End fails.
func (b *Backup) holdLog(ctx context.Context) *tidemark.Finding {
	name := fmt.Sprintf("tidemark_backup_%d", b.conn.PgConn().PID())
	_, err := b.conn.Exec(ctx, "SELECT pg_create_physical_replication_slot($1::name, true, true)", name)
	if err == nil {
		b.slot = name
		return nil
	}
	return &tidemark.Finding{Severity: tidemark.Warning, Object: b.e.Object,
		Text: "no slot could be created (" + server.PlainCause(err) + "): the server may remove WAL that the backup still needs, and the backup would fail",
		Hint: "Raise max_replication_slots and give the role REPLICATION, or set wal_keep_size to at least the WAL of a whole backup."}
}

func (b *Backup) begin(ctx context.Context) error {
	call := "pg_backup_start($1, $2)"
	if b.e.Major < 15 {
		call = "pg_start_backup($1, $2, false)"
	}
	b.begun = time.Now()
	var lsn string
	err := b.conn.QueryRow(ctx, "SELECT "+call+"::text", b.opt.Label, !b.opt.Spread).Scan(&lsn)
	if err == nil {
		b.start, err = wal.ParseLSN(lsn)
	}
	if err == nil {
		return nil
	}
	name, arguments, _ := strings.Cut(call, "(")
	types := "text, boolean"
	if strings.Contains(arguments, "false") {
		types += ", boolean"
	}
	return b.e.FailGrant(ctx, backupOp, b.e.Object, err, "EXECUTE ON FUNCTION pg_catalog."+name+"("+types+")")
}

// Open opens a file of DataSet or DataEnd. fs.ErrNotExist means that it was removed since it was
// listed.
func (d *dataFolder) Open(f *tidemark.DataFile) (*os.File, error) {
	file, err := os.Open(filepath.Join(d.dir, filepath.FromSlash(f.Path)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, &tidemark.Error{Op: "read", Object: f.Path, Kind: tidemark.Forbidden, Err: tidemark.Pathless(err), Hint: "Run it as the user that the server runs as, or as root."}
	}
	return file, err
}

// Close ends the session that holds the backup. If End was not called, the server ends the backup
// with it and keeps nothing.
func (b *Backup) Close() {
	server.CloseConn(b.conn)
	b.namesMu.Lock()
	defer b.namesMu.Unlock()
	for _, conn := range b.names {
		server.CloseConn(conn)
	}
	b.names = nil
}
