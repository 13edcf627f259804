package stream

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/plainfile"
	"github.com/tidemarkdb/tidemark/mysql/history"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// A journal is what a stream remembers of the log besides how far it was applied: places are
// numbers of files and offsets in them, and a server whose log was reset, or another server, reuses
// the same places for other transactions.
//
// It is a file of lines; only Stream.compact does more than append. A line is written before
// anything that it describes is emitted:
//
//	F key number created server   places with this key in their upper half are in the file of this number, which the server with this server_id began then
//	B base                        from here on keys are numbers of files, plus base
//	S place set                   what ends before this place, and in this journal, are these GTIDs
//	T place end gtid              a transaction, wanted or not; places ascend
//	R place                       the log was read up to here, and this is not the end of a transaction
//	A place                       a transaction without a GTID
//	U place                       the server that follows the one of T has no such transaction
//	D place json                  definitions of these tables from this place on (see history)
//	C place json                  column names of these tables from this place on (see ColumnNames)
//	V place                       D lines for this place and later ones are void
//
// T, R and A are not synced: a missing line matters only if server and machine are lost at once. A
// stream whose place is beyond all places in the lines detects that lines are missing.
type journal struct {
	path  string
	f     *os.File // nil until something is written
	size  int64
	limit int64  // size at which it is compacted
	buf   []byte // lines to write
	journalState
}

// A journalState is the content of a journal's lines.
type journalState struct {
	head  map[uint32]logHead // by key
	last  uint32             // the largest key
	base  uint32
	gtids bool   // each transaction after S has one
	start string // the set of S
	txs   []namedTx
	top   uint64 // the largest place of txs, or of S
	read  uint64 // how far they cover the log

	history *history.History // of D
	columns history.ColumnHistory
}

func newJournalState() journalState {
	return journalState{head: map[uint32]logHead{}, history: history.New(), columns: history.ColumnHistory{}}
}

// A namedTx is a transaction and its place.
type namedTx struct {
	place, end uint64
	gtid       string
}

// A logHead is what a log file begins with.
type logHead struct {
	number  uint32 // its name ends with it
	created uint32 // seconds since 1970
	server  uint32 // server_id
}

// journalLimit is how large a journal grows before released entries are removed.
const journalLimit = 8 << 20

// Journal sets the file in which this engine's streams keep facts about the log.
func (e *Source) Journal(path string) {
	e.mu.Lock()
	e.journal = path
	e.mu.Unlock()
}

func (e *Source) journalPath() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.journal
}

// journalBase returns the base that places add to the numbers of the server's files.
func (e *Source) journalBase() (uint64, error) {
	e.mu.Lock()
	path, anew, follows, based := e.journal, e.anew, e.follows, e.based
	e.mu.Unlock()
	if follows {
		return uint64(based) << 32, nil
	}
	if path == "" || anew {
		return 0, nil
	}
	j, err := readJournal(path)
	if err != nil {
		return 0, err
	}
	return uint64(j.base) << 32, nil
}

// following records the base of the opened stream, which now owns the journal.
func (e *Source) following(base uint32) {
	e.mu.Lock()
	e.follows, e.based = true, base
	e.mu.Unlock()
}

// readJournal reads a journal; a missing file is an empty journal.
func readJournal(path string) (*journal, error) {
	j := &journal{path: path, limit: journalLimit, journalState: newJournalState()}
	if path == "" {
		return j, nil
	}
	dir, name := plainfile.Beside(path)
	text, err := dir.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, journalFailed(path, err)
	}
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	if len(whole) < len(text) {
		f, err := dir.OpenFile(name, os.O_WRONLY, 0)
		if err == nil {
			err = errors.Join(f.Truncate(int64(len(whole))), f.Close())
		}
		if err != nil {
			return nil, journalFailed(path, err)
		}
	}
	j.size = int64(len(whole))
	for line := range strings.Lines(string(whole)) {
		if !j.parseLine(strings.Split(strings.TrimSuffix(line, "\n"), " ")) {
			return nil, fmt.Errorf("%s holds %q, which is not in its format", path, strings.TrimSpace(line))
		}
	}
	return j, nil
}

