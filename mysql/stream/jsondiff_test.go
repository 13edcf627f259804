package stream

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/event"
	"github.com/tidemarkdb/tidemark/mysql/mysqltest"
	"github.com/tidemarkdb/tidemark/mysql/schema"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// partialEvents counts the events of the log after a place that may store documents as diffs.
func partialEvents(t *testing.T, e *Engine, url string, from uint64) int {
	t.Helper()
	files, err := e.Binlogs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range files {
		switch number, _ := server.LogNumber(f.Name); {
		case uint64(number) == from>>32:
			n += strings.Count(testdb.Query(t, url, fmt.Sprintf("SHOW BINLOG EVENTS IN '%s' FROM %d", f.Name, uint32(from))), "Update_rows_partial")
		case uint64(number) > from>>32:
			n += strings.Count(testdb.Query(t, url, fmt.Sprintf("SHOW BINLOG EVENTS IN '%s'", f.Name)), "Update_rows_partial")
		}
	}
	return n
}

// Documents that the log has only as diffs are emitted whole, as the server has them.
func TestFollowJSONDiffs(t *testing.T) {
	srv := testdb.MySQL(t)
	url := srv.NewDatabase(t, "diffs")
	e := open(t, url, server.Options{})
	const pad = `REPEAT('p',300)`
	script(t, e, "CREATE TABLE docs (id int PRIMARY KEY, j json, n int, k json, g json AS (j) VIRTUAL, v varchar(20))", "CREATE TABLE bare (a int, j json)")
	from := endOf(t, e)
	script(t, e, "SET binlog_row_value_options=PARTIAL_JSON",
		"INSERT INTO docs (id,j,n,k,v) VALUES (1, JSON_OBJECT('pad',"+pad+",'b',1,'list',JSON_ARRAY(1,2,3),'deep',JSON_OBJECT('a',JSON_ARRAY(JSON_OBJECT('x',1)))), 1, JSON_ARRAY("+pad+",1), 'a'), (2,NULL,2,JSON_OBJECT('p',"+pad+"),'b'), (3,'7',3,'null','c')",
		"UPDATE docs SET j=JSON_SET(j,'$.b',2) WHERE id=1",
		"UPDATE docs SET j=JSON_SET(j,'$.aa','new','$.a',JSON_ARRAY(),'$.zzz',NULL,'$.\"\"',true) WHERE id=1",
		"UPDATE docs SET j=JSON_REMOVE(j,'$.list[0]','$.list[last]','$.zzz') WHERE id=1",
		"UPDATE docs SET j=JSON_SET(j,'$.list[9]','end','$.list[last-9]','begin','$.deep.a[0].y',JSON_OBJECT('k',1.50,'bb',2)) WHERE id=1",
		"UPDATE docs SET j=JSON_SET(j,'$.b[0]',3,'$.b[1]',4) WHERE id=1",
		"UPDATE docs SET j=JSON_REPLACE(j,'$.deep.a[0].y.k',CAST('2024-02-03 04:05:06.5' AS DATETIME(6)),'$.deep.a[0].y.bb',CAST(1.50 AS DECIMAL(9,3))), k=JSON_SET(k,'$[1]',x'beef') WHERE id=1",
		"UPDATE docs SET j=JSON_SET(JSON_REMOVE(j,'$.b'),'$.b',CAST('04:05:06' AS TIME)), n=n+1, k=JSON_ARRAY(1) WHERE id=1",
		"UPDATE docs SET j=JSON_SET(j,'$.x',1), k=JSON_REMOVE(k,'$.p') WHERE id=2",
		"UPDATE docs SET j=JSON_SET(j,'$.x',1), n=9, k=JSON_SET(k,'$.q',1) WHERE id IN (2,3)",
		"UPDATE docs SET v='x'", "UPDATE docs SET n=0, j=JSON_SET(j,'$.b','same','$.b','same')", "UPDATE docs SET id=10 WHERE id=1",
		"UPDATE docs SET j=JSON_SET(j,'$.\"quo\\\\\"te\"',1,'$.\"back\\\\\\\\\"',2,'$.\"tab\\\\t\"',3,'$.ünï',4,'$.\"日 本\"',5,'$.$d_1',6,'$.\"1\"',7) WHERE id=10",
		"UPDATE docs SET j=JSON_REPLACE(j,'$.\"quo\\\\\"te\"',10,'$.\"back\\\\\\\\\"',20,'$.\"tab\\\\t\"',30,'$.ünï',40,'$.\"日 本\"',50,'$.$d_1',60,'$.\"1\"',70) WHERE id=10",
		"INSERT INTO bare VALUES (1,JSON_OBJECT('p',"+pad+")),(1,JSON_OBJECT('p',"+pad+"))", "UPDATE bare SET j=JSON_SET(j,'$.q',1) LIMIT 1", "UPDATE bare SET j=JSON_SET(j,'$.q',JSON_EXTRACT(j,'$.p'))",
		"SET binlog_transaction_compression=ON", "UPDATE docs SET j=JSON_SET(j,'$.pad',REPEAT('q',200000),'$.more','x')", "UPDATE docs SET j=JSON_SET(j,'$.more',REPEAT('y',100)), v='y'", "SET binlog_transaction_compression=OFF",
		"BEGIN", "UPDATE docs SET j=JSON_INSERT(j,'$.m',1)", "UPDATE docs SET j=JSON_SET(j,'$.m',2)", "UPDATE docs SET j=JSON_REMOVE(j,'$.m')", "COMMIT",
		"SET binlog_row_image=MINIMAL", "UPDATE docs SET v='z'", "UPDATE docs SET j=JSON_SET(j,'$.more',REPEAT('y',100)), v='again'", "SET binlog_row_image=NOBLOB", "UPDATE docs SET j=JSON_SET(j,'$.more','last')", "SET binlog_row_image=FULL", "UPDATE docs SET j=JSON_SET(j,'$.more','very last')",
	)
	if n := partialEvents(t, e, url, from); n < 20 {
		t.Errorf("only %d events of the log have parts of documents", n)
	}
	twin := newReplica(t)
	for _, tx := range follow(t, e, from) {
		twin.take(tx)
	}
	if n := twin.sameTables(e); n != 2 {
		t.Errorf("%d tables", n)
	}
	from = endOf(t, e)
	script(t, e, "SET binlog_row_value_options=PARTIAL_JSON", "SET binlog_row_image=MINIMAL", "UPDATE docs SET j=JSON_SET(j,'$.more','less')")
	_, err := tryFollow(t, e, from)
	if tidemark.KindOf(err) != tidemark.Unsupported || !strings.Contains(fmt.Sprint(err), "documents of column j, and not what they were before") || !strings.Contains(tidemark.HintOf(err), "binlog_row_image = 'FULL'") {
		t.Errorf("%v (%s)", err, tidemark.HintOf(err))
	}
}

