package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/internal/escape"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/mysqltest"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// A replica applies a stream to tables in memory: the dumb twin of a target. Values are as in COPY
// text.
type replica struct {
	t         *testing.T
	relations map[uint32]change.Relation
	rows      map[string]map[string][][]string // by table and key
	ddl       []string
	loose     bool // changes may affect rows from before the stream
}

func newReplica(t *testing.T) *replica {
	return &replica{t: t, relations: map[uint32]change.Relation{}, rows: map[string]map[string][][]string{}}
}

func wordsOf(t change.Tuple) []string {
	var out []string
	for _, v := range t.Values(nil) {
		switch v.Kind {
		case change.NullValue:
			out = append(out, `\N`)
		case change.UnchangedValue:
			out = append(out, "same")
		default:
			out = append(out, string(escape.Append(nil, v.Data, &escape.Copy)))
		}
	}
	return out
}

// take applies a transaction and describes it, one line for each change.
func (r *replica) take(tx *change.Tx) []string {
	r.t.Helper()
	var out []string
	rows := 0
	for rest := tx.Changes; len(rest) > 0; {
		var c change.Change
		var err error
		if c, rest, err = change.Next(rest); err != nil {
			r.t.Fatal(err)
		}
		line := string(c.Kind)
		switch c.Kind {
		case tidemark.RelationChange:
			rel, err := change.ParseRelation(c.Body)
			if err != nil {
				r.t.Fatal(err)
			}
			r.relations[rel.ID] = rel
			if r.rows[rel.Table.Name] == nil {
				r.rows[rel.Table.Name] = map[string][][]string{}
			}
			continue
		case tidemark.TruncateChange:
			x, err := change.ParseTruncation(c.Body)
			if err != nil {
				r.t.Fatal(err)
			}
			for _, id := range x.Tables {
				line += " " + r.relations[id].Table.Name
				clear(r.rows[r.relations[id].Table.Name])
			}
		case tidemark.MessageChange:
			m, err := change.ParseLogicalMessage(c.Body)
			if err != nil || m.Prefix != change.DDLPrefix || !m.Transactional || m.LSN != tx.Place {
				r.t.Fatalf("%+v %v", m, err)
			}
			var ddl change.DDL
			if err := json.Unmarshal(m.Data, &ddl); err != nil {
				r.t.Fatal(err)
			}
			for _, id := range ddl.Tables {
				line += " " + id.Name
			}
			line += ": " + ddl.SQL
			r.ddl = append(r.ddl, ddl.SQL)
		default:
			rows++
			line += " " + r.change(c)
		}
		out = append(out, line)
	}
	if rows != tx.Rows {
		r.t.Errorf("%d rows, and it says %d", rows, tx.Rows)
	}
	return out
}

func (r *replica) change(c change.Change) string {
	r.t.Helper()
	rel, ok := r.relations[c.Table]
	if !ok {
		r.t.Fatalf("a change of a table that was not described: %d", c.Table)
	}
	old, now := wordsOf(c.Old), wordsOf(c.New)
	line := rel.Table.Name
	if c.Old != nil {
		line += fmt.Sprintf(" old(key=%v)(%s)", c.OldKey, strings.Join(old, ","))
	}
	if c.New != nil {
		line += " new(" + strings.Join(now, ",") + ")"
	}
	key := func(row []string) string {
		var parts []string
		for i, c := range rel.Columns {
			if c.Key {
				parts = append(parts, row[i])
			}
		}
		return strings.Join(parts, "\t")
	}
	rows := r.rows[rel.Table.Name]
	was := now
	if c.Kind != tidemark.InsertChange {
		at := now
		if c.Old != nil {
			at = old
		}
		k := key(at)
		list := rows[k]
		switch {
		case len(list) > 0:
			was = list[len(list)-1]
			if rows[k] = list[:len(list)-1]; len(list) == 1 {
				delete(rows, k)
			}
		case !r.loose:
			r.t.Fatalf("%s: no such row %q", line, k)
		}
	}
	if c.New != nil {
		for i := range now {
			if now[i] == "same" {
				now[i] = was[i]
			}
		}
		rows[key(now)] = append(rows[key(now)], now)
	}
	return line
}

// lines returns a table's rows as COPY text, in order.
func (r *replica) lines(table string) []string {
	var out []string
	for _, list := range r.rows[table] {
		for _, row := range list {
			out = append(out, strings.Join(row, "\t"))
		}
	}
	slices.Sort(out)
	return out
}

// sameTables compares all tables with the row reader's output.
func (r *replica) sameTables(e *Engine) (n int) {
	r.t.Helper()
	db, err := e.Describe(r.t.Context(), nil)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, tab := range db.Tables {
		if tab.Form != tidemark.View {
			r.sameRows(e, mysqltest.MoveTo(tab, "x"))
			n++
		}
	}
	return n
}

func (r *replica) sameRows(e *Engine, m *tidemark.Move) {
	r.t.Helper()
	text := mysqltest.ReadAll(r.t, e, m, tidemark.CopyText)
	want := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if text == "" {
		want = nil
	}
	slices.Sort(want)
	if d := cmp.Diff(want, r.lines(m.From.Name)); d != "" {
		r.t.Errorf("table %s: %.3000s", m.From.Name, d)
	}
}

var errEnough = errors.New("enough")

func endOf(t *testing.T, e interface {
	End(context.Context) (uint64, error)
}) uint64 {
	t.Helper()
	place, err := e.End(t.Context())
	if err != nil || place>>32 == 0 || uint32(place) < 4 {
		t.Fatal(place, err)
	}
	return place
}

