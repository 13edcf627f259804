package bulk

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/escape"
	"github.com/tidemarkdb/tidemark/internal/float"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/event"
	"github.com/tidemarkdb/tidemark/mysql/mysqltest"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// TestCopyTextGolden reads the zoo and compares it with what PostgreSQL would print for the same
// values.
func TestCopyTextGolden(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		from := srv.NewDatabase(t, "zoo")
		mysqltest.LoadZoo(t, srv, from)
		e := open(t, from, server.Options{ZeroDates: server.Null})
		read := func(name string, change func(m *tidemark.Move)) string {
			m := mysqltest.MoveTo(mysqltest.TableFrom(t, from, name), "elsewhere")
			if change != nil {
				change(m)
			}
			return mysqltest.ReadAll(t, e, m, tidemark.CopyText)
		}
		check := func(name, got, want string) {
			t.Helper()
			if got != want {
				t.Errorf("%s:\n got %q\nwant %q", name, got, want)
			}
		}
		check("t_int", read("t_int", nil), strings.Join([]string{
			"0\t-128\t0\t-32768\t0\t-8388608\t0\t-2147483648\t0\t-9223372036854775808\t0\t0\t0\t0\t0\t00000000\t" + strings.Repeat("0", 64),
			"1\t127\t255\t32767\t65535\t8388607\t16777215\t2147483647\t4294967295\t9223372036854775807\t18446744073709551615\t1\t12345678\t2155\t1\t11111111\t" + strings.Repeat("1", 64),
			"2" + strings.Repeat("\t\\N", 16),
			"3\t1\t1\t1\t1\t1\t1\t1\t1\t1\t1\t5\t42\t1901\t1\t00001010\t" + strings.Repeat("0", 61) + "101",
			"4\t-1\t128\t-1\t32768\t-1\t8388608\t-1\t2147483648\t-1\t9223372036854775808\t-1\t99999999\t1999\t0\t10000000\t" + strings.Repeat("0", 58) + "100111", ""}, "\n"))
		check("t_num", read("t_num", nil), strings.Join([]string{
			"1\t12345678901234567890123456789012345.123456789012345678901234567890\t9999999999\t999.99\t3.40282e+38\t1234.567\t1.7976931348623157e+308\t12345678901234.123\t0",
			"2\t-0.000000000000000000000000000001\t-9999999999\t0.00\t-1.17549e-38\t-0.001\t2.2250738585072014e-308\t-1e-06\t1e-320",
			"3" + strings.Repeat("\t\\N", 8),
			"4\t0.100000000000000000000000000000\t0\t0.01\t0.1\t0.1\t0.1\t0.3\t0.30000000000000004",
			"5\t0.000000000000000000000000000000\t1\t1.00\t1.6777216e+07\t1\t9.007199254740992e+15\t1\t1", ""}, "\n"))
		check("t_time", read("t_time", nil), strings.Join([]string{
			"1\t\\N\t-838:59:59\t-838:59:59\t\\N\t\\N\t\\N\t\\N\t\\N\t2020-01-01 00:00:00+00",
			"2\t\\N\t838:59:59\t00:00:00.000001\t\\N\t9999-12-31 23:59:59.999\t9999-12-31 23:59:59.999999\t2038-01-19 03:14:07+00\t2038-01-19 03:14:07.999999+00\t2020-01-01 00:00:00+00",
			"3\t1000-01-01\t24:00:00\t-00:00:00.5\t1000-01-01 00:00:00\t1970-01-01 00:00:00.001\t0001-01-01 00:00:00\t1970-01-01 00:00:01+00\t1970-01-01 00:00:01.000001+00\t2020-01-01 00:00:00+00",
			"4\t\\N\t\\N\t\\N\t\\N\t\\N\t\\N\t\\N\t\\N\t2024-03-10 02:30:00+00",
			"5\t\\N\t12:34:56\t12:34:56.789012\t2024-02-29 12:34:56\t2024-02-29 12:34:56.789\t2024-02-29 12:34:56.789012\t2024-02-29 12:34:56+00\t2024-02-29 12:34:56.789012+00\t2020-01-01 00:00:00+00", ""}, "\n"))
		check("t_time as intervals", read("t_time", func(m *tidemark.Move) {
			only(m, "id", "t", "t6")
			m.To.Columns[1].Type.Kind, m.To.Columns[2].Type.Kind = tidemark.Interval, tidemark.Interval
		}), "1\tPT-838H-59M-59S\tPT-838H-59M-59S\n2\tPT838H59M59S\tPT0.000001S\n3\tPT24H\tPT-0.5S\n4\t\\N\t\\N\n5\tPT12H34M56S\tPT12H34M56.789012S\n")
		check("t_int as other kinds", read("t_int", func(m *tidemark.Move) {
			only(m, "id", "b1", "bt1", "bt8")
			m.To.Columns[1].Type.Kind, m.To.Columns[2].Type.Kind, m.To.Columns[3].Type.Kind = tidemark.Bool, tidemark.Bool, tidemark.Int
		}), "0\tf\tf\t0\n1\tt\tt\t255\n2\t\\N\t\\N\t\\N\n3\tt\tt\t10\n4\tt\tf\t128\n")
		check("t_time as other kinds", read("t_time", func(m *tidemark.Move) {
			only(m, "dt3", "ts6")
			m.Filter = []tidemark.Filter{{SQL: "id=5"}}
			m.To.Columns[0].Type.Kind, m.To.Columns[1].Type.Kind = tidemark.Timestamp, tidemark.DateTime
		}), "2024-02-29 12:34:56.789+00\t2024-02-29 12:34:56.789012\n")
		check("t_latin1", read("t_latin1", nil), "1\t€–™é\té\tcafé €\n2\tplain\t\\N\t\n")
		check("t_charsets", read("t_charsets", nil), "1\tžluť\tПривет\t日本語\tü€\t😀\t中文\tkůň\tascii\taA\n2\t\t\t\t\t\t\t\t\t\n")
		check("t_enum", read("t_enum", func(m *tidemark.Move) { only(m, "id", "e", "s") }), "1\ta\tx\n2\t\t\n3\t\\N\t\\N\n4\tit's\tx,y,z,p q,it's\n5\tcom,ma\tp q\n6\t日本\tx,y\n7\t\t\n")
		check("t_geo", read("t_geo", func(m *tidemark.Move) { only(m, "id", "g", "p") }),
			"1\t0101000000000000000000f03f0000000000000040\t"+geoPoint4326(srv)+"\n2\t\\N\t010100000000000000000000000000000000000000\n")
		check("t_geo into bytes", read("t_geo", func(m *tidemark.Move) {
			only(m, "g")
			m.To.Columns[0].Type.Kind = tidemark.Blob
		}), "\\\\x0101000000000000000000f03f0000000000000040\n\\N\n")
		str := read("t_str", func(m *tidemark.Move) { only(m, "id", "c", "v", "bin", "vb", "tt", "t", "mt", "tb") })
		check("t_str", strings.Join(strings.Split(str, "\n")[:3], "\n"), strings.Join([]string{
			"1\t\t\t\\\\x0000000000000000\t\\\\x\t\t\t\t\\\\x",
			"2\tpad\ttrail  \t\\\\x0000000000000000\t\\\\x00\ttab\\there\tnl\\nhere\\rcr\tq's \"d\" \\\\ back\t\\\\x000a0d1a27225c",
			"3\t日本語\t😀 žluťoučký eu0301\t\\\\x6162000000000000\t\\\\x80ff\t\\\\N\tNULL\t\\\\.\t\\N"}, "\n"))
	})
}

