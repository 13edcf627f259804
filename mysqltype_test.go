package tidemark

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestMySQLType(t *testing.T) {
	for _, c := range []struct {
		native string
		want   Type
	}{
		{"tinyint(1)", Type{Kind: Int, Bits: 8, Width1: true}},
		{"tinyint", Type{Kind: Int, Bits: 8}},
		{"tinyint(4)", Type{Kind: Int, Bits: 8}},
		{"BOOL", Type{Kind: Int, Bits: 8, Width1: true}},
		{"smallint(5) unsigned", Type{Kind: Int, Bits: 16, Unsigned: true}},
		{"mediumint", Type{Kind: Int, Bits: 24}},
		{"int unsigned", Type{Kind: Int, Bits: 32, Unsigned: true}},
		{"int(8) unsigned zerofill", Type{Kind: Int, Bits: 32, Unsigned: true}},
		{"int(8) zerofill", Type{Kind: Int, Bits: 32, Unsigned: true}},
		{"INTEGER", Type{Kind: Int, Bits: 32}},
		{"bigint(20)", Type{Kind: Int, Bits: 64}},
		{"serial", Type{Kind: Int, Bits: 64, Unsigned: true}},
		{"decimal(65,30)", Type{Kind: Decimal, Precision: 65, Scale: 30}},
		{"decimal", Type{Kind: Decimal, Precision: 10}},
		{"numeric( 5 , 2 ) unsigned", Type{Kind: Decimal, Precision: 5, Scale: 2, Unsigned: true}},
		{"float", Type{Kind: Float, Bits: 32}},
		{"float(7,3)", Type{Kind: Float, Bits: 32}},
		{"float(24)", Type{Kind: Float, Bits: 32}},
		{"float(25)", Type{Kind: Float, Bits: 64}},
		{"double(20,6)", Type{Kind: Float, Bits: 64}},
		{"double precision", Type{Kind: Float, Bits: 64}},
		{"double unsigned", Type{Kind: Float, Bits: 64, Unsigned: true}},
		{"char(10)", Type{Kind: Char, Length: 10}},
		{"char", Type{Kind: Char, Length: 1}},
		{"varchar(255)", Type{Kind: Varchar, Length: 255}},
		{"varchar(100) /*M!100301 COMPRESSED*/", Type{Kind: Varchar, Length: 100}},
		{"national varchar(5)", Type{Kind: Varchar, Length: 5}},
		{"national char", Type{Kind: Char, Length: 1}},
		{"character varying(7)", Type{Kind: Varchar, Length: 7}},
		{"tinytext", Type{Kind: Text, Length: 255}},
		{"text", Type{Kind: Text, Length: 65535}},
		{"text(100)", Type{Kind: Text, Length: 255}},
		{"text(70000)", Type{Kind: Text, Length: 1<<24 - 1}},
		{"blob(20000000)", Type{Kind: Blob, Length: 1<<32 - 1}},
		{"blob /*M!100301 COMPRESSED*/", Type{Kind: Blob, Length: 65535}},
		{"long varchar", Type{Kind: Text, Length: 1<<24 - 1}},
		{"long", Type{Kind: Text, Length: 1<<24 - 1}},
		{"long varbinary", Type{Kind: Blob, Length: 1<<24 - 1}},
		{"longtext", Type{Kind: Text, Length: 1<<32 - 1}},
		{"binary(16)", Type{Kind: Binary, Length: 16}},
		{"varbinary(65535)", Type{Kind: Varbinary, Length: 65535}},
		{"longblob", Type{Kind: Blob, Length: 1<<32 - 1}},
		{"vector(3)", Type{Kind: Blob, Length: 12}},
		{"bit", Type{Kind: Bit, Length: 1}},
		{"bit(64)", Type{Kind: Bit, Length: 64}},
		{"date", Type{Kind: Date}},
		{"time(6)", Type{Kind: Time, Precision: 6}},
		{"datetime", Type{Kind: DateTime}},
		{"timestamp(3)", Type{Kind: Timestamp, Precision: 3}},
		{"year(4)", Type{Kind: Year}},
		{"json", Type{Kind: JSON}},
		{"uuid", Type{Kind: UUID}},
		{"inet6", Type{Kind: Other}},
		{"point", Type{Kind: Geometry}},
		{"geomcollection", Type{Kind: Geometry}},
		{"enum('a','it''s','com,ma','c)d','','日本')", Type{Kind: Enum, Labels: []string{"a", "it's", "com,ma", "c)d", "", "日本"}}},
		{`enum('back\\slash','new\nline','nul\0','q\'q')`, Type{Kind: Enum, Labels: []string{`back\slash`, "new\nline", "nul\x00", "q'q"}}},
		{"SET('x','UNSIGNED')", Type{Kind: Set, Labels: []string{"x", "UNSIGNED"}}},
		{"set('y') unsigned", Type{Kind: Set, Labels: []string{"y"}, Unsigned: true}},
		{"", Type{Kind: Other}},
		{"enum('a", Type{Kind: Enum, Labels: []string{"a"}}},
		{"int(", Type{Kind: Int, Bits: 32}},
	} {
		c.want.Native = c.native
		if got := MySQLType(c.native); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", c.native, got, c.want)
		}
	}
}

// Whatever the text, there is an answer; and labels that are printed as servers
// print them are read as they were.
func FuzzMySQLType(f *testing.F) {
	for _, s := range []string{"int(10) unsigned", "enum('a','b''c')", "'", "(", "decimal(10,", "a\\'b", "set('\\\\')"} {
		f.Add(s)
	}
	print := strings.NewReplacer("'", "''", `\`, `\\`, "\n", `\n`, "\r", `\r`, "\x00", `\0`)
	f.Fuzz(func(t *testing.T, s string) {
		MySQLType(s)
		got := MySQLType(fmt.Sprintf("enum('%s','%s')", print.Replace(s), print.Replace(s)))
		if got.Kind != Enum || !reflect.DeepEqual(got.Labels, []string{s, s}) {
			t.Errorf("labels %q of %q", got.Labels, s)
		}
	})
}