func stream(t *testing.T, e *Engine, after uint64) *Stream {
	t.Helper()
	s, err := e.Follow(t.Context(), t.Name(), after)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// follow returns everything in the log from a place to its end.
func follow(t *testing.T, e *Engine, after uint64) []*change.Tx {
	t.Helper()
	out, err := tryFollow(t, e, after)
	if err != nil {
		t.Fatal(err, tidemark.HintOf(err))
	}
	return out
}

func tryFollow(t *testing.T, e *Engine, after uint64) ([]*change.Tx, error) {
	t.Helper()
	return drain(t, stream(t, e, after), after)
}

// drain returns all that a stream emits from a place up to the end of the log.
func drain(t *testing.T, s *Stream, after uint64) ([]*change.Tx, error) {
	t.Helper()
	defer s.Close()
	until := endOf(t, s.e)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Minute, fmt.Errorf("the end %s of the log is not reached", server.PlaceText(until)))
	defer cancel()
	go func() {
		for s.Seen() < until && ctx.Err() == nil {
			time.Sleep(2 * time.Millisecond)
		}
		if ctx.Err() == nil {
			_ = s.s0.Conn.Close()
		}
	}()
	var out []*change.Tx
	err := s.Run(ctx, func(tx *change.Tx) error {
		if len(out) > 0 {
			last := out[len(out)-1]
			if !last.More && tx.Place <= last.End || last.More && (tx.Place != last.Place || tx.GTID != last.GTID) {
				t.Errorf("a transaction at %s after %s, %s", server.PlaceText(tx.Place), server.PlaceText(last.Place), server.PlaceText(last.End))
			}
		}
		if tx.More != (tx.End == 0) || !tx.More && tx.End <= tx.Place || tx.Place <= after && after != tx.Place || time.Since(tx.Time).Abs() > time.Hour {
			t.Errorf("%s to %s after %s, more %v, at %v", server.PlaceText(tx.Place), server.PlaceText(tx.End), server.PlaceText(after), tx.More, tx.Time)
		}
		out = append(out, tx)
		return nil
	})
	if s.Seen() >= until && tidemark.KindOf(err) == tidemark.Transient {
		err = nil
	}
	if err == nil && len(out) > 0 && time.Since(s.Heard()) > time.Minute {
		t.Errorf("heard at %v", s.Heard())
	}
	return out, err
}

// script runs statements in one session.
func script(t *testing.T, e *Engine, statements ...string) {
	t.Helper()
	s, err := e.NewSession(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, sql := range statements {
		if err := s.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

func tell(t *testing.T, txs []*change.Tx) [][]string {
	t.Helper()
	r := newReplica(t)
	r.loose = true
	var out [][]string
	for _, tx := range txs {
		out = append(out, r.take(tx))
	}
	return out
}

func wantTold(t *testing.T, txs []*change.Tx, want ...[]string) {
	t.Helper()
	if d := cmp.Diff(want, tell(t, txs)); d != "" {
		t.Error(d)
	}
}

// Each kind of change is emitted as it was made, transactions are whole and in commit order, and
// rolled-back changes are not emitted.
func TestFollow(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		url := srv.NewDatabase(t, "follow")
		other := srv.NewDatabase(t, "elsewhere")
		testdb.Query(t, url, "CREATE TABLE item (id int PRIMARY KEY, name varchar(20), body text); CREATE TABLE whole (a int, b varchar(9)); CREATE TABLE `to` (id int NOT NULL, UNIQUE (id)); INSERT INTO item VALUES (9,'before','')")
		testdb.Query(t, other, "CREATE TABLE item (id int PRIMARY KEY)")
		e := open(t, url, server.Options{})
		from := endOf(t, e)
		script(t, e, "INSERT INTO item VALUES (1,'one',NULL),(2,NULL,'')",
			"BEGIN", "UPDATE item SET name='uno' WHERE id=1", "SAVEPOINT a", "INSERT INTO item VALUES (3,'gone','')", "ROLLBACK TO a", "UPDATE item SET id=22 WHERE id=2", "DELETE FROM item WHERE id=9", "COMMIT",
			"BEGIN", "INSERT INTO item VALUES (4,'never','')", "ROLLBACK",
			"INSERT INTO whole VALUES (1,'a'),(1,'a')", "UPDATE whole SET b='b' LIMIT 1", "DELETE FROM whole",
			"INSERT INTO "+mysqltest.DatabaseOf(other)+".item VALUES (5)",
			"INSERT INTO `to` VALUES (7)", "UPDATE `to` SET id=8",
			"ALTER TABLE item ADD COLUMN extra int DEFAULT 7 AFTER id", "UPDATE item SET extra=8 WHERE id=1",
			"REPLACE INTO item VALUES (1,1,'again',NULL)",
			"TRUNCATE TABLE whole", "TRUNCATE "+mysqltest.DatabaseOf(url)+".item", "RENAME TABLE whole TO part, `to` TO fro", "CREATE INDEX x ON part (a)", "DROP TABLE part")
		generated := ""
		if srv.Engine == "mysql" || srv.Engine == "mariadb" {
			generated = " /* generated by server */"
		}
		txs := follow(t, e, from)
		wantTold(t, txs,
			[]string{`I item new(1,one,\N)`, `I item new(2,\N,)`},
			[]string{`U item new(1,uno,\N)`, `U item old(key=true)(2,\N,\N) new(22,\N,)`, `D item old(key=true)(9,\N,\N)`},
			[]string{`I whole new(1,a)`, `I whole new(1,a)`},
			[]string{`U whole old(key=false)(1,a) new(1,b)`},
			[]string{`D whole old(key=false)(1,b)`, `D whole old(key=false)(1,a)`},
			[]string{`I to new(7)`},
			[]string{`U to old(key=true)(7) new(8)`},
			[]string{`M item: ALTER TABLE item ADD COLUMN extra int DEFAULT 7 AFTER id`},
			[]string{`U item new(1,8,uno,\N)`},
			[]string{`U item new(1,1,again,\N)`},
			[]string{`T whole`}, []string{`T item`},
			[]string{"M whole part to fro: RENAME TABLE whole TO part, `to` TO fro"},
			[]string{`M part: CREATE INDEX x ON part (a)`},
			[]string{"M part: DROP TABLE `part`" + generated},
		)
		for i, tx := range txs {
			if tx.GTID == "" || tx.Origin != "" || i == 1 && tx.Rows != 3 {
				t.Errorf("transaction %d: %+v", i, tx)
			}
		}
		r := newReplica(t)
		r.loose = true
		for _, tx := range txs {
			r.take(tx)
		}
		var identities []string
		for _, rel := range r.relations {
			identities = append(identities, rel.Table.Name+" "+string(rel.Identity))
		}
		slices.Sort(identities)
		if got := strings.Join(identities, ", "); got != "item d, item d, to d, whole f" {
			t.Error(got)
		}
	})
}

// Every value of the zoo has the same text through the log as through the row reader.
func TestFollowTypes(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		url := srv.NewDatabase(t, "zoo")
		e := open(t, url, server.Options{ZeroDates: server.Null})
		from := endOf(t, e)
		mysqltest.LoadZoo(t, srv, url)
		script(t, e, moreTypes(srv)...)
		r := newReplica(t)
		for _, tx := range follow(t, e, from) {
			r.take(tx)
		}
		if n := r.sameTables(e); n < 25 {
			t.Fatalf("the zoo has only %d tables", n)
		}
		r.sameChunks(e)

		// And with invalid dates kept unchanged.
		e = open(t, url, server.Options{})
		r = newReplica(t)
		s := stream(t, e, from)
		s.KeepDates()
		txs, err := drain(t, s, from)
		if err != nil {
			t.Fatal(err)
		}
		for _, tx := range txs {
			r.take(tx)
		}
		r.sameChunks(e)
	})
}

