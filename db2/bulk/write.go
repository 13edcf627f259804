package bulk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/db2/drda"
	"github.com/tidemarkdb/tidemark/db2/server"
)

const (
	chainSize    = 256 << 10 // bytes of requests that are sent at once
	statementMax = 500       // parameters of a statement, about
)

// writer returns the session of a writing lane, and opens it as needed.
func (e *Bulk) writer(ctx context.Context, n int) (*server.Session, error) {
	e.mu.Lock()
	for n >= len(e.writers) {
		e.writers = append(e.writers, nil)
	}
	s := e.writers[n]
	e.mu.Unlock()
	if s != nil && !s.Broken {
		s.Bind(ctx)
		return s, nil
	}
	s, err := e.patient(ctx, "connect")
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.writers[n] = s
	return s, nil
}

// Exec runs the statements of one object on a writing lane, in one transaction.
func (e *Bulk) Exec(ctx context.Context, lane int, sql []string) error {
	s, err := e.writer(ctx, lane)
	if err != nil {
		return err
	}
	for _, one := range sql {
		if _, err := s.Exec(ctx, one); err != nil {
			e.rollback(s)
			first, _, _ := strings.Cut(one, "(")
			return e.Fail("run", strings.TrimSpace(first), err)
		}
	}
	return e.Fail("commit", e.Masked, s.Commit(ctx))
}

// rollback ends the transaction. A session on which that fails is replaced at its next use.
func (e *Bulk) rollback(s *server.Session) {
	s.Unprepare()
	s.Drop()
	if s.Broken {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lockWaitTime)
	defer cancel()
	if s.Rollback(ctx) != nil {
		s.Broken = true
		s.Close()
	}
}

// A writing is the load of one range: INSERTs of many rows and parameters, many in a message, in
// one transaction with the marker row.
type writing struct {
	e      *Bulk
	s      *server.Session
	w      tidemark.Write
	object string
	cols   []tidemark.Column
	source []tidemark.Column
	params []drda.Param
	many   *drda.Statement // of rows rows; nil if one is enough
	rows   int
	one    *drda.Statement
	sent   int64 // rows of the chain that is collected
	done   tidemark.Written
}

// Write takes batches until the last of a range, and commits them with their marker row. If the
// connection breaks during the commit, the marker row decides.
func (e *Bulk) Write(ctx context.Context, lane int, w tidemark.Write, take func() (*tidemark.Batch, error)) (tidemark.Written, error) {
	var callers error // of take, or Reject
	if reject := w.Reject; reject != nil {
		w.Reject = func(row []byte, reason string) error {
			callers = reject(row, reason)
			return callers
		}
	}
	k := &writing{e: e, w: w, object: "table " + w.Move.To.String(), done: tidemark.Written{Method: "parametrised INSERT"}}
	if w.Format != tidemark.CopyText || w.Statement != nil {
		return k.done, &tidemark.Error{Kind: tidemark.Unsupported, Op: "write", Object: k.object, Err: errors.New("a Db2 target takes rows as COPY text only")}
	}
	var err error
	if k.s, err = e.writer(ctx, lane); err != nil {
		return k.done, err
	}
	err = k.prepare(ctx)
	if err == nil {
		err = k.stream(ctx, func() (*tidemark.Batch, error) {
			b, err := take()
			callers = err
			return b, err
		})
	}
	if err == nil {
		return k.commit(ctx)
	}
	e.rollback(k.s)
	switch {
	case callers != nil:
		return tidemark.Written{}, callers
	case ctx.Err() != nil:
		return tidemark.Written{}, context.Cause(ctx)
	case w.Run != "":
		if fenced := e.fenceNow(ctx, w.Run); tidemark.KindOf(fenced) == tidemark.Invalid {
			err = fenced // rows that are there already are the other process's
		}
	}
	return tidemark.Written{}, k.failed(err)
}

// failed makes the error of a range.
func (k *writing) failed(err error) error {
	var bad *drda.ValueError
	if errors.As(err, &bad) {
		return &tidemark.Error{Op: "write", Object: k.object, Kind: tidemark.BadRow, Err: fmt.Errorf("column %s: %w", k.cols[bad.Column].Name, bad), Hint: correctRow}
	}
	out := k.e.Fail("write", k.object, err)
	var ours *tidemark.Error
	if errors.As(out, &ours) && ours.Kind == tidemark.BadRow && ours.Hint == "" {
		ours.Hint = correctRow
	}
	return out
}

const correctRow = "Correct the row at the source, or let bad rows be rejected."