// geoPoint4326 is the zoo's point on the antimeridian in SRID 4326: POINT(-180 90) on MariaDB, and
// on MySQL, where latitude is written first and -180 is invalid, latitude 90 and longitude 180.
func geoPoint4326(srv *testdb.Server) string {
	if srv.Engine == "mysql" {
		return "0101000020e610000000000000008066400000000000805640"
	}
	return "0101000020e610000000000000008066c00000000000805640"
}

// only restricts a Move to some columns.
func only(m *tidemark.Move, names ...string) {
	to := *m.To
	to.Columns = nil
	for _, n := range names {
		to.Columns = append(to.Columns, *m.From.Column(n))
	}
	m.To, m.Source = &to, names
}

func TestZeroDateIsAnError(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		from := srv.NewDatabase(t, "zero")
		testdb.Query(t, from, "SET sql_mode='ALLOW_INVALID_DATES'; CREATE TABLE z (id int PRIMARY KEY, d date NOT NULL); INSERT INTO z VALUES (1,'2024-01-01'),(7,'0000-00-00')")
		m := mysqltest.MoveTo(mysqltest.TableFrom(t, from, "z"), "elsewhere")
		read := func(p server.Policy) (string, error) {
			e := open(t, from, server.Options{ZeroDates: p})
			var got []byte
			err := e.Read(t.Context(), 0, tidemark.Read{Move: m, Range: &tidemark.Range{}}, func(b *tidemark.Batch) error {
				got = append(got, b.Data...)
				b.Release()
				return nil
			})
			if err != nil { // the lane must still be usable
				only(m, "id")
				if mysqltest.ReadAll(t, e, m, tidemark.CopyText) != "1\n7\n" {
					t.Error("the lane is out of step")
				}
				m = mysqltest.MoveTo(m.From, "elsewhere")
			}
			return string(got), err
		}
		_, err := read(server.Refuse)
		want := "read " + mysqltest.DatabaseOf(from) + `.z: row id="7": column d holds "0000-00-00", which is not a valid date elsewhere`
		if err == nil || err.Error() != want || tidemark.KindOf(err) != tidemark.BadRow || tidemark.HintOf(err) == "" {
			t.Errorf("got  %v (%v; %s)\nwant %s", err, tidemark.KindOf(err), tidemark.HintOf(err), want)
		}
		if got, err := read(server.Null); got != "1\t2024-01-01\n7\t\\N\n" || err != nil {
			t.Errorf("as NULL: %q %v", got, err)
		}
		if got, err := read(server.Epoch); got != "1\t2024-01-01\n7\t1970-01-01\n" || err != nil {
			t.Errorf("as the epoch: %q %v", got, err)
		}
	})
}

