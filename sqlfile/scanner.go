package sqlfile

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/sqltext"
)

// A Kind is what a statement does, as far as it matters to an import.
type Kind uint8

const (
	Other          Kind = iota // anything else; run it on a target of the same engine
	Set                        // SET, for the session
	SetGTID                    // SET @@GLOBAL.GTID_PURGED; Text is unsuitable for a target that keeps its own GTIDs
	Use                        // USE db; Database names it
	CreateDatabase             // CREATE DATABASE, and DROP DATABASE
	CreateTable                // Def describes it
	DropTable                  // DROP TABLE
	AlterTable                 // ALTER TABLE, CREATE INDEX
	Keys                       // ALTER TABLE ... DISABLE KEYS or ENABLE KEYS
	LockTables                 // LOCK TABLES, UNLOCK TABLES
	Insert                     // rows: Tuples; or, if Tuples is nil, a statement to run unchanged
	View                       // CREATE VIEW, DROP VIEW
	Trigger                    // CREATE TRIGGER, DROP TRIGGER
	Routine                    // CREATE or DROP of a PROCEDURE, FUNCTION or PACKAGE
	Event                      // CREATE EVENT, DROP EVENT
	Sequence                   // MariaDB: CREATE SEQUENCE, SELECT SETVAL(...)
	Transaction                // BEGIN, COMMIT, ROLLBACK
	Replication                // CHANGE MASTER TO, CHANGE REPLICATION SOURCE TO
	Meta                       // pg_dump: a psql command such as \connect
	Void                       // nothing, but for comments that the server does not run
)

