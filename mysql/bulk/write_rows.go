package bulk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// sift writes batch after batch, each under a savepoint. A batch with a bad row is halved until the
// row is found, which goes to Reject. A row that spans batches is assembled first, because Reject
// needs it whole.
func (k *writing) sift(ctx context.Context) error {
	var spanned []byte // with a row that spans batches
	rows := 0
	for {
		data := k.b.Data
		if rows += k.b.Rows; k.b.More || len(spanned) > 0 {
			spanned = append(spanned, data...)
			data = spanned
		}
		if !k.b.More {
			if rows > 0 {
				if err := k.siftRows(ctx, data, rows); err != nil {
					return err
				}
			}
			spanned, rows = nil, 0
		}
		if k.b.Last {
			return nil
		}
		if err := k.next(); err != nil {
			return err
		}
	}
}

// siftRows writes rows, or halves of them.
func (k *writing) siftRows(ctx context.Context, data []byte, rows int) error {
	if err := k.command("SAVEPOINT tidemark"); err != nil {
		return err
	}
	err := k.attempt(ctx, data, rows)
	if err == nil {
		k.done.Rows += int64(rows)
		return k.command("RELEASE SAVEPOINT tidemark")
	}
	reason, isBad := k.badReason(err)
	if !isBad {
		return err
	}
	if !k.shape.transactional {
		return err // the good rows of the attempt stay in the table
	}
	if err := k.command("ROLLBACK TO SAVEPOINT tidemark"); err != nil {
		return err
	}
	if rows == 1 {
		k.done.Rejected++
		if err := k.w.Reject(data, reason); err != nil {
			return &takeError{err}
		}
		return nil
	}
	half := rowsEnd(data, rows/2)
	if err := k.siftRows(ctx, data[:half], rows/2); err != nil {
		return err
	}
	return k.siftRows(ctx, data[half:], rows-rows/2)
}

// badReason reports whether a row is to blame, and what for.
func (k *writing) badReason(err error) (string, bool) {
	var ours *tidemark.Error
	var bad *BadValue
	var my *gomysql.MyError
	switch {
	case errors.As(err, &bad):
		return bad.Error(), true
	case errors.As(err, &ours):
		return fmt.Sprint(ours.Err), ours.Kind == tidemark.BadRow
	case errors.As(err, &my):
		kind, _ := k.e.KindOf(my)
		return server.Said(my).Error(), kind == tidemark.BadRow
	}
	return "", false
}

// rowsEnd returns where the first n rows end: newlines in values are escaped.
func rowsEnd(data []byte, n int) int {
	at := 0
	for range n {
		at += bytes.IndexByte(data[at:], '\n') + 1
	}
	return at
}

// attempt loads rows and reports whether the server took all of them unchanged.
func (k *writing) attempt(ctx context.Context, data []byte, rows int) error {
	if k.inbound != nil {
		k.inbound.reset()
		data = bytes.Clone(data) // Reject needs the row as it arrived
	}
	k.enums = newEnumCounter(k.w.Move, warnsOfZero(k.e)) // the last attempt may have ended early
	if err := k.begin(); err != nil {
		return err
	}
	if k.insert {
		return k.insertRows(ctx, data)
	}
	for len(data) > 0 {
		n := min(len(data), tidemark.BatchSize)
		if err := k.send(data[:n]); err != nil {
			var bad *BadValue
			if errors.As(err, &bad) { // the server waits for more
				if _, ferr := k.finish(); ferr != nil {
					return ferr
				}
			}
			return err
		}
		data = data[n:]
	}
	ok, err := k.finish()
	if err != nil {
		return err
	}
	return k.verdict(ok, int64(rows))
}

