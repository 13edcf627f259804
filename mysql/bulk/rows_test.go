package bulk

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/mysqltest"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// TestZooRoundTrip copies every table of the types zoo between two databases of
// a server and compares them by the server's own checksums.
func TestZooRoundTrip(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		from, to := srv.NewDatabase(t, "zoo"), srv.NewDatabase(t, "zoocopy")
		mysqltest.LoadZoo(t, srv, from)
		names := mysqltest.LikeTables(t, from, mysqltest.DatabaseOf(from), mysqltest.DatabaseOf(to))
		if len(names) < 23 {
			t.Fatalf("the zoo has only the tables %q", names)
		}
		src, dst := open(t, from, server.Options{}), open(t, to, server.Options{})
		if _, err := src.Freeze(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		if err := dst.Begin(t.Context(), "run1"); err != nil {
			t.Fatal(err)
		}
		for i, name := range names {
			m := mysqltest.MoveTo(mysqltest.TableFrom(t, from, name), mysqltest.DatabaseOf(to))
			r := &tidemark.Range{ID: i + 1}
			out, err := mysqltest.CopyRange(t.Context(), src, dst, i%2, tidemark.Read{Move: m, Range: r, Format: tidemark.LoadData},
				tidemark.Write{Run: "run1", Move: m, Range: r, Format: tidemark.LoadData})
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if err == nil && out.Rows > 0 && out.Method != "LOAD DATA" {
				t.Errorf("%s: written by %s", name, out.Method)
			}
		}
		mysqltest.SameTables(t, from, mysqltest.DatabaseOf(from), mysqltest.DatabaseOf(to))
		marks, err := dst.Marks(t.Context(), "run1")
		if err != nil || len(marks) != len(names) {
			t.Errorf("%d marks for %d tables: %v", len(marks), len(names), err)
		}
	})
}

// TestZooAsCopyText copies the zoo through COPY text, which all engines share. The zero date policy
// drops what that form cannot express.
func TestZooAsCopyText(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		from, to := srv.NewDatabase(t, "zoo"), srv.NewDatabase(t, "zoocopy")
		mysqltest.LoadZoo(t, srv, from)
		// Values without canonical text: invalid dates, and an ENUM without a member.
		testdb.Query(t, from, "SET sql_mode=''; DELETE FROM t_time WHERE id IN (1,2,5); DELETE FROM t_enum WHERE id=7")
		names := mysqltest.LikeTables(t, from, mysqltest.DatabaseOf(from), mysqltest.DatabaseOf(to))
		src, dst := open(t, from, server.Options{}), open(t, to, server.Options{})
		for _, name := range names {
			m := mysqltest.MoveTo(mysqltest.TableFrom(t, from, name), mysqltest.DatabaseOf(to))
			r := &tidemark.Range{}
			if _, err := mysqltest.CopyRange(t.Context(), src, dst, 0, tidemark.Read{Move: m, Range: r, Format: tidemark.CopyText},
				tidemark.Write{Move: m, Range: r, Format: tidemark.CopyText}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		mysqltest.SameTables(t, from, mysqltest.DatabaseOf(from), mysqltest.DatabaseOf(to))
	})
}

// TestZooByInsert copies the zoo into a server that refuses LOCAL.
func TestZooByInsert(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		from, to := srv.NewDatabase(t, "zoo"), srv.NewDatabase(t, "zoocopy")
		mysqltest.LoadZoo(t, srv, from)
		// INSERT in strict mode cannot write an ENUM without a member.
		testdb.Query(t, from, "DELETE FROM t_enum WHERE id=7")
		names := mysqltest.LikeTables(t, from, mysqltest.DatabaseOf(from), mysqltest.DatabaseOf(to))
		testdb.Query(t, from, "SET GLOBAL local_infile=0")
		t.Cleanup(func() { testdb.Query(t, srv.URL(""), "SET GLOBAL local_infile=1") })
		src, dst := open(t, from, server.Options{}), open(t, to, server.Options{})
		for _, name := range names {
			m := mysqltest.MoveTo(mysqltest.TableFrom(t, from, name), mysqltest.DatabaseOf(to))
			r := &tidemark.Range{}
			out, err := mysqltest.CopyRange(t.Context(), src, dst, 0, tidemark.Read{Move: m, Range: r, Format: tidemark.LoadData},
				tidemark.Write{Move: m, Range: r, Format: tidemark.LoadData})
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if err == nil && out.Rows > 0 && out.Method != "INSERT" {
				t.Errorf("%s: written by %s", name, out.Method)
			}
		}
		mysqltest.SameTables(t, from, mysqltest.DatabaseOf(from), mysqltest.DatabaseOf(to))
	})
}

// TestDoublesAreExact copies numbers of all sizes: each arrives as the same bits. And the reading
// session sends much at once.
func TestDoublesAreExact(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		from, to := srv.NewDatabase(t, "doubles"), srv.NewDatabase(t, "doublescopy")
		testdb.Query(t, from, `CREATE TABLE d (id int PRIMARY KEY, x double, y float, z double(12,3) unsigned zerofill);
INSERT INTO d VALUES (1,0,0,0), (2,-0e0,-0e0,NULL), (3,1/3e0,1/3e0,1/3), (4,1.7976931348623157e308,3.4028234e38,1), (5,-5e-324,1.4e-45,2), (6,2.2250738585072014e-308,1.17549435e-38,3),
  (7,9007199254740993,16777217,999999999), (8,123456789012345680,1e15,0.001), (9,NULL,NULL,0.5), (10,1e-5,1e-5,0.0001), (11,-999999999999999.9,0.1,12.5), (12,1e21,1e-6,100)`)
		var random strings.Builder
		for i := range 500 {
			if i > 0 {
				random.WriteByte(',')
			}
			fmt.Fprintf(&random, "(%d,(RAND()-0.5)*POW(10,RAND()*600-300),(RAND()-0.5)*POW(10,RAND()*70-35),RAND()*1e8)", 100+i)
		}
		testdb.Query(t, from, "INSERT INTO d VALUES "+random.String())
		mysqltest.LikeTables(t, from, mysqltest.DatabaseOf(from), mysqltest.DatabaseOf(to))
		src, dst := open(t, from, server.Options{}), open(t, to, server.Options{})
		m, r := mysqltest.MoveTo(mysqltest.TableFrom(t, from, "d"), mysqltest.DatabaseOf(to)), &tidemark.Range{}
		if _, err := mysqltest.CopyRange(t.Context(), src, dst, 0, tidemark.Read{Move: m, Range: r, Format: tidemark.LoadData}, tidemark.Write{Move: m, Range: r, Format: tidemark.LoadData}); err != nil {
			t.Fatal(err)
		}
		same := testdb.Query(t, from, "SELECT COUNT(*), SUM(a.x <=> b.x AND a.y <=> b.y AND a.z <=> b.z AND IFNULL(CONCAT(a.x+0), '') = IFNULL(CONCAT(b.x+0), '')) FROM d a JOIN "+mysqltest.DatabaseOf(to)+".d b USING (id)")
		if same != "512\t512" {
			t.Errorf("of the rows are the same: %s", same)
		}
		got, err := src.reads[0].Query(t.Context(), "SHOW SESSION STATUS LIKE 'Bytes_received'")
		if err != nil {
			t.Fatal(err)
		}
		if n, _ := got.GetInt(0, 1); n < sendAtOnce {
			t.Errorf("the server has received %d bytes, so its buffer is smaller than %d", n, sendAtOnce)
		}
	})
}
