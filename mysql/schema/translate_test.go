package schema

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

func TestTranslate(t *testing.T) {
	columns := map[string]*tidemark.Column{
		"a": {Name: "a", Type: tidemark.Type{Kind: tidemark.Int}}, "b": {Name: "b", Type: tidemark.Type{Kind: tidemark.Int}},
		"d": {Name: "d", Type: tidemark.Type{Kind: tidemark.Decimal}}, "t": {Name: "t", Type: tidemark.Type{Kind: tidemark.Text}},
		"ok": {Name: "ok", Type: tidemark.Type{Kind: tidemark.Bool}}, "Odd \" name": {Name: "Odd \" name", Type: tidemark.Type{Kind: tidemark.Int}},
		"day": {Name: "day", Type: tidemark.Type{Kind: tidemark.Date}}, "j": {Name: "j", Type: tidemark.Type{Kind: tidemark.JSON}},
	}
	for _, c := range []struct{ expr, want string }{
		{"(a > 0)", "(`a` > 0)"},
		{"((a >= 1) AND (a <= 10))", "((`a` >= 1) and (`a` <= 10))"},
		{"(a <> b)", "(`a` <> `b`)"},
		{"(\"Odd \"\" name\" IS NOT NULL)", "(`Odd \" name` is not null)"},
		{"((t)::text = ANY ((ARRAY['x'::character varying, 'y''z'::character varying])::text[]))", "((`t`) in ('x', 'y''z'))"},
		{"(t = ANY (ARRAY['x'::text, 'y'::text]))", "(`t` in ('x', 'y'))"},
		{"(a <> ALL (ARRAY[1, 2]))", "(`a` not in (1, 2))"},
		{"(d >= (0)::numeric)", "(`d` >= (0))"},
		{"(d > '-1.5'::numeric)", "(`d` > -1.5)"},
		{"(t ~~ '%x\\y'::text)", "(`t` like '%x\\\\y')"},
		{"(t !~~ 'a%'::text)", "(`t` not like 'a%')"},
		{"((t || '-'::text) || (a)::text)", "(concat((concat(`t`, '-')), cast((`a`) as char)))"},
		{"(a / b)", "(`a` div `b`)"},
		{"(d / (2)::numeric)", "(cast(`d` as decimal(60,20)) / (2))"},
		{"(d)::integer", "cast((`d`) as signed)"},
		{"(d)::numeric(10,2)", "cast((`d`) as decimal(10,2))"},
		{"(t)::character varying(3)", "left((`t`), 3)"},
		{"(a % 2)", "(`a` % 2)"},
		{"(- a)", "(-`a`)"},
		{"(NOT ok)", "(not `ok`)"},
		{"(ok IS TRUE)", "(`ok` is true)"},
		{"CASE WHEN (a > 0) THEN 'p'::text ELSE 'n'::text END", "case when (`a` > 0) then 'p' else 'n' end"},
		{"COALESCE(t, ''::text)", "coalesce(`t`, '')"},
		{"lower(btrim(t))", "lower(trim(`t`))"},
		{"(length(t) < 5)", "(char_length(`t`) < 5)"},
		{"(day > '2020-01-01'::date)", "(`day` > date '2020-01-01')"},
		{"(t = 'sad'::zoo.mood)", "(`t` = 'sad')"},
		{"true", "true"},
	} {
		got, _, err := translate(c.expr, false, nil, func(n string) (*tidemark.Column, string) { return columns[n], n })
		if err != nil || got != c.want {
			t.Errorf("%s: got %s, %v; want %s", c.expr, got, err, c.want)
		}
	}
	for expr, why := range map[string]string{
		"(t ~ '^a'::text)":                 "~ is not translated",
		"(nope > 1)":                       "column nope is not translated",
		"(t + 1)":                          "+ of what are not numbers is not translated",
		"(j ->> 'x'::text)":                "->> is not translated",
		"greatest(a, b)":                   "greatest() is not translated",
		"(length(j) > 1)":                  "length() of such arguments is not translated",
		"(day + '1 day'::interval)":        "::interval is not translated",
		"btrim(t, 'x'::text)":              "btrim() of such arguments is not translated",
		"E'a'":                             "E'...' is not translated",
		"(t)::character(3)":                "::character is not translated",
		"(a > 0":                           "an expression without ) is not translated",
		"":                                 "an expression that ends early is not translated",
		"(day > '2020-01-01 BC'::date)":    "::date is not translated",
		"(a IN ( SELECT 1))":               "column select is not translated",
		"'{1,2}'::integer[]":               "::integer[] is not translated",
		"nextval('public.s'::regclass)":    "nextval() is not translated",
		"(t COLLATE \"C\" > 'x'::text)":    "collate is not translated",
		"(a IS DISTINCT FROM b)":           "IS distinct is not translated",
		"(EXTRACT(year FROM day) > 2000.)": "extract() is not translated",
	} {
		got, _, err := translate(expr, false, nil, func(n string) (*tidemark.Column, string) { return columns[n], n })
		if err == nil || err.Error() != why {
			t.Errorf("%s: got %q, %v; want %q", expr, got, err, why)
		}
	}
}

