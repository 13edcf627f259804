package diff

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/escape"
	"github.com/tidemarkdb/tidemark/mysqltype"
)

func kind(k tidemark.TypeKind) tidemark.Type { return tidemark.Type{Kind: k, Native: k.String()} }

func sized(k tidemark.TypeKind, length int64) tidemark.Type {
	return tidemark.Type{Kind: k, Length: length, Native: fmt.Sprintf("%v(%d)", k, length)}
}

func decimal(p, s int) tidemark.Type {
	return tidemark.Type{Kind: tidemark.Decimal, Precision: p, Scale: s, Native: fmt.Sprintf("decimal(%d,%d)", p, s)}
}

func float(bits int) tidemark.Type {
	return tidemark.Type{Kind: tidemark.Float, Bits: bits, Native: fmt.Sprint("float", bits)}
}

// The table of normal.go, value by value. Fields are in the form of COPY text.
func TestNormalForms(t *testing.T) {
	boolean, integer, year, bit := kind(tidemark.Bool), kind(tidemark.Int), kind(tidemark.Year), sized(tidemark.Bit, 1)
	zero := tidemark.Type{Kind: tidemark.Int, Native: "int(8) unsigned zerofill"}
	char, text, js := sized(tidemark.Char, 10), kind(tidemark.Text), kind(tidemark.JSON)
	date, datetime, stamp, tm := kind(tidemark.Date), kind(tidemark.DateTime), kind(tidemark.Timestamp), kind(tidemark.Time)
	interval, uuid, blob, geo, money := kind(tidemark.Interval), kind(tidemark.UUID), kind(tidemark.Blob), kind(tidemark.Geometry), kind(tidemark.Money)
	free := decimal(0, 0)
	for _, c := range []struct {
		a    tidemark.Type
		va   string
		b    tidemark.Type
		vb   string
		same bool
	}{
		{boolean, "t", integer, "1", true}, {boolean, "t", integer, "5", true}, {boolean, "f", integer, "0", true}, {boolean, "f", integer, "1", false},
		{boolean, "t", bit, "1", true}, {boolean, "t", bit, "0", false}, {integer, "-1", boolean, "t", true},
		{zero, "00000042", integer, "42", true}, {zero, "00000000", integer, "0", true}, {zero, "00000042", integer, "420", false},
		{year, "0000", integer, "0", true}, {year, "1999", integer, "1999", true},
		{integer, "12", decimal(20, 0), "12", true}, {integer, "-9223372036854775808", free, "-9223372036854775808", true}, {integer, "12", decimal(10, 2), "12.00", true}, {integer, "12", decimal(10, 2), "12.01", false},
		{decimal(65, 30), "0.100000000000000000000000000000", free, "0.1", true}, {decimal(65, 30), "-0.000000000000000000000000000000", free, "0", true},
		{decimal(10, 2), "1.10", decimal(10, 2), "1.10", true}, {free, "1000", decimal(10, 3), "1000.000", true}, {free, "100", decimal(10, 3), "10", false}, {free, "NaN", free, "NaN", true}, {free, "NaN", free, "0", false}, {decimal(5, 2), ".5", free, "0.50", true},
		{money, "$1,234.50", decimal(19, 2), "1234.50", true}, {money, "-$1,234.50", decimal(19, 2), "-1234.5", true}, {money, "($3.00)", free, "-3", true}, {money, "$1", free, "2", false},
		{float(64), "0.1", float(64), "1e-01", true}, {float(32), "0.1", float(32), "0.1", true}, {float(64), "-0", float(64), "0", true}, {float(64), "1e+20", float(64), "100000000000000000000", true}, {float(64), "NaN", float(64), "NaN", true},
		{float(32), "16777216", float(64), "1.6777216e+07", true}, {float(64), "0.1", float(64), "0.10000000000000002", false}, {float(32), "0.1", float(32), "0.100000001", true}, {float(64), "0.1", decimal(10, 5), "0.10000", true}, {float(64), "1e400", float(64), "Infinity", true},
		{char, "a         ", kind(tidemark.Varchar), "a", true}, {char, "a", sized(tidemark.Char, 5), "a    ", true}, {char, " a", text, "a", false}, {kind(tidemark.Varchar), "a ", text, "a", false},
		{bit, "1", sized(tidemark.Bit, 8), "00000001", true}, {sized(tidemark.Bit, 8), "00001010", kind(tidemark.Int), "10", true}, {integer, "10", sized(tidemark.Bit, 8), "00001010", true}, {sized(tidemark.Bit, 64), strings.Repeat("1", 64), decimal(20, 0), "18446744073709551615", true},
		{sized(tidemark.Bit, 8), "00001010", blob, `\\x0a`, true}, {sized(tidemark.Bit, 10), "1000001010", blob, `\\x020a`, true},
		{date, "2024-02-29", datetime, "2024-02-29 00:00:00", true}, {date, "2024-02-29", stamp, "2024-02-29 00:00:00+00", true}, {date, "0044-03-15 BC", datetime, "0044-03-15 00:00:00 BC", true}, {date, "infinity", datetime, "infinity", true}, {date, "2024-02-29", datetime, "2024-02-29 00:00:01", false},
		{datetime, "2024-02-29 12:34:56.789000", stamp, "2024-02-29 12:34:56.789+00", true}, {datetime, "2024-02-29 12:34:56.000000", datetime, "2024-02-29 12:34:56", true}, {datetime, "2024-02-29 12:34:50", datetime, "2024-02-29 12:34:5", false}, {stamp, "4713-01-01 00:00:00+00 BC", datetime, "4713-01-01 00:00:00 BC", true},
		{tm, "12:34:56.780000", tm, "12:34:56.78", true}, {kind(tidemark.TimeTZ), "04:05:06.500-08", tm, "04:05:06.5-08", true},
		{tm, "-838:59:59.500000", interval, "PT-838H-59M-59.5S", true}, {tm, "00:00:00", interval, "PT0S", true}, {tm, "24:00:00", interval, "P1D", true}, {interval, "P1M", tm, "720:00:00", false}, {tm, "-00:00:00.5", interval, "PT-0.5S", true}, {tm, "PT1H", interval, "PT1H", true}, {tm, "00:00:01", interval, "PT1M", false},
		{interval, "PT1.500S", interval, "PT1.5S", true},
		{uuid, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", sized(tidemark.Char, 36), "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", true}, {uuid, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", sized(tidemark.Binary, 16), `\\xa0eebc999c0b4ef8bb6d6bb9bd380a11`, true}, {uuid, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", text, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12", false},
		{geo, "0101000000000000000000F03F0000000000000040", blob, `\\x0101000000000000000000f03f0000000000000040`, true},
		{js, `{"b":1, "a":2, "a":3}`, text, `{"a": 3, "b": 1.0}`, true}, {js, `[1e2, -0, 1.10]`, js, `[100,0,1.1]`, true}, {js, `[1]`, js, `[1,2]`, false}, {js, `"\\u00e9\\/\\t"`, js, `"é/\\u0009"`, true}, {js, `"\\ud83d\\ude00"`, text, `"😀"`, true}, {js, `{"a":null}`, js, `{}`, false},
		{js, `"1"`, js, `1`, false}, {js, `[123456789012345678901234567890.10]`, js, `[1234567890123456789012345678901e-1]`, true}, {js, `[1234567890123456789012345678901]`, js, `[1234567890123456789012345678902]`, false}, {js, "{not json", text, "{not json", true},
		{text, "T", kind(tidemark.Enum), "t", false}, {kind(tidemark.Enum), "x", text, "x", true}, {kind(tidemark.Other), "192.168.0.1/24", text, "192.168.0.1/24", true},
	} {
		got := [2]string{c.va, c.vb}
		fa, fb := normals(c.a, c.b, false, policy{})
		for i, m := range []maker{fa, fb} {
			if m != nil {
				got[i] = string(m()(nil, []byte(got[i])))
			}
		}
		if (got[0] == got[1]) != c.same {
			t.Errorf("%v %q and %v %q: %q and %q, want equal: %v", c.a.Native, c.va, c.b.Native, c.vb, got[0], got[1], c.same)
		}
	}
}