// moreTypes returns statements for types that the zoo lacks.
func moreTypes(srv *testdb.Server) []string {
	charsets := []string{"armscii8", "big5", "cp1250", "cp1251", "cp1256", "cp1257", "cp850", "cp852", "cp866", "cp932", "dec8", "eucjpms", "euckr", "gb2312", "gbk", "geostd8",
		"greek", "hebrew", "hp8", "keybcs2", "koi8r", "koi8u", "latin1", "latin2", "latin5", "latin7", "macce", "macroman", "sjis", "swe7", "tis620", "ucs2", "ujis", "utf16", "utf16le", "utf32", "utf8mb3"}
	var columns, texts []string
	for _, c := range charsets {
		columns = append(columns, fmt.Sprintf("%s varchar(99) CHARACTER SET %s, e_%s enum('a','é日') CHARACTER SET %s", c, c, c, c))
		texts = append(texts, "'aé~ ß я λ š ą ת 日本 ア 한 中文 \\\\ | ¥ ֆ'", "2")
	}
	out := []string{
		"SET sql_mode=''",
		"CREATE TABLE sets (id int PRIMARY KEY, " + strings.Join(columns, ", ") + ")",
		"INSERT IGNORE INTO sets VALUES (1, " + strings.Join(texts, ", ") + ")",
		"CREATE TABLE numbers (id int AUTO_INCREMENT PRIMARY KEY, d double, f float, n decimal(38,9), s decimal(9,9), w decimal(20,0), t time(3), m datetime(2), o timestamp(4) NULL, b bit(13), y year, i mediumint)",
		"CREATE TABLE fixed (id int PRIMARY KEY, c char(3) CHARACTER SET utf16, b binary(3), l char(255) CHARACTER SET utf8mb4, v varbinary(300), x binary(255))",
		"INSERT INTO fixed VALUES (1,'a','a','é',REPEAT('v',300),'x'),(2,'日本語',x'000000',REPEAT('語',255),'',''),(3,'  ',x'612000','','','')",
		"CREATE TABLE large (id int PRIMARY KEY, b longblob, t longtext)", "INSERT INTO large VALUES (1, REPEAT(x'00ff',500000), REPEAT('日',400000))", "INSERT INTO large VALUES (2, REPEAT('x',9000000), REPEAT('y', 9000000))", "UPDATE large SET t='z'",
		"CREATE TABLE counted (id int PRIMARY KEY, a int, v int AS (a+1) VIRTUAL, s int AS (a+2) STORED, z int)", "INSERT INTO counted (id,a,z) VALUES (1,1,5)", "UPDATE counted SET z=6",
	}
	for i := range 200 {
		out = append(out, fmt.Sprintf("INSERT INTO numbers (d,f,n,s,w,t,m,o,b,y,i) SELECT (RAND(%d)-0.5)*POW(10,%d), (RAND(%d)-0.5)*POW(10,%d), (RAND()-0.5)*POW(10,%d), RAND()-0.5, (RAND()-0.5)*POW(10,%d), "+
			"SEC_TO_TIME((RAND()-0.5)*%d), FROM_UNIXTIME(RAND()*2000000000), FROM_UNIXTIME(RAND()*2000000000), RAND()*8000, 1901+RAND()*254, (RAND()-0.5)*16000000", i, i*3-300, i, i%76-38, i%39-9, i%21, 1<<(i%20)))
	}
	if srv.Engine == "mariadb" {
		out = append(out, "CREATE TABLE own (id int PRIMARY KEY, u uuid, i6 inet6, i4 inet4, p text COMPRESSED, q varchar(2000) COMPRESSED, r blob COMPRESSED, l varchar(2000) CHARACTER SET latin1 COMPRESSED)",
			"INSERT INTO own VALUES (0,NULL,NULL,NULL,NULL,NULL,NULL,NULL),(1,'123e4567-e89b-12d3-a456-426655440000','::','0.0.0.0','','','',''),(2,'00000000-0000-0000-0000-000000000000','::1','1.2.3.0',REPEAT('abc',1000),REPEAT('x',2000),REPEAT('y',3000),REPEAT('é',2000))")
		for i, a := range []string{"::ffff:1.2.3.4", "::1.2.3.4", "1::", "1:0:0:2::3", "1:0:2:0:3:0:4:0", "0:0:1::", "ff::1:0:0:1", "::ffff:0:0", "1:2:3:4:5:6:7:8", "0:1:2:3:4:5:6:7", "1:2:3:4:5:6:7:0", "::1:2"} {
			out = append(out, fmt.Sprintf("INSERT INTO own (id,i6,u,i4) VALUES (%d,'%s',UUID(),'10.0.0.%d')", 10+i, a, i))
		}
		for v := range 16 {
			for _, variant := range "07bcf" {
				out = append(out, fmt.Sprintf("INSERT INTO own (id,u) VALUES (%d,'01234567-89ab-%xcde-%c123-456789abcdef')", 100+16*int(variant)+v, v, variant))
			}
		}
		return append(out, "SET GLOBAL column_compression_zlib_wrap=ON", "INSERT INTO own (id,p) VALUES (9999,REPEAT('wrapped',500))", "SET GLOBAL column_compression_zlib_wrap=OFF")
	}
	out = append(out, "CREATE TABLE docs (id int AUTO_INCREMENT PRIMARY KEY, j json)",
		`INSERT INTO docs (j) VALUES ('{}'),('[]'),('"a\\u0001\\"\\\\\\b\\f\\n\\r\\t/é😀"'),('true'),('false'),('-32768'),('32767'),('65535'),('-32769'),('65536'),('2147483647'),('-2147483648'),('4294967295'),('9223372036854775807'),('-9223372036854775808'),('18446744073709551615'),('18446744073709551616'),('1.0'),('-0.0'),('1e100'),('[1,[2,[3,{"a":{"b":[null]}}]]]')`,
		`INSERT INTO docs (j) VALUES (CAST(1.50 AS JSON)),(JSON_OBJECT('d',CAST(-12345.678900 AS DECIMAL(20,6)),'t',CAST('12:34:56.789' AS TIME(3)),'n',CAST('-112:34:56' AS TIME),'dt',CAST('2024-02-29 01:02:03.4' AS DATETIME(1)),'da',CAST('2024-02-29' AS DATE))),(JSON_ARRAY(x'00ff', b'101', CAST('x' AS BINARY(60)))),(JSON_ARRAY(ST_GeomFromText('POINT(1 2)'))),(JSON_QUOTE('quo"ted'))`,
		`INSERT INTO docs (j) VALUES (JSON_OBJECT('long', REPEAT('x',70000), 'n', 100000, 'm', -3, 'a', JSON_ARRAY(1,2,70000))),(JSON_ARRAY(REPEAT('y',127),REPEAT('y',128),REPEAT('z',20000)))`)
	for i := range 150 {
		out = append(out, fmt.Sprintf("INSERT INTO docs (j) VALUES (JSON_ARRAY((RAND(%d)-0.5)*POW(10,%d), ROUND(RAND()*1000,%d), RAND()*1e%d))", i, i*4-300, i%10, i%30))
	}
	return out
}

