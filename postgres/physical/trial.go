package physical

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// A Trial starts the server's program on a folder restored from a backup, to check that it
// recovers, and that its tables and indexes are intact. The server writes to the folder, which is
// useless afterwards.
//
// The program uses only the server's settings from ALTER SYSTEM, except those that would let others
// connect, archive, or wait for a standby: it listens on a socket in its own folder.
type Trial struct {
	Dir     string // the restored data folder
	Work    string // a folder for temporary files, accessible to the owner of Dir
	Program string // the server's program; "": it is searched for
	Major   int    // of the server that was backed up
	Workers int    // sessions, and files checked in parallel; 0 means 2
	// Phase, if not nil, is called when something begins: "recover", "amcheck", "pages".
	Phase func(name string)

	socket string // folder
	user   string // the superuser
	out    TrialReport
}

// A TrialReport is the result of a Trial.
type TrialReport struct {
	Program   string        `json:"program"`
	Version   string        `json:"version"`   // as the program reports it
	Recovered string        `json:"recovered"` // up to which log position
	Recovery  time.Duration `json:"recovery_ns"`
	Databases int           `json:"databases"` // that were checked
	Indexes   int           `json:"indexes"`
	Tables    int           `json:"tables"`
	Files     int           `json:"files"` // whose pages were checked
	Pages     int64         `json:"pages"`
	Damages   []string      `json:"damages"`
	Notes     []string      `json:"notes,omitempty"` // what was not checked, and why
}

const trialOp = "try the backup"

// Run runs the trial. Faults of the backup are in the report, even if the server does not start.
// Kind NotFound: there is no program of that version here.
func (t Trial) Run(ctx context.Context) (*TrialReport, error) {
	if t.Workers <= 0 {
		t.Workers = 2
	}
	if t.Phase == nil {
		t.Phase = func(string) {}
	}
	if err := t.findProgram(ctx); err != nil {
		return nil, err
	}
	var err error
	if t.socket, err = os.MkdirTemp("", "tidemark-"); err != nil { // a socket's path is limited to about a hundred bytes
		return nil, trialFailed("make", t.socket, err)
	}
	defer os.RemoveAll(t.socket)
	if err := t.giveFolders(); err != nil {
		return nil, err
	}
	t.Phase("recover")
	begun := time.Now()
	if err := t.recover(ctx); err != nil {
		return nil, err
	}
	t.out.Recovery = time.Since(begun)
	if len(t.out.Damages) > 0 {
		return &t.out, nil
	}
	facts, err := t.ask(ctx)
	if err != nil || facts == nil {
		return &t.out, err
	}
	t.Phase("pages")
	return &t.out, t.checkPages(ctx, facts)
}

func trialFailed(op, path string, err error) error {
	return &tidemark.Error{Op: op, Object: path, Kind: tidemark.Forbidden, Hint: "Name another folder with --work-dir whose whole path the server's user may enter.", Err: tidemark.Pathless(err)}
}

// programPlaces are where packages install the server, by major version.
var programPlaces = []string{"/usr/lib/postgresql/%d/bin/postgres", "/usr/pgsql-%d/bin/postgres", "/usr/local/pgsql-%d/bin/postgres", "/opt/homebrew/opt/postgresql@%d/bin/postgres", "/usr/lib/postgresql%d/bin/postgres", "/usr/libexec/postgresql%d/postgres"}

// places returns where the program may be.
func (t *Trial) places() []string {
	if t.Program != "" {
		return []string{t.Program}
	}
	var out []string
	for _, form := range programPlaces {
		out = append(out, fmt.Sprintf(form, t.Major))
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		out = append(out, path)
	}
	return append(out, "/usr/local/pgsql/bin/postgres", "/usr/bin/postgres")
}

var programVersion = regexp.MustCompile(`^postgres \(PostgreSQL\) (\d+)\S*`)

