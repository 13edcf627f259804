package physical

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// Removed log is recognized by SQLSTATE or by routine, whatever the language of the server's
// messages.
func TestLogRemoved(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{&pgconn.PgError{Code: "58P01", Routine: "WalSndSegmentOpen"}, true},
		{&pgconn.PgError{Code: "XX000", Routine: "CheckXLogRemoved"}, true},
		{fmt.Errorf("read: %w", &pgconn.PgError{Code: "08006", Routine: "CheckXLogRemoved"}), true},
		{&pgconn.PgError{Code: "XX000", Routine: "XLogReadRecord"}, false},
		{fmt.Errorf("cut"), false},
	} {
		if got := logRemoved(c.err); got != c.want {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}