// A stream that begins at the place of a transaction begins with it, and one that begins at its end
// begins with the next one; both continue like the first.
func TestFollowFromAnyPlace(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		url := srv.NewDatabase(t, "places")
		e := open(t, url, server.Options{})
		from := endOf(t, e)
		script(t, e, "CREATE TABLE item (id int PRIMARY KEY, name varchar(20))", "INSERT INTO item VALUES (1,'a')", "BEGIN", "INSERT INTO item VALUES (2,'b')", "UPDATE item SET name='c'", "COMMIT",
			"FLUSH BINARY LOGS", "DELETE FROM item WHERE id=1", "TRUNCATE item", "INSERT INTO item VALUES (3,'z')", "FLUSH BINARY LOGS", "FLUSH BINARY LOGS", "ALTER TABLE item ADD COLUMN n int", "INSERT INTO item VALUES (4,'y',5)")
		all := follow(t, e, from)
		told := tell(t, all)
		if len(told) != 8 {
			t.Fatalf("%q", told)
		}
		if all[0].Place>>32+3 != all[7].Place>>32 {
			t.Errorf("from %s to %s", server.PlaceText(all[0].Place), server.PlaceText(all[7].Place))
		}
		for i, tx := range all {
			for j, at := range []uint64{tx.Place, tx.End} {
				rest := follow(t, e, at)
				if d := cmp.Diff(told[i+j:], tell(t, rest), cmp.Transformer("none", func(s [][]string) []any {
					var out []any
					for _, x := range s {
						out = append(out, x)
					}
					return out
				})); d != "" {
					t.Errorf("from %s: %s", server.PlaceText(at), d)
				}
				for k, x := range rest {
					if y := all[i+j+k]; x.Place != y.Place || x.End != y.End || x.GTID != y.GTID && (j != 0 || k != 0) {
						t.Errorf("from %s: %+v, not %+v", server.PlaceText(at), x, y)
					}
				}
			}
		}
	})
}

// A transaction larger than a piece is emitted whole, in several pieces.
func TestFollowLargeTransaction(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		url := srv.NewDatabase(t, "large")
		e := open(t, url, server.Options{})
		script(t, e, "CREATE TABLE item (id int PRIMARY KEY, name varchar(200))", "CREATE TABLE digit (d int)", "INSERT INTO digit VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9)")
		fill := "INSERT INTO item SELECT a.d+10*b.d+100*c.d+1000*d.d+10000*e.d, REPEAT('y',200) FROM digit a, digit b, digit c, digit d, digit e"
		from := endOf(t, e)
		script(t, e, fill)
		check := func(how string, txs []*change.Tx) {
			t.Helper()
			rows := 0
			for i, tx := range txs {
				if len(tx.Changes) > tidemark.PieceSize+10_000 || tx.More != (i < len(txs)-1) {
					t.Errorf("%s: piece %d of %d bytes, more %v", how, i, len(tx.Changes), tx.More)
				}
				rows += tx.Rows
			}
			if rows != 100_000 || len(txs) < 5 {
				t.Errorf("%s: %d rows in %d pieces", how, rows, len(txs))
			}
		}
		check("plain", follow(t, e, from))
		if srv.Engine == "mariadb" {
			script(t, e, "SET GLOBAL log_bin_compress=ON")
			defer script(t, e, "SET GLOBAL log_bin_compress=OFF")
		}
		script(t, e, "TRUNCATE item")
		from = endOf(t, e)
		if srv.Engine == "mysql" {
			// Random text, so that the compressed transaction is larger than the buffer.
			script(t, e, "SET binlog_transaction_compression=ON", strings.Replace(fill, "REPEAT('y',200)", "CONCAT(SHA2(RAND(),512),REPEAT('y',72))", 1))
		} else {
			script(t, e, fill)
		}
		check("compressed", follow(t, e, from))
	})
}

// Compressed events, however a server compresses them, hold the same.
func TestFollowCompressed(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		url := srv.NewDatabase(t, "packed")
		e := open(t, url, server.Options{})
		set := "SET binlog_transaction_compression=ON"
		if srv.Engine == "mariadb" {
			set = "SET GLOBAL log_bin_compress=ON"
			defer script(t, e, "SET GLOBAL log_bin_compress=OFF")
		}
		script(t, e, "CREATE TABLE item (id int PRIMARY KEY, name varchar(999))", set)
		from := endOf(t, e)
		size := int64(from & 0xffffffff)
		script(t, e, set, "INSERT INTO item VALUES (1,REPEAT('a',900)),(2,'b')", "BEGIN", "UPDATE item SET name=REPEAT('c',800)", "DELETE FROM item WHERE id=2", "COMMIT",
			"ALTER TABLE item COMMENT '"+strings.Repeat("x", 900)+"'", "INSERT INTO item VALUES (3,'d')")
		if grown := int64(endOf(t, e)&0xffffffff) - size; grown > 3000 {
			t.Fatalf("nothing was compressed: %d bytes", grown)
		}
		a, c := strings.Repeat("a", 900), strings.Repeat("c", 800)
		txs := follow(t, e, from)
		wantTold(t, txs, []string{"I item new(1," + a + ")", "I item new(2,b)"},
			[]string{"U item new(1," + c + ")", "U item new(2," + c + ")", `D item old(key=true)(2,\N)`},
			[]string{"M item: ALTER TABLE item COMMENT '" + strings.Repeat("x", 900) + "'"}, []string{"I item new(3,d)"})
		if got := follow(t, e, txs[1].Place); len(got) != 3 || got[0].Place != txs[1].Place {
			t.Errorf("from a compressed transaction on: %q", tell(t, got))
		}
	})
}

