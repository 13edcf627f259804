package functions

import (
	"testing"

	"github.com/tidemarkdb/tidemark/sqltext"
)

func TestMariaDB(t *testing.T) {
	isTime := func(column string) bool { return column == "d" }
	for _, c := range []struct {
		mysql, mariadb string
		virtual, store string // what is lacking for these uses
	}{
		{"regexp_like(`s`,'a')", "(`s` regexp 'a')", "", ""},
		{"regexp_like(`s`,'a','c')", "regexp_like(`s`,'a','c')", "function regexp_like", "function regexp_like"},
		{"uuid_to_bin(uuid())", "unhex(replace(replace(replace(uuid(),'-',''),'{',''),'}',''))", "", ""},
		{"uuid_to_bin(uuid(),true)", `unhex(regexp_replace(replace(replace(replace(uuid(),'-',''),'{',''),'}',''),'^(.{8})(.{4})(.{4})','\\3\\2\\1'))`, "", ""},
		{"uuid_to_bin(`s`,`n`)", "uuid_to_bin(`s`,`n`)", "function uuid_to_bin", "function uuid_to_bin"},
		{"bin_to_uuid(uuid_to_bin(`s`))", "lower(insert(insert(insert(insert(hex(unhex(replace(replace(replace(`s`,'-',''),'{',''),'}',''))),9,0,'-'),14,0,'-'),19,0,'-'),24,0,'-'))", "", ""},
		{"cast('[]' as json)", "json_loose('[]')", "", ""},
		{"json_value(`j`, '$.a' returning char(512))", "json_value(`j`,'$.a')", "", ""},
		{"json_value(`j`, '$.a' returning signed)", "json_value(`j`, '$.a' returning signed)", "function json_value with RETURNING", "function json_value with RETURNING"},
		{"date_format(`d`,'%Y-%m')", "date_format(`d`,'%Y-%m','en_US')", "", ""},
		{"date_format(`d`,'%M')", "date_format(`d`,'%M')", "", "function date_format in a check, and in a generated column that is stored or in a key"},
		{"cast(`d` as datetime(3))", "cast(`d` as datetime(3))", "", ""},
		{"cast(`s` as datetime(3))", "cast(`s` as datetime(3))", "", "cast of a text to a time in a generated column that is stored or in a key"},
		{"cast(`s` as date)", "cast(`s` as date)", "", ""},
		{"(`n` member of (`j`))", "(`n` member of (`j`))", "MEMBER OF", "MEMBER OF"},
		{"regexp_substr(`s`,'a',1)", "regexp_substr(`s`,'a',1)", "function regexp_substr with more than 2 arguments", "function regexp_substr with more than 2 arguments"},
		{"concat(`uuid_to_bin`,'uuid_to_bin(')", "concat(`uuid_to_bin`,'uuid_to_bin(')", "", ""},
		{"uuid_to_bin(", "uuid_to_bin(", "", ""},
	} {
		tokens := MariaDB.Calls(sqltext.Scan(c.mysql))
		if got := sqltext.Join(tokens); got != c.mariadb {
			t.Errorf("%s becomes %s, not %s", c.mysql, got, c.mariadb)
		}
		if got := MariaDB.Lacks(tokens, Virtual, isTime); got != c.virtual {
			t.Errorf("%s lacks %q, not %q", c.mysql, got, c.virtual)
		}
		if got := MariaDB.Lacks(tokens, Stored, isTime); got != c.store {
			t.Errorf("%s, stored, lacks %q, not %q", c.mysql, got, c.store)
		}
	}
}

func TestMySQL(t *testing.T) {
	for _, c := range []struct {
		mariadb, mysql string
		def, virtual   string // what is lacking for these uses
	}{
		{"nvl2(`s`,'a',lpad(`s`,3))", "if(`s` is not null,'a',lpad(`s`,3,' '))", "", ""},
		{"date_format(`d`,'%Y','en_US')", "date_format(`d`,'%Y')", "", ""},
		{"date_format(`d`,'%M','de_DE')", "date_format(`d`,'%M','de_DE')", "function date_format with more than 2 arguments", "function date_format with more than 2 arguments"},
		{"json_loose('[]')", "cast('[]' as json)", "", ""},
		{"json_exists(`j`,'$.a')", "json_contains_path(`j`,'one','$.a')", "", ""},
		{"json_query(`j`,'$.a')", "json_query(`j`,'$.a')", "function json_query", "function json_query"},
		{"cast(`s` as uuid)", "cast(`s` as uuid)", "cast to uuid", "cast to uuid"},
		{"cast(`s` as char(3))", "cast(`s` as char(3))", "", ""},
		{"current_user()", "current_user()", "function current_user", "function current_user"},
		{"current_timestamp(3)", "current_timestamp(3)", "", "function current_timestamp in a generated column"},
	} {
		tokens := MySQL.Calls(sqltext.Scan(c.mariadb))
		if got := sqltext.Join(tokens); got != c.mysql {
			t.Errorf("%s becomes %s, not %s", c.mariadb, got, c.mysql)
		}
		if got := MySQL.Lacks(tokens, Default, nil); got != c.def {
			t.Errorf("%s lacks %q, not %q", c.mariadb, got, c.def)
		}
		if got := MySQL.Lacks(tokens, Virtual, nil); got != c.virtual {
			t.Errorf("%s, virtual, lacks %q, not %q", c.mariadb, got, c.virtual)
		}
	}
}
