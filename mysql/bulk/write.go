package bulk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/mysql/schema"
	"github.com/tidemarkdb/tidemark/mysql/server"
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
	object := w.Move.To.String()
	if w.Format == tidemark.CopyBinary {
		return tidemark.Written{}, &tidemark.Error{Kind: tidemark.Bug, Op: "write", Object: object, Err: errors.New("a MySQL target takes no " + w.Format.String())}
	}
	s, err := e.writerFor(ctx, lane, w.Statement)
	if err != nil {
		return tidemark.Written{}, err
	}
	k := &writing{e: e, s: s, w: w, take: take, object: object}
	if err := k.prepare(ctx); err != nil {
		return tidemark.Written{}, e.writeFailed(s, object, err)
	}
	stop := crash.OnDone(ctx, s.Abort)
	if w.Statement != nil {
		err = k.runStatement(ctx)
	} else {
		err = k.run(ctx)
	}
	k.drop()
	if !stop() {
		s.Dead = true
		e.Kill(s.ID)
		if err != nil && server.Broken(err) {
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		err = k.undo(ctx, err)
	}
	if err != nil {
		return tidemark.Written{}, err
	}
	return k.done, nil
}

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
	e      *Bulk
	s      *server.Session
	w      tidemark.Write
	take   func() (*tidemark.Batch, error)
	object string

	shape   tableShape
	sql     string   // LOAD DATA
	inbound *inbound // CopyText only
	enums   *enumCounter
	insert  bool // LOCAL is refused
	in      bool // in a transaction
	loading bool // in LOAD DATA: the server waits for rows
	touched bool // rows were sent
	b       *tidemark.Batch
	sent    int64
	done    tidemark.Written
	packet  int // max_allowed_packet, once queried
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
	k.enums = newEnumCounter(k.w.Move, k.e.warnsOfZero())
	k.sql = k.loadStatement()
	if k.s.Wire == nil {
		k.s.Wire = server.NewWire(k.s.Conn)
	}
	return nil
}

// loadStatement writes LOAD DATA with CHARACTER SET binary: bytes are stored unchanged, whatever
// the column's character set. Columns for which that is wrong go through a variable.
func (k *writing) loadStatement() string {
	var cols, set []string
	for i, c := range k.w.Move.To.Stored() {
		x := k.convert(c.Name, "@v"+strconv.Itoa(i))
		if x == "" {
			cols = append(cols, server.Quote(c.Name))
			continue
		}
		cols = append(cols, "@v"+strconv.Itoa(i))
		set = append(set, server.Quote(c.Name)+"="+x)
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
	case c.kind == "json" || c.kind == "uuid" || strings.HasPrefix(c.kind, "inet"):
		return utf8
	case k.w.Format == tidemark.LoadData || c.charset == "" || strings.HasPrefix(c.charset, "utf8") || c.charset == "ascii" || c.charset == "binary":
		return ""
	}
	return utf8
}

// run runs the transaction.
func (k *writing) run(ctx context.Context) error {
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
	if err := k.command("START TRANSACTION"); err != nil {
		return err
	}
	k.in = true
	k.done.Method = "LOAD DATA"
	var err error
	if k.w.Reject == nil {
		err = k.stream(ctx)
	} else {
		err = k.sift(ctx)
	}
	if err != nil {
		return err
	}
	return k.commit(ctx)
}

// command runs a statement; Write watches ctx.
func (k *writing) command(sql string) error {
	_, err := k.s.Client.Execute(sql)
	return err
}