// prepare looks up the columns, and prepares the statements.
func (k *writing) prepare(ctx context.Context) error {
	to := k.w.Move.To
	k.cols, k.source = to.Stored(), k.w.Move.Columns()
	types, err := k.e.Types(ctx, k.s, to.TableID)
	if err != nil {
		return err
	}
	if len(types) == 0 {
		return &tidemark.Error{Kind: tidemark.NotFound, Op: "write", Object: k.object, Err: errors.New("the table does not exist")}
	}
	var names, marks []string
	large := false
	for _, c := range k.cols {
		t, ok := types[c.Name]
		if !ok {
			return &tidemark.Error{Kind: tidemark.Invalid, Op: "write", Object: k.object, Err: errors.New("the table has no column " + c.Name), Hint: "Use --prep drop, or leave the column out with a rule."}
		}
		p := paramOf(t)
		large = large || p.Kind == drda.ParamLobText || p.Kind == drda.ParamLobBytes
		k.params = append(k.params, p)
		names, marks = append(names, server.Quote(c.Name)), append(marks, "?")
	}
	head := "INSERT INTO " + server.QuoteTable(to.TableID) + " (" + strings.Join(names, ", ") + ") VALUES "
	row := "(" + strings.Join(marks, ", ") + ")"
	if k.one, err = k.s.Prepare(head+row, k.params, 1); err != nil {
		return err
	}
	if k.rows = min(statementMax/len(k.cols), 50); k.rows > 1 && !large {
		if k.many, err = k.s.Prepare(head+strings.TrimSuffix(strings.Repeat(row+", ", k.rows), ", "), k.params, k.rows); err != nil {
			return err
		}
	}
	_, err = k.s.Run(ctx)
	return err
}

// paramOf is how values of a column are sent.
func paramOf(t tidemark.Type) drda.Param {
	switch t.Kind {
	case tidemark.Int:
		return drda.Param{Kind: drda.ParamInt}
	case tidemark.Float:
		return drda.Param{Kind: drda.ParamFloat}
	case tidemark.Decimal:
		if t.Precision > 0 && t.Precision <= 31 {
			return drda.Param{Kind: drda.ParamDecimal, Digits: t.Precision, Scale: t.Scale}
		}
	case tidemark.Bool:
		return drda.Param{Kind: drda.ParamBool}
	case tidemark.Binary, tidemark.Varbinary:
		return drda.Param{Kind: drda.ParamBytes}
	case tidemark.Text:
		return drda.Param{Kind: drda.ParamLobText}
	case tidemark.Blob:
		return drda.Param{Kind: drda.ParamLobBytes}
	}
	return drda.Param{}
}

// stream takes batches, and sends their rows.
func (k *writing) stream(ctx context.Context, take func() (*tidemark.Batch, error)) error {
	var long *spool // of a row that spans batches
	defer func() { long.close() }()
	for {
		b, err := take()
		if err != nil {
			return err
		}
		k.done.Bytes += int64(len(b.Data))
		data, rows, last := b.Data, b.Rows, b.Last
		switch {
		case b.More:
			if end := bytes.LastIndexByte(data, '\n') + 1; long == nil && end > 0 { // whole rows come first
				err = k.write(ctx, data[:end])
				data = data[end:]
			}
			if err == nil && long == nil {
				long, err = newSpool()
			}
			if err == nil {
				err = long.add(data)
			}
		case long != nil:
			end := bytes.IndexByte(data, '\n') + 1
			if err = long.add(data[:end]); err == nil {
				err = k.writeLong(ctx, long)
			}
			long.close()
			long = nil
			if err == nil {
				err = k.write(ctx, data[end:])
			}
		case rows > 0:
			err = k.write(ctx, data)
		}
		b.Release()
		if err != nil || last {
			return err
		}
	}
}

// write writes whole rows: with Reject under a savepoint, so that bad ones can be found.
func (k *writing) write(ctx context.Context, data []byte) error {
	data = k.adapted(data)
	if k.w.Reject == nil {
		return k.attempt(ctx, data)
	}
	if len(data) == 0 {
		return nil
	}
	return k.sift(ctx, data)
}

// sift halves rows until the bad ones are found, which go to Reject.
func (k *writing) sift(ctx context.Context, data []byte) error {
	if _, err := k.s.Exec(ctx, "SAVEPOINT tidemark ON ROLLBACK RETAIN CURSORS"); err != nil {
		return err
	}
	err := k.attempt(ctx, data)
	if err == nil {
		_, err = k.s.Exec(ctx, "RELEASE SAVEPOINT tidemark")
		return err
	}
	failed := k.failed(err)
	if tidemark.KindOf(failed) != tidemark.BadRow || k.s.Broken {
		return err
	}
	if _, err := k.s.Exec(ctx, "ROLLBACK TO SAVEPOINT tidemark"); err != nil {
		return err
	}
	if _, err := k.s.Exec(ctx, "RELEASE SAVEPOINT tidemark"); err != nil {
		return err
	}
	n := bytes.Count(data, []byte("\n"))
	if n == 1 {
		k.done.Rejected++
		var ours *tidemark.Error
		errors.As(failed, &ours)
		return k.w.Reject(data, ours.Err.Error())
	}
	half := 0
	for range n / 2 {
		half += bytes.IndexByte(data[half:], '\n') + 1
	}
	if err := k.sift(ctx, data[:half]); err != nil {
		return err
	}
	return k.sift(ctx, data[half:])
}