// unescapeLoad reverts LOAD DATA's escapes as its manual describes them: the dumb twin of
// appendEscaped.
func unescapeLoad(v []byte) []byte {
	var out []byte
	for i := 0; i < len(v); i++ {
		if v[i] != '\\' || i+1 == len(v) {
			out = append(out, v[i])
			continue
		}
		i++
		switch v[i] {
		case '0':
			out = append(out, 0)
		case 'b':
			out = append(out, '\b')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'Z':
			out = append(out, 26)
		default:
			out = append(out, v[i])
		}
	}
	return out
}

// unescapeCopy reverts COPY's escapes as PostgreSQL's manual describes them.
func unescapeCopy(v []byte) []byte {
	var out []byte
	for i := 0; i < len(v); i++ {
		if v[i] != '\\' || i+1 == len(v) {
			out = append(out, v[i])
			continue
		}
		i++
		if at := strings.IndexByte("bfnrtv", v[i]); at >= 0 {
			out = append(out, "\b\f\n\r\t\v"[at])
		} else {
			out = append(out, v[i])
		}
	}
	return out
}

func FuzzEscapes(f *testing.F) {
	for _, s := range []string{"", "\\", "\\N", "a\tb\nc\rd\\e\x00f\x1ag\bh\fi\vj", "12345678\\", strings.Repeat("x", 100) + "\n", "žluťoučký\x80\xff", "\x1f\x20\\\x5b\x5d"} {
		f.Add([]byte(s), 3)
	}
	f.Fuzz(func(t *testing.T, v []byte, cut int) {
		load := escape.Append(nil, v, &escape.Load)
		if !bytes.Equal(unescapeLoad(load), v) || bytes.ContainsAny(load, "\t\n\x00") {
			t.Fatalf("%q as LOAD DATA is %q", v, load)
		}
		text := escape.Append(nil, v, &escape.Copy)
		if !bytes.Equal(unescapeCopy(text), v) || bytes.ContainsAny(text, "\t\n\r\v\f") {
			t.Fatalf("%q as COPY text is %q", v, text)
		}
		// Into MySQL, in two pieces: as text, and as hex.
		row := append(append(bytes.Clone(text), '\t'), event.AppendHex([]byte(`\\x`), v)...)
		row = append(append(append(row, '\t'), text...), '\n')
		for _, shapes := range [][]InKind{{InAsIs, InHex, InAsIs}, {InAsIs, InAsIs, InAsIs}} {
			in := newInbound([]inCol{{shape: shapes[0]}, {shape: shapes[1]}, {shape: shapes[2]}}, server.Refuse)
			at := 0
			if cut > 0 {
				at = cut % (len(row) + 1)
			}
			var out []byte
			for _, piece := range [][]byte{bytes.Clone(row[:at]), bytes.Clone(row[at:])} {
				got, err := in.feed(piece)
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, got...)
			}
			fields := bytes.Split(bytes.TrimSuffix(out, []byte("\n")), []byte("\t"))
			if len(fields) != 3 {
				t.Fatalf("%q cut at %d became %q", row, at, out)
			}
			second := v
			if shapes[1] == InAsIs {
				second = append([]byte(`\x`), event.AppendHex(nil, v)...)
			}
			for i, want := range [][]byte{v, second, v} {
				if got := unescapeLoad(fields[i]); !bytes.Equal(got, want) {
					t.Fatalf("%q cut at %d: field %d is %q", row, at, i, fields[i])
				}
			}
		}
	})
}

