package schema

import (
	"fmt"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// A dialect is the SQL that a server of this family understands.
type dialect struct {
	mariadb             bool
	major, minor, patch int
}

func (d dialect) atLeast(major, minor, patch int) bool {
	if d.major != major {
		return d.major > major
	}
	if d.minor != minor {
		return d.minor > minor
	}
	return d.patch >= patch
}

// my and maria report whether the server is of that family and at least this version.
func (d dialect) my(major, minor, patch int) bool {
	return !d.mariadb && d.atLeast(major, minor, patch)
}
func (d dialect) maria(major, minor, patch int) bool {
	return d.mariadb && d.atLeast(major, minor, patch)
}

func (d dialect) name() string {
	if d.mariadb {
		return "MariaDB"
	}
	return "MySQL"
}

// dialectOf returns the dialect of an engine and version; an unreadable version counts as a new
// one.
func dialectOf(engine, version string) dialect {
	d := dialect{mariadb: engine == "mariadb" || strings.Contains(strings.ToLower(version), "mariadb")}
	number, _, _ := strings.Cut(strings.TrimPrefix(version, "5.5.5-"), "-")
	if n, _ := fmt.Sscanf(number, "%d.%d.%d", &d.major, &d.minor, &d.patch); n == 0 {
		d.major = 99
	}
	return d
}

func (e *Schema) dialect() dialect { return dialect{e.MariaDB, e.Major, e.Minor, e.Patch} }

// collation returns the dialect's name for a collation that may come from the other family, and
// whether it sorts and compares the same.
//
// MySQL's utf8mb4_0900 collations follow Unicode 9 and do not pad; MariaDB's uca1400 (10.10 and
// later) follow Unicode 14 and exist with and without padding. Before 10.10 Unicode 5.2 is the
// newest. Names that both families know stay.
func (d dialect) collation(name string) (string, bool) {
	lower := strings.ToLower(name)
	switch {
	case d.mariadb && strings.Contains(lower, "_0900_"):
		return d.from0900(lower)
	case d.mariadb && strings.HasSuffix(lower, "_tolower_ci"):
		return strings.Replace(lower, "_tolower_ci", "_general_ci", 1), false
	case d.mariadb && strings.HasPrefix(lower, "gb18030_"):
		return name, false // the character set itself is missing
	case strings.Contains(lower, "uca1400") && !d.maria(10, 10, 0):
		return d.fromUCA1400(lower)
	case !d.mariadb && strings.Contains(lower, "_nopad_"):
		return withoutNopad(lower), false
	case !d.mariadb && (strings.HasSuffix(lower, "_croatian_mysql561_ci")):
		return strings.Replace(lower, "_mysql561", "", 1), true
	case !d.mariadb && (strings.HasSuffix(lower, "_myanmar_ci") || strings.HasSuffix(lower, "_thai_520_w2")):
		charset, _, _ := strings.Cut(lower, "_")
		return charset + "_unicode_520_ci", false
	case !d.mariadb && !d.atLeast(8, 0, 30) && strings.HasPrefix(lower, "utf8mb3_"):
		return "utf8_" + strings.TrimPrefix(lower, "utf8mb3_"), true
	}
	return name, true
}

// languages0900 maps the tailorings of utf8mb4_<tag>_0900_* to their names in MariaDB; other tags
// sort like the root there.
var languages0900 = map[string]string{"cs": "czech", "da": "danish", "de_pb": "german2", "eo": "esperanto", "es": "spanish",
	"es_trad": "spanish2", "et": "estonian", "hr": "croatian", "hu": "hungarian", "is": "icelandic", "la": "roman", "lt": "lithuanian",
	"lv": "latvian", "pl": "polish", "ro": "romanian", "sk": "slovak", "sl": "slovenian", "sv": "swedish", "tr": "turkish", "vi": "vietnamese"}

func (d dialect) from0900(name string) (string, bool) {
	if name == "utf8mb4_0900_bin" {
		return "utf8mb4_nopad_bin", true
	}
	tag, kind, _ := strings.Cut(strings.TrimPrefix(name, "utf8mb4_"), "0900_")
	tag = strings.TrimSuffix(tag, "_")
	language := languages0900[tag]
	kind = strings.TrimSuffix(kind, "_ks") // Japanese: kana-sensitive
	if d.atLeast(10, 10, 0) {
		if language != "" {
			language += "_"
		}
		return "utf8mb4_uca1400_" + language + "nopad_" + kind, tag == "" || language != ""
	}
	if kind != "ai_ci" {
		return "utf8mb4_nopad_bin", false // the only ones there that distinguish accents or case
	}
	if language != "" {
		return "utf8mb4_" + language + "_ci", false
	}
	return "utf8mb4_unicode_520_nopad_ci", false
}

func (d dialect) fromUCA1400(name string) (string, bool) {
	charset, rest, _ := strings.Cut(name, "_uca1400_")
	if rest == "" { // "uca1400_ai_ci" alone: the character set completes it
		rest, charset = strings.TrimPrefix(name, "uca1400_"), "utf8mb4"
	}
	rest = strings.Replace(rest, "nopad_", "", 1)
	kind := rest[max(0, len(rest)-len("ai_ci")):]
	language := strings.TrimSuffix(strings.TrimSuffix(rest, kind), "_")
	if charset == "utf8mb4" && !d.mariadb {
		// For the others, use MySQL's collation that distinguishes more, so that unique keys still
		// hold.
		if kind == "ai_cs" || kind == "as_ci" && language != "" {
			kind = "as_cs"
		}
		for tag, name := range languages0900 {
			if name == language && language != "" {
				return "utf8mb4_" + tag + "_0900_" + kind, false
			}
		}
		return "utf8mb4_0900_" + kind, false
	}
	if kind != "ai_ci" {
		return charset + "_bin", false
	}
	if language != "" {
		return charset + "_" + language + "_ci", false
	}
	return charset + "_unicode_520_ci", false
}

// withoutNopad returns MySQL's nearest collation to a NOPAD collation of MariaDB's.
func withoutNopad(name string) string {
	switch name {
	case "utf8mb4_nopad_bin":
		return "utf8mb4_0900_bin"
	case "utf8mb4_unicode_nopad_ci", "utf8mb4_unicode_520_nopad_ci":
		return "utf8mb4_0900_ai_ci"
	}
	return strings.Replace(name, "_nopad", "", 1)
}

// mariadbModes are SQL modes that only MariaDB has.
var mariadbModes = "NO_AUTO_CREATE_USER ORACLE MSSQL DB2 MAXDB POSTGRESQL MYSQL323 MYSQL40 NO_KEY_OPTIONS NO_TABLE_OPTIONS NO_FIELD_OPTIONS " +
	"IGNORE_BAD_TABLE_OPTIONS EMPTY_STRING_IS_NULL SIMULTANEOUS_ASSIGNMENT TIME_ROUND_FRACTIONAL"

// sqlMode removes modes that the dialect does not know.
func (d dialect) sqlMode(mode string) string {
	unknown := mariadbModes
	if d.mariadb {
		unknown = "TIME_TRUNCATE_FRACTIONAL"
	}
	var out []string
	for m := range strings.SplitSeq(mode, ",") {
		if m != "" && !strings.Contains(" "+unknown+" ", " "+m+" ") {
			out = append(out, m)
		}
	}
	return strings.Join(out, ",")
}

// binaryCollation returns the collation under which text compares as in other engines: byte by
// byte, including trailing blanks.
func (d dialect) binaryCollation() string {
	switch {
	case d.mariadb:
		return "utf8mb4_nopad_bin"
	case d.atLeast(8, 0, 17):
		return "utf8mb4_0900_bin"
	}
	return "utf8mb4_bin"
}

// caseInsensitive returns the collation for text that compares without regard to case.
func (d dialect) caseInsensitive() string {
	switch {
	case d.maria(10, 10, 0):
		return "utf8mb4_uca1400_nopad_as_ci"
	case d.mariadb:
		return "utf8mb4_unicode_520_nopad_ci"
	}
	return "utf8mb4_0900_as_ci"
}

// isFamily reports whether an engine is MySQL or MariaDB.
func isFamily(engine string) bool { return engine == "mysql" || engine == "mariadb" }

// finding is shorthand.
func finding(severity tidemark.Severity, object, text, hint string) tidemark.Finding {
	f := tidemark.Finding{Severity: severity, Object: object, Text: text, Hint: hint}
	if severity == tidemark.Blocker {
		f.Kind = tidemark.Unsupported
	}
	return f
}