func TestCollations(t *testing.T) {
	new_, old := dialect{true, 10, 11, 0}, dialect{true, 10, 6, 0}
	my, oldMy := dialect{false, 8, 0, 33}, dialect{false, 8, 0, 20}
	for _, c := range []struct {
		d          dialect
		name, want string
	}{
		{new_, "utf8mb4_0900_ai_ci", "utf8mb4_uca1400_nopad_ai_ci"}, {old, "utf8mb4_0900_ai_ci", "utf8mb4_unicode_520_nopad_ci"},
		{new_, "utf8mb4_0900_bin", "utf8mb4_nopad_bin"}, {old, "utf8mb4_0900_as_cs", "utf8mb4_nopad_bin"},
		{new_, "utf8mb4_es_trad_0900_ai_ci", "utf8mb4_uca1400_spanish2_nopad_ai_ci"}, {old, "utf8mb4_sv_0900_ai_ci", "utf8mb4_swedish_ci"},
		{old, "utf8mb4_uca1400_ai_ci", "utf8mb4_unicode_520_ci"}, {old, "utf8mb3_uca1400_swedish_ai_ci", "utf8mb3_swedish_ci"},
		{my, "utf8mb4_uca1400_ai_ci", "utf8mb4_0900_ai_ci"}, {my, "utf8mb4_uca1400_swedish_nopad_as_cs", "utf8mb4_sv_0900_as_cs"},
		{my, "utf8mb3_uca1400_as_cs", "utf8mb3_bin"}, {my, "latin1_nopad_bin", "latin1_bin"}, {my, "utf8mb4_croatian_mysql561_ci", "utf8mb4_croatian_ci"},
		{my, "utf8mb4_general_ci", "utf8mb4_general_ci"}, {new_, "utf8mb4_general_ci", "utf8mb4_general_ci"}, {new_, "utf8mb4_uca1400_ai_ci", "utf8mb4_uca1400_ai_ci"},
		{oldMy, "utf8mb3_general_ci", "utf8_general_ci"}, {my, "utf8mb3_general_ci", "utf8mb3_general_ci"}, {my, "utf8mb4_thai_520_w2", "utf8mb4_unicode_520_ci"},
	} {
		if got, _ := c.d.collation(c.name); got != c.want {
			t.Errorf("%s for %+v: got %s, want %s", c.name, c.d, got, c.want)
		}
	}
	// All returned collations must exist.
	for _, srv := range []*testdb.Server{testdb.MariaDB(t), testdb.MySQL(t)} {
		e := schemaOf(t, srv.NewDatabase(t, "collations"))
		other := testdb.MySQL(t)
		if srv.Engine == "mysql" {
			other = testdb.MariaDB(t)
		}
		have := map[string]bool{}
		names := func(s *testdb.Server) []string {
			sql := "SELECT COLLATION_NAME FROM information_schema.COLLATIONS"
			if s.Engine == "mariadb" {
				sql = "SELECT FULL_COLLATION_NAME FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY"
			}
			return strings.Split(testdb.Query(t, s.URL(""), sql), "\n")
		}
		for _, n := range names(srv) {
			have[n] = true
		}
		for _, n := range names(other) {
			got, _ := e.dialect().collation(n)
			if !have[got] && !strings.HasPrefix(n, "gb18030") {
				t.Errorf("%s: %s becomes %s, which is not there", srv.Engine, n, got)
			}
		}
	}
}

// schemaOf opens a database's server.
func schemaOf(t *testing.T, url string) *Schema {
	t.Helper()
	s, err := server.Open(t.Context(), url, server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return &Schema{Server: s}
}

// FuzzReaders: readers of any text terminate and do not panic.
func FuzzReaders(f *testing.F) {
	for _, s := range []string{"CREATE TABLE `t` (`a` int NOT NULL DEFAULT '1' COMMENT 'it''s', KEY `k` (`a`)) ENGINE=InnoDB", "/*!80023 INVISIBLE */ 'a''b\\'c' `x``y` -- c\n# d\n\"e\" /* f */ /*M!100301 COMPRESSED*/", "'", "`", "/*", "/*!"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		parseCreateTable(s)
		_, _, _ = translate(s, false, nil, func(string) (*tidemark.Column, string) { return nil, "" })
	})
}

func TestMain(m *testing.M) { testdb.Main(m) }
