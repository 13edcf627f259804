package mysqltype

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		native string
		want   tidemark.Type
	}{
		{"tinyint(1)", tidemark.Type{Kind: tidemark.Int, Bits: 8, Width1: true}},
		{"tinyint", tidemark.Type{Kind: tidemark.Int, Bits: 8}},
		{"tinyint(4)", tidemark.Type{Kind: tidemark.Int, Bits: 8}},
		{"BOOL", tidemark.Type{Kind: tidemark.Int, Bits: 8, Width1: true}},
		{"smallint(5) unsigned", tidemark.Type{Kind: tidemark.Int, Bits: 16, Unsigned: true}},
		{"mediumint", tidemark.Type{Kind: tidemark.Int, Bits: 24}},
		{"int unsigned", tidemark.Type{Kind: tidemark.Int, Bits: 32, Unsigned: true}},
		{"int(8) unsigned zerofill", tidemark.Type{Kind: tidemark.Int, Bits: 32, Unsigned: true}},
		{"int(8) zerofill", tidemark.Type{Kind: tidemark.Int, Bits: 32, Unsigned: true}},
		{"INTEGER", tidemark.Type{Kind: tidemark.Int, Bits: 32}},
		{"bigint(20)", tidemark.Type{Kind: tidemark.Int, Bits: 64}},
		{"serial", tidemark.Type{Kind: tidemark.Int, Bits: 64, Unsigned: true}},
		{"decimal(65,30)", tidemark.Type{Kind: tidemark.Decimal, Precision: 65, Scale: 30}},
		{"decimal", tidemark.Type{Kind: tidemark.Decimal, Precision: 10}},
		{"numeric( 5 , 2 ) unsigned", tidemark.Type{Kind: tidemark.Decimal, Precision: 5, Scale: 2, Unsigned: true}},
		{"float", tidemark.Type{Kind: tidemark.Float, Bits: 32}},
		{"float(7,3)", tidemark.Type{Kind: tidemark.Float, Bits: 32}},
		{"float(24)", tidemark.Type{Kind: tidemark.Float, Bits: 32}},
		{"float(25)", tidemark.Type{Kind: tidemark.Float, Bits: 64}},
		{"double(20,6)", tidemark.Type{Kind: tidemark.Float, Bits: 64}},
		{"double precision", tidemark.Type{Kind: tidemark.Float, Bits: 64}},
		{"double unsigned", tidemark.Type{Kind: tidemark.Float, Bits: 64, Unsigned: true}},
		{"char(10)", tidemark.Type{Kind: tidemark.Char, Length: 10}},
		{"char", tidemark.Type{Kind: tidemark.Char, Length: 1}},
		{"varchar(255)", tidemark.Type{Kind: tidemark.Varchar, Length: 255}},
		{"varchar(100) /*M!100301 COMPRESSED*/", tidemark.Type{Kind: tidemark.Varchar, Length: 100}},
		{"national varchar(5)", tidemark.Type{Kind: tidemark.Varchar, Length: 5}},
		{"national char", tidemark.Type{Kind: tidemark.Char, Length: 1}},
		{"character varying(7)", tidemark.Type{Kind: tidemark.Varchar, Length: 7}},
		{"tinytext", tidemark.Type{Kind: tidemark.Text, Length: 255}},
		{"text", tidemark.Type{Kind: tidemark.Text, Length: 65535}},
		{"text(100)", tidemark.Type{Kind: tidemark.Text, Length: 255}},
		{"text(70000)", tidemark.Type{Kind: tidemark.Text, Length: 1<<24 - 1}},
		{"blob(20000000)", tidemark.Type{Kind: tidemark.Blob, Length: 1<<32 - 1}},
		{"blob /*M!100301 COMPRESSED*/", tidemark.Type{Kind: tidemark.Blob, Length: 65535}},
		{"long varchar", tidemark.Type{Kind: tidemark.Text, Length: 1<<24 - 1}},
		{"long", tidemark.Type{Kind: tidemark.Text, Length: 1<<24 - 1}},
		{"long varbinary", tidemark.Type{Kind: tidemark.Blob, Length: 1<<24 - 1}},
		{"longtext", tidemark.Type{Kind: tidemark.Text, Length: 1<<32 - 1}},
		{"binary(16)", tidemark.Type{Kind: tidemark.Binary, Length: 16}},
		{"varbinary(65535)", tidemark.Type{Kind: tidemark.Varbinary, Length: 65535}},
		{"longblob", tidemark.Type{Kind: tidemark.Blob, Length: 1<<32 - 1}},
		{"vector(3)", tidemark.Type{Kind: tidemark.Blob, Length: 12}},
		{"bit", tidemark.Type{Kind: tidemark.Bit, Length: 1}},
		{"bit(64)", tidemark.Type{Kind: tidemark.Bit, Length: 64}},
		{"date", tidemark.Type{Kind: tidemark.Date}},
		{"time(6)", tidemark.Type{Kind: tidemark.Time, Precision: 6}},
		{"datetime", tidemark.Type{Kind: tidemark.DateTime}},
		{"timestamp(3)", tidemark.Type{Kind: tidemark.Timestamp, Precision: 3}},
		{"year(4)", tidemark.Type{Kind: tidemark.Year}},
		{"json", tidemark.Type{Kind: tidemark.JSON}},
		{"uuid", tidemark.Type{Kind: tidemark.UUID}},
		{"inet6", tidemark.Type{Kind: tidemark.Other}},
		{"point", tidemark.Type{Kind: tidemark.Geometry}},
		{"geomcollection", tidemark.Type{Kind: tidemark.Geometry}},
		{"enum('a','it''s','com,ma','c)d','','日本')", tidemark.Type{Kind: tidemark.Enum, Labels: []string{"a", "it's", "com,ma", "c)d", "", "日本"}}},
		{`enum('back\\slash','new\nline','nul\0','q\'q')`, tidemark.Type{Kind: tidemark.Enum, Labels: []string{`back\slash`, "new\nline", "nul\x00", "q'q"}}},
		{"enum(x'f09f9880','x''41',X'2c')", tidemark.Type{Kind: tidemark.Enum, Labels: []string{"😀", "x'41", ","}}},
		{"SET('x','UNSIGNED')", tidemark.Type{Kind: tidemark.Set, Labels: []string{"x", "UNSIGNED"}}},
		{"set('y') unsigned", tidemark.Type{Kind: tidemark.Set, Labels: []string{"y"}, Unsigned: true}},
		{"", tidemark.Type{Kind: tidemark.Other}},
		{"enum('a", tidemark.Type{Kind: tidemark.Enum, Labels: []string{"a"}}},
		{"int(", tidemark.Type{Kind: tidemark.Int, Bits: 32}},
	} {
		c.want.Native = c.native
		if got := Parse(c.native); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", c.native, got, c.want)
		}
	}
}