// attempt writes rows.
func (k *writing) attempt(ctx context.Context, data []byte) error {
	before := k.done.Rows
	left := bytes.Count(data, []byte("\n"))
	for left > 0 {
		st, n := k.one, 1
		if k.many != nil && left >= k.rows {
			st, n = k.many, k.rows
		}
		rest, err := st.Add(data)
		if err == nil {
			data, left, k.sent = rest, left-n, k.sent+int64(n)
			if left > 0 && k.s.Pending() < chainSize {
				continue
			}
			err = k.flush(ctx)
		}
		if err != nil {
			k.s.Drop()
			k.sent, k.done.Rows = 0, before
			return err
		}
	}
	return nil
}

// flush sends what is collected, and compares the rows that the server has written.
func (k *writing) flush(ctx context.Context) error {
	n, err := k.s.Run(ctx)
	return k.counted(n, err)
}

func (k *writing) counted(n int64, err error) error {
	if err == nil && n != k.sent {
		err = &tidemark.Error{Op: "write", Object: k.object, Kind: tidemark.Corrupt, Err: fmt.Errorf("%d rows were sent, and the server has written %d", k.sent, n)}
	}
	if err == nil {
		k.done.Rows += n
	}
	k.sent = 0
	return err
}

// commit writes the marker row, and commits.
func (k *writing) commit(ctx context.Context) (tidemark.Written, error) {
	run := k.w.Run
	if run != "" {
		err := k.e.fence(ctx, k.s, run)
		if err == nil {
			_, err = k.s.Exec(ctx, fmt.Sprintf("INSERT INTO %s (run, range_id, rows_n) VALUES (%s, %d, %d)", k.e.Own("copied"), server.Literal(run), k.w.Range.ID, k.done.Rows))
		}
		if err != nil {
			k.e.rollback(k.s)
			if rows, there := k.marked(ctx); there { // an earlier attempt succeeded after all: once is enough
				k.done.Rows = rows
				return k.done, nil
			}
			return tidemark.Written{}, k.e.Fail("write", k.object, err)
		}
	}
	err := k.s.Commit(ctx)
	k.s.Unprepare()
	if err == nil {
		return k.done, nil
	}
	sure := drda.StateOf(err) != ""
	k.e.rollback(k.s)
	if !sure && run != "" && ctx.Err() == nil {
		if rows, there := k.marked(ctx); there {
			k.done.Rows = rows
			return k.done, nil
		}
	}
	return tidemark.Written{}, k.e.Fail("commit", k.object, err)
}

// marked reports whether the range's marker row is there, once nobody is writing it.
func (k *writing) marked(ctx context.Context) (rows int64, there bool) {
	err := k.e.Do(ctx, "look", k.e.Own("copied"), func(s *server.Session) (err error) {
		rows, err = one(ctx, s, fmt.Sprintf("SELECT rows_n FROM %s WHERE run = %s AND range_id = %d WITH RS", k.e.Own("copied"), server.Literal(k.w.Run), k.w.Range.ID))
		return err
	})
	return rows, err == nil && rows >= 0
}

// fenceNow is fence in a transaction of its own: Invalid if another process has begun a newer epoch
// of the run.
func (e *Bulk) fenceNow(ctx context.Context, run string) error {
	return e.Do(ctx, "look", e.Own("copied"), func(s *server.Session) error { return e.fence(ctx, s, run) })
}

// adapted makes instants timestamps in UTC, which Db2 has no zone for.
func (k *writing) adapted(data []byte) []byte {
	var zoned []bool
	any := false
	for _, c := range k.source {
		zoned = append(zoned, c.Type.Kind == tidemark.Timestamp)
		any = any || c.Type.Kind == tidemark.Timestamp
	}
	if !any {
		return data
	}
	out := make([]byte, 0, len(data))
	for line := range bytes.Lines(data) {
		for i := 0; len(line) > 0; i++ {
			end := bytes.IndexAny(line, "\t\n")
			if end < 0 {
				end = len(line) - 1
			}
			v := line[:end]
			if i < len(zoned) && zoned[i] {
				v = bytes.TrimSuffix(v, []byte("+00"))
			}
			out = append(append(out, v...), line[end])
			line = line[end+1:]
		}
	}
	return out
}