// Rows whose images lack columns are completed as far as possible.
func TestFollowMinimalImage(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		for _, image := range []string{"MINIMAL", "NOBLOB"} {
			url := srv.NewDatabase(t, "minimal")
			e := open(t, url, server.Options{})
			script(t, e, "CREATE TABLE item (id int AUTO_INCREMENT PRIMARY KEY, n int DEFAULT 5, v varchar(9), b blob, w datetime DEFAULT CURRENT_TIMESTAMP, x varchar(3) NOT NULL DEFAULT 'x', u varchar(36) DEFAULT (CONCAT('a','b')))",
				"CREATE TABLE bare (a int, b text)", "CREATE TABLE multi (a int, b int, c text, PRIMARY KEY (b,a))", "CREATE TABLE plain (a int DEFAULT 5, b int, c varchar(9) DEFAULT 'c')")
			from := endOf(t, e)
			script(t, e, "SET binlog_row_image="+image, "INSERT INTO item (v) VALUES ('one')", "INSERT INTO item (id,b) VALUES (7,'blob')", "UPDATE item SET v='two' WHERE id=7", "UPDATE item SET b='changed', id=8 WHERE id=7",
				"INSERT INTO bare VALUES (1,'a'),(1,'b')", "UPDATE bare SET a=2 WHERE b='b'", "DELETE FROM bare WHERE a=1",
				"INSERT INTO multi VALUES (1,2,'c'),(3,4,'d')", "UPDATE multi SET c='e'", "UPDATE multi SET a=9 WHERE b=2", "DELETE FROM multi WHERE b=4", "DELETE FROM item WHERE id=1",
				"INSERT INTO plain (b) VALUES (3),(4)", "UPDATE plain SET c='x' WHERE b=3", "DELETE FROM plain WHERE c='x'")
			r := newReplica(t)
			for _, tx := range follow(t, e, from) {
				r.take(tx)
			}
			r.sameTables(e)
		}
	})
}

// If the log has no names, a history that knows the table supplies them; a table that was altered
// since stops the stream.
func TestFollowWithoutNames(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		url := srv.NewDatabase(t, "nameless")
		e := open(t, url, server.Options{ZeroDates: server.Null})
		less := "MINIMAL"
		if srv.Engine == "mariadb" {
			less = "NO_LOG"
		}
		script(t, e, "SET GLOBAL binlog_row_metadata="+less)
		defer script(t, e, "SET GLOBAL binlog_row_metadata=FULL")
		from := endOf(t, e)
		mysqltest.LoadZoo(t, srv, url)
		r := newReplica(t)
		for _, tx := range follow(t, e, from) {
			r.take(tx)
		}
		r.sameTables(e)
	})
}

func TestFollowAlteredWithoutNames(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		url := srv.NewDatabase(t, "altered")
		e := open(t, url, server.Options{})
		less := "MINIMAL"
		if srv.Engine == "mariadb" {
			less = "NO_LOG"
		}
		script(t, e, "SET GLOBAL binlog_row_metadata="+less)
		defer script(t, e, "SET GLOBAL binlog_row_metadata=FULL")
		for alter, want := range map[string]string{
			"ADD COLUMN d int":                "altered after the changes that are read now, and the log has no names of its columns: by ALTER TABLE item ADD COLUMN d int",
			"MODIFY b bigint":                 "by ALTER TABLE item MODIFY",
			"DROP COLUMN c, ADD d varchar(9)": "by ALTER TABLE item DROP",
			"CHANGE b z int":                  "by ALTER TABLE item CHANGE",
			"ADD INDEX (b)":                   "",
			"COMMENT 'x'":                     "",
		} {
			script(t, e, "DROP TABLE IF EXISTS item", "CREATE TABLE item (a int PRIMARY KEY, b int, c varchar(9))")
			from := endOf(t, e)
			script(t, e, "INSERT INTO item VALUES (1,2,'c')", "ALTER TABLE item "+alter)
			_, err := tryFollow(t, e, from)
			switch {
			case want == "" && err != nil:
				t.Errorf("%s: %v", alter, err)
			case want != "" && (tidemark.KindOf(err) != tidemark.Lost || !strings.Contains(fmt.Sprint(err), want) || !strings.Contains(tidemark.HintOf(err), "binlog_row_metadata = FULL")):
				t.Errorf("%s: %v (%s)", alter, err, tidemark.HintOf(err))
			}
		}
		// With names it continues, whatever happened to the table.
		script(t, e, "SET GLOBAL binlog_row_metadata=FULL", "DROP TABLE IF EXISTS item", "CREATE TABLE item (a int PRIMARY KEY, b int unsigned, c varchar(9) CHARACTER SET latin1, d enum('x','é'))")
		from := endOf(t, e)
		script(t, e, "INSERT INTO item VALUES (1,4294967295,'é','é')", "ALTER TABLE item CHANGE b z bigint, DROP COLUMN d", "INSERT INTO item VALUES (2,3,'c')", "DROP TABLE item")
		got := tell(t, follow(t, e, from))
		if fmt.Sprint(got[0], got[2]) != "[I item new(1,4294967295,é,é)] [I item new(2,3,c)]" {
			t.Errorf("%q", got)
		}
	})
}

// Transactions of our own apply are marked; its tables are not in the stream.
func TestFollowMarksOwn(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		url := srv.NewDatabase(t, "own")
		e := open(t, url, server.Options{})
		script(t, e, "CREATE TABLE item (id int PRIMARY KEY)")
		from := endOf(t, e)
		script(t, e, "CREATE TABLE tidemark_applied (a int)", "CREATE TABLE tidemark_copied (a int)", "INSERT INTO tidemark_copied VALUES (1)", "INSERT INTO tidemark_applied VALUES (1)",
			"BEGIN", "INSERT INTO item VALUES (1)", "UPDATE tidemark_applied SET a=2", "COMMIT", "INSERT INTO item VALUES (2)", "TRUNCATE tidemark_copied", "BEGIN", "INSERT INTO tidemark_copied VALUES (1)", "INSERT INTO item VALUES (3)", "COMMIT")
		txs := follow(t, e, from)
		wantTold(t, txs, []string{"I item new(1)"}, []string{"I item new(2)"}, []string{"I item new(3)"})
		if txs[0].Origin != "tidemark" || txs[1].Origin != "" || txs[2].Origin != "" {
			t.Errorf("%q %q %q", txs[0].Origin, txs[1].Origin, txs[2].Origin)
		}
	})
}

