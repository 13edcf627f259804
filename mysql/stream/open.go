package stream

import (
	"context"
	"strconv"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// openTransaction is the oldest one that has changed or locked rows. InnoDB's times are the
// system's, whatever the session's time zone is; a prepared XA transaction has no connection.
const openTransaction = `SELECT t.trx_id, GREATEST(0, TIMESTAMPDIFF(SECOND, t.trx_started, CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', 'SYSTEM'))), t.trx_mysql_thread_id, COALESCE(CONCAT(p.USER, '@', p.HOST), '?')
	FROM information_schema.INNODB_TRX t LEFT JOIN information_schema.PROCESSLIST p ON p.ID = t.trx_mysql_thread_id
	WHERE t.trx_rows_modified > 0 OR t.trx_rows_locked > 0 ORDER BY t.trx_started, t.trx_id LIMIT 1`

// oldestOpen adds the oldest open transaction to k, and how many others it blocks, where the server
// lets us know that.
func (e *Source) oldestOpen(ctx context.Context, s *server.Session, k *tidemark.LogKept) error {
	r, err := s.Query(ctx, openTransaction)
	if err != nil {
		if err = e.Fail("look at transactions", e.Masked, err); tidemark.KindOf(err) == tidemark.Forbidden {
			k.OpenBy, err = "GRANT PROCESS ON *.* TO "+e.Grantee(), nil
		}
		return err
	}
	if r.RowNumber() == 0 {
		return nil
	}
	id, thread := server.Cell(r, 0, 0), server.Cell(r, 0, 2)
	seconds, _ := strconv.ParseInt(server.Cell(r, 0, 1), 10, 64) // is a number
	k.Open = max(time.Duration(seconds)*time.Second, 1)
	k.OpenBy = "connection " + thread + " of " + server.Cell(r, 0, 3)
	if thread == "0" {
		k.OpenBy = "a prepared XA transaction"
	}
	waits := "SELECT COUNT(DISTINCT REQUESTING_ENGINE_TRANSACTION_ID) FROM performance_schema.data_lock_waits WHERE BLOCKING_ENGINE_TRANSACTION_ID = "
	if e.MariaDB {
		waits = "SELECT COUNT(DISTINCT requesting_trx_id) FROM information_schema.INNODB_LOCK_WAITS WHERE blocking_trx_id = "
	}
	r, err = s.Query(ctx, waits+id)
	if err != nil {
		if err = e.Fail("look at locks", e.Masked, err); tidemark.KindOf(err) == tidemark.Forbidden {
			err = nil // whom it blocks is not known
		}
		return err
	}
	if n := server.Cell(r, 0, 0); n != "0" {
		k.OpenBy += ", for which other transactions wait (" + n + ")"
	}
	return nil
}