func (t *Trial) findProgram(ctx context.Context) error {
	last := "none was found"
	for _, path := range t.places() {
		cmd := exec.CommandContext(ctx, path, "--version")
		cmd.Env = trialEnv()
		out, err := cmd.Output()
		m := programVersion.FindSubmatch(out)
		if err == nil && m != nil && string(m[1]) == strconv.Itoa(t.Major) {
			t.Program, t.out.Program = path, path
			t.out.Version = strings.TrimPrefix(string(bytes.TrimSpace(out)), "postgres (PostgreSQL) ")
			return nil
		}
		switch {
		case t.Program == "" && errors.Is(err, fs.ErrNotExist):
		case err != nil:
			last = fmt.Sprintf("%s: %v", path, tidemark.Pathless(err))
		default:
			last = fmt.Sprintf("%s is of version %q", path, bytes.TrimSpace(out))
		}
	}
	return &tidemark.Error{Kind: tidemark.NotFound, Op: trialOp, Object: fmt.Sprintf("the program of PostgreSQL %d", t.Major), Err: errors.New(last), Hint: "Name it with --server-program: a file called postgres, of the same major version as the server's."}
}

// trialEnv keeps the client settings of our environment away from the server.
func trialEnv() []string {
	out := []string{"LC_ALL=C", "TZ=UTC"}
	for _, name := range []string{"PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"} {
		if v := os.Getenv(name); v != "" {
			out = append(out, name+"="+v)
		}
	}
	return out
}

// giveFolders gives the folders beside the data folder to its owner, as whom the server runs.
func (t *Trial) giveFolders() error {
	info, err := os.Stat(t.Dir)
	if err != nil {
		return trialFailed("look at", t.Dir, err)
	}
	for _, name := range []string{"postgresql.conf", "pg_ident.conf"} {
		if err := os.WriteFile(filepath.Join(t.Work, name), nil, 0o644); err != nil {
			return trialFailed("write", t.Work, err)
		}
	}
	if err := os.WriteFile(filepath.Join(t.Work, "pg_hba.conf"), []byte("local all all trust\n"), 0o644); err != nil {
		return trialFailed("write", t.Work, err)
	}
	return giveLike(info, t.socket)
}

// command returns the program's command with the settings that have to differ.
func (t *Trial) command(args ...string) *exec.Cmd {
	cmd := exec.Command(t.Program, args...)
	work := func(name string) string { return filepath.Join(t.Work, name) }
	for _, set := range [][2]string{
		{"config_file", work("postgresql.conf")}, {"hba_file", work("pg_hba.conf")}, {"ident_file", work("pg_ident.conf")},
		{"external_pid_file", ""}, {"listen_addresses", ""}, {"unix_socket_directories", t.socket}, {"unix_socket_permissions", "0700"}, {"unix_socket_group", ""}, {"port", "5432"},
		{"ssl", "off"}, {"bonjour", "off"}, {"shared_preload_libraries", ""}, {"session_preload_libraries", ""}, {"local_preload_libraries", ""}, {"jit", "off"},
		{"logging_collector", "off"}, {"log_destination", "stderr"}, {"log_min_messages", "warning"}, {"lc_messages", "C"},
		{"archive_mode", "off"}, {"archive_command", ""}, {"restore_command", ""}, {"primary_conninfo", ""}, {"primary_slot_name", ""}, {"synchronous_standby_names", ""},
		{"wal_level", "replica"}, {"max_wal_senders", "0"}, {"autovacuum", "off"}, {"fsync", "off"},
		{"shared_buffers", "128MB"}, {"huge_pages", "off"}, {"max_connections", strconv.Itoa(t.Workers + 10)}, {"superuser_reserved_connections", "0"},
		{"max_prepared_transactions", strconv.Itoa(t.prepared())}, {"default_transaction_read_only", "off"}, {"statement_timeout", "0"}, {"zero_damaged_pages", "off"}, {"ignore_checksum_failure", "off"},
	} {
		cmd.Args = append(cmd.Args, "-c", set[0]+"="+set[1])
	}
	cmd.Dir, cmd.Env = t.Work, trialEnv()
	return cmd
}

// prepared returns how many transactions the server could have prepared: if the backup contains
// any, the trial needs room for them (max_prepared_xacts in src/include/catalog/pg_control.h).
func (t *Trial) prepared() int {
	b, err := os.ReadFile(filepath.Join(t.Dir, filepath.FromSlash(controlPath)))
	if _, ok := parseControl(b); err != nil || !ok || binary.LittleEndian.Uint32(b[204:]) != 8 {
		return 100
	}
	return int(binary.LittleEndian.Uint32(b[192:]))
}

