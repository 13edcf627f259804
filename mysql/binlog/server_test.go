package binlog

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/client"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// connect opens a session on a database of a server.
func connect(t testing.TB, s *testdb.Server, db string) *client.Conn {
	t.Helper()
	c, err := client.Connect(fmt.Sprintf("%s:%d", s.Host, s.Port), s.User, s.Password, db)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// run executes statements, and returns the first error.
func run(c *client.Conn, statements ...string) error {
	for _, sql := range statements {
		if _, err := c.Execute(sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// session repeats the work of one session of the load n times.
func session(c *client.Conn, maria bool, n int) error {
	r := rand.New(rand.NewPCG(uint64(n), 7))
	loose := "m" // MySQL with GTIDs does not mix it with others
	if !maria {
		loose = "b"
	}
	for i := range 25 {
		key := n*1000 + i
		var sql []string
		switch r.IntN(9) {
		case 0: // one statement
			sql = []string{fmt.Sprintf("INSERT INTO a VALUES (%d, 'small')", key)}
		case 1: // several tables
			sql = []string{"BEGIN", fmt.Sprintf("INSERT INTO a VALUES (%d, 'two')", key), fmt.Sprintf("INSERT INTO b VALUES (%d, REPEAT('x', 300))", key), "COMMIT"}
		case 2: // many rows
			sql = []string{"BEGIN", fmt.Sprintf("INSERT INTO b SELECT %d + seq.n * 100000, REPEAT(MD5(seq.n), 20) FROM seq", key), fmt.Sprintf("UPDATE b SET v = CONCAT(v, 'y') WHERE id IN (%d, %d)", key, key+100000), "COMMIT"}
		case 3: // savepoints, also across a table without transactions
			sql = []string{"BEGIN", fmt.Sprintf("INSERT INTO a VALUES (%d, 'kept')", key), "SAVEPOINT s1", fmt.Sprintf("INSERT INTO %s VALUES (%d, 'stays')", loose, key+50), fmt.Sprintf("INSERT INTO b VALUES (%d, 'gone')", key), "ROLLBACK TO s1", "COMMIT"}
		case 4: // rolled back, except for a table without transactions
			sql = []string{"BEGIN", fmt.Sprintf("INSERT INTO a VALUES (%d, 'gone')", key), fmt.Sprintf("INSERT INTO %s VALUES (%d, 'stays')", loose, key+50), "ROLLBACK"}
		case 5: // DDL
			sql = []string{fmt.Sprintf("CREATE TABLE t%d (id int PRIMARY KEY) AS SELECT n AS id FROM seq LIMIT 3", key), fmt.Sprintf("ALTER TABLE t%d ADD c text", key), fmt.Sprintf("DROP TABLE t%d", key)}
		case 6: // XA
			id := fmt.Sprintf("'x%d','b%d',%d", key, i, 1+i%3)
			end := [][]string{{"XA PREPARE " + id, "XA COMMIT " + id}, {"XA PREPARE " + id, "XA ROLLBACK " + id}, {"XA COMMIT " + id + " ONE PHASE"}}[i%3]
			sql = append([]string{"XA START " + id, fmt.Sprintf("INSERT INTO a VALUES (%d, 'XA')", key), "XA END " + id}, end...)
		case 7: // statements instead of rows
			sql = []string{"SET SESSION binlog_format = STATEMENT", fmt.Sprintf("SET @v = %d", i), "INSERT INTO auto (v) VALUES (@v + RAND())",
				"BEGIN", fmt.Sprintf("DELETE FROM auto WHERE id = %d", i), fmt.Sprintf("INSERT INTO a VALUES (%d, 'statement')", key), "COMMIT", "SET SESSION binlog_format = ROW"}
		case 8: // nothing that tables without transactions support
			sql = []string{fmt.Sprintf("INSERT INTO m VALUES (%d, 'alone')", key)}
		}
		if !maria && r.IntN(3) == 0 {
			sql = append(append([]string{"SET SESSION binlog_transaction_compression = ON"}, sql...), "SET SESSION binlog_transaction_compression = OFF")
		}
		if err := run(c, sql...); err != nil {
			return err
		}
	}
	return nil
}

// load writes a log of three files and returns their paths.
func load(t *testing.T, s *testdb.Server) []string {
	t.Helper()
	maria := s.Engine == "mariadb"
	url := s.NewDatabase(t, "scan")
	db := url[strings.LastIndexByte(url, '/')+1:]
	admin := connect(t, s, db)
	must := func(sql ...string) {
		t.Helper()
		if err := run(admin, sql...); err != nil {
			t.Fatal(err)
		}
	}
	must("RESET MASTER", "CREATE TABLE a (id int PRIMARY KEY, v text)", "CREATE TABLE b (id int PRIMARY KEY, v text)", "CREATE TABLE m (id int PRIMARY KEY, v text) ENGINE=MyISAM",
		"CREATE TABLE auto (id int AUTO_INCREMENT PRIMARY KEY, v double)", "CREATE TABLE seq (n int PRIMARY KEY)", "CREATE TABLE big (id int PRIMARY KEY, v longblob)")
	for i := range 60 {
		must(fmt.Sprintf("INSERT INTO seq VALUES (%d)", i))
	}
	if maria { // so that there are groups, however slow the machine
		must("SET GLOBAL binlog_commit_wait_count = 3", "SET GLOBAL binlog_commit_wait_usec = 20000")
		t.Cleanup(func() {
			_ = run(admin, "SET GLOBAL binlog_commit_wait_count = 0", "SET GLOBAL log_bin_compress = OFF")
		})
	}
	round := func(first int) {
		t.Helper()
		var all sync.WaitGroup
		errs := make([]error, 6)
		for i := range errs {
			c := connect(t, s, db)
			all.Go(func() { errs[i] = session(c, maria, first+i) })
		}
		all.Wait()
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	round(0)
	must("FLUSH BINARY LOGS")
	if maria {
		must("SET GLOBAL log_bin_compress = ON")
	}
	must("INSERT INTO big VALUES (1, REPEAT(MD5(1), 100000))")
	round(10)
	if maria {
		must("SET GLOBAL log_bin_compress = OFF")
	} else {
		must("SET SESSION binlog_transaction_compression = ON", "INSERT INTO big SELECT n + 10, RANDOM_BYTES(1024) FROM seq", "SET SESSION binlog_transaction_compression = OFF")
	}
	must("INSERT INTO big VALUES (2, REPEAT(MD5(2), 100000))", "UPDATE big SET v = 'small' WHERE id = 2")
	must("FLUSH BINARY LOGS")
	round(20)
	must("FLUSH BINARY LOGS") // so that the compared files are closed
	var out []string
	for i := range 3 {
		out = append(out, filepath.Join(s.Dir, fmt.Sprintf("binlog.%06d", i+1)))
	}
	return out
}

// A printed event is an event as mysqlbinlog prints it.
type printed struct {
	at, end uint64
	text    string
}

var (
	atLine    = regexp.MustCompile(`^# at (\d+)$`)
	eventLine = regexp.MustCompile(`^#\d{6} +\d+:\d\d:\d\d server id \d+ +end_log_pos (\d+)\s*(?:CRC32 0x[0-9a-f]+)?\s*(.*)$`)
)

// print runs the server's own tool on a file.
func print(t *testing.T, tool, path string) []printed {
	t.Helper()
	b, err := exec.Command(tool, "--no-defaults", "--base64-output=DECODE-ROWS", path).Output()
	if err != nil {
		t.Fatal(tool, err)
	}
	// Lines "# at" and lines with end positions come in another order for events that belong
	// together; events in a compressed transaction have its position.
	begins := map[uint64]bool{}
	ends := map[uint64]string{}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSuffix(line, "\n")
		if m := atLine.FindStringSubmatch(line); m != nil {
			at, _ := strconv.ParseUint(m[1], 10, 64)
			begins[at] = true
		} else if m := eventLine.FindStringSubmatch(line); m != nil {
			end, _ := strconv.ParseUint(m[1], 10, 64)
			if _, ok := ends[end]; !ok {
				ends[end] = m[2]
			}
		}
	}
	var out []printed
	behind := slices.Sorted(maps.Keys(ends))
	for i, at := range slices.Sorted(maps.Keys(begins)) {
		if i < len(behind) {
			out = append(out, printed{at, behind[i], ends[behind[i]]})
		}
	}
	return out
}

// shown returns the events as the server lists them: position, type.
func shown(t *testing.T, c *client.Conn, file string) []string {
	t.Helper()
	r, err := c.Execute("SHOW BINLOG EVENTS IN '" + file + "'")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for i := range r.RowNumber() {
		at, _ := r.GetString(i, 1)
		kind, _ := r.GetString(i, 2)
		end, _ := r.GetString(i, 4)
		if at != end { // events in a compressed transaction have its position, and no size
			out = append(out, at+"-"+end+" "+kind)
		}
	}
	return out
}

func testServer(t *testing.T, s *testdb.Server, tool string) {
	begun := time.Now().Add(-time.Second).UnixMicro()
	paths := load(t, s)
	admin := connect(t, s, "")
	all, out := scan(t, Options{}, paths...)
	if out.Engine != s.Engine || out.System != strconv.Itoa(s.Port) || out.Files != 3 || out.End != "" || len(out.Findings) != 0 || !strings.HasPrefix(out.Version, s.Version[:4]) {
		t.Errorf("%+v", out)
	}
	if g := gaps(all); g != nil {
		t.Errorf("gaps: %q", g)
	}
	size := int64(0)
	for _, p := range paths {
		st, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		size += st.Size()
	}
	if out.Bytes != size {
		t.Errorf("%d bytes, and the files have %d", out.Bytes, size)
	}
	var lists [][]printed
	for i, p := range paths {
		want, list := shown(t, admin, filepath.Base(p)), print(t, tool, p)
		lists = append(lists, list)
		var got, positions, tools []string
		for _, r := range all {
			if r.Place>>32 == uint64(i+1) {
				at := fmt.Sprintf("%d-%d", uint32(r.Place), uint32(r.Place)+r.Size)
				positions = append(positions, at)
				got = append(got, at+" "+out.Classes[r.Class])
			}
		}
		for _, e := range list {
			tools = append(tools, fmt.Sprintf("%d-%d", e.at, e.end))
		}
		compare(t, "SHOW BINLOG EVENTS", got, want)
		compare(t, tool, positions, tools)
	}
	compareTransactions(t, s.Engine, all, lists)
	for _, r := range all {
		if r.Ended != tidemark.StillOpen && (r.Time < begun/1e6*1e6 || r.Time > time.Now().UnixMicro() || r.Begun > r.Time || r.Begun < begun/1e6*1e6) {
			t.Errorf("time %d, begun %d: not from %d on", r.Time, r.Begun, begun)
			break
		}
	}
	testShapes(t, s.Engine, all, out)
}

func compare(t *testing.T, what string, got, want []string) {
	t.Helper()
	if slices.Equal(got, want) {
		return
	}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Errorf("%s: %d events, not %d; the first that differs: %q, not %q", what, len(got), len(want), got[min(i, len(got)-1)], want[min(i, len(want)-1)])
			return
		}
	}
}

// A told is a transaction as a tool prints it.
type told struct {
	place    uint64
	size     int
	after    int64
	sequence int64
	time     int64
	group    string
}

var (
	mysqlGTID = regexp.MustCompile(`^(?:GTID|Anonymous_GTID)\tlast_committed=(\d+)\tsequence_number=(\d+)\t.*immediate_commit_timestamp=(\d+)\ttransaction_length=(\d+)`)
	mariaGTID = regexp.MustCompile(`^GTID \d+-\d+-\d+(?: cid=(\d+))?`)
)

// compareTransactions compares the scanned transactions with what the tool prints.
func compareTransactions(t *testing.T, engine string, all []tidemark.LogRecord, lists [][]printed) {
	t.Helper()
	var want []told
	for i, list := range lists {
		open := false
		for _, e := range list {
			place := uint64(i+1)<<32 | e.at
			if m := mysqlGTID.FindStringSubmatch(e.text); m != nil {
				x := told{place: place}
				x.after, _ = strconv.ParseInt(m[1], 10, 64)
				x.sequence, _ = strconv.ParseInt(m[2], 10, 64)
				x.time, _ = strconv.ParseInt(m[3], 10, 64)
				x.size, _ = strconv.Atoi(m[4])
				want = append(want, x)
			} else if m := mariaGTID.FindStringSubmatch(e.text); m != nil {
				want = append(want, told{place: place, group: m[1]})
				open = true
			} else if strings.HasPrefix(e.text, "Binlog checkpoint") || strings.HasPrefix(e.text, "Rotate to") {
				open = false
			}
			if open {
				want[len(want)-1].size += int(e.end - e.at)
			}
		}
	}
	var got []told
	at := map[uint64]int{}
	groups := map[string]uint64{}
	for _, r := range all {
		if r.Tx == 0 {
			continue
		}
		if _, ok := at[r.Tx]; !ok {
			at[r.Tx] = len(got)
			got = append(got, told{place: r.Place})
		}
		x := &got[at[r.Tx]]
		x.size += int(r.Size)
		if r.Ended == tidemark.StillOpen {
			continue
		}
		x.after, x.sequence = r.After, r.Sequence
		if engine == "mysql" {
			x.time = r.Time
		}
		if i := at[r.Tx]; i < len(want) {
			// The tool's ids correspond to the numbers of groups here.
			id := want[i].group
			if number, ok := groups[id]; ok && id != "" && number != r.Group || (id == "") != (r.Group == 0) {
				t.Errorf("group %d of the transaction at %x, and the tool says %q", r.Group, r.Place, id)
			}
			groups[id], x.group = r.Group, id
		}
	}
	numbers := map[uint64]string{}
	for id, number := range groups {
		if other, ok := numbers[number]; ok {
			t.Errorf("groups %s and %s have both the number %d", id, other, number)
		}
		numbers[number] = id
	}
	if len(got) != len(want) || len(got) < 300 {
		t.Errorf("%d transactions, not %d", len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("transaction %d: %+v, not %+v", i, got[i], want[i])
		}
	}
	if engine == "mariadb" && len(groups) < 10 {
		t.Errorf("only %d groups", len(groups))
	}
}

// testShapes checks that everything the load has done is there.
func testShapes(t *testing.T, engine string, all []tidemark.LogRecord, out tidemark.LogScan) {
	t.Helper()
	ends := map[tidemark.LogEnd]int{}
	open := map[uint64]bool{}
	shared, large, children := 0, 0, 0
	for _, r := range all {
		if r.Tx != 0 {
			open[r.Tx] = true
		}
		if r.Ended != tidemark.StillOpen {
			ends[r.Ended]++
			delete(open, r.Tx)
			children += len(r.Children)
		}
		if r.Size > 1<<20 {
			large++
		}
		if r.Shares != nil {
			shared++
			sum := uint32(0)
			for _, x := range r.Shares {
				sum += x.Size
			}
			if sum != r.Size {
				t.Errorf("shares %v of %d bytes", r.Shares, r.Size)
			}
		}
		if out.Classes[r.Class] == "" || strings.Contains(out.Classes[r.Class], "_rows") && r.Table == 0 && out.Classes[r.Class] != "Annotate_rows" {
			t.Errorf("%+v of class %q", r, out.Classes[r.Class])
		}
	}
	if len(open) != 0 || ends[tidemark.Committed] < 200 || ends[tidemark.RolledBack] < 3 || ends[tidemark.Prepared] < 5 || ends[tidemark.Prepared] != children || large < 2 {
		t.Errorf("open %d, ends %v, children %d, %d large", len(open), ends, children, large)
	}
	if engine == "mysql" && shared == 0 {
		t.Error("no compressed transaction has several tables")
	}
	for _, name := range []string{"a", "b", "m", "auto", "big"} {
		if name != "auto" && !slices.ContainsFunc(out.Tables, func(s string) bool { return strings.HasPrefix(s, "scan_") && strings.HasSuffix(s, "."+name) }) {
			t.Errorf("no table %s: %q", name, out.Tables)
		}
	}
}

// The scan of a log agrees with MySQL's own programs.
func TestMySQL(t *testing.T) {
	s := testdb.MySQL(t)
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", s.Pid))
	if err != nil {
		t.Fatal(err)
	}
	testServer(t, s, filepath.Join(filepath.Dir(exe), "mysqlbinlog"))
}

// The scan of a log agrees with MariaDB's own programs.
func TestMariaDB(t *testing.T) { testServer(t, testdb.MariaDB(t), "mariadb-binlog") }
