package lookahead

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

var from = regexp.MustCompile(`replicate SOURCE TARGET --from (\S+)\.\s`)

// A dump records its log position: plan and report name the command that continues from there, and
// with it no change is lost or applied twice.
func TestContinueFromADump(t *testing.T) {
	t.Parallel()
	maria, my := testdb.MariaDB(t), testdb.MySQL(t)
	exe, err := os.Readlink("/proc/" + strconv.Itoa(my.Pid) + "/exe")
	if err != nil {
		t.Fatal(err)
	}
	mysqldump := filepath.Join(filepath.Dir(exe), "mysqldump")
	for i, c := range []struct {
		server  *testdb.Server
		program string
		args    []string
	}{
		{maria, "mariadb-dump", []string{"--master-data=2"}},
		{maria, "mariadb-dump", []string{"--master-data=1"}},
		{maria, "mariadb-dump", []string{"--master-data=1", "--gtid"}},
		{my, mysqldump, []string{"--source-data=2"}},
		{my, mysqldump, []string{"--source-data=1"}},
		{my, mysqldump, []string{"--source-data=2", "--set-gtid-purged=OFF"}},
	} {
		src, tgt := c.server.NewDatabase(t, "dumped"), c.server.NewDatabase(t, "filled")
		t.Run(c.server.Engine+" "+strings.Join(c.args, " "), func(t *testing.T) {
			testdb.Query(t, src, "CREATE TABLE t (id int PRIMARY KEY AUTO_INCREMENT, v varchar(20)); INSERT INTO t (v) VALUES ('a'), ('b')")
			file := filepath.Join(t.TempDir(), "d.sql")
			cmd := exec.Command(c.program, append([]string{"--no-defaults", "--protocol=tcp", "--host=" + c.server.Host, fmt.Sprint("--port=", c.server.Port), "--user=" + c.server.User, "--single-transaction", "--result-file=" + file},
				append(c.args, schema(src))...)...)
			cmd.Env = append(os.Environ(), "MYSQL_PWD="+c.server.Password)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			testdb.Query(t, src, "INSERT INTO t (v) VALUES ('after the dump'); UPDATE t SET v = 'changed' WHERE id = 1; DELETE FROM t WHERE id = 2")
			plan, report := testdb.Must(t, "copy", "file:"+file, tgt, "--plan"), testdb.Must(t, "copy", "file:"+file, tgt)
			said := from.FindStringSubmatch(plan)
			if again := from.FindStringSubmatch(report); said == nil || again == nil || said[1] != again[1] {
				t.Fatalf("no --from, or two of them:\n%s\n%s", plan, report)
			}
			name := fmt.Sprintf("from_dump_%s_%d", c.server.Engine, i)
			testdb.Must(t, "replicate", src, tgt, "--name", name, "--from", said[1], "--until", "now")
			const ask = "SELECT * FROM t ORDER BY id"
			if a, b := testdb.Query(t, src, ask), testdb.Query(t, tgt, ask); a != b || !strings.Contains(b, "after the dump") {
				t.Errorf("the source has\n%s\nthe target\n%s", a, b)
			}
		})
	}
}
