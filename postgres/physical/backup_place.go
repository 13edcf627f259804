package physical

import (
	"context"
	"errors"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/wal"
)

// Place returns the part of the log that has all changes that may be in what was read so far. A
// page is not written before the WAL up to its LSN, nor on a standby before pg_control says so.
//
// It uses the session that holds the backup: if that is gone, pages read since the server ended the
// backup may be torn, and nothing in the log repairs them.
func (b *Backup) Place(ctx context.Context) (tidemark.DataLog, error) {
	question := "SELECT pg_current_wal_flush_lsn()::text, pg_is_in_recovery()"
	if b.standby {
		question = "SELECT min_recovery_end_lsn::text, pg_is_in_recovery() FROM pg_control_recovery()"
	}
	var text string
	var standby bool
	err := b.conn.QueryRow(ctx, question).Scan(&text, &standby)
	if err != nil {
		err = b.e.Fail(ctx, backupOp, b.e.Object, err)
		if tidemark.KindOf(err) == tidemark.Transient {
			err = sessionGone(b.e.Object, err)
		}
		return tidemark.DataLog{}, err
	}
	if standby != b.standby {
		return tidemark.DataLog{}, &tidemark.Error{Kind: tidemark.Unsupported, Op: backupOp, Object: b.e.Object, Err: errors.New("the standby was promoted meanwhile")}
	}
	at, err := wal.ParseLSN(text)
	if err != nil {
		return tidemark.DataLog{}, b.e.Fail(ctx, backupOp, b.e.Object, err)
	}
	at = max(at, b.start+1)
	return tidemark.DataLog{Timeline: b.timeline, From: wal.FormatLSN(b.start), To: wal.FormatLSN(at), First: b.archived(b.timeline, b.start), Last: b.archived(b.timeline, at-1)}, nil
}

func sessionGone(object string, err error) error {
	return &tidemark.Error{Kind: tidemark.Lost, Op: backupOp, Object: object, Err: errors.New("the session that held the backup is gone: " + err.Error()), Hint: "The server ended the backup with it: start the backup again."}
}