func journalFailed(path string, err error) error {
	var own *tidemark.Error
	if err == nil || errors.As(err, &own) {
		return err
	}
	return tidemark.FileError("follow", path, plainfile.Hint(err, "Make it a file that tidemark can read and write, or start over with --anew."), err)
}

// parseLine parses a line.
func (j *journalState) parseLine(words []string) bool {
	want, text := map[string]int{"F": 4, "B": 1, "S": 1, "T": 2, "R": 1, "A": 1, "U": 1, "D": 1, "C": 1, "V": 1}[words[0]], ""
	if (words[0] == "D" || words[0] == "C") && len(words) > 2 {
		words, text = words[:2], strings.Join(words[2:], " ")
	}
	if words[0] == "S" || words[0] == "T" {
		text = words[len(words)-1]
		words = words[:len(words)-1]
	}
	if want == 0 || len(words) != 1+want {
		return false
	}
	var n [4]uint64
	for i, w := range words[1:] {
		var err error
		if n[i], err = strconv.ParseUint(w, 10, 64); err != nil || want == 4 && n[i]>>32 > 0 {
			return false
		}
	}
	switch place := n[0]; words[0] {
	case "F":
		j.head[uint32(place)] = logHead{uint32(n[1]), uint32(n[2]), uint32(n[3])}
		j.last = max(j.last, uint32(place))
	case "B":
		j.base = uint32(place)
	case "S":
		j.gtids, j.start, j.txs, j.top, j.read = true, text, nil, place, max(j.read, place)
	case "A":
		j.gtids, j.txs = false, nil
	case "T":
		j.txs = append(j.txs, namedTx{place, n[1], strings.Clone(text)})
		j.top, j.read = max(j.top, place), max(j.read, n[1])
	case "R":
		j.read = max(j.read, place)
	case "U":
		j.txs = slices.DeleteFunc(j.txs, func(tx namedTx) bool { return tx.place == place })
	case "D":
		return j.history.Take(place, text)
	case "C":
		return j.columns.Take(place, text)
	case "V":
		j.history.Revoke(place)
		j.columns.Revoke(place)
	}
	return true
}

// putHead appends the head of a file.
func (j *journal) putHead(key uint32, h logHead) error {
	j.head[key], j.last = h, max(j.last, key)
	return j.sync(appendHead(nil, key, h))
}

func appendHead(b []byte, key uint32, h logHead) []byte {
	return fmt.Appendf(b, "F %d %d %d %d\n", key, h.number, h.created, h.server)
}

// putTx appends a transaction that the journal does not have yet. flush writes it.
func (j *journal) putTx(tx namedTx) {
	if j.path == "" || !j.gtids || tx.place <= j.top {
		return
	}
	j.top, j.read = tx.place, max(j.read, tx.end)
	if tx.gtid == "" {
		j.gtids = false
		j.buf = fmt.Appendf(j.buf, "A %d\n", tx.place)
		return
	}
	j.buf = tx.append(j.buf)
}

func (tx *namedTx) append(b []byte) []byte {
	b = strconv.AppendUint(append(b, "T "...), tx.place, 10)
	b = strconv.AppendUint(append(b, ' '), tx.end, 10)
	return append(append(append(b, ' '), tx.gtid...), '\n')
}

// putRead records how far the log was read.
func (j *journal) putRead(place uint64) {
	if j.path != "" && j.gtids && place > j.read {
		j.read = place
		j.buf = fmt.Appendf(j.buf, "R %d\n", place)
	}
}

// flush writes the pending lines.
func (j *journal) flush() (err error) {
	if len(j.buf) == 0 {
		return nil
	}
	if j.f == nil {
		dir, name := plainfile.Beside(j.path)
		if err := dir.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return journalFailed(j.path, err)
		}
		if j.f, err = dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
			return journalFailed(j.path, err)
		}
	}
	n, err := j.f.Write(j.buf)
	j.size += int64(n)
	j.buf = j.buf[:0]
	return err
}

// sync writes the pending lines, then these, and syncs them to disk.
func (j *journal) sync(lines []byte) error {
	if j.path == "" {
		return nil
	}
	if j.buf = append(j.buf, lines...); len(j.buf) == 0 {
		return nil
	}
	if err := j.flush(); err != nil {
		return err
	}
	return j.f.Sync()
}

func (j *journal) close() {
	if j.f != nil {
		j.f.Close() // the data is already synced
		j.f = nil
	}
}

