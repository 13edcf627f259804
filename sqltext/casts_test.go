package sqltext

import "testing"

func TestSpreadCasts(t *testing.T) {
	for shown, read := range map[string]string{
		"((a)::text = ANY ((ARRAY['it''s'::character varying, '], b'::character varying])::text[]))": "((a)::text = ANY (ARRAY[('it''s'::character varying)::text, ('], b'::character varying)::text]))",
		"(b = ANY (ARRAY['x'::text, 'y'::text]))":                                                    "(b = ANY (ARRAY['x'::text, 'y'::text]))",
		"'(ARRAY[''x''::text])::text[]'::text":                                                       "'(ARRAY[''x''::text])::text[]'::text",
	} {
		if got := SpreadCasts(shown); got != read {
			t.Errorf("%s\n%s\n%s", shown, got, read)
		}
	}
}