// insertAll is stream with INSERT instead of LOAD DATA.
func (k *writing) insertAll(ctx context.Context) error {
	var row []byte // of a row that spans batches
	for {
		switch {
		case k.b.More:
			row = append(row, k.b.Data...)
		case len(row) > 0:
			if err := k.insertRows(ctx, append(row, k.b.Data...)); err != nil {
				return err
			}
			row = nil
		default:
			if err := k.insertRows(ctx, k.b.Data); err != nil {
				return err
			}
		}
		k.done.Rows += int64(k.b.Rows)
		if k.b.Last {
			return nil
		}
		if err := k.next(); err != nil {
			return err
		}
	}
}

const insertSize = 512 << 10 // bytes of a statement

// insertRows writes rows by INSERT statements. A value is written as a string of the binary
// character set with the escapes of LOAD DATA; string constants know all of these but one, so the
// value means the same as in LOAD DATA.
func (k *writing) insertRows(ctx context.Context, data []byte) error {
	k.done.Bytes += int64(len(data))
	if k.inbound != nil {
		k.inbound.reset()
		out, err := k.inbound.feed(data)
		if err != nil {
			return err
		}
		data = out
	}
	if err := k.askPacket(ctx); err != nil {
		return err
	}
	head, wraps := k.insertHead()
	limit := min(insertSize, k.packet/2)
	sql := append([]byte(nil), head...)
	for len(data) > 0 {
		end := bytes.IndexByte(data, '\n')
		if end < 0 {
			return &tidemark.Error{Kind: tidemark.Bug, Op: "write", Object: k.object, Err: errors.New("a batch ends within a row")}
		}
		if len(sql) > len(head) {
			sql = append(sql, ',')
		}
		sql = appendTuple(sql, data[:end], wraps)
		data = data[end+1:]
		if len(sql) >= limit || len(data) == 0 {
			if len(sql) >= k.packet {
				return &tidemark.Error{Kind: tidemark.BadRow, Op: "write", Object: k.object, Err: fmt.Errorf("a row of %d bytes is larger than max_allowed_packet", len(sql)), Hint: "SET GLOBAL local_infile = 1, or SET GLOBAL max_allowed_packet = 1073741824, on the server."}
			}
			k.touched = true
			if err := k.command(string(sql)); err != nil {
				return err
			}
			sql = sql[:len(head)]
		}
	}
	return nil
}

func (k *writing) askPacket(ctx context.Context) error {
	if k.packet != 0 {
		return nil
	}
	r, err := k.s.Client.Execute("SELECT @@max_allowed_packet")
	if err != nil {
		return err
	}
	n, _ := strconv.Atoi(server.Cell(r, 0, 0))
	k.packet = min(n, server.MaxPayload)
	return ctx.Err()
}

// insertHead returns the INSERT up to VALUES, and the text around each value.
func (k *writing) insertHead() (string, [][2]string) {
	var cols []string
	var wraps [][2]string
	for _, c := range k.w.Move.To.Stored() {
		cols = append(cols, server.Quote(c.Name))
		before, after, _ := strings.Cut(k.convert(c.Name, "?"), "?")
		wraps = append(wraps, [2]string{before, after})
	}
	return "INSERT INTO " + server.QuoteTable(k.w.Move.To.TableID) + " (" + strings.Join(cols, ",") + ") VALUES ", wraps
}

func appendTuple(sql, row []byte, wraps [][2]string) []byte {
	sql = append(sql, '(')
	for i, w := range wraps {
		if i > 0 {
			sql = append(sql, ',')
		}
		v := row
		if n := bytes.IndexByte(row, '\t'); n >= 0 && i < len(wraps)-1 {
			v, row = row[:n], row[n+1:]
		}
		if string(v) == `\N` {
			sql = append(sql, "NULL"...)
			continue
		}
		sql = append(append(sql, w[0]...), "_binary'"...)
		for {
			n := bytes.IndexByte(v, '\'')
			if n < 0 {
				break
			}
			sql = append(append(sql, v[:n]...), `\'`...)
			v = v[n+1:]
		}
		sql = append(append(append(sql, v...), '\''), w[1]...)
	}
	return append(sql, ')')
}
