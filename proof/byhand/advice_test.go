package byhand

import (
	"regexp"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// Patterns of advice in reports. A report advises only on jobs that take a while, and on a table
// only if something can be done about it.
var (
	ofTable = regexp.MustCompile(`(?i)no key by which|cannot be cut`)
	advice  = regexp.MustCompile(`(?i)would (gain|help|shorten|make)|\braise --|limits:|` + ofTable.String())
)

// Jobs that take no time, on tables with integer keys, get no advice from any verb.
func TestTinyJobsAreGivenNoAdvice(t *testing.T) {
	for _, server := range []*testdb.Server{testdb.MariaDB(t), testdb.MySQL(t), testdb.Postgres(t, 15)} {
		t.Run(server.Engine, func(t *testing.T) {
			t.Parallel()
			src, dst, place := server.NewDatabase(t, "src"), server.NewDatabase(t, "dst"), t.TempDir()
			testdb.Query(t, src, "CREATE TABLE a (id int PRIMARY KEY, v varchar(20)); CREATE TABLE b (x bigint, y smallint, v int UNIQUE, PRIMARY KEY (x, y)); CREATE INDEX i ON a (v)")
			testdb.Query(t, src, "INSERT INTO a VALUES (1, 'x'), (2, 'y'), (1000000, 'z'); INSERT INTO b VALUES (1, 1, 1), (2, 2, 2)")
			lines := [][]string{
				{"check", src, dst}, {"copy", src, dst, "--plan"}, {"copy", src, dst}, {"diff", src, dst}, {"repair", src, dst},
				{"backup", "--logical", src, place}, {"verify", place}, {"backups", place},
				{"restore", place, "latest", server.NewDatabase(t, "restored")},
				{"replicate", src, server.NewDatabase(t, "stream"), "--until", "now", "--name", "advice_" + server.Engine},
			}
			if server.Engine != "postgres" {
				lines = append(lines, []string{"copy", "file:" + testdb.MySQLDump(t, src), server.NewDatabase(t, "dumped")})
			}
			for _, args := range lines {
				began := time.Now()
				o := testdb.Run(t, args...)
				long := time.Since(began) > time.Second // parallel tests may slow it down: then there may be something to gain
				if o.Code != 0 {
					t.Errorf("%s: exit %d\n%s", args[0], o.Code, o.ErrOut)
				}
				wrong := advice
				if long {
					wrong = ofTable
				}
				if said := wrong.FindString(o.Out + o.ErrOut); said != "" {
					t.Errorf("%s says %q of a job without length:\n%s%s", args[0], said, o.ErrOut, o.Out)
				}
			}
		})
	}
}
