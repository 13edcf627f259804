package schema

import (
	"regexp"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

var (
	defaultString  = regexp.MustCompile(`^'((?:[^']|'')*)'::([A-Za-z0-9_ ."(),\[\]]+)$`)
	literalNot     = regexp.MustCompile(` (COLLATE|IS|AND|OR|AT) `)
	defaultNumber  = regexp.MustCompile(`^\(*(-?[0-9]+(?:\.[0-9]*)?(?:e[+-]?[0-9]+)?)\)*(::[a-z0-9 (),]+)?$`)
	defaultNextval = regexp.MustCompile(`^nextval\('((?:[^']|'')*)'::regclass\)$`)
	defaultByName  = regexp.MustCompile(`^nextval\(\(?'((?:[^']|'')*)'::(?:text|character varying)\)?(?:::regclass)?\)$`)
	defaultNow     = regexp.MustCompile(`^\(*(now\(\)|(CURRENT_TIMESTAMP|LOCALTIMESTAMP)(\(\d\))?|(transaction|statement|clock)_timestamp\(\)|'now'::text)\)*(::timestamp(\(\d\))? with(out)? time zone)?$`)
	defaultToday   = regexp.MustCompile(`^(CURRENT_DATE|\(*(now\(\)|CURRENT_TIMESTAMP|'now'::text)\)*::date)$`)
	defaultUUID    = regexp.MustCompile(`^([a-z_0-9"]+\.)?(gen_random_uuid|uuid_generate_v4)\(\)$`)
)

// classify returns the engine-independent meaning of a default's expression, as pg_get_expr prints
// it. d is nil if there is no default; sequence is set if the expression is the next value of one.
func classify(expr string, t tidemark.Type) (d *tidemark.Default, sequence string) {
	if m := defaultNextval.FindStringSubmatch(expr); m != nil {
		return nil, strings.ReplaceAll(m[1], "''", "'")
	}
	if m := defaultByName.FindStringSubmatch(expr); m != nil {
		return nil, strings.ReplaceAll(m[1], "''", "'")
	}
	if m := defaultString.FindStringSubmatch(expr); m != nil && !literalNot.MatchString(m[2]) {
		return &tidemark.Default{Kind: tidemark.Literal, Text: strings.ReplaceAll(m[1], "''", "'")}, ""
	}
	if m := defaultNumber.FindStringSubmatch(expr); m != nil {
		return &tidemark.Default{Kind: tidemark.Literal, Text: m[1]}, ""
	}
	kind := tidemark.Expression
	switch {
	case expr == "true" || expr == "false":
		return &tidemark.Default{Kind: tidemark.Literal, Text: expr[:1]}, ""
	case expr == "NULL" || strings.HasPrefix(expr, "NULL::"):
		return nil, ""
	case defaultToday.MatchString(expr), t.Kind == tidemark.Date && defaultNow.MatchString(expr):
		kind = tidemark.Today
	case defaultNow.MatchString(expr):
		kind = tidemark.Now
	case defaultUUID.MatchString(expr):
		kind = tidemark.NewUUID
	}
	return &tidemark.Default{Kind: kind, Text: expr}, ""
}