func TestAlikeTypesAreNotRewritten(t *testing.T) {
	mysqlInt := func(native string) tidemark.Type { return mysqltype.Parse(native) }
	for _, c := range []struct {
		a, b  tidemark.Type
		alike bool
		raw   bool
	}{
		{kind(tidemark.JSON), kind(tidemark.JSON), true, true},
		{kind(tidemark.JSON), kind(tidemark.JSON), false, false},
		{mysqlInt("int(11)"), mysqlInt("int"), true, true},
		{mysqlInt("int(11)"), mysqlInt("int(8) zerofill"), true, false},
		{mysqlInt("json"), mysqlInt("longtext"), true, false},
		{mysqlInt("char(5)"), mysqlInt("char(5)"), true, true},
		{mysqlInt("char(5)"), mysqlInt("char(6)"), true, false},
		{mysqlInt("decimal(10,2)"), decimal(10, 2), false, true},
		{mysqlInt("int"), kind(tidemark.Int), false, true},
		{mysqlInt("varchar(5)"), kind(tidemark.Text), false, true},
	} {
		fa, fb := normals(c.a, c.b, c.alike, policy{})
		if raw := fa == nil && fb == nil; raw != c.raw {
			t.Errorf("%s and %s, alike %v: raw is %v", c.a.Native, c.b.Native, c.alike, raw)
		}
	}
}

