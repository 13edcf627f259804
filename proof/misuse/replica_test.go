package misuse

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestReplicaOfItself: a server and its replica cannot be copied into each other, in either
// direction; a replica accepts other databases, and those of other servers.
func TestReplicaOfItself(t *testing.T) {
	t.Parallel()
	for _, e := range []struct {
		name          string
		source, other func(testing.TB) *testdb.Server
		replica       func(testing.TB, ...string) *testdb.Server
		follow        string
	}{
		{"mariadb", testdb.MariaDB, testdb.MySQL, testdb.OwnMariaDB, "SET GLOBAL replicate_do_db = '%[6]s'; CHANGE MASTER TO master_host = '%[1]s', master_port = %[2]d, master_user = 'root', master_password = '%[3]s', master_log_file = '%[4]s', master_log_pos = %[5]s; START SLAVE"},
		{"mysql", testdb.MySQL, testdb.MariaDB, testdb.OwnMySQL, "CHANGE REPLICATION FILTER REPLICATE_DO_DB = (%[6]s); CHANGE REPLICATION SOURCE TO source_host = '%[1]s', source_port = %[2]d, source_user = 'root', source_password = '%[3]s', source_log_file = '%[4]s', source_log_pos = %[5]s; START REPLICA"},
	} {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			s, r := e.source(t), e.replica(t, "--skip-slave-start")
			src := s.NewDatabase(t, "shop")
			name := base(src)
			at := strings.Split(testdb.Query(t, src, "SHOW MASTER STATUS"), "\t")
			to := strings.Replace(src, fmt.Sprintf(":%d/", s.Port), fmt.Sprintf(":%d/", r.Port), 1)
			testdb.Query(t, r.URL("mysql"), "CREATE DATABASE IF NOT EXISTS "+name)
			for sql := range strings.SplitSeq(fmt.Sprintf(e.follow, s.Host, s.Port, s.Password, at[0], at[1], name), "; ") {
				testdb.Query(t, r.URL("mysql"), sql)
			}
			testdb.Load(t, src, strings.NewReader(orders))
			soon(t, "the replica has the rows", func() bool {
				got, err := testdb.TryQuery(to, allOrders)
				return err == nil && got == "1\tone\n2\ttwo\n3\tthree"
			})
			for _, v := range []struct {
				says string
				args []string
			}{
				{"the target is a replica of the source", []string{"copy", src, to, "--prep", "drop"}},
				{"the source is a replica of the target", []string{"copy", to, src, "--prep", "drop"}},
				{"the target is a replica of the source", []string{"replicate", src, to, "--prep", "drop", "--name", streamName()}},
				{"the source is a replica of the target", []string{"repair", to, src, "--execute"}},
			} {
				o := run(t, v.args...)
				if o.Code != 2 || !strings.Contains(o.ErrOut, v.says) {
					t.Errorf("%s: exit %d, want 2 and %q\n%s%s", v.args[0], o.Code, v.says, o.ErrOut, o.Out)
				}
				for _, db := range []string{src, to} {
					if got := testdb.Query(t, db, allOrders); got != "1\tone\n2\ttwo\n3\tthree" {
						t.Fatalf("%s has left\n%s", v.args, got)
					}
				}
			}
			testdb.Must(t, "diff", src, to)
			testdb.Must(t, "copy", src, r.NewDatabase(t, "archive"))
			other := full(t, e.other(t)) // whose tables have the same names as the existing ones
			into := base(other)
			testdb.Query(t, r.URL("mysql"), "CREATE DATABASE IF NOT EXISTS "+into)
			testdb.Must(t, "copy", other, r.URL(into), "--prep", "drop")
		})
	}
}

// base returns the database that a URL names.
func base(url string) string {
	name, _, _ := strings.Cut(url[strings.LastIndexByte(url, '/')+1:], "?")
	return name
}