// A stream without a database covers all of them except the server's own; one with selected tables
// leaves out the others. Sequences and temporary tables do not count as tables.
func TestFollowOnly(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		url, other := srv.NewDatabase(t, "one"), srv.NewDatabase(t, "two")
		e := open(t, srv.URL(""), server.Options{})
		from := endOf(t, e)
		own := open(t, url, server.Options{})
		script(t, own, "CREATE TABLE item (id int PRIMARY KEY)", "CREATE TABLE "+mysqltest.DatabaseOf(other)+".item (id int PRIMARY KEY)", "INSERT INTO item VALUES (1)", "INSERT INTO "+mysqltest.DatabaseOf(other)+".item VALUES (2)",
			"CREATE TABLE third (id int PRIMARY KEY)", "INSERT INTO third VALUES (3)", "CREATE TEMPORARY TABLE tmp (id int)", "INSERT INTO tmp VALUES (1)", "CREATE USER 'nobody_"+mysqltest.DatabaseOf(url)+"'@'localhost'", "DROP USER 'nobody_"+mysqltest.DatabaseOf(url)+"'@'localhost'")
		if srv.Engine == "mariadb" {
			script(t, own, "CREATE SEQUENCE seq", "SELECT NEXTVAL(seq)", "DROP SEQUENCE seq")
		}
		create := func(table string) []string {
			return []string{"M " + table + ": CREATE TABLE " + table + " (id int PRIMARY KEY)"}
		}
		elsewhere := []string{"M item: CREATE TABLE " + mysqltest.DatabaseOf(other) + ".item (id int PRIMARY KEY)"}
		wantTold(t, follow(t, e, from), create("item"), elsewhere, []string{"I item new(1)"}, []string{"I item new(2)"}, create("third"), []string{"I third new(3)"})
		s := stream(t, e, from)
		s.Only(func(id tidemark.TableID) bool { return id.Name == "item" && id.Schema == mysqltest.DatabaseOf(other) })
		var got []*change.Tx
		if err := s.Run(t.Context(), func(tx *change.Tx) error {
			if got = append(got, tx); len(got) == 2 {
				return errEnough
			}
			return nil
		}); err != errEnough {
			t.Fatal(err)
		}
		wantTold(t, got, elsewhere, []string{"I item new(2)"})
	})
}

// For system-versioned tables the current rows are emitted, as they are copied.
func TestFollowVersioned(t *testing.T) {
	srv := testdb.MariaDB(t)
	url := srv.NewDatabase(t, "versioned")
	e := open(t, url, server.Options{})
	defer script(t, e, "SET GLOBAL binlog_row_metadata=FULL")
	for _, names := range []string{"FULL", "NO_LOG"} {
		script(t, e, "SET GLOBAL binlog_row_metadata="+names, "DROP TABLE IF EXISTS own, given")
		from := endOf(t, e)
		script(t, e, "CREATE TABLE own (id int PRIMARY KEY, name varchar(9)) WITH SYSTEM VERSIONING",
			"CREATE TABLE given (id int, s timestamp(6) GENERATED ALWAYS AS ROW START, n int, f timestamp(6) GENERATED ALWAYS AS ROW END, PERIOD FOR SYSTEM_TIME(s,f)) WITH SYSTEM VERSIONING")
		for _, name := range []string{"own", "given"} {
			script(t, e, "INSERT INTO "+name+" (id) VALUES (1),(2),(3)", "UPDATE "+name+" SET id=5 WHERE id=1", "DELETE FROM "+name+" WHERE id=2", "DELETE HISTORY FROM "+name)
		}
		script(t, e, "UPDATE own SET name='x' WHERE id=3", "UPDATE given SET n=4")
		r := newReplica(t)
		for _, tx := range follow(t, e, from) {
			r.take(tx)
		}
		if n := r.sameTables(e); n != 2 {
			t.Errorf("%d tables", n)
		}
	}
}

// A file without checksums works, also between others; one that does not match its checksums fails.
// A server that has nothing to send is still heard.
func TestFollowChecksums(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		url := srv.NewDatabase(t, "sums")
		e := open(t, url, server.Options{})
		script(t, e, "CREATE TABLE item (id int PRIMARY KEY)")
		from := endOf(t, e)
		script(t, e, "INSERT INTO item VALUES (1)", "SET GLOBAL binlog_checksum=NONE", "INSERT INTO item VALUES (2)")
		middle := endOf(t, e)
		script(t, e, "INSERT INTO item VALUES (3)")
		wantTold(t, follow(t, e, from), []string{"I item new(1)"}, []string{"I item new(2)"}, []string{"I item new(3)"})
		wantTold(t, follow(t, e, middle), []string{"I item new(3)"})
		script(t, e, "SET GLOBAL binlog_checksum=CRC32", "INSERT INTO item VALUES (4)")
		wantTold(t, follow(t, e, middle), []string{"I item new(3)"}, []string{"I item new(4)"})

		s := e.newStream("", "", endOf(t, e))
		s.sums = true
		xid := append(make([]byte, eventHeader), "12345678abcd"...)
		xid[4], xid[9] = eventXID, byte(len(xid))
		if err := s.event(t.Context(), xid); tidemark.KindOf(err) != tidemark.Corrupt {
			t.Error(err)
		}
		xid[4], s.sums = 99, false
		if err := s.event(t.Context(), xid); tidemark.KindOf(err) != tidemark.Unsupported {
			t.Error(err)
		}
		xid[17] = flagIgnorable
		if err := s.event(t.Context(), xid); err != nil {
			t.Error(err)
		}
		s = stream(t, e, endOf(t, e))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		start := time.Now()
		go func() {
			for ctx.Err() == nil && s.Heard().Sub(start) < time.Second {
				time.Sleep(20 * time.Millisecond)
			}
			cancel()
		}()
		if err := s.Run(ctx, nil); tidemark.KindOf(err) != tidemark.Cancelled || s.Heard().Sub(start) < time.Second {
			t.Errorf("heard %v after the beginning: %v", s.Heard().Sub(start), err)
		}
	})
}