func TestPolicies(t *testing.T) {
	date, datetime := kind(tidemark.Date), kind(tidemark.DateTime)
	for _, c := range []struct {
		p    policy
		t    tidemark.Type
		in   string
		want string
	}{
		{policy{zeroDates: "null"}, date, "0000-00-00", `\N`}, {policy{zeroDates: "null"}, date, "2024-00-10", `\N`}, {policy{zeroDates: "null"}, date, "2023-02-29", `\N`}, {policy{zeroDates: "null"}, date, "2024-02-29", "2024-02-29"}, {policy{zeroDates: "null"}, date, "1900-02-29", `\N`},
		{policy{zeroDates: "epoch"}, datetime, "0000-00-00 00:00:00", "1970-01-01 00:00:00"}, {policy{zeroDates: "epoch"}, datetime, "2000-02-29 01:02:03.50", "2000-02-29 01:02:03.5"},
		{policy{unheld: true}, date, "infinity", `\N`}, {policy{unheld: true}, date, "-infinity", `\N`}, {policy{unheld: true}, date, "0044-03-15 BC", `\N`}, {policy{unheld: true}, date, "10000-01-01", `\N`}, {policy{unheld: true}, date, "9999-01-01", "9999-01-01"},
		{policy{unheld: true}, float(64), "NaN", `\N`}, {policy{unheld: true}, float(64), "-Infinity", `\N`}, {policy{unheld: true}, float(64), "1.0", "1"}, {policy{unheld: true}, decimal(0, 0), "Infinity", `\N`},
		{policy{}, date, "0000-00-00", "0000-00-00"},
	} {
		other := c.t
		other.Native = "spelled otherwise"
		f, _ := normals(c.t, other, false, c.p)
		got := c.in
		if f != nil {
			got = string(f()(nil, []byte(c.in)))
		}
		if got != c.want {
			t.Errorf("%+v %s: got %s, want %s", c.p, c.in, got, c.want)
		}
	}
}

