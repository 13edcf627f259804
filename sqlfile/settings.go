package sqlfile

import (
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark/sqltext"
)

// settings reads the rest of a SET. It returns "" if that sets nothing but the session's settings
// and variables, else what it is: "SET GLOBAL".
func (s judge) settings(l *sqltext.Reader) string {
	for {
		if what := s.setting(l); what != "" {
			return what
		}
		switch t := l.Next(); {
		case t.Kind == sqltext.End:
			return ""
		case !t.Is(","):
			return "SET"
		}
	}
}

// otherSets are what SET does besides setting variables.
var otherSets = []string{"DEFAULT", "GLOBAL", "PASSWORD", "PERSIST", "PERSIST_ONLY", "RESOURCE", "ROLE", "STATEMENT"}

// logSettings change what replicas of the target receive. --no-binlog decides that.
var logSettings = []string{"binlog_format", "gtid_domain_id", "gtid_next", "gtid_seq_no", "server_id", "skip_replication", "sql_log_bin", "wsrep_on"}

// setting reads one assignment of a SET, up to the comma or the end.
func (s judge) setting(l *sqltext.Reader) string {
	t := l.Next()
	if t.Is("SESSION") || t.Is("LOCAL") {
		t = l.Next()
	}
	name := strings.ToLower(t.Text)
	switch scope := strings.ToUpper(strings.TrimPrefix(name, "@@")); {
	case t.Kind != sqltext.Word:
		return "SET"
	case slices.Contains(otherSets, scope):
		return "SET " + scope
	case t.Is("TRANSACTION"):
		for k := l.Peek().Kind; k == sqltext.Word || l.Peek().Is(","); k = l.Peek().Kind {
			l.Next()
		}
		return ""
	case t.Is("NAMES"), t.Is("CHARSET"), t.Is("CHARACTER") && l.Accept("SET"):
		name, known := s.session.exact(l, s.vars, s.session.Charset)
		if l.Accept("COLLATE") {
			l.Next()
		}
		return unclear(known && isPlain(name) && over(l), "NAMES")
	case scope == "SESSION" || scope == "LOCAL":
		if name[0] != '@' || !l.Accept(".") {
			return "SET"
		}
		name = strings.ToLower(l.Next().Text)
	default:
		name = strings.TrimPrefix(name, "@@")
	}
	variable := strings.HasPrefix(name, "@")
	if !variable && !isPlain(name) || name == "" || name == "@" || strings.HasPrefix(name, "@@") {
		return "SET"
	}
	if !l.Accept("=") && !l.Accept(":", "=") {
		return "SET"
	}
	if slices.Contains(logSettings, name) {
		return "SET " + name
	}
	value := *l
	if s.session.impure(l, inSet) != "" {
		return "SET to an expression"
	}
	switch {
	case name == "sql_mode":
		mode, known := s.session.exact(&value, s.vars, s.session.mode())
		return unclear(known && areModes(mode) && over(&value), name)
	case name == "character_set_client":
		charset, known := s.session.exact(&value, s.vars, s.session.Charset)
		return unclear(known && isPlain(charset) && over(&value), name)
	case name == "default_storage_engine" || name == "storage_engine" || name == "default_tmp_storage_engine":
		engine, known := s.session.exact(&value, s.vars, "")
		if slices.Contains(outsideEngines, strings.ToLower(engine)) {
			return "SET " + name
		}
		return unclear(known && over(&value), name)
	}
	return ""
}

// over reports whether an assignment is over.
func over(l *sqltext.Reader) bool { return l.Peek().Is(",") || l.Peek().Kind == sqltext.End }