// Prepared transactions are emitted when they are committed, wherever a stream begins.
func TestFollowXA(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		url := srv.NewDatabase(t, "xa")
		e := open(t, url, server.Options{})
		script(t, e, "CREATE TABLE item (id int PRIMARY KEY, name varchar(9))")
		from := endOf(t, e)
		script(t, e, "XA START 'one'", "INSERT INTO item VALUES (1,'x')", "XA END 'one'", "XA PREPARE 'one'")
		script(t, e, "XA START 'two','b',7", "INSERT INTO item VALUES (2,'never')", "XA END 'two','b',7", "XA PREPARE 'two','b',7")
		script(t, e, "INSERT INTO item VALUES (3,'between')", "FLUSH BINARY LOGS")
		middle := endOf(t, e)
		for _, sql := range []string{"XA COMMIT 'one'", "XA ROLLBACK 'two','b',7"} {
			// MariaDB lists them by name once it has ended the sessions that prepared them.
			testdb.Within(t, sql, func() bool {
				if testdb.Query(t, url, "XA RECOVER") == "" {
					return true
				}
				_, err := testdb.TryQuery(url, sql)
				return err == nil
			})
		}
		script(t, e, "XA START 'three'", "INSERT INTO item VALUES (4,'once')", "XA END 'three'", "XA COMMIT 'three' ONE PHASE")
		wantTold(t, follow(t, e, from), []string{"I item new(3,between)"}, []string{"I item new(1,x)"}, []string{"I item new(4,once)"})
		wantTold(t, follow(t, e, middle), []string{"I item new(1,x)"}, []string{"I item new(4,once)"})
	})
}

// Statements that write rows, and those whose rows are logged elsewhere.
func TestFollowStatements(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		url := srv.NewDatabase(t, "statements")
		e := open(t, url, server.Options{})
		from := endOf(t, e)
		script(t, e, "CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (1),(2)", "CREATE TABLE b AS SELECT id+10 AS id FROM a", "CREATE TEMPORARY TABLE tmp (id int)", "INSERT INTO tmp VALUES (1)",
			"CREATE TABLE c LIKE a", "UPDATE a, b SET a.id=a.id+100, b.id=b.id+100 WHERE a.id=1", "DROP TEMPORARY TABLE tmp", "CREATE VIEW v AS SELECT 1", "CREATE TABLE m (id int) ENGINE=MyISAM", "INSERT INTO m VALUES (1)")
		if srv.Engine == "mariadb" { // MySQL with GTIDs refuses it
			script(t, e, "BEGIN", "INSERT INTO a VALUES (7)", "SAVEPOINT s", "INSERT INTO a VALUES (8)", "INSERT INTO m VALUES (2)", "ROLLBACK TO s", "COMMIT",
				"BEGIN", "INSERT INTO a VALUES (9)", "INSERT INTO m VALUES (3)", "ROLLBACK")
		}
		r := newReplica(t)
		for _, tx := range follow(t, e, from) {
			r.take(tx)
		}
		r.sameTables(e)
		if n := len(r.ddl); n != 4 {
			t.Errorf("%q", r.ddl)
		}
		from = endOf(t, e)
		script(t, e, "SET binlog_format=STATEMENT", "INSERT INTO m VALUES (5)")
		for _, tx := range follow(t, e, from) {
			r.take(tx)
		}
		if last := fmt.Sprintf("%+v", r.ddl[len(r.ddl)-1]); len(r.ddl) != 5 || !strings.Contains(last, "INSERT INTO m VALUES (5)") {
			t.Errorf("%s", last)
		}
	})
}

// Errors are one sentence each, with what to do.
func TestFollowGoesWrong(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		url := srv.NewDatabase(t, "wrong")
		e := open(t, url, server.Options{})
		wrong := func(err error, kind tidemark.Kind, part string) {
			t.Helper()
			if tidemark.KindOf(err) != kind || !strings.Contains(fmt.Sprint(err), part) || tidemark.HintOf(err) == "" {
				t.Errorf("%v: %v (%s)", tidemark.KindOf(err), err, tidemark.HintOf(err))
			}
		}
		script(t, e, "CREATE TABLE item (id int PRIMARY KEY, d date)")
		from := endOf(t, e)
		script(t, e, "INSERT INTO item VALUES (1,NULL)", "INSERT INTO item VALUES (2,'2024-01-01')")
		txs := follow(t, e, from)

		_, err := tryFollow(t, e, txs[0].Place+20)
		if err == nil {
			t.Error("a place within an event")
		}
		wrong(err, tidemark.KindOf(err), "")
		_, err = e.Follow(t.Context(), "x", from|0xfffffff0)
		wrong(err, tidemark.Lost, "ends before position")
		_, err = e.Follow(t.Context(), "x", from+5<<32)
		wrong(err, tidemark.Lost, "no longer has file")

		// A session is killed on the server, while another one of that name may not begin.
		s := stream(t, e, from)
		got := make(chan *change.Tx, 9)
		ended := make(chan error)
		go func() { ended <- s.Run(t.Context(), func(tx *change.Tx) error { got <- tx; return nil }) }()
		testdb.From(t, "a transaction", got)
		_, err = e.Follow(t.Context(), t.Name(), from)
		wrong(err, tidemark.Transient, "another process follows")
		testdb.Query(t, url, fmt.Sprint("KILL ", s.s0.ID))
		if err := testdb.From(t, "the end of the killed stream", ended); tidemark.KindOf(err) != tidemark.Transient {
			t.Errorf("killed: %v", err)
		}
		s.Close()
		s = stream(t, e, from)
		if err := s.Run(t.Context(), func(*change.Tx) error { return errEnough }); err != errEnough {
			t.Error(err)
		}
		s.Close()
		ctx, cancel := context.WithCancel(t.Context())
		s = stream(t, e, from)
		if err := s.Run(ctx, func(*change.Tx) error { cancel(); return nil }); tidemark.KindOf(err) != tidemark.Cancelled {
			t.Error(err)
		}
		s.Close()

		script(t, e, "SET sql_mode=''", "INSERT INTO item VALUES (3,'0000-00-00')")
		s = stream(t, e, from) // the target refuses it, or not
		r := newReplica(t)
		if err := s.Run(t.Context(), func(tx *change.Tx) error {
			if got := r.take(tx); strings.Contains(got[0], "I item new(3,0000-00-00)") {
				return errEnough
			}
			return nil
		}); err != errEnough {
			t.Error(err)
		}
		s.Close()

		script(t, e, "FLUSH BINARY LOGS", "FLUSH BINARY LOGS", "INSERT INTO item VALUES (4,NULL)")
		files, err := e.Binlogs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for try := 0; ; try++ { // a killed session may still read it
			testdb.Query(t, url, "PURGE BINARY LOGS TO '"+files[len(files)-1].Name+"'")
			left, _ := e.Binlogs(t.Context())
			if len(left) == 1 || try == 1000 {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		_, err = e.Follow(t.Context(), "x", from)
		wrong(err, tidemark.Lost, "of its log; the oldest is "+files[len(files)-1].Name)
	})
}