// Rows of different engines: one table through the whole comparison.
func TestCompareAcrossEngines(t *testing.T) {
	pg := []tidemark.Type{kind(tidemark.Int), kind(tidemark.Bool), {Kind: tidemark.JSON, Native: "jsonb"}, {Kind: tidemark.Timestamp, Native: "timestamptz"}, {Kind: tidemark.Char, Length: 5, Native: "character(5)"}}
	my := []tidemark.Type{mysqltype.Parse("int zerofill"), mysqltype.Parse("tinyint(1)"), mysqltype.Parse("json"), mysqltype.Parse("datetime(6)"), mysqltype.Parse("char(5)")}
	a := [][]*string{{str("1"), str("t"), str(`{"b": 1, "a": "x\ty"}`), str("2024-01-01 00:00:00+00"), str("ab   ")}, {str("2"), nil, nil, nil, nil}, {str("3"), str("f"), str("{}"), str("2024-01-01 00:00:00.5+00"), str("c    ")}}
	b := [][]*string{{str("0000000003"), str("1"), str("{}"), str("2024-01-01 00:00:00.500000"), str("c")}, {str("0000000002"), nil, nil, nil, nil}, {str("0000000001"), str("1"), str(`{"a":"x\u0009y","b":1.0}`), str("2024-01-01 00:00:00.000000"), str("ab")}}
	a[0][2] = str(`{"b": 1, "a": "x\u0009y"}`)
	got, err := Compare(t.Context(), side(map[string][][]*string{"t": a}), side(map[string][][]*string{"t": b}), []Pair{pairOf("t", pg, my, 0)}, Options{SourceEngine: "postgres", TargetEngine: "mysql"})
	if err != nil {
		t.Fatal(err)
	}
	if want := "s.t: 1 different, 3 rows on each side\n  different  a=3: b \"f\" -> 1\n"; got.Tables[0].String() != want {
		t.Errorf("got %v", got)
	}
}

// meaning returns the value of a JSON text: numbers exactly, the last of equal keys.
func meaning(text []byte) (any, bool) {
	var v any
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	if !json.Valid(text) || d.Decode(&v) != nil {
		return nil, false
	}
	ok := true
	var exact func(v any) any
	exact = func(v any) any {
		switch v := v.(type) {
		case json.Number:
			if _, e, has := strings.Cut(strings.ToLower(string(v)), "e"); has && len(strings.TrimLeft(e, "+-0")) > 4 {
				ok = false // big.Rat would take all memory
				return nil
			}
			r, _ := new(big.Rat).SetString(string(v))
			return "number " + r.String()
		case string:
			return "text " + v
		case []any:
			for i := range v {
				v[i] = exact(v[i])
			}
		case map[string]any:
			for k := range v {
				v[k] = exact(v[k])
			}
		}
		return v
	}
	return exact(v), ok
}

// Normal forms of JSON mean the same as the text, are their own normal form, and two of them are
// equal exactly if their meanings are.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{`{"b":1,"a":[1.10,-0,1e2],"b":{"x":"\u00e9\ud83d\ude00\/"}}`, ` [ ] `, `{}`, `"\ud83d"`, `1E400`, `-0.0e-0`, `[1,]`, `{"a"}`, "\"\x01\"", `"\u0000"`, `nullx`, `0010`, `[[[[]]]]`, `tru`} {
		f.Add(s, `{"a":[11e-1,0,100],"b":{"x":"é😀/"}}`)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		form := newJSON()
		norm := func(s string) (string, any, bool) {
			value, _ := unescape(nil, form(nil, escape.Append(nil, []byte(s), &escape.Copy)))
			m, ok := meaning([]byte(s))
			if !ok || !utf8.ValidString(s) || strings.Contains(strings.ToLower(s), `\ud`) { // encoding/json replaces half pairs
				return string(value), nil, false
			}
			back, ok := meaning(value)
			if !ok || !reflect.DeepEqual(m, back) {
				t.Fatalf("%q became %q", s, value)
			}
			if again, _ := unescape(nil, form(nil, escape.Append(nil, value, &escape.Copy))); string(again) != string(value) {
				t.Fatalf("%q is not its own normal form but %q", value, again)
			}
			return string(value), m, true
		}
		na, ma, oka := norm(a)
		nb, mb, okb := norm(b)
		if oka && okb && (na == nb) != reflect.DeepEqual(ma, mb) {
			t.Fatalf("%q and %q became %q and %q", a, b, na, nb)
		}
	})
}