func FuzzFloats(f *testing.F) {
	for _, x := range []float64{0, math.Copysign(0, -1), 1, 0.1, 1e15, 1e14, 123456, 1234567, 1e-4, 1e-5, math.MaxFloat64, 5e-324} {
		f.Add(math.Float64bits(x))
	}
	f.Fuzz(func(t *testing.T, bits uint64) {
		x := math.Float64frombits(bits)
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return
		}
		for _, form := range []byte{'g', 'f', 'e'} {
			got, ok := event.AppendFloat(nil, strconv.AppendFloat(nil, x, form, -1, 64), 64)
			back, err := strconv.ParseFloat(string(got), 64)
			if !ok || err != nil || math.Float64bits(back) != bits {
				t.Fatalf("%v is printed %q", x, got)
			}
			if want := float.Append(nil, x, 64); string(got) != string(want) {
				t.Fatalf("%v is printed %q and %q", x, got, want)
			}
		}
	})
}

// TestFloatsAsPostgres has a real PostgreSQL print the same numbers.
func TestFloatsAsPostgres(t *testing.T) {
	url := testdb.Postgres(t, 15).URL("postgres")
	in := []string{"1e14", "1e15", "123456789012345", "1234567890123456", "0.0001", "0.00001", "-0", "0.10", "1.50", "1.000000", "0.000000", "-0.000010",
		"9007199254740993", "100000", "999999", "1000000", "16777216", "0.10000000149011612", "3.4028234663852886e38", "1.17549435e-38", "1234.567016601562"}
	for i := range 120 {
		in = append(in, strconv.FormatFloat(math.Ldexp(1, i-20), 'g', -1, 64), strconv.FormatFloat(math.Ldexp(1, i-20), 'g', 1+rand.IntN(17), 64))
	}
	for range 2000 {
		in = append(in, strconv.FormatFloat(rand.NormFloat64()*math.Pow(10, float64(rand.IntN(44)-22)), 'g', 1+rand.IntN(17), 64))
	}
	want := strings.Split(testdb.Query(t, url, "SELECT x::float8, x::float8::float4 FROM unnest('{"+strings.Join(in, ",")+"}'::text[]) x"), "\n")
	for i, x := range in {
		a, _ := event.AppendFloat(nil, []byte(x), 64)
		b, _ := event.AppendFloat(nil, []byte(x), 32)
		if got := string(a) + "\t" + string(b); got != want[i] {
			t.Errorf("%s: got %s, PostgreSQL prints %s", x, got, want[i])
		}
	}
}

