package drda

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// insert writes rows of COPY text through a statement for so many rows at a time.
func insert(t *testing.T, c *Conn, table string, params []Param, rows int, text string) (int64, error) {
	t.Helper()
	one := "(" + strings.TrimSuffix(strings.Repeat("?,", len(params)), ",") + ")"
	s, err := c.Prepare("insert into "+table+" values "+strings.TrimSuffix(strings.Repeat(one+",", rows), ","), params, rows)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Unprepare()
	for rest := []byte(text); len(rest) > 0; {
		if rest, err = s.Add(rest); err != nil {
			c.Drop()
			return 0, err
		}
	}
	return c.Run(t.Context())
}

// allTypes are a column of each type of Derby, and how values of it are sent.
const allTypes = `id int not null primary key, si smallint, bi bigint, d decimal(10,2), d31 decimal(31,31), d5 decimal(5,0), r real, f double, ch char(5), vc varchar(40), lv long varchar,
	cb char(3) for bit data, vb varchar(9) for bit data, dt date, tm time, ts timestamp, cl clob, bl blob`

var allParams = []Param{{Kind: ParamInt}, {Kind: ParamInt}, {Kind: ParamInt}, {Kind: ParamDecimal, Digits: 10, Scale: 2}, {Kind: ParamDecimal, Digits: 31, Scale: 31}, {Kind: ParamDecimal, Digits: 5}, {Kind: ParamFloat}, {Kind: ParamFloat},
	{Kind: ParamText}, {Kind: ParamText}, {Kind: ParamText}, {Kind: ParamBytes}, {Kind: ParamBytes}, {Kind: ParamText}, {Kind: ParamText}, {Kind: ParamText}, {Kind: ParamLobText}, {Kind: ParamLobBytes}}

// What is written at the ends of all types is read as it was, and Derby sees it so.
func TestInsert(t *testing.T) {
	eachDerby(t, func(t *testing.T, minor int) {
		c := open(t, minor)
		run(t, c, "create table v("+allTypes+")")
		rows := `1	-32768	-9223372036854775808	-12345678.90	-0.0000000000000000000000000000001	-99999	1.5	-2.25e-07	ab   	h\\éllo€	l\tong\n	\\x00ff10	\\x	0001-01-01	23:59:59	2024-02-29 12:34:56.12	c	\N
2	32767	9223372036854775807	99999999.99	0.9999999999999999999999999999999	99999	3.402e+38	1.79769e+308	     			\\x000000	\\xc1	9999-12-31	00:00:00	9999-12-31 23:59:59.999999		\\x0001
3	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N
4	0	0	0.00	0.0000000000000000000000000000000	0	0	0	é    	é	é	\\x202020	\\x00	2000-01-01	12:00:00	2000-01-01 00:00:00	` + strings.Repeat("é", 40000) + "\t\\\\x" + strings.Repeat("00ff", 50000) + "\n"
		for _, n := range []int{1, 2} {
			if got, err := insert(t, c, "v", allParams, n, rows); got != 4 || err != nil {
				t.Fatalf("%d rows, %v", got, err)
			}
			if got := text(t, c, "select * from v order by id"); got != rows {
				t.Errorf("got\n%.2000q\nwant\n%.2000q", got, rows)
			}
			if got := text(t, c, "select count(*), sum(length(cl)), sum(length(bl)) from v"); got != "4\t40001\t100002\n" {
				t.Errorf("the server counts %q", got)
			}
			if err := c.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			run(t, c, "create table v("+allTypes+")")
		}
	})
}

// Descriptions of more than one group, objects of more than one segment, and chains of many
// statements.
func TestInsertWideAndMany(t *testing.T) {
	eachDerby(t, func(t *testing.T, minor int) {
		c := open(t, minor)
		var names, row, want strings.Builder
		params := make([]Param, 200)
		for i := range params {
			fmt.Fprintf(&names, ", c%d varchar(3000)", i)
			fmt.Fprintf(&row, "\t%d%s", i, strings.Repeat("x", i*10))
		}
		run(t, c, "create table w(id int"+names.String()+")", "create table m(id int, v varchar(20))")
		for i := range 6 {
			fmt.Fprintf(&want, "%d%s\n", i, &row)
		}
		if n, err := insert(t, c, "w", append([]Param{{Kind: ParamInt}}, params...), 3, want.String()); n != 6 || err != nil {
			t.Fatalf("%d rows, %v", n, err)
		}
		if got := text(t, c, "select * from w order by id"); got != want.String() {
			t.Errorf("got %.300q", got)
		}
		want.Reset()
		for i := range 5000 {
			fmt.Fprintf(&want, "%d\tv%d\n", i, i)
		}
		if n, err := insert(t, c, "m", []Param{{Kind: ParamInt}, {}}, 10, want.String()); n != 5000 || err != nil {
			t.Fatalf("%d rows, %v", n, err)
		}
		if got := text(t, c, "select * from m order by id"); got != want.String() {
			t.Errorf("got %.300q", got)
		}
	})
}