// before returns the GTIDs of all transactions before a place.
func (j *journalState) before(place uint64, mariadb bool) (*gtidSet, error) {
	set, err := newGTIDSet(j.start, mariadb)
	for _, tx := range j.txs {
		if err == nil && tx.place < place {
			err = set.add(tx.gtid)
		}
	}
	return set, err
}

// compact removes what is no longer needed from the journal.
func (s *Stream) compact() error {
	old := s.journal
	old.close()
	j, err := readJournal(old.path)
	if err != nil {
		return err
	}
	end := s.released.Load()
	text := fmt.Appendf(nil, "B %d\n", j.base)
	for _, key := range slices.Sorted(maps.Keys(j.head)) {
		if uint64(key)+1 >= end>>32 {
			text = appendHead(text, key, j.head[key])
		}
	}
	if j.gtids {
		set, err := j.before(end, s.e.MariaDB)
		if err != nil {
			return err
		}
		text = fmt.Appendf(text, "S %d %s\n", end, set)
		for _, tx := range j.txs {
			if tx.place >= end {
				text = tx.append(text)
			}
		}
		text = fmt.Appendf(text, "R %d\n", j.read)
	}
	old.history.Forget(end)
	text = old.history.Append(text)
	old.columns.Forget(end)
	text = old.columns.Append(text)
	shorter := &journal{path: old.path + ".new"}
	dir, name := plainfile.Beside(old.path)
	if err := dir.Remove(name + ".new"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return journalFailed(old.path, err)
	}
	err = shorter.sync(text)
	shorter.close()
	if err == nil {
		err = dir.Rename(name+".new", filepath.Base(name))
	}
	old.size = int64(len(text))
	old.limit = max(journalLimit, 2*old.size)
	return journalFailed(old.path, err)
}

// beginJournal begins the journal of a new stream at a position, if journaling is on.
func (e *Source) beginJournal(ctx context.Context, pos tidemark.Position) error {
	e.mu.Lock()
	path, anew := e.journal, e.anew
	e.anew = false
	e.mu.Unlock()
	if path == "" || !anew || pos.Place == 0 {
		return nil
	}
	dir, own := plainfile.Beside(path)
	if err := dir.Remove(own); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return journalFailed(path, err)
	}
	name, _, _ := strings.Cut(pos.Text, ":")
	h, err := e.headOf(ctx, name)
	if err != nil {
		return err
	}
	all, err := e.allGTIDs(ctx)
	if err != nil {
		return err
	}
	j, err := readJournal(path)
	if err != nil {
		return err
	}
	defer j.close()
	if all {
		j.buf = fmt.Appendf(j.buf, "S %d %s\n", pos.Place, pos.GTID)
	}
	names, err := e.hasNames(ctx)
	if err == nil && !names {
		var defs map[tidemark.TableID]*history.Definition
		if defs, err = e.beginHistory(ctx, name, pos.Place); err == nil {
			j.buf = history.AppendDefs(j.buf, pos.Place, defs)
		}
	}
	if err != nil {
		return err
	}
	return j.putHead(h.number, h)
}

// headOf reads the head of a log file.
func (e *Source) headOf(ctx context.Context, file string) (logHead, error) {
	number, _ := server.LogNumber(file)
	s := e.newStream("", file, uint64(number)<<32|4)
	s.seek = &seeking{until: uint64(number)<<32 | 5}
	err := s.search(ctx)
	return s.head, err
}

// headRead records the first event of a file, which the server sends first even if a stream begins
// within the file. If it differs from the recorded one, the log is another one.
func (s *cursor) headRead(ev []byte) error {
	s.head = logHead{s.file, binary.LittleEndian.Uint32(ev), binary.LittleEndian.Uint32(ev[5:])}
	was, known := s.journal.head[s.base+s.file]
	switch {
	case !known:
		return s.journal.putHead(s.base+s.file, s.head)
	case was == s.head:
		return nil
	}
	return s.otherLog()
}

func (s *cursor) otherLog() error {
	return &tidemark.Error{Kind: tidemark.Lost, Op: "follow", Object: server.PlaceText(s.place()), Err: errors.New("this file of the server's log is not the one that the stream has read"), Hint: "The source's binlogs were reset, or this is another server: copy again."}
}