func FuzzNormalForms(f *testing.F) {
	f.Add("12:34:56.5", uint8(2), uint8(3))
	f.Add("-000.100", uint8(4), uint8(5))
	f.Fuzz(func(t *testing.T, value string, a, b uint8) {
		ta, tb := kind(tidemark.TypeKind(a%28)), kind(tidemark.TypeKind(b%28))
		fa, fb := normals(ta, tb, false, policy{zeroDates: "null", unheld: true})
		for _, m := range []maker{fa, fb} {
			if m == nil {
				continue
			}
			out := m()([]byte("before"), escape.Append(nil, []byte(value), &escape.Copy))
			if !strings.HasPrefix(string(out), "before") || strings.ContainsAny(string(out), "\t\n") {
				t.Fatalf("%v %q: got %q", ta.Kind, value, out)
			}
		}
	})
}

// Rows that were written are found again, whatever they contain.
func TestRowsAndFields(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		columns := rapid.IntRange(1, 5).Draw(r, "columns")
		rows := rapid.SliceOf(rapid.SliceOfN(rapid.SampledFrom(nasty), columns, columns)).Draw(r, "rows")
		f := tidemark.Format(rapid.IntRange(0, 2).Draw(r, "format"))
		var data []byte
		for _, row := range rows {
			data = append(data, encode(f, row)...)
		}
		if at := lastRow(f, data); at != len(data) {
			r.Fatalf("the last row of whole rows begins at %d of %d", at, len(data))
		}
		for _, want := range rows {
			row, rest, err := nextRow(f, data)
			if err != nil {
				r.Fatal(err)
			}
			if cut := len(row) - 1; cut > 0 && lastRow(f, row[:cut]) != 0 {
				r.Fatalf("a row that is cut begins at %d", lastRow(f, row[:cut]))
			}
			spans, ok := fields(f, row, columns, nil)
			if !ok || spans[columns-1].to != len(row) {
				r.Fatalf("fields %v of %d bytes", spans, len(row))
			}
			if f != tidemark.CopyBinary {
				for i, s := range spans {
					value, null := unescape(nil, row[s.from:s.to])
					if null != (want[i] == nil) || !null && string(value) != *want[i] {
						r.Fatalf("field %q is %q", row[s.from:s.to], value)
					}
				}
			}
			data = rest
		}
		if len(data) != 0 {
			r.Fatalf("%d bytes are left", len(data))
		}
	})
}

// No bytes make the splitters panic, and the pieces add up to the whole.
func FuzzRows(f *testing.F) {
	f.Add([]byte("1\ta\\tb\n\\N\t\n"), uint8(0), uint8(2))
	b, _ := hex.DecodeString("0002000000013100000002ffffffff")
	f.Add(b, uint8(1), uint8(2))
	f.Add([]byte("\xff\xff"), uint8(1), uint8(0))
	f.Fuzz(func(t *testing.T, data []byte, format, n uint8) {
		form := tidemark.Format(format % 3)
		k := newKeyFinder(form, []int{int(n % 7), 0})
		at := lastRow(form, data)
		if at < 0 || at > len(data) {
			t.Fatalf("last row at %d of %d", at, len(data))
		}
		for len(data) > 0 {
			row, rest, err := nextRow(form, data)
			if err != nil {
				return
			}
			if len(row)+len(rest) > len(data) || len(rest) >= len(data) {
				t.Fatalf("%d bytes became %d and %d", len(data), len(row), len(rest))
			}
			if spans, ok := fields(form, row, int(n%9), nil); ok {
				for _, s := range spans {
					_ = row[s.from:s.to]
				}
			}
			k.find(row)
			data = rest
		}
	})
}