// isPlain reports whether a name has nothing but letters, digits and underscores.
func isPlain(name string) bool {
	return strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// unclear refuses a setting that decides how the text after it is read, and whose value is not
// known.
func unclear(known bool, name string) string {
	if known {
		return ""
	}
	return "SET " + name + " to an expression"
}

// exact evaluates the right side of an assignment as the server would; false if it cannot be sure.
// now is the setting's present value.
func (s *Session) exact(l *sqltext.Reader, vars variables, now string) (string, bool) {
	t := l.Next()
	up := strings.ToUpper(t.Text)
	list := func() (out []string, ok bool) {
		for ok = true; ok; {
			var v string
			if v, ok = s.exact(l, vars, now); ok {
				out = append(out, v)
			}
			if l.Accept(")") {
				return out, ok
			}
			ok = ok && l.Accept(",")
		}
		return nil, false
	}
	switch {
	case t.Kind == sqltext.String:
		return l.Value(t), true
	case t.Is("("):
		l.Accept("SELECT")
		out, ok := list()
		return strings.Join(out, ""), ok && len(out) == 1
	case t.Kind != sqltext.Word:
		return "", false
	case strings.HasPrefix(up, "@@"):
		if l.Accept(".") {
			up = "@@" + strings.ToUpper(l.Next().Text)
		}
		return now, up == "@@SQL_MODE" || strings.HasPrefix(up, "@@CHARACTER_SET_")
	case up[0] == '@':
		v, ok := vars[strings.ToLower(up)]
		return v, ok
	case (up == "IFNULL" || up == "COALESCE") && l.Accept("("):
		first, ok := s.exact(l, vars, now)
		if !l.Accept(",") {
			return "", false
		}
		rest, known := list()
		if ok || !known || len(rest) != 1 {
			return first, ok && known
		}
		return rest[0], true
	case up == "CONCAT" && l.Accept("("):
		out, ok := list()
		return strings.Join(out, ""), ok
	case up == "REPLACE" && l.Accept("("):
		out, ok := list()
		// now has only the modes that matter here; others may be replaced, but not by these.
		if !ok || len(out) != 3 || out[1] == "" || !areModes(out[1]) || !areModes(out[2]) || hasMode(out[2], append(ansiModes, "NO_BACKSLASH_ESCAPES")) {
			return "", false
		}
		return strings.ReplaceAll(out[0], out[1], out[2]), true
	case up == "DEFAULT" || up == "0":
		return "", true
	}
	return t.Text, !l.Peek().Is("(") && up[0] > '9'
}

// modes are the words that sql_mode can hold.
var modes = strings.Fields(`ALLOW_INVALID_DATES ANSI ANSI_QUOTES DB2 EMPTY_STRING_IS_NULL ERROR_FOR_DIVISION_BY_ZERO HIGH_NOT_PRECEDENCE
	IGNORE_BAD_TABLE_OPTIONS IGNORE_SPACE MAXDB MSSQL MYSQL323 MYSQL40 NO_AUTO_CREATE_USER NO_AUTO_VALUE_ON_ZERO NO_BACKSLASH_ESCAPES
	NO_DIR_IN_CREATE NO_ENGINE_SUBSTITUTION NO_FIELD_OPTIONS NO_KEY_OPTIONS NO_TABLE_OPTIONS NO_UNSIGNED_SUBTRACTION NO_ZERO_DATE
	NO_ZERO_IN_DATE ONLY_FULL_GROUP_BY ORACLE PAD_CHAR_TO_FULL_LENGTH PIPES_AS_CONCAT POSTGRESQL REAL_AS_FLOAT SIMULTANEOUS_ASSIGNMENT
	STRICT_ALL_TABLES STRICT_TRANS_TABLES TIME_ROUND_FRACTIONAL TIME_TRUNCATE_FRACTIONAL TRADITIONAL`)

// ansiModes make "x" a name.
var ansiModes = []string{"ANSI", "ANSI_QUOTES", "DB2", "MAXDB", "MSSQL", "ORACLE", "POSTGRESQL"}

// hasMode reports whether a list has one of these words.
func hasMode(list string, of []string) bool {
	return slices.ContainsFunc(strings.Split(list, ","), func(m string) bool { return slices.Contains(of, strings.ToUpper(strings.TrimSpace(m))) })
}

// areModes reports whether a list has only words of sql_mode.
func areModes(list string) bool {
	for _, m := range strings.Split(list, ",") {
		if m = strings.ToUpper(strings.TrimSpace(m)); m != "" && !slices.Contains(modes, m) {
			return false
		}
	}
	return true
}