// Hold and Preflight report what is missing, and the SQL that helps.
func TestHoldLooksAtTheServer(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		url := srv.NewDatabase(t, "hold")
		db := mysqltest.DatabaseOf(url)
		e := open(t, url, server.Options{})
		if err := e.Hold(t.Context(), "s", nil); err != nil {
			t.Error(err)
		}
		if err := e.DropHold(t.Context(), "s"); err != nil {
			t.Error(err)
		}
		user := "'follower_" + db + "'@'127.0.0.1'"
		script(t, e, "CREATE USER "+user+" IDENTIFIED BY 'x'", "GRANT SELECT ON "+db+".* TO "+user)
		defer script(t, e, "DROP USER "+user)
		state := map[string]string{"mysql": "REPLICATION CLIENT", "mariadb": "BINLOG MONITOR"}[srv.Engine]
		weak := open(t, fmt.Sprintf("%s://follower_%s:x@127.0.0.1:%d/%s", srv.Engine, db, srv.Port, db), server.Options{})
		hold := func(e *Engine) ([]tidemark.Need, error) {
			needs, err := e.SourceNeeds(t.Context(), "s", &tidemark.Database{})
			if err == nil {
				err = tidemark.FirstUnmet("follow", needs)
			}
			return slices.DeleteFunc(needs, func(n tidemark.Need) bool { return n.Met }), err
		}
		_, err := hold(weak)
		if tidemark.KindOf(err) != tidemark.Forbidden || tidemark.HintOf(err) != "GRANT REPLICATION SLAVE, "+state+" ON *.* TO "+user+";" {
			t.Errorf("%v (%s)", err, tidemark.HintOf(err))
		}
		if _, err := weak.Follow(t.Context(), "s", 0); tidemark.KindOf(err) != tidemark.Forbidden {
			t.Error(err)
		}
		script(t, e, "GRANT REPLICATION SLAVE, "+state+" ON *.* TO "+user)
		weak = open(t, fmt.Sprintf("%s://follower_%s:x@127.0.0.1:%d/%s", srv.Engine, db, srv.Port, db), server.Options{})
		if _, err := hold(weak); err != nil {
			t.Error(err)
		}
		from := endOf(t, weak)
		script(t, e, "CREATE TABLE item (id int PRIMARY KEY)", "INSERT INTO item VALUES (1)")
		if got := tell(t, follow(t, weak, from)); len(got) != 2 {
			t.Errorf("%q", got)
		}
		for set, back := range map[string]string{
			"binlog_format='MIXED'":          "binlog_format='ROW'",
			"binlog_row_image='MINIMAL'":     "binlog_row_image='FULL'",
			"binlog_row_metadata='MINIMAL'":  "binlog_row_metadata='FULL'",
			"binlog_expire_logs_seconds=600": "binlog_expire_logs_seconds=0",
			"binlog_row_image='MINIMAL', GLOBAL binlog_row_value_options=PARTIAL_JSON": "binlog_row_image='FULL', GLOBAL binlog_row_value_options=''",
		} {
			if srv.Engine == "mariadb" && strings.Contains(set, "JSON") {
				continue
			}
			script(t, e, "SET GLOBAL "+set)
			found, err := hold(e)
			script(t, e, "SET GLOBAL "+back)
			if n := len(found); n == 0 || found[n-1].Remedy() == "" || slices.ContainsFunc(found, func(n tidemark.Need) bool { return n.Severity == tidemark.Blocker }) != (err != nil) {
				t.Errorf("%s: %v %v", set, found, err)
			}
		}
		script(t, e, "CREATE TABLE parent (id int PRIMARY KEY)", "CREATE TABLE child (id int, FOREIGN KEY (id) REFERENCES parent (id) ON DELETE CASCADE)")
		described, err := e.Describe(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		found, err := e.SourceNeeds(t.Context(), "s", described)
		if found = slices.DeleteFunc(found, func(n tidemark.Need) bool { return n.Met }); err != nil || len(found) != 1 || !strings.Contains(found[0].Have, db+".child") {
			t.Errorf("%v %v", found, err)
		}
	})
}

// A copy's view and the stream from its place have every row exactly once.
func TestFreezeAndFollowMeet(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		url := srv.NewDatabase(t, "join")
		testdb.Query(t, url, "CREATE TABLE item (id int AUTO_INCREMENT PRIMARY KEY, n int)")
		writer := open(t, url, server.Options{})
		stop, done := make(chan bool), make(chan error)
		var wrote atomic.Int64
		more := func() {
			until := wrote.Load() + 3
			for begun := time.Now(); wrote.Load() < until; time.Sleep(time.Millisecond) {
				if time.Since(begun) > 5*time.Minute {
					t.Fatal("nothing is written")
				}
			}
		}
		go func() {
			s, err := writer.NewSession(t.Context())
			for err == nil {
				select {
				case <-stop:
					s.Close()
					done <- nil
					return
				default:
					err = s.Exec(t.Context(), "INSERT INTO item (n) VALUES (1)")
					wrote.Add(1)
				}
			}
			done <- err
		}()
		more()
		e := open(t, url, server.Options{})
		pos, err := e.Freeze(t.Context(), 1)
		if err != nil || pos.Place == 0 {
			t.Fatal(pos, err)
		}
		more()
		close(stop)
		if err := testdb.From(t, "the writer's end", done); err != nil {
			t.Fatal(err)
		}
		m := mysqltest.MoveTo(mysqltest.TableFrom(t, url, "item"), "x")
		ids := map[string]int{}
		for line := range strings.Lines(mysqltest.ReadAll(t, e, m, tidemark.CopyText)) {
			ids[strings.Split(line, "\t")[0]]++
		}
		copied := len(ids)
		r := newReplica(t)
		for _, tx := range follow(t, writer, pos.Place) {
			r.take(tx)
		}
		for _, row := range r.lines("item") {
			ids[strings.Split(row, "\t")[0]]++
		}
		n := testdb.Query(t, url, "SELECT COUNT(*) FROM item")
		if fmt.Sprint(len(ids)) != n || copied == 0 || copied == len(ids) || slices.Max(slices.Collect(maps.Values(ids))) != 1 {
			t.Errorf("%d rows were copied, and %d are there in all, of %s", copied, len(ids), n)
		}
	})
}
