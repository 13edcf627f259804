package catalog

import (
	"context"
	"database/sql"
	"encoding/json"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Parts hands on the parts of a plan, one after the other, so that none of them has to be held: a
// plan may have hundreds of thousands of tables and objects. A part is JSON.
type Parts func(put func(part []byte) error) error

// codec compresses the parts of plans, which repeat themselves.
var codec = sync.OnceValue(func() (c struct {
	in  *zstd.Encoder
	out *zstd.Decoder
}) {
	// Neither fails with valid options.
	c.in, _ = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(256<<10))
	c.out, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
	return c
})

// putParts writes the parts of a run's plan in place of those before; nothing if r has none.
func putParts(ctx context.Context, tx *sql.Tx, r Run) error {
	if r.Parts == nil {
		return nil
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM plan_part WHERE run = ?", r.ID); err != nil {
		return err
	}
	stmt, err := tx.PrepareContext(ctx, "INSERT INTO plan_part (run, seq, body) VALUES (?, ?, ?)")
	if err != nil {
		return err
	}
	defer stmt.Close()
	seq := 0
	return r.Parts(func(part []byte) error {
		seq++
		_, err := stmt.ExecContext(ctx, r.ID, seq, codec().in.EncodeAll(part, nil))
		return err
	})
}

// PlanParts hands on the parts of a run's plan, in the order in which they were written. A part is
// only valid until use returns.
func (c *Catalog) PlanParts(ctx context.Context, run string, use func(part []byte) error) error {
	const op = "read plan"
	rows, err := c.db.QueryContext(ctx, "SELECT body FROM plan_part WHERE run = ? ORDER BY seq", run)
	if err != nil {
		return c.wrap(op, err)
	}
	defer rows.Close()
	var body sql.RawBytes
	var part []byte
	for rows.Next() {
		if err := rows.Scan(&body); err != nil {
			return c.wrap(op, err)
		}
		if part, err = codec().out.DecodeAll(body, part[:0]); err != nil {
			return c.wrap(op, err)
		}
		if err := use(part); err != nil {
			return c.wrap(op, err)
		}
	}
	return c.wrap(op, rows.Err())
}

// PutBuilt records objects that a run has created, by their IDs.
func (c *Catalog) PutBuilt(ctx context.Context, run string, ids []string) error {
	return putBuilt(ctx, c, run, ids, c.write)
}

// KeepBuilt is PutBuilt for what must be recorded before the run continues: a crash of the machine
// does not undo it.
func KeepBuilt(ctx context.Context, c *Catalog, run string, ids ...string) error {
	return putBuilt(ctx, c, run, ids, c.keep)
}

func putBuilt(ctx context.Context, c *Catalog, run string, ids []string, write func(context.Context, string, func(*sql.Tx) error) error) error {
	const op = "write objects"
	if len(ids) == 0 {
		return nil
	}
	text, err := json.Marshal(ids)
	if err != nil {
		return c.wrap(op, err)
	}
	return write(ctx, op, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO built (run, seq, ids) VALUES (?1, (SELECT coalesce(max(seq), 0) + 1 FROM built WHERE run = ?1), ?2)", run, string(text))
		return err
	})
}

// Built gives the IDs of the objects that a run has created.
func (c *Catalog) Built(ctx context.Context, run string) (map[string]bool, error) {
	out := map[string]bool{}
	_, err := list(ctx, c, "read objects", "SELECT ids FROM built WHERE run = ?", []any{run}, func(rows *sql.Rows) (struct{}, error) {
		var text sql.RawBytes
		var ids []string
		err := rows.Scan(&text)
		if err == nil {
			err = json.Unmarshal(text, &ids)
		}
		for _, id := range ids {
			out[id] = true
		}
		return struct{}{}, err
	})
	return out, err
}