// stream sends all batches through one LOAD DATA.
func (k *writing) stream(ctx context.Context) error {
	if k.b.Last && len(k.b.Data) == 0 {
		return nil
	}
	if err := k.begin(); err != nil {
		return err
	}
	if k.insert {
		return k.insertAll(ctx)
	}
	for {
		k.sent += int64(k.b.Rows)
		if err := k.send(k.b.Data); err != nil {
			return err
		}
		if k.b.Last {
			break
		}
		if err := k.next(); err != nil {
			return err
		}
	}
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

// begin starts LOAD DATA, or finds that the server refuses it.
func (k *writing) begin() error {
	if k.insert {
		return nil
	}
	err := k.s.Wire.Load(k.sql)
	var my *gomysql.MyError
	if errors.As(err, &my) && (my.Code == 1148 || my.Code == 3948 || my.Code == 4166) {
		k.insert, k.done.Method = true, "INSERT"
		return nil
	}
	k.loading = err == nil
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
	k.loading = false
	return k.s.Wire.Finish()
}

// verdict compares what the server took with what was sent.
func (k *writing) verdict(ok server.Answer, sent int64) error {
	enums := k.enums.take()
	if int64(ok.Affected) == sent && int64(ok.Warnings) == enums {
		return nil
	}
	if int64(ok.Affected) == sent && enums >= 65535 && ok.Warnings == 65535 { // the count stops there
		r, err := k.s.Client.Execute("SHOW COUNT(*) WARNINGS")
		if err != nil {
			return err
		}
		if n, _ := r.GetInt(0, 0); n == enums {
			return nil
		}
	}
	out := &tidemark.Error{Op: "write", Object: k.object, Kind: tidemark.BadRow}
	r, err := k.s.Client.Execute("SHOW WARNINGS LIMIT 1")
	switch {
	case err != nil:
		return err
	case r.RowNumber() > 0:
		code, _ := strconv.Atoi(server.Cell(r, 0, 1))
		my := &gomysql.MyError{Code: uint16(code), Message: server.Cell(r, 0, 2)}
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
		out.Hint = "Correct the row at the source, or have bad rows written to a reject file."
	}
	return out
}

// commit writes the marker row and commits.
func (k *writing) commit(ctx context.Context) error {
	if k.w.Run != "" {
		ledger, err := k.e.ledgerTable(ctx)
		if err != nil {
			return err
		}
		r, err := k.s.Client.Execute(k.e.markSQL(ledger, k.w.Run, k.w.Range.ID, k.done.Rows))
		var my *gomysql.MyError
		if errors.As(err, &my) && my.Code == 1062 {
			// An earlier attempt succeeded after all: once is enough.
			k.in = false
			return k.command("ROLLBACK")
		}
		if err != nil {
			return err
		}
		if r.AffectedRows == 0 {
			return takenOver(k.w.Run)
		}
	}
	err := k.command("COMMIT")
	var my *gomysql.MyError
	switch {
	case err == nil:
		k.in = false
		return nil
	case errors.As(err, &my) || ctx.Err() != nil:
		return err
	}
	// Only the marker shows whether the server executed it, once the server has finished with that
	// connection.
	k.in = false
	k.s.Dead = true
	k.s.Close()
	if k.w.Run != "" && k.e.Gone(ctx, k.s.ID) {
		marks, merr := k.e.Marks(ctx, k.w.Run)
		if merr == nil && contains(marks, k.w.Range.ID) {
			return nil
		}
		if merr == nil {
			return err
		}
	}
	return &tidemark.Error{Op: "write", Object: k.object, Kind: tidemark.Transient, Err: fmt.Errorf("the connection broke in COMMIT, and whether the rows are there is not known: %w", err)}
}

// Gone kills a session of ours on the server and waits until it has ended. It reports whether it
// has.
func (e *Bulk) Gone(ctx context.Context, id uint32) bool {
	e.Kill(id)
	for range 100 {
		left := true
		err := e.OnSession(ctx, "look", "", func(s *server.Session) error {
			r, err := s.Query(ctx, "SELECT 1 FROM information_schema.PROCESSLIST WHERE ID="+strconv.FormatUint(uint64(id), 10))
			left = err != nil || r.RowNumber() > 0
			return err
		})
		if err != nil {
			return false
		}
		if !left {
			return true
		}
		time.Sleep(100 * time.Millisecond)
	}
	return false
}

func contains(marks []tidemark.Mark, id int) bool {
	for _, m := range marks {
		if m.Range == id {
			return true
		}
	}
	return false
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
	if !k.s.Dead && k.loading {
		if _, ferr := k.finish(); ferr != nil && !errors.As(ferr, &my) {
			k.s.Dead = true
		}
	}
	if !k.s.Dead && k.in {
		if k.command("ROLLBACK") != nil {
			k.s.Dead = true
		}
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
	if errors.As(out, &ours) && left != "" {
		ours.Hint = left
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

// A tableShape is what Write needs to know about a table on the target.
type tableShape struct {
	transactional bool
	columns       map[string]columnShape
}

type columnShape struct{ kind, charset string }

// shapeOf queries a table's shape once; Exec makes it query again.
func (e *Bulk) shapeOf(ctx context.Context, s *server.Session, id tidemark.TableID) (tableShape, error) {
	e.mu.Lock()
	shape, known := e.shapes[id]
	e.mu.Unlock()
	if known {
		return shape, nil
	}
	in := " WHERE TABLE_SCHEMA=" + e.schemaLiteral(id) + " AND TABLE_NAME=" + server.Literal(id.Name)
	r, err := s.Query(ctx, "SELECT ENGINE FROM information_schema.TABLES"+in)
	if err != nil {
		return shape, err
	}
	if r.RowNumber() == 0 {
		return shape, &tidemark.Error{Kind: tidemark.NotFound, Op: "write", Object: id.String(), Err: errors.New("there is no such table on the target, or the user may not see it")}
	}
	shape = tableShape{transactional: schema.Transactional(server.Cell(r, 0, 0)), columns: map[string]columnShape{}}
	if r, err = s.Query(ctx, "SELECT COLUMN_NAME, DATA_TYPE, CHARACTER_SET_NAME FROM information_schema.COLUMNS"+in); err != nil {
		return shape, err
	}
	for i := range r.RowNumber() {
		shape.columns[server.Cell(r, i, 0)] = columnShape{strings.ToLower(server.Cell(r, i, 1)), strings.ToLower(server.Cell(r, i, 2))}
	}
	e.mu.Lock()
	if e.shapes == nil {
		e.shapes = map[tidemark.TableID]tableShape{}
	}
	e.shapes[id] = shape
	e.mu.Unlock()
	return shape, nil
}

func (e *Bulk) schemaLiteral(id tidemark.TableID) string {
	if id.Schema == "" {
		return "DATABASE()"
	}
	return server.Literal(id.Schema)
}
