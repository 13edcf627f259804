package bulk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/schema"
	"github.com/tidemarkdb/tidemark/mysql/server"
	"github.com/tidemarkdb/tidemark/mysqltype"
)

// Write loads the batches of a range in one transaction, by LOAD DATA LOCAL from a stream, and
// commits them with their marker row.
//
// LOAD DATA LOCAL is lenient: it leaves out a row with a duplicate key and changes a value that
// does not fit, both with only a warning, because the server cannot stop a client that is sending.
// So Write compares the rows that the server took with the rows that were sent, and any warning at
// all is an error: then the transaction is rolled back, and nothing is written.
//
// If the server refuses LOCAL, rows are written by multi-row INSERTs; Written.Method reports that.
// Tables of storage engines without transactions cannot be rolled back: for a Fresh range they are
// emptied instead; for any other the error reports it.
//
// If the connection breaks in COMMIT, the marker row decides whether the rows were committed.
func (e *Bulk) Write(ctx context.Context, lane int, w tidemark.Write, take func() (*tidemark.Batch, error)) (tidemark.Written, error) {
	out, err := e.WriteEach(ctx, lane, []tidemark.Write{w}, take)
	return out[0], err
}

// WriteEach is Write for several ranges, in order, which are committed together or not at all. Of
// several, all are of tables with transactions (see Bundles), and none can have bad rows.
func (e *Bulk) WriteEach(ctx context.Context, lane int, ws []tidemark.Write, take func() (*tidemark.Batch, error)) ([]tidemark.Written, error) {
	out := make([]tidemark.Written, len(ws))
	k := &writing{e: e, take: take}
	for _, w := range ws {
		object := w.Move.To.String()
		if w.Format == tidemark.CopyBinary {
			return out, &tidemark.Error{Kind: tidemark.Bug, Op: "write", Object: object, Err: errors.New("a MySQL target takes no " + w.Format.String())}
		}
		k.parts = append(k.parts, &part{w: w, object: object})
	}
	var err error
	if k.s, err = e.writerFor(ctx, lane, ws[0].Statement); err != nil {
		return out, err
	}
	for _, k.part = range k.parts {
		if err := k.prepare(ctx); err != nil {
			return out, e.writeFailed(k.s, k.object, err)
		}
	}
	k.part = k.parts[0]
	stop := k.s.Watch(ctx)
	if k.w.Statement != nil {
		err = k.runStatement(ctx)
	} else {
		err = k.run(ctx)
	}
	k.drop()
	if !stop() {
		k.s.Dead = true
		e.Kill(k.s.ID)
		if err != nil && server.Broken(err) {
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		err = k.undo(ctx, err)
	}
	if err != nil {
		return out, err
	}
	for i, p := range k.parts {
		out[i] = p.done
	}
	return out, nil
}

// Bundles reports whether WriteEach may write a move's ranges together with others.
func (e *Bulk) Bundles(m *tidemark.Move) bool { return schema.Transactional(m.To.Storage) }

// writer returns the session of a writing lane, and opens and sets it up if there is none.
func (e *Bulk) writer(ctx context.Context, lane int) (*server.Session, error) {
	e.mu.Lock()
	s, err := e.laneSession(ctx, &e.writes, lane)
	if err == nil && s.Script != nil {
		// Not everything that a dump has set can be undone.
		s.Close()
		s, err = e.laneSession(ctx, &e.writes, lane)
	}
	e.mu.Unlock()
	if err != nil || s.Loader {
		return s, err
	}
	set := "SET foreign_key_checks=0, unique_checks=1, " +
		"sql_mode='STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES'"
	if e.Options.NoBinlog {
		set += ", sql_log_bin=0"
	}
	if err := s.Exec(ctx, set); err != nil {
		return nil, e.writeFailed(s, e.Masked, err)
	}
	if !e.MariaDB && e.AtLeast(8, 0, 27) {
		// For the indexes that Exec builds: each lane runs one statement of ours, and there are
		// many lanes. Some of these settings need a privilege; without it they are skipped.
		for _, set := range []string{"innodb_ddl_buffer_size=67108864", "innodb_ddl_threads=2", "innodb_parallel_read_threads=2"} {
			if err := s.Exec(ctx, "SET SESSION "+set); err != nil && s.Dead {
				return nil, e.writeFailed(s, e.Masked, err)
			}
		}
	}
	s.Loader = true
	return s, nil
}

func (e *Bulk) writeFailed(s *server.Session, object string, err error) error {
	var my *gomysql.MyError
	if !errors.As(err, &my) {
		s.Dead = true
		s.Close()
	}
	return e.Fail("write", object, err)
}

// A writing is a Write under way.
type writing struct {
	e     *Bulk
	s     *server.Session
	take  func() (*tidemark.Batch, error)
	parts []*part
	*part // the one that is written

	insert  bool     // LOCAL is refused
	in      bool     // in a transaction
	loading *part    // in LOAD DATA: the server waits for its rows
	packet  int      // max_allowed_packet, once queried
	warning []string // the first of LOAD DATA's warnings, if it was asked for: level, code, text
}

// A part is the Write of one range.
type part struct {
	w      tidemark.Write
	object string

	shape   tableShape
	sql     string   // LOAD DATA
	inbound *inbound // CopyText only
	enums   *enumCounter
	quiet   bool // the server's notes are about generated columns alone
	touched bool // rows were sent
	b       *tidemark.Batch
	sent    int64
	done    tidemark.Written
}

// A takeError marks errors of take and Reject, as opposed to our own.
type takeError struct{ err error }

func (t *takeError) Error() string { return t.err.Error() }

func (k *writing) drop() {
	if k.b != nil {
		k.b.Release()
		k.b = nil
	}
}

func (k *writing) next() error {
	k.drop()
	b, err := k.take()
	if err != nil {
		return &takeError{err}
	}
	k.b = b
	return nil
}

func (k *writing) prepare(ctx context.Context) (err error) {
	if k.shape, err = k.e.shapeOf(ctx, k.s, k.w.Move.To.TableID); err != nil {
		return err
	}
	if k.w.Format == tidemark.CopyText {
		k.inbound = newInbound(inCols(k.w.Move), k.e.Options.Unrepresentable)
		for _, name := range keyColumns(k.w.Move.From) {
			if i := slices.Index(k.w.Move.Source, name); i >= 0 {
				k.inbound.key = append(k.inbound.key, i)
			}
		}
	}
	k.enums = newEnumCounter(k.w.Move, warnsOfZero(k.e))
	k.quiet = k.notesOfGenerated()
	k.sql = k.loadStatement()
	if k.s.Wire == nil {
		k.s.Wire = k.s.NewWire()
	}
	return nil
}

// loadStatement writes LOAD DATA with CHARACTER SET binary: bytes are stored unchanged, whatever
// the column's character set. Columns for which that is wrong go through a variable.
func (k *writing) loadStatement() string {
	var cols, set []string
	to := k.w.Move.To.Stored()
	converts := slices.ContainsFunc(to, func(c tidemark.Column) bool { return k.convert(c.Name, "?") != "" })
	for i, c := range to {
		v := "@v" + strconv.Itoa(i)
		x := k.convert(c.Name, v)
		if converts && k.shape.columns[c.Name].counts {
			x = v // MariaDB replaces a 0 that is not in a SET by the next number
		}
		if x == "" {
			cols = append(cols, server.Quote(c.Name))
			continue
		}
		cols = append(cols, v)
		set = append(set, server.Quote(c.Name)+"="+x)
	}
	if len(cols) == 0 { // all are generated; without a list, all would be filled
		cols = append(cols, "@none")
	}
	sql := "LOAD DATA LOCAL INFILE 'rows' INTO TABLE " + server.QuoteTable(k.w.Move.To.TableID) + " CHARACTER SET binary (" + strings.Join(cols, ",") + ")"
	if len(set) > 0 {
		sql += " SET " + strings.Join(set, ",")
	}
	return sql
}

// convert returns the expression that turns a column's bytes into its value; "" if none is needed.
// MySQL makes JSON of text only, MariaDB takes binary text for the bytes of a UUID or an address;
// and a batch of COPY text is in UTF-8, which columns of other character sets are not.
func (k *writing) convert(name, value string) string {
	c, known := k.shape.columns[name]
	if !known {
		return ""
	}
	utf8 := "CONVERT(" + value + " USING utf8mb4)"
	switch {
	case c.text():
		return utf8
	case k.w.Format == tidemark.LoadData || c.unicode():
		return ""
	}
	return utf8
}

// run runs the transaction.
func (k *writing) run(ctx context.Context) error {
	for _, p := range k.parts {
		p.done.Method = "LOAD DATA"
	}
	if len(k.parts) > 1 {
		return k.streamEach(ctx)
	}
	if err := k.next(); err != nil {
		return err
	}
	if k.w.Fresh && !k.shape.transactional {
		if k.e.superseded(ctx, k.w.Run) { // nothing would restore the other's rows
			return takenOver(k.w.Run)
		}
		if err := empty(ctx, k.s, k.w.Move); err != nil {
			return err
		}
		if k.e.Options.DeferKeys {
			if err := k.s.Exec(ctx, "ALTER TABLE "+server.QuoteTable(k.w.Move.To.TableID)+" DISABLE KEYS"); err != nil {
				return err
			}
		}
	}
	if k.w.Reject == nil {
		return k.stream(ctx)
	}
	if k.b.Last && k.shape.transactional {
		if bad, err := k.tryAll(ctx); !bad {
			return err
		}
	}
	if err := k.command("START TRANSACTION"); err != nil {
		return err
	}
	k.in = true
	if err := k.sift(ctx); err != nil {
		return err
	}
	return k.commit(ctx)
}

// tryAll writes a range of one batch as if no row were bad, which takes fewer round trips. bad:
// some are, and nothing is written.
func (k *writing) tryAll(ctx context.Context) (bad bool, _ error) {
	whole := k.b.Data
	if k.inbound != nil {
		whole = bytes.Clone(whole) // converting changes it
	}
	err := k.stream(ctx)
	if err == nil {
		return false, nil
	}
	if _, bad = k.badReason(err); !bad {
		return false, err
	}
	k.rollback()
	if k.s.Dead {
		return false, err
	}
	k.b.Data, k.sent, k.done = whole, 0, tidemark.Written{Method: k.done.Method}
	return true, nil
}

// rollback ends LOAD DATA and the transaction. If that fails, the session is dead.
func (k *writing) rollback() {
	var my *gomysql.MyError
	if k.loading != nil {
		if _, err := k.finish(); err != nil && !errors.As(err, &my) {
			k.s.Dead = true
		}
	}
	if !k.s.Dead && k.in && k.command("ROLLBACK") != nil {
		k.s.Dead = true
	}
}

// command runs a statement; Write watches ctx.
func (k *writing) command(sql string) error {
	_, err := k.s.Client.Execute(sql)
	return err
}

// stream sends all batches through one LOAD DATA, and commits.
func (k *writing) stream(ctx context.Context) error {
	if k.b.Last && len(k.b.Data) == 0 {
		return k.commit(ctx)
	}
	if err := k.begin("START TRANSACTION", resetJudgement); err != nil {
		return err
	}
	if k.insert {
		if err := k.insertAll(ctx); err != nil {
			return err
		}
		return k.commit(ctx)
	}
	if err := k.sendAll(); err != nil {
		return err
	}
	return k.end(ctx)
}

// sendAll sends all batches of a part.
func (k *writing) sendAll() error {
	for {
		k.sent += int64(k.b.Rows)
		if err := k.send(k.b.Data); err != nil || k.b.Last {
			return err
		}
		if err := k.next(); err != nil {
			return err
		}
	}
}

// end ends LOAD DATA, and commits.
func (k *writing) end(ctx context.Context) error {
	if k.w.Run != "" && k.enums.count < mostWarnings {
		return k.finishAndCommit(ctx)
	}
	if err := k.finishAndJudge(); err != nil {
		return err
	}
	return k.commit(ctx)
}

func (k *writing) finishAndJudge() error {
	ok, err := k.finish()
	if err != nil {
		return err
	}
	if why := k.verdict(ok, k.sent); why != nil {
		return why
	}
	k.done.Rows += k.sent
	return nil
}

// localRefused are the errors of servers that refuse LOCAL, and of ProxySQL, which does too, or
// looks for the file on its own disk.
var localRefused = map[uint16]bool{1148: true, 3948: true, 4166: true, 1047: true, 2: true}

// notesOfGenerated reports whether the server has notes, which are warnings to its count, about
// generated columns alone: price * 1.19 as decimal(10,2) has one for each row, as it had on the
// source.
func (k *writing) notesOfGenerated() bool {
	if k.shape.types == nil {
		return false
	}
	for i, c := range k.w.Move.To.Stored() {
		to, known := k.shape.types[c.Name]
		if from := k.w.Move.From.Column(k.w.Move.Source[i]); !known || from == nil || !mysqltype.Holds(&to, &from.Type) {
			return false
		}
	}
	return true
}

// setNotes is the statement that makes the session count notes, or not; "" if it does as the part
// needs it.
func (k *writing) setNotes() string {
	if k.quiet == k.s.Quiet {
		return ""
	}
	k.s.Quiet = k.quiet
	if k.quiet {
		return "SET sql_notes=0"
	}
	return "SET sql_notes=1"
}

// begin starts LOAD DATA, or finds that the server refuses it. It sends statements ahead.
func (k *writing) begin(ahead ...string) error {
	notes := k.setNotes()
	if k.insert {
		if notes == "" {
			return nil
		}
		return k.command(notes)
	}
	if notes != "" {
		ahead = append(ahead, notes)
	}
	k.in = true
	err := k.s.Wire.Load(k.sql, ahead...)
	var my *gomysql.MyError
	if errors.As(err, &my) && localRefused[my.Code] {
		k.insert = true
		for _, p := range k.parts {
			p.done.Method = "INSERT"
		}
		return nil
	}
	if err == nil {
		k.loading = k.part
	}
	return err
}

// send sends rows in the batch's format.
func (k *writing) send(data []byte) error {
	k.done.Bytes += int64(len(data))
	if k.inbound != nil {
		var err error
		if data, err = k.inbound.feed(data); err != nil {
			return err
		}
	}
	if len(data) == 0 {
		return nil
	}
	k.touched = true
	k.enums.see(data)
	if err := k.s.Wire.Send(data); err != nil {
		// The server may have sent the reason before it hung up.
		_ = k.s.Conn.SetReadDeadline(time.Now().Add(time.Second))
		if _, said := k.s.Wire.Response(); said != nil {
			var my *gomysql.MyError
			if errors.As(said, &my) {
				k.s.Dead = true
				return said
			}
		}
		return err
	}
	return nil
}

func (k *writing) finish() (server.Answer, error) {
	k.loading = nil
	if err := k.s.Wire.Finish(); err != nil {
		return server.Answer{}, err
	}
	return k.s.Wire.Answer()
}

// mostWarnings is where the count of an answer's warnings stops.
const mostWarnings = 65535

const correctRow = "Correct the row at the source, or have bad rows written to a reject file (--reject-limit)."

// verdict compares what the server took with what was sent.
func (k *writing) verdict(ok server.Answer, sent int64) error {
	enums := k.enums.drain()
	if int64(ok.Affected) == sent && int64(ok.Warnings) == enums {
		return nil
	}
	if int64(ok.Affected) == sent && enums >= mostWarnings && ok.Warnings == mostWarnings {
		r, err := k.s.Client.Execute("SHOW COUNT(*) WARNINGS")
		if err != nil {
			return err
		}
		if n, _ := r.GetInt(0, 0); n == enums {
			return nil
		}
	}
	if k.warning == nil {
		r, err := k.s.Client.Execute("SHOW WARNINGS LIMIT 1")
		if err != nil {
			return err
		}
		for i := range r.ColumnNumber() * r.RowNumber() {
			k.warning = append(k.warning, server.Cell(r, 0, i))
		}
	}
	out := &tidemark.Error{Op: "write", Object: k.object, Kind: tidemark.BadRow}
	switch {
	case len(k.warning) == 3:
		code, _ := strconv.Atoi(k.warning[1])
		my := &gomysql.MyError{Code: uint16(code), Message: k.warning[2]}
		k.warning = nil
		out.Err = server.Said(my)
		if kind, hint := k.e.KindOf(my); hint != "" {
			out.Hint = hint
			if kind == tidemark.Full {
				out.Kind = kind
			}
		}
	default:
		out.Err = fmt.Errorf("%d rows were sent and %d stored, and the server does not say why", sent, ok.Affected)
	}
	if out.Hint == "" {
		out.Hint = correctRow
	}
	return out
}

// undo restores the session to its state before the Write, and makes the error that Write returns.
func (k *writing) undo(ctx context.Context, err error) error {
	var my *gomysql.MyError
	var ours *tidemark.Error
	var taken *takeError
	var bad *BadValue
	known := errors.As(err, &ours) || errors.As(err, &taken) || errors.As(err, &bad) || errors.As(err, &my)
	if !k.s.Dead && !known {
		k.s.Dead = true
	}
	if !k.s.Dead {
		k.rollback()
	}
	if k.s.Dead {
		k.s.Close()
	}
	if k.e.superseded(ctx, k.w.Run) { // the error, such as rows that already exist, comes from the other process
		return takenOver(k.w.Run)
	}
	left := k.wipe(ctx)
	switch {
	case taken != nil:
		return taken.err
	case bad != nil:
		err = bad
		if k.inbound != nil && k.inbound.row != "" {
			err = fmt.Errorf("row %s: %w", k.inbound.row, bad)
		}
		return &tidemark.Error{Op: "write", Object: k.object, Kind: tidemark.BadRow, Err: err,
			Hint: "Correct the row at the source, or choose NULL for values that MySQL cannot hold: --unrepresentable=null."}
	}
	out := k.e.Fail("write", k.object, err)
	switch {
	case !errors.As(out, &ours):
	case left != "":
		ours.Hint = left
	case ours.Kind == tidemark.BadRow && ours.Hint == "": // to try again alone is of no use
		ours.Hint = correctRow
	}
	return out
}

// wipe empties a table without transactions, or returns the reason why it is not empty.
func (k *writing) wipe(ctx context.Context) string {
	if k.shape.transactional || !k.touched {
		return ""
	}
	if k.w.Fresh && ctx.Err() == nil {
		if s, back, err := k.e.Lend(ctx); err == nil {
			defer back()
			if empty(ctx, s, k.w.Move) == nil {
				return ""
			}
		}
	}
	return "The table's storage engine has no transactions: rows of this range stay in it; empty it before trying again."
}