var (
	superuserName = regexp.MustCompile(`1: rolname = "(.*)"\s+\(`)
	redoDone      = regexp.MustCompile(`redo done at ([0-9A-F]+/[0-9A-F]+)`)
	consistent    = regexp.MustCompile(`consistent recovery state reached at ([0-9A-F]+/[0-9A-F]+)`)
)

// recover runs the program for one session, without connections: it recovers, and reports the
// superuser's name, which nothing else records.
func (t *Trial) recover(ctx context.Context) error {
	cmd := t.command("--single", "-D", t.Dir)
	cmd.Args = append(cmd.Args, "template1")
	if err := runAsOwner(cmd, t.Dir); err != nil {
		return err
	}
	cmd.Stdin = strings.NewReader("SELECT rolname FROM pg_authid WHERE oid = 10\n")
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Start(); err != nil {
		return &tidemark.Error{Op: "run", Object: t.Program, Kind: tidemark.Forbidden, Err: tidemark.Pathless(err)}
	}
	ended := crash.OnDone(ctx, func() { _ = cmd.Process.Signal(os.Interrupt) }) // it may have ended
	err := cmd.Wait()
	ended()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if m := consistent.FindSubmatch(log.Bytes()); m != nil {
		t.out.Recovered = string(m[1])
	}
	if m := redoDone.FindSubmatch(log.Bytes()); m != nil {
		t.out.Recovered = string(m[1])
	}
	m := superuserName.FindSubmatch(out.Bytes())
	if err != nil || m == nil {
		t.out.Damages = append(t.out.Damages, "the server does not recover: "+complaint(log.String(), err))
		return nil
	}
	t.user = string(m[1])
	return nil
}

// complaint finds the message in a server's log that explains its end.
func complaint(log string, err error) string {
	var bad []string
	for line := range strings.Lines(log) {
		for _, level := range []string{"PANIC:  ", "FATAL:  ", "ERROR:  "} {
			if _, text, ok := strings.Cut(line, level); ok {
				bad = append(bad, strings.TrimSpace(text))
			}
		}
	}
	if len(bad) > 0 {
		return strings.Join(bad[max(0, len(bad)-3):], "; ")
	}
	lines := strings.Split(strings.TrimSpace(log), "\n")
	text := strings.TrimSpace(lines[len(lines)-1])
	if err != nil {
		text += " (" + err.Error() + ")"
	}
	return text
}

// trialFacts are what the started server reports about its files.
type trialFacts struct {
	checksums     bool
	page, segment int64 // bytes
}