var kindNames = [...]string{"other", "set", "set gtid_purged", "use", "create database", "create table", "drop table",
	"alter table", "keys", "lock tables", "insert", "view", "trigger", "routine", "event", "sequence", "transaction",
	"replication", "meta", "void"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

// A Statement is a statement of the file, or a piece of one.
type Statement struct {
	Kind     Kind
	Offset   int64           // of its first byte in the unpacked text, from 0
	Line     int64           // of its first byte, from 1
	Text     []byte          // without its delimiter; nil if Tuples is set. The caller owns it
	SQL      []byte          // Text as the server reads it, without versioned comments
	Beyond   string          // the kind of a statement that is not run, such as CREATE USER; "" it may run
	Unread   string          // why it is not run, where it may be damage or have rows
	Refuse   string          // of rows and tables: why a server must not evaluate it; of triggers: why no row may fire it now
	Remedy   string          // what to do, if Refuse is about damage
	Database string          // that it names, or that USE has set
	Table    string          // that it names, for the kinds about one table
	Def      *tidemark.Table // CreateTable: its result; nil with DefErr if unreadable
	Altered  *tidemark.Table // AlterTable: the table after it; nil if that is not known
	DefErr   error           // CreateTable: Kind Unsupported
	Tuples   *Tuples         // Insert: rows
	Index    int64           // Insert without Tuples: its number among the pieces
	Session  *Session        // in force for it
}

// Options are the options of a Scanner. The zero value is valid.
type Options struct {
	Name     string         // of the file, for messages
	Piece    int            // bytes of rows after which a piece ends at the next row; 0 is 4 MB
	Longest  int            // bytes of one row after which it is cut into parts; 0 is twice Piece
	MaxOther int            // bytes of a statement that is not rows; 0 is 256 MB
	Server   sqltext.Server // its conditional comments count
	Charset  string         // of the file until it names its own; "" is utf8mb4
	Partial  bool           // accept a dump that lacks the line "Dump completed"
	All      bool           // run statements of every kind

	Database  string // of unqualified names, until USE names another one
	Delimiter string // of statements, until DELIMITER sets another one; "" is a semicolon
}

// A Header is what a dump says about itself in its comments.
type Header struct {
	Program string // "MySQL dump 10.13  Distrib 8.0.33, for Linux (x86_64)"
	Server  string // version: "10.11.14-MariaDB"
}

// A Scanner finds the statements of a dump. One goroutine uses it.
//
// The window buf[mark:end] holds the current statement, from its first byte. It grows at its end
// when more bytes are needed, so that indexes into it stay valid; once a piece of rows is complete
// it takes the buffer, and the few bytes after it move to another. Results depend only on the bytes
// of the file, never on how reads have split them.
type Scanner struct {
	window
	dumpState
	skip    int64 // statements that end at or before this offset are skipped
	index   int64 // of the last piece
	delim   []byte
	started bool
	rows    rows // of the INSERT being read
	copying bool // in a COPY block
}

// A window is the part of a file that was read and not yet consumed.
type window struct {
	r    io.Reader
	opt  Options
	buf  []byte
	mark int   // first byte not yet consumed
	end  int   // end of what was read
	base int64 // file offset of buf[0]
	line int64 // line number of buf[mark]
	eof  bool
	fail error // of the reader
}

// A dumpState is what earlier statements have set for later ones.
type dumpState struct {
	session  *Session
	vars     variables
	tables   map[tidemark.TableID]*tidemark.Table
	filled   map[tidemark.TableID]bool // tables whose rows have begun, in lower case
	header   Header
	complete bool // the last line of a dump was seen
	findings []tidemark.Finding
	position logPosition
}

// NewScanner creates a Scanner of SQL text.
func NewScanner(r io.Reader, opt Options) *Scanner {
	if opt.Name == "" {
		opt.Name = "SQL text"
	}
	if opt.Piece <= 0 {
		opt.Piece = 4 << 20
	}
	if opt.Longest <= 0 {
		opt.Longest = 2 * opt.Piece
	}
	opt.Longest = max(opt.Longest, opt.Piece, 64)
	if opt.MaxOther <= 0 {
		opt.MaxOther = 256 << 20
	}
	charset := charsetName(strings.ToLower(opt.Charset))
	if charset == "" {
		charset = "utf8mb4"
	}
	return &Scanner{window: window{r: r, opt: opt, line: 1}, delim: []byte(cmp.Or(opt.Delimiter, ";")), dumpState: dumpState{vars: variables{},
		session: &Session{Database: opt.Database, Charset: charset, Server: opt.Server}, tables: map[tidemark.TableID]*tidemark.Table{}, filled: map[tidemark.TableID]bool{}}}
}

// after makes s continue after another file: with its tables, count of pieces, findings and log
// position.
func (s *Scanner) after(before *Scanner) {
	s.tables, s.filled, s.index, s.findings, s.position = before.tables, before.filled, before.index, before.findings, before.position
	s.header.Server = before.header.Server
}

// SkipTo makes Next skip everything that ends at or before this offset of the unpacked text. It is
// still read, because the session and the tables depend on it, and pieces keep their numbers.
func (s *Scanner) SkipTo(offset int64) { s.skip = offset }

// Offset returns how many bytes of unpacked text were consumed.
func (s *Scanner) Offset() int64 { return s.base + int64(s.mark) }

// Session returns the session in force for the next statement.
func (s *dumpState) Session() *Session { return s.session }

// Header returns what the dump's comments have revealed so far.
func (s *dumpState) Header() Header { return s.header }

// Table returns a table whose CREATE TABLE was read; nil if there was none.
func (s *dumpState) Table(id tidemark.TableID) *tidemark.Table { return s.tables[id] }

// Findings lists the oddities of the file, complete after io.EOF.
func (s *dumpState) Findings() []tidemark.Finding {
	return slices.Concat(s.findings, s.position.findings())
}

// Next returns the next statement or piece of rows; io.EOF after the last. Errors are of Kind
// BadInput, with byte offset and line, or Unsupported; errors of the reader are returned unchanged.
// After an error every further call returns it again.
func (s *Scanner) Next(ctx context.Context) (*Statement, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if s.fail != nil {
			return nil, s.fail
		}
		st, err := s.step()
		if err != nil {
			s.fail = err
			return nil, err
		}
		if st != nil {
			return st, nil
		}
	}
}

// step reads one item; nil, nil if there is nothing to return for it.
func (s *Scanner) step() (*Statement, error) {
	if !s.started {
		s.started = true
		if err := s.begin(); err != nil {
			return nil, err
		}
	}
	switch {
	case s.copying:
		return s.copyRows()
	case s.rows.head != nil:
		return s.piece()
	}
	if err := s.blanks(); err != nil {
		return nil, err
	}
	d := s.unread()
	for len(d) < 16 && !s.eof && s.fail == nil {
		d, _ = s.more()
	}
	if s.fail != nil {
		return nil, s.fail
	}
	if len(d) == 0 {
		return nil, s.finish()
	}
	if s.session.Postgres {
		return s.postgres(d)
	}
	switch {
	case len(d) > 9 && sqltext.Fold(d[:9], "DELIMITER") && (sqltext.IsSpace(d[9])):
		return nil, s.delimiter()
	case len(d) > 4 && sqltext.Fold(d[:4], "COPY") && sqltext.IsSpace(d[4]): // PostgreSQL's after all
		next := *s.session
		next.Postgres, next.NoBackslash = true, true
		s.session = &next
		return s.postgres(d)
	case len(d) > 6 && (sqltext.Fold(d[:6], "INSERT") || len(d) > 7 && sqltext.Fold(d[:7], "REPLACE")):
		if ok, err := s.insert(); ok || err != nil {
			return nil, err
		}
	}
	return s.plain()
}