// randomDocument draws an SQL expression for a JSON value.
func randomDocument(t *rapid.T, depth int) string {
	kind := rapid.IntRange(0, 15).Draw(t, "value")
	if depth > 2 && kind > 12 {
		kind = 0
	}
	switch kind {
	case 13:
		return "JSON_ARRAY(" + randomDocument(t, depth+1) + "," + randomDocument(t, depth+1) + "," + randomDocument(t, depth+1) + ")"
	case 14:
		return "JSON_OBJECT('b'," + randomDocument(t, depth+1) + ",'aa'," + randomDocument(t, depth+1) + ",''," + randomDocument(t, depth+1) + ")"
	case 15:
		return rapid.SampledFrom([]string{"JSON_ARRAY()", "JSON_OBJECT()", "CAST('[[], {}, [[1]]]' AS JSON)", "REPEAT('long',1000)", "CAST(REPEAT('9',60) AS DECIMAL(65,2))"}).Draw(t, "rare")
	}
	return []string{"NULL", "true", "0", "-70000", "18446744073709551615", "1.50", "1e300", "'text'", `'quo"te\\ü'`, "CAST('2024-02-03 04:05:06.5' AS DATETIME(6))",
		"CAST('2024-02-03' AS DATE)", "CAST('-104:05:06' AS TIME)", "x'00beef'"}[kind]
}