// The first error of a chain is reported, and the session stays usable.
func TestInsertErrors(t *testing.T) {
	eachDerby(t, func(t *testing.T, minor int) {
		c := open(t, minor)
		run(t, c, "create table e(id int not null primary key, v varchar(3), l clob)")
		params := []Param{{Kind: ParamInt}, {}, {Kind: ParamLobText}}
		for text, state := range map[string]string{
			"1\ta\tx\n2\tb\ty\n1\tc\tz\n4\td\tw\n": "23505", "1\ta\tx\n\\N\tb\ty\n4\td\tw\n": "23502", "1\ta\tx\n2\tlong\tx\n4\td\tw\n": "22001", "1\ta\tx\n99999999999\ta\tx\n4\td\tw\n": "22003",
		} {
			if _, err := insert(t, c, "e", params, 1, text); StateOf(err) != state {
				t.Errorf("%q: %v", text, err)
			}
			run(t, c, "delete from e")
		}
		for text, column := range map[string]int{"1\ta\n": 1, "x\ta\tb\n": 0, "1\ta\tb\tc\n": 2, "1\t\xff\tx\n": 1, "1\ta\t\xff\n": 2} {
			var bad *ValueError
			if _, err := insert(t, c, "e", params, 1, text); !errors.As(err, &bad) || bad.Column != column {
				t.Errorf("%q: %v", text, err)
			}
		}
		s, err := c.Prepare("insert into nosuch values (?)", params[:1], 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Add([]byte("1\n")); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Run(t.Context()); StateOf(err) != "42X05" {
			t.Errorf("a table that is not there: %v", err)
		}
		c.Unprepare()
		if n, err := insert(t, c, "e", params, 1, "7\tok\tx\n"); n != 1 || err != nil {
			t.Errorf("%d rows, %v", n, err)
		}
	})
}

// A value of some megabytes goes out without being held.
func TestInsertStreamed(t *testing.T) {
	eachDerby(t, func(t *testing.T, minor int) {
		c := open(t, minor)
		run(t, c, "create table l(a blob, id int, b clob, d blob)")
		s, err := c.Prepare("insert into l values (?, ?, ?, ?)", []Param{{Kind: ParamLobBytes}, {Kind: ParamInt}, {Kind: ParamLobText}, {Kind: ParamLobBytes}}, 1)
		if err != nil {
			t.Fatal(err)
		}
		for i, size := range []int{0, 1, 32751, 32752, 32753, 65519, 5 << 20} {
			a := bytes.Repeat([]byte{0, 0xFF, 7}, size/3+1)[:size]
			lobs := []*Lob{{int64(size), bytes.NewReader(a)}, nil, {int64(size), strings.NewReader(strings.Repeat("x", size))}, nil}
			texts := [][]byte{nil, fmt.Append(nil, i), nil, []byte(null)}
			if i%2 == 1 {
				lobs[3], texts[3] = &Lob{3, strings.NewReader("abc")}, nil
			}
			if n, err := s.AddLarge(t.Context(), texts, lobs); n != 1 || err != nil {
				t.Fatalf("%d bytes: %d rows, %v", size, n, err)
			}
			want := fmt.Sprintf("\\\\x%x\t%d\t%s\t", a, i, strings.Repeat("x", size)) + map[bool]string{false: "\\N\n", true: "\\\\x616263\n"}[i%2 == 1]
			if got, _ := copied(t, c, fmt.Sprintf("select * from l where id = %d", i), 100); got != want {
				t.Errorf("%d bytes came back as %.100q", size, got)
			}
		}
		_, err = s.AddLarge(t.Context(), [][]byte{nil, []byte("1"), nil, []byte(null)}, []*Lob{{10, strings.NewReader("short")}, nil, {1, strings.NewReader("x")}, nil})
		if err == nil || !strings.Contains(err.Error(), "shorter") || !c.Broken {
			t.Errorf("a value that is shorter than was said: %v, broken %t", err, c.Broken)
		}
	})
}

// FuzzParams compares packed decimals with what reads them; a row that is refused leaves nothing.
func FuzzParams(f *testing.F) {
	f.Add([]byte("-123.450"), uint8(10), uint8(3))
	f.Add([]byte(`\\x00ff`), uint8(31), uint8(31))
	f.Add([]byte("\\N\tNaN\t\n"), uint8(1), uint8(0))
	f.Fuzz(func(t *testing.T, v []byte, digits, scale uint8) {
		p := Param{Kind: ParamDecimal, Digits: int(digits%31) + 1}
		p.Scale = int(scale) % (p.Digits + 1)
		if out, err := p.appendParam(nil, v); err == nil && string(v) != null {
			if len(out) != 1+p.Digits/2+1 {
				t.Fatalf("%d bytes", len(out))
			}
			back, ok := appendDecimal(nil, out[1:], p.Digits, p.Scale)
			again, err := p.appendParam(nil, back)
			if !ok || err != nil || !bytes.Equal(again[:len(again)-1], out[:len(out)-1]) {
				t.Fatalf("%q is %x, which is %q: %v", v, out, back, err)
			}
		}
		link := &replay{}
		c := &Conn{net: link, in: newReader(link), order: binary.BigEndian, rdb: bytes.Repeat([]byte{0x40}, 18)}
		params := []Param{{}, {Kind: ParamInt}, {Kind: ParamFloat}, p, {Kind: ParamBool}, {Kind: ParamBytes}, {Kind: ParamLobText}, {Kind: ParamLobBytes}}
		for i := range params {
			s, err := c.Prepare("x", params[i:], 1)
			if err != nil {
				t.Fatal(err)
			}
			before := c.Pending()
			if rest, err := s.Add(v); err != nil && c.Pending() != before {
				t.Fatal("a row that was refused has left something")
			} else if err == nil && len(rest) >= len(v) {
				t.Fatal("no row was taken")
			}
		}
	})
}