// begin checks the first bytes: a byte order mark, and what must be refused.
func (s *Scanner) begin() error {
	d := s.unread()
	for len(d) < 1024 && !s.eof && s.fail == nil {
		d, _ = s.more()
	}
	if s.fail != nil {
		return s.fail
	}
	if err := refuse(s.opt.Name, d); err != nil {
		return err
	}
	if bytes.HasPrefix(d, []byte("\xef\xbb\xbf")) {
		s.advance(3)
	}
	next := *s.session
	next.Postgres = isPostgres(d)
	next.NoBackslash = next.Postgres
	s.session = &next
	return nil
}

// unread returns the bytes that were read and not consumed.
func (s *window) unread() []byte { return s.buf[s.mark:s.end] }

const readBlock = 256 << 10

// more reads at least one byte onto the window's end and returns the window; false at the end of
// the file and after an error (s.fail).
func (s *window) more() ([]byte, bool) {
	if s.eof || s.fail != nil {
		return s.unread(), false
	}
	if len(s.buf)-s.end < readBlock/4 {
		s.room()
	}
	for range 100 {
		n, err := s.r.Read(s.buf[s.end:min(len(s.buf), s.end+readBlock)])
		s.end += n
		if err == io.EOF {
			s.eof = true
		} else if err != nil {
			s.fail = s.readError(err)
		}
		if n > 0 || err != nil {
			return s.unread(), n > 0
		}
	}
	s.fail = s.readError(io.ErrNoProgress)
	return s.unread(), false
}

func (s *window) readError(err error) error {
	var e *tidemark.Error
	if errors.As(err, &e) || errors.Is(err, context.Canceled) {
		return err
	}
	return &tidemark.Error{Op: "read", Object: s.opt.Name, Kind: tidemark.BadInput, Err: err}
}

// room makes space at the end of the buffer: by moving the window to its start if that frees half
// of it, else by a larger buffer.
func (s *window) room() {
	d := s.unread()
	to := s.buf
	if len(d) > len(s.buf)/2 || len(s.buf) == 0 {
		to = s.buffer(max(readBlock, 2*len(s.buf)))
	}
	s.move(to, d)
}

// move moves d, the end of the window, to another buffer; it becomes the window.
func (s *window) move(to, d []byte) {
	s.base += int64(s.end - len(d))
	s.end = copy(to, d)
	s.buf, s.mark = to, 0
}

// advance consumes n bytes of the window.
func (s *window) advance(n int) {
	s.line += int64(bytes.Count(s.buf[s.mark:s.mark+n], []byte{'\n'}))
	s.mark += n
}

// where returns the file offset and line of the window's byte i.
func (s *window) where(i int) (offset, line int64) {
	d := s.unread()
	i = min(i, len(d))
	return s.base + int64(s.mark+i), s.line + int64(bytes.Count(d[:i], []byte{'\n'}))
}

// bad creates an error about the window's byte i.
func (s *window) bad(i int, what, hint string) error {
	if s.fail != nil {
		return s.fail
	}
	offset, line := s.where(i)
	return bad(s.opt.Name, offset, line, what, hint)
}

// cut makes the error of a file that ends inside the statement at which it is read; or, if no
// statement begins like that, of a file that holds no SQL.
func (s *window) cut(i int, what string) error {
	if begin := bytes.TrimLeft(s.unread(), " \t\r\n"); !beginsStatement(begin) {
		line, _, _ := bytes.Cut(begin, []byte("\n"))
		return s.bad(0, "it is not SQL, but begins with "+strconv.Quote(string(line[:min(len(line), 40)])), hintNoSQL)
	}
	return s.bad(i, what, hintCut)
}

// note records a finding once.
func (s *dumpState) note(f tidemark.Finding) {
	for _, have := range s.findings {
		if have.Text == f.Text && have.Object == f.Object {
			return
		}
	}
	s.findings = append(s.findings, f)
}