// FuzzParse: Parse has a result for any text, and returns labels unchanged from the form in which
// servers print them.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"int(10) unsigned", "enum('a','b''c')", "'", "(", "decimal(10,", "a\\'b", "set('\\\\')"} {
		f.Add(s)
	}
	print := strings.NewReplacer("'", "''", `\`, `\\`, "\n", `\n`, "\r", `\r`, "\x00", `\0`)
	f.Fuzz(func(t *testing.T, s string) {
		Parse(s)
		got := Parse(fmt.Sprintf("enum('%s','%s')", print.Replace(s), print.Replace(s)))
		if got.Kind != tidemark.Enum || !reflect.DeepEqual(got.Labels, []string{s, s}) {
			t.Errorf("labels %q of %q", got.Labels, s)
		}
	})
}

// TestUnfilled: the default of a column with ZEROFILL is the number that it shows with zeros.
func TestUnfilled(t *testing.T) {
	for _, c := range [][3]string{{"int(5) unsigned zerofill", "00000", "0"}, {"int(5) unsigned zerofill", "00120", "120"}, {"DECIMAL(7,2) ZEROFILL", "00000.50", "0.50"},
		{"double(12,3) unsigned zerofill", "00000012.000", "12.000"}, {"decimal(7,2)", "0.00", "0.00"}, {"varchar(5)", "007", "007"}} {
		if got := Unfilled(c[1], &tidemark.Type{Native: c[0]}); got != c[2] {
			t.Errorf("%s: %s became %s, want %s", c[0], c[1], got, c[2])
		}
	}
}