// randomPath draws a path, as an SQL literal.
func randomPath(t *rapid.T) string {
	var b strings.Builder
	b.WriteByte('$')
	for range rapid.IntRange(1, 3).Draw(t, "legs") {
		switch rapid.IntRange(0, 3).Draw(t, "leg") {
		case 0:
			b.WriteString(rapid.SampledFrom([]string{"[0]", "[1]", "[2]", "[5]", "[last]", "[last-1]", "[last-4]"}).Draw(t, "cell"))
		default:
			name, _ := json.Marshal(rapid.SampledFrom([]string{"a", "b", "aa", "", "x y", "ü", `q"\`, "$d", "\n"}).Draw(t, "name"))
			fmt.Fprintf(&b, ".%s", name)
		}
	}
	return server.Literal(b.String())
}

func randomPatch(t *rapid.T, column string) string {
	var args strings.Builder
	call := rapid.SampledFrom([]string{"JSON_SET", "JSON_SET", "JSON_SET", "JSON_REPLACE", "JSON_REMOVE"}).Draw(t, "call")
	for range rapid.IntRange(1, 3).Draw(t, "paths") {
		args.WriteString("," + randomPath(t))
		if call != "JSON_REMOVE" {
			args.WriteString("," + randomDocument(t, 0))
		}
	}
	if rapid.IntRange(0, 5).Draw(t, "nested") == 0 {
		column = randomPatch(t, column)
	}
	return call + "(" + column + args.String() + ")"
}

// However documents are changed, the stream emits what the server then has, byte for byte.
func TestFollowJSONDiffsRandom(t *testing.T) {
	srv := testdb.MySQL(t)
	url := srv.NewDatabase(t, "diffs")
	e := open(t, url, server.Options{})
	s, err := e.NewSession(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	from, failed := endOf(t, e), 0
	exec := func(sql string) {
		if s.Exec(t.Context(), sql) != nil { // a document that is too deep or not an object
			failed++
		}
	}
	exec("CREATE TABLE docs (id int PRIMARY KEY, j json, n int, k json)")
	exec("SET binlog_row_value_options=PARTIAL_JSON")
	const pad = `,"pad":"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"}`
	twin, begun, updates := newReplica(t), from, 0
	m := mysqltest.MoveTo(mysqltest.TableFrom(t, url, "docs"), "x")
	rapid.Check(t, func(rt *rapid.T) {
		exec(`REPLACE INTO docs VALUES (1,'{"a":[1,{"b":2,"aa":[]}],"b":{"a":{"aa":1}}` + pad + `',0,'[[1,2],{"a":3}]'),(2,'{"x y":{"":[1,2,3]}` + pad + `',0,NULL),(3,'[1,{"aa":[true]` + pad + `,3]',0,'{"b":[1,2,3]` + pad + `')`)
		exec("SET binlog_transaction_compression=" + rapid.SampledFrom([]string{"OFF", "OFF", "ON"}).Draw(rt, "compression"))
		for range rapid.IntRange(1, 8).Draw(rt, "updates") {
			set := "j=" + randomPatch(rt, "j")
			if rapid.Bool().Draw(rt, "both") {
				set += ", k=" + randomPatch(rt, "k")
			}
			exec(fmt.Sprintf("UPDATE docs SET %s, n=n+%d WHERE id>=%d", set, rapid.IntRange(0, 1).Draw(rt, "n"), rapid.IntRange(1, 3).Draw(rt, "id")))
			updates++
		}
		next := endOf(t, e)
		for _, tx := range follow(t, e, from) {
			twin.take(tx)
		}
		from = next
		twin.sameRows(e, m)
		if t.Failed() {
			rt.Fatal("different")
		}
	})
	if n := partialEvents(t, e, url, begun); n < updates/4 || failed > updates/2 {
		t.Errorf("%d events with parts of documents; %d of %d statements failed", n, failed, updates)
	}
}

// Row events as MySQL 8.0.33 has written them, of a table (id int, j json, n int, v text).
func TestCapturedJSONDiffs(t *testing.T) {
	const pad = "pppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp"
	for _, x := range []struct{ event, want string }{
		{"m\x00\x00\x00\x00\x00\x01\x00\x02\x00\x04\xff\xff\x00\x01\x00\x00\x00f\x00\x00\x00\x00\x03\x00e\x00\x19\x00\x01\x00\x1a\x00\x01\x00\x1b\x00\x03\x00\x05\x01\x00\x02\x1e\x00\f(\x00abpad\x02\x00\n\x00\x05\x01\x00\x05\x02\x00<" + pad + "\x01\x00\x00\x00\x02\x00xx" +
			"\x01\x01\x00\x01\x00\x00\x00/\x00\x00\x00\x00\x03$.a\x06\f\x04FULL\x00\x06$.b[1]\x03\x05\x03\x00\x01\x06$.b[5]\x03\x05\x04\x00\x01\x03$.q\x05\x0f\x0f\x02\x00\xff\x02\x00\x00\x00\x02\x00xx",
			`1,{"a": "FULL", "b": [1, 3, 4], "q": "base64:type15:AP8=", "pad": "` + pad + `"},2,xx`},
		{"m\x00\x00\x00\x00\x00\x01\x00\x02\x00\x04\xff\xff\x00\x01\x00\x00\x00z\x00\x00\x00\x00\x03\x00y\x00 \x00\x01\x00!\x00\x01\x00#\x00\x03\x00\f&\x00\x02+\x00\f<\x00\x00\x0f8\x00\f<\x00abqpad\x04FULL\x02\x00\r\x00\x05\x03\x00\x05\x04\x00\x05\x04\x00\x0f\x02\x00\xff<" + pad + "\x03\x00\x00\x00\x02\x00xx" +
			"\x01\x01\x00\x01\x00\x00\x00 \x00\x00\x00\x00\t$.b[last]\x03\x05\t\x00\x01\v$.b[last-5]\x03\x05\b\x00\x03\x00\x00\x00\x02\x00xx",
			`1,{"a": "FULL", "b": [8, 3, 9], "pad": "` + pad + `"},3,xx`},
		{"m\x00\x00\x00\x00\x00\x01\x00\x02\x00\x04\x01\x06\x00\x01\x00\x00\x00\x01\x01\x002\x00\x00\x00\x00\x03$.a\t\f\aMINIMAL\x00\x06$.b[1]\x03\x05\x03\x00\x01\x06$.b[5]\x03\x05\x04\x00\x01\x03$.q\x05\x0f\x0f\x02\x00\xff\x04\x00\x00\x00", ""},
	} {
		s := sourceOf(&server.Server{}).newStream("", "", 7<<32|4)
		s.emit = func(*change.Tx) error { return nil }
		s.Collations = map[uint64]string{255: "utf8mb4"}
		m, err := event.ReadTableMap([]byte("\x01\x00\x02db\x00\x01t\x00\x04\x03\xf5\x03\xfc\x02\x04\x02\x0e\x01\x01\x00\x02\x03\xfc\xff\x00\x04\x09\x02id\x01j\x01n\x01v\x08\x01\x00"), false)
		if err != nil {
			t.Fatal(err)
		}
		if s.maps[0x6d], err = s.build(m, &schema.Shown{}); err != nil {
			t.Fatal(err)
		}
		_ = s.beginGroup(group{place: 7<<32 | 4, begun: true}) // without a journal
		err = s.rows(t.Context(), tidemark.UpdateChange, event.RowForm{Version: 2, Diffs: true}, []byte(x.event))
		if x.want == "" {
			if tidemark.KindOf(err) != tidemark.Unsupported {
				t.Errorf("of a change without what it was made to: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		var c change.Change
		for rest := s.tx.Changes; len(rest) > 0; {
			if c, rest, err = change.Next(rest); err != nil {
				t.Fatal(err)
			}
		}
		if got := strings.Join(wordsOf(c.New), ","); got != x.want {
			t.Errorf("got  %s\nwant %s", got, x.want)
		}
		// Truncated or altered input is refused, or yields other values, but never worse.
		for n := range len(x.event) {
			_ = s.rows(t.Context(), tidemark.UpdateChange, event.RowForm{Version: 2, Diffs: true}, []byte(x.event[:n]))
		}
	}
}