// blanks consumes what may separate statements: spaces, comments, and lone delimiters.
func (s *Scanner) blanks() error {
	for {
		d := s.unread()
		i := 0
		for i < len(d) && sqltext.IsSpace(d[i]) {
			i++
		}
		s.advance(i)
		d = d[i:]
		if len(d) < 3 && !s.eof {
			if _, ok := s.more(); ok {
				continue
			}
			if s.fail != nil {
				return s.fail
			}
		}
		switch {
		case len(d) == 0:
			return nil
		case bytes.HasPrefix(d, s.delim):
			s.advance(len(s.delim))
		case d[0] == '/' && bytes.HasPrefix(d, []byte("/*")):
			n, err := s.blockComment()
			if n == 0 {
				return err
			}
			s.advance(n)
		case d[0] == '#' && !s.session.Postgres, d[0] == '-' && bytes.HasPrefix(d, []byte("--")) && (len(d) < 3 || d[2] <= ' ' || s.session.Postgres):
			if err := s.lineComment(); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// blockComment returns the length of the comment at the window's start; 0 for a conditional
// comment, which begins a statement.
func (s *Scanner) blockComment() (int, error) {
	d := s.unread()
	for {
		j, ok := sqltext.BlockEnd(d, 0)
		if ok {
			if _, _, end := sqltext.Condition(d, 0); end > 0 && !s.session.Postgres && (sqltext.Server{}).Runs(string(d[:end])) {
				return 0, nil
			}
			s.position.read(string(d[:min(j, 1<<16)])) // mysqldump --set-gtid-purged=COMMENTED
			return j, nil
		}
		if len(d) > s.opt.MaxOther {
			return 0, s.bad(0, "a comment of more than "+size(s.opt.MaxOther), hintBroke)
		}
		var more bool
		if d, more = s.more(); !more {
			return 0, s.bad(0, "an unterminated comment", hintCut)
		}
	}
}

// wholeLine returns the length of the window's first line, including its line end, which the last
// line of a file may lack. tooLong describes a line of more than limit bytes.
func (s *window) wholeLine(limit int, tooLong string) (int, error) {
	d := s.unread()
	for {
		n, ok := sqltext.LineEnd(d, 0)
		if ok {
			return n, nil
		}
		if n > limit {
			return 0, s.bad(0, tooLong, hintBroke)
		}
		var more bool
		if d, more = s.more(); !more {
			return len(d), s.fail
		}
	}
}

// lineComment consumes a comment line and records what it says about the dump.
func (s *Scanner) lineComment() error {
	n, err := s.wholeLine(s.opt.MaxOther, "a comment of more than "+size(s.opt.MaxOther))
	if err != nil {
		return err
	}
	text := string(bytes.TrimSpace(s.unread()[:min(n, 300)]))
	s.remark(text)
	s.position.read(text)
	s.advance(n)
	return nil
}

// remark reads a comment line of the dump program.
func (s *Scanner) remark(text string) {
	switch {
	case strings.HasPrefix(text, "-- MySQL dump "), strings.HasPrefix(text, "-- MariaDB dump "):
		s.header.Program = text[3:]
		s.complete = false
	case text == "-- PostgreSQL database dump":
		s.header.Program = text[3:]
		s.complete = false
	case strings.HasPrefix(text, "-- Server version"):
		s.header.Server = strings.TrimSpace(text[len("-- Server version"):])
	case strings.HasPrefix(text, "-- Dumped from database version "):
		s.header.Server = strings.TrimPrefix(text, "-- Dumped from database version ")
	case strings.HasPrefix(text, "-- Dump completed"), text == "-- PostgreSQL database dump complete":
		s.complete = true
	}
}

// finish is called at the end of the file, between statements.
func (s *Scanner) finish() error {
	if s.header.Program != "" && !s.complete && !s.opt.Partial {
		return s.bad(0, "the file ends between two statements, but without the line that ends a dump",
			"The dump was truncated or its program failed: make it again, or accept what is there if that line was removed on purpose.")
	}
	return io.EOF
}

// delimiter reads a DELIMITER line, which is a command to the client program.
func (s *Scanner) delimiter() error {
	n, err := s.wholeLine(1<<16, "an unterminated DELIMITER line")
	if err != nil {
		return err
	}
	f := bytes.Fields(s.unread()[9:n])
	if len(f) == 0 {
		return s.bad(0, "DELIMITER without a delimiter", hintBroke)
	}
	s.delim = bytes.Clone(f[0])
	s.advance(n)
	return nil
}
