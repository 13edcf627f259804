package functions

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark/sqltext"
)

// What MariaDB 10.11 does not have of MySQL 8.0, and the reverse. Each function was tried in a
// default, in a generated column (virtual, stored, in a key) and in a check of both.
var (
	MariaDB = family(Family{Name: "MariaDB", rewrite: inMariaDB,
		only: words(`any_value bin_to_uuid format_bytes format_pico_time gtid_subset gtid_subtract is_uuid
			json_schema_valid json_schema_validation_report json_storage_free json_storage_size mbrcoveredby ps_thread_id
			regexp_like roles_graphml st_frechetdistance st_geohash st_hausdorffdistance st_isvalid st_latfromgeohash
			st_latitude st_lineinterpolatepoint st_lineinterpolatepoints st_longfromgeohash st_longitude st_makeenvelope
			st_pointatdistance st_pointfromgeohash st_simplify st_swapxy st_transform st_validate statement_digest
			statement_digest_text uuid_to_bin validate_password_strength`),
		atMost: map[string]int{"regexp_instr": 2, "regexp_substr": 2, "regexp_replace": 3, "st_srid": 1},
		// Their result depends on settings of the session.
		session: words("date_format dayname from_unixtime monthname sysdate"),
	}, "json_value")
	MySQL = family(Family{Name: "MySQL", rewrite: inMySQL,
		only: words(`add_months column_add column_check column_create column_delete column_exists column_get column_json
			column_list crc32c decode_oracle json_compact json_detailed json_equals json_exists json_loose json_normalize
			json_query kdf natural_sort_key nvl2 sformat st_boundary st_isring st_pointonsurface st_relate sys_guid to_char`),
		atMost:  map[string]int{"crc32": 1, "date_format": 2},
		varying: words("uuid uuid_short now current_timestamp sysdate utc_timestamp curdate current_date utc_date curtime current_time utc_time connection_id database schema rand unix_timestamp"),
		program: words("user current_user session_user system_user last_value"),
		casts:   []string{"uuid", "inet4", "inet6"},
	}, "lpad rpad")
)

func words(list string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(list) {
		out[w] = true
	}
	return out
}

// family adds what the functions of a family that are looked at are, some more among them.
func family(f Family, more string) *Family {
	f.differs = words("cast " + more)
	for _, set := range []map[string]bool{f.only, f.session, f.varying, f.program} {
		maps.Copy(f.differs, set)
	}
	for name := range f.atMost {
		f.differs[name] = true
	}
	return &f
}

// A Use is where an expression stands.
type Use int

const (
	Default Use = iota
	Virtual     // a generated column that is in no key
	Stored      // one that is stored, or in a key
	Check
	Program  // a view, trigger, routine or event
	Creation // of a program that is no view: its functions are looked up only when it runs
)

// Lacks names what the family does not have of calls that Calls has written, for a use;
// "" if it has all of them. isTime reports whether a column is a date or time.
func (f *Family) Lacks(tokens []sqltext.Token, use Use, isTime func(column string) bool) string {
	for i := range tokens {
		if f == MariaDB && tokens[i].Is("member") && sqltext.At(tokens, sqltext.Skip(tokens, i+1)).Is("of") {
			return "MEMBER OF"
		}
		if f == MySQL && tokens[i].Is("oracle_schema") && sqltext.At(tokens, i+1).Punct('.') {
			return "functions of Oracle"
		}
		name, args, end := f.call(tokens, i)
		most, limited := f.atMost[name]
		switch {
		case f.only[name] && use != Creation, use < Program && f.program[name]:
			return "function " + name
		case limited && len(args) > most:
			return fmt.Sprintf("function %s with more than %d arguments", name, most)
		case name == "json_value" && slices.ContainsFunc(tokens[i:end], func(t sqltext.Token) bool { return t.Is("returning") }):
			return "function json_value with RETURNING"
		case (use == Stored || use == Check) && f.session[name] && len(args) < 3:
			return "function " + name + " in a check, and in a generated column that is stored or in a key"
		case (use == Stored || use == Virtual) && f.varying[name]:
			return "function " + name + " in a generated column"
		case name == "cast" && len(args) == 1:
			value, typ := cast(args[0])
			if slices.Contains(f.casts, typ) {
				return "cast to " + typ
			}
			if f == MariaDB && use == Stored && readsTime(value, typ, isTime) {
				return "cast of a text to a time in a generated column that is stored or in a key"
			}
		}
	}
	return ""
}

// InProgram writes what a program of a kind ("view") calls as the family has it. Lacks is what the
// family does not have of that, made is whether the program can be created all the same.
func (f *Family) InProgram(kind string, tokens []sqltext.Token) (_ []sqltext.Token, lacks string, made bool) {
	tokens = f.Calls(tokens)
	lacks = f.Lacks(tokens, Program, nil)
	return tokens, lacks, lacks == "" || kind != "view" && f.Lacks(tokens, Creation, nil) == ""
}

// readsTime reports whether a cast reads a time from something else than a date or time.
func readsTime(value []sqltext.Token, typ string, isTime func(string) bool) bool {
	return (strings.HasPrefix(typ, "time") || strings.HasPrefix(typ, "datetime")) &&
		slices.ContainsFunc(value, func(t sqltext.Token) bool { return t.Kind == sqltext.Name && !isTime(t.Name()) })
}