// ask starts the server, has its tables and indexes checked, and stops it. It returns no facts if
// the server does not start.
func (t *Trial) ask(ctx context.Context) (*trialFacts, error) {
	cmd := t.command("-D", t.Dir)
	if err := runAsOwner(cmd, t.Dir); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(t.Work, "log"))
	if err != nil {
		return nil, trialFailed("write", t.Work, err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, &tidemark.Error{Op: "run", Object: t.Program, Kind: tidemark.Forbidden, Err: tidemark.Pathless(err)}
	}
	gone := make(chan struct{})
	var ended error
	crash.Go(func() { ended = cmd.Wait(); close(gone) })
	defer stopServer(cmd, gone)
	for {
		conn, err := t.connect(ctx, "template1")
		if err == nil {
			facts, err := t.askServer(ctx, conn)
			server.CloseConn(conn)
			return facts, err
		}
		select {
		case <-gone:
			text, rerr := os.ReadFile(log.Name())
			if rerr != nil {
				return nil, trialFailed("read", log.Name(), rerr)
			}
			t.out.Damages = append(t.out.Damages, "the server does not start: "+complaint(string(text), ended))
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// stopServer shuts the server down cleanly, so that all pages are on disk, and kills it if that
// takes too long.
func stopServer(cmd *exec.Cmd, gone <-chan struct{}) {
	_ = cmd.Process.Signal(os.Interrupt) // a fast shutdown; it may have ended
	select {
	case <-gone:
	case <-time.After(5 * time.Minute):
		_ = cmd.Process.Kill()
		<-gone
	}
}

// connect opens a session of the superuser.
func (t *Trial) connect(ctx context.Context, database string) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig("sslmode=disable")
	if err != nil {
		return nil, err
	}
	cfg.Host, cfg.Port, cfg.User, cfg.Password, cfg.Database, cfg.Fallbacks = t.socket, 5432, t.user, "", database, nil
	cfg.RuntimeParams = map[string]string{"application_name": "tidemark verify", "client_encoding": "UTF8"}
	return pgx.ConnectConfig(ctx, cfg)
}

func (t *Trial) askServer(ctx context.Context, conn *pgx.Conn) (*trialFacts, error) {
	var f trialFacts
	err := conn.QueryRow(ctx, `SELECT current_setting('data_checksums') = 'on', current_setting('block_size')::bigint,
		(SELECT setting::bigint FROM pg_settings WHERE name = 'segment_size') * current_setting('block_size')::bigint`).Scan(&f.checksums, &f.page, &f.segment)
	if err != nil {
		return nil, t.found(ctx, "the server's settings", err)
	}
	t.Phase("amcheck")
	return &f, t.amcheck(ctx, conn)
}

// found records an error that the server reported to a session: that is damage, unless we stopped
// it, or the server lacks a library that the backup does not include.
func (t *Trial) found(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	text := what + ": " + server.PlainCause(err)
	if strings.Contains(text, "could not access file") || strings.Contains(text, "could not load library") {
		t.out.Notes = append(t.out.Notes, text)
	} else {
		t.out.Damages = append(t.out.Damages, text)
	}
	return nil
}

// checkPages checks all pages that the stopped server has left.
func (t *Trial) checkPages(ctx context.Context, facts *trialFacts) error {
	if !facts.checksums {
		t.out.Notes = append(t.out.Notes, "its pages have no checksums, and were not checked")
		return nil
	}
	var files []string
	for _, top := range []string{"global", "base", spaceFolder} {
		if err := relationFiles(filepath.Join(t.Dir, top), &files); err != nil {
			return trialFailed("read", t.Dir, err)
		}
	}
	work, results := make(chan string), make(chan pagesOf)
	for range t.Workers {
		crash.Go(func() {
			for path := range work {
				results <- checkFile(path, facts)
			}
		})
	}
	crash.Go(func() {
		defer close(work)
		for _, path := range files {
			if ctx.Err() != nil {
				path = "" // from here on nothing is read
			}
			work <- path
		}
	})
	for range files {
		r := <-results
		t.out.Files++
		t.out.Pages += r.pages
		for _, block := range r.wrong {
			rel, _ := filepath.Rel(t.Dir, r.path)
			t.out.Damages = append(t.out.Damages, fmt.Sprintf("%s block %d: its checksum is wrong", filepath.ToSlash(rel), block))
		}
		if r.err != nil {
			t.out.Damages = append(t.out.Damages, fmt.Sprintf("%s: %v", r.path, r.err))
		}
	}
	return ctx.Err()
}

// relationFiles lists the files of relations below a folder, following links.
func relationFiles(dir string, out *[]string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if info.IsDir() {
			if err := relationFiles(path, out); err != nil {
				return err
			}
		} else if _, ok := parseRelation(e.Name()); ok {
			*out = append(*out, path)
		}
	}
	return nil
}

// pagesOf is the result for one file.
type pagesOf struct {
	path  string
	pages int64
	wrong []uint32
	err   error
}

// wrongMax is how many wrong pages of one file are listed.
const wrongMax = 100

func checkFile(path string, facts *trialFacts) (r pagesOf) {
	r.path = path
	if path == "" {
		return r
	}
	f, err := os.Open(path)
	if err != nil {
		r.err = err
		return r
	}
	defer f.Close()
	name, _ := parseRelation(filepath.Base(path))
	block := uint32(name.segment * facts.segment / facts.page)
	buf := make([]byte, 64*facts.page)
	for {
		n, err := io.ReadFull(f, buf)
		for at := int64(0); at+facts.page <= int64(n); at += facts.page {
			if !pageRight(buf[at:at+facts.page:at+facts.page], block) && len(r.wrong) < wrongMax {
				r.wrong = append(r.wrong, block)
			}
			block++
			r.pages++
		}
		if err != nil {
			if err != io.EOF && err != io.ErrUnexpectedEOF {
				r.err = err
			}
			return r
		}
	}
}