func TestInbound(t *testing.T) {
	for _, c := range []struct {
		shape    InKind
		bits     int
		in, want string // want "" means refused
	}{
		{inBool, 0, "t", "1"}, {inBool, 0, "f", "0"}, {inBool, 0, `\N`, `\N`},
		{InBits, 4, "1010", "\n"}, {InBits, 9, "101010101", "\x01U"}, {InBits, 64, strings.Repeat("1", 64), strings.Repeat("\xff", 8)}, {InBits, 3, "1010", ""},
		{InIntBits, 8, "65", "A"}, {InIntBits, 1, "t", "\x01"}, {InIntBits, 8, "256", ""},
		{inZoned, 0, "2024-02-29 12:34:56.789+00", "2024-02-29 12:34:56.789"}, {inZoned, 0, "infinity", ""}, {inZoned, 0, "0044-03-15 12:00:00+00 BC", ""},
		{inZoned, 0, "294276-12-31 23:59:59+00", ""}, {inDate, 0, "-infinity", ""}, {inDate, 0, "5874897-12-31", ""}, {inDate, 0, "0001-01-01", "0001-01-01"},
		{inNumber, 0, "NaN", ""}, {inNumber, 0, "Infinity", ""}, {inNumber, 0, "-1.5e-7", "-1.5e-7"},
		{inInterval, 0, "PT-838H-59M-59S", "-838:59:59"}, {inInterval, 0, "PT0S", "00:00:00"}, {inInterval, 0, "P1DT2H", "26:00:00"}, {inInterval, 0, "P1M", ""},
		{inInterval, 0, "PT839H", ""}, {inInterval, 0, "PT-0.000001S", "-00:00:00.000001"}, {inInterval, 0, "PT59.999999S", "00:00:59.999999"}, {inInterval, 0, "12:00:00", "12:00:00"},
		{inYear, 0, "0", "0000"}, {inYear, 0, "2024", "2024"},
		{InHex, 0, `\\x00ff5c0a`, "\\0\xff\\\\\\n"}, {InHex, 0, `\\x0`, ""},
		{InGeometry, 0, "0101000020e610000000000000000000000000000000000000", "\xe6\x10\\0\\0\x01\x01\\0\\0\\0" + strings.Repeat(`\0`, 16)},
	} {
		in := newInbound([]inCol{{name: "c", shape: c.shape, bits: c.bits}}, server.Refuse)
		got, err := in.feed([]byte(c.in + "\n"))
		want := c.want + "\n"
		if c.shape == InBits || c.shape == InIntBits {
			want = string(escape.Append(nil, []byte(c.want), &escape.Load)) + "\n"
		}
		if c.want == "" {
			if err == nil {
				t.Errorf("%q became %q", c.in, got)
			}
			in = newInbound([]inCol{{name: "c", shape: c.shape, bits: c.bits}}, server.Null)
			if got, err := in.feed([]byte(c.in + "\n")); string(got) != "\\N\n" || err != nil {
				t.Errorf("%q with NULL allowed became %q, %v", c.in, got, err)
			}
			continue
		}
		if err != nil || string(got) != want {
			t.Errorf("%q became %q, %v; want %q", c.in, got, err, want)
		}
	}
}

// TestIntervalTwins: the outgoing form of a TIME converts back to the same TIME.
func TestIntervalTwins(t *testing.T) {
	for range 20000 {
		micros := rand.Int64N(2*3020399e6) - 3020399e6
		v := strconv.AppendInt(nil, micros, 10)
		sign := ""
		if micros < 0 {
			sign, v = "-", v[1:]
		}
		n, _ := strconv.ParseInt(string(v), 10, 64)
		s := n / 1e6
		clock := sign + pad(s/3600, 2) + ":" + pad(s/60%60, 2) + ":" + pad(s%60, 2) + "." + pad(n%1e6, 6)
		iso, ok := event.AppendISOInterval(nil, []byte(clock))
		back, ok2 := fromInterval(nil, iso)
		if !ok || !ok2 || string(back) != string(event.TrimFraction([]byte(clock))) {
			t.Fatalf("%s became %s and %s", clock, iso, back)
		}
	}
}

func pad(n int64, width int) string {
	s := strconv.FormatInt(n, 10)
	return strings.Repeat("0", max(width-len(s), 0)) + s
}

func BenchmarkRow(b *testing.B) {
	row := []byte{}
	add := func(s string) { row = append(append(row, byte(len(s))), s...) }
	for _, s := range []string{"123456", "42", "12345.67", "Some name of a customer", "2024-02-29 12:34:56", "AB", "a street with a number 12", "0"} {
		add(s)
	}
	cols := make([]outCol, 8)
	for i, s := range []shape{asIs, asIs, asIs, escaped, dated, escaped, escaped, asIs} {
		cols[i] = outCol{shape: s, esc: &escape.Copy}
	}
	r := &rowStream{cols: cols, b: tidemark.NewBatch(nil, tidemark.CopyText)}
	b.SetBytes(int64(len(row)))
	b.ReportAllocs()
	for b.Loop() {
		if err := r.row(row); err != nil {
			b.Fatal(err)
		}
		if len(r.b.Data) >= tidemark.BatchSize {
			r.b.Data, r.b.Rows = r.b.Data[:0], 0
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/8, "ns/value")
}
