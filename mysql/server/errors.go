package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
)

// Kinds maps a server's error numbers to Kinds for the caller. The numbers are those of MySQL's
// error reference; 1900 to 1999 and 4000 upwards are MariaDB's where the two disagree.
var Kinds = map[uint16]tidemark.Kind{
	1045: tidemark.Denied, 1130: tidemark.Denied, 1129: tidemark.Denied, 1698: tidemark.Denied, 1862: tidemark.Denied,
	1820: tidemark.Denied, 3118: tidemark.Denied, 4151: tidemark.Denied, 1251: tidemark.Denied,

	1044: tidemark.Forbidden, 1142: tidemark.Forbidden, 1143: tidemark.Forbidden, 1227: tidemark.Forbidden,
	1370: tidemark.Forbidden, 1419: tidemark.Forbidden, 1290: tidemark.Forbidden, 1836: tidemark.Forbidden, 1449: tidemark.Forbidden,

	1049: tidemark.NotFound, 1146: tidemark.NotFound, 1051: tidemark.NotFound, 1008: tidemark.NotFound, 1109: tidemark.NotFound,

	1050: tidemark.Exists, 1007: tidemark.Exists, 1061: tidemark.Exists, 1826: tidemark.Exists, 1304: tidemark.Exists,
	1359: tidemark.Exists, 1537: tidemark.Exists, 3822: tidemark.Exists, 1068: tidemark.Exists,

	1114: tidemark.Full, 1021: tidemark.Full, 3020: tidemark.Full, 1041: tidemark.Full, 1037: tidemark.Full, 1135: tidemark.Full,

	2006: tidemark.Transient, 2013: tidemark.Transient, 1205: tidemark.Transient, 1213: tidemark.Transient,
	1053: tidemark.Transient, 1040: tidemark.Transient, 1203: tidemark.Transient, 1226: tidemark.Transient,
	1927: tidemark.Transient, 1317: tidemark.Transient, 1152: tidemark.Transient, 1158: tidemark.Transient,
	1159: tidemark.Transient, 1160: tidemark.Transient, 1161: tidemark.Transient, 1184: tidemark.Transient,
	1020: tidemark.Transient, 1429: tidemark.Transient, 1615: tidemark.Transient, 1637: tidemark.Transient,
	1969: tidemark.Transient, 3024: tidemark.Transient, 4031: tidemark.Transient, 3169: tidemark.Transient, 3168: tidemark.Transient, 1080: tidemark.Transient,

	1412: tidemark.Lost,

	1062: tidemark.BadRow, 1586: tidemark.BadRow, 1264: tidemark.BadRow, 1265: tidemark.BadRow, 1292: tidemark.BadRow,
	1366: tidemark.BadRow, 1406: tidemark.BadRow, 1048: tidemark.BadRow, 1263: tidemark.BadRow, 1364: tidemark.BadRow,
	1367: tidemark.BadRow, 1411: tidemark.BadRow, 1416: tidemark.BadRow, 1451: tidemark.BadRow, 1452: tidemark.BadRow,
	1216: tidemark.BadRow, 1217: tidemark.BadRow, 1261: tidemark.BadRow, 1262: tidemark.BadRow, 1300: tidemark.BadRow,
	1526: tidemark.BadRow, 1690: tidemark.BadRow, 1748: tidemark.BadRow, 1118: tidemark.BadRow, 1153: tidemark.BadRow,
	1301: tidemark.BadRow, 1591: tidemark.BadRow, 1740: tidemark.BadRow, 3819: tidemark.BadRow,
	3037: tidemark.BadRow, 3055: tidemark.BadRow, 3140: tidemark.BadRow, 3141: tidemark.BadRow, 3144: tidemark.BadRow,
	3156: tidemark.BadRow, 3157: tidemark.BadRow, 3158: tidemark.BadRow, 3643: tidemark.BadRow, 3903: tidemark.BadRow,
	3616: tidemark.BadRow, 3617: tidemark.BadRow, 3733: tidemark.BadRow, 4025: tidemark.BadRow, 4038: tidemark.BadRow,
	1022: tidemark.BadRow, 1169: tidemark.BadRow, 1296: tidemark.BadRow, 1916: tidemark.BadRow, 1918: tidemark.BadRow,
	4078: tidemark.BadRow, 1642: tidemark.BadRow, 1643: tidemark.BadRow, 1644: tidemark.BadRow, 1442: tidemark.BadRow,
	1172: tidemark.BadRow, 1422: tidemark.BadRow, 1424: tidemark.BadRow, 1456: tidemark.BadRow, 1467: tidemark.BadRow,

	1071: tidemark.Invalid, 1067: tidemark.Invalid, 1170: tidemark.Invalid, 1059: tidemark.Invalid, 1103: tidemark.Invalid, 1166: tidemark.Invalid,
	1074: tidemark.Invalid, 1075: tidemark.Invalid, 1072: tidemark.Invalid, 1089: tidemark.Invalid,
	1901: tidemark.Unsupported, 1305: tidemark.Unsupported, 3756: tidemark.Unsupported, 3814: tidemark.Unsupported, 3763: tidemark.Unsupported,

	1148: tidemark.Unsupported, 3948: tidemark.Unsupported, 4166: tidemark.Unsupported,

	1064: tidemark.Bug, 1149: tidemark.Bug, // the syntax of a statement, which is ours
}

// Fail converts an error of a driver, the network or the server to an Error. An Error is returned
// unchanged.
func (e *Server) Fail(op, object string, err error) error {
	if err == nil {
		return nil
	}
	var ours *tidemark.Error
	if errors.As(err, &ours) {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return &tidemark.Error{Op: op, Object: object, Kind: tidemark.Cancelled, Err: err}
	}
	out := &tidemark.Error{Op: op, Object: object, Kind: tidemark.Bug, Err: err}
	var my *gomysql.MyError
	if errors.As(err, &my) {
		out.Err = &serverError{my}
		out.Kind, out.Hint = e.KindOf(my)
		return out
	}
	if errors.Is(err, ErrMalformed) {
		out.Kind, out.Hint = tidemark.Unreachable, "The server at "+e.to.host+", or a proxy in between, violates the protocol: try it with the server's own client."
		return out
	}
	if Broken(err) {
		out.Kind = tidemark.Transient
		out.Err = &brokenError{e.to.host, err}
	}
	return out
}

// A serverError prints a server's message with its number, without the SQL state.
type serverError struct{ my *gomysql.MyError }

// Said creates an error from a server's message.
func Said(my *gomysql.MyError) error { return &serverError{my} }

func (s *serverError) Error() string {
	return fmt.Sprintf("%s (error %d)", strings.TrimSuffix(s.my.Message, "."), s.my.Code)
}
func (s *serverError) Unwrap() error { return s.my }

// Is reports whether the server has no connection left.
func (s *serverError) Is(target error) bool {
	crowded := s.my.Code == 1040 || s.my.Code == 1203 || s.my.Code == 1226 && !hourly(s.my)
	return target == tidemark.ErrNoConnection && crowded
}

// SQLState returns the SQL state that the server sent with the error.
func (s *serverError) SQLState() string { return s.my.State }

// A brokenError hides the driver's wrapping of a lost connection.
type brokenError struct {
	host string
	err  error
}

func (b *brokenError) Error() string { return "the connection to " + b.host + " broke" }
func (b *brokenError) Unwrap() error { return b.err }

// Broken reports whether err means that the connection is unusable.
func Broken(err error) bool {
	var n net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &n) || errors.Is(err, gomysql.ErrBadConn) ||
		strings.Contains(err.Error(), "connection was bad")
}

var deniedCommand = regexp.MustCompile(`^(\w+(?: \w+)*) command denied to user ('.*') for (?:table|column|routine) (.+)$`)
var neededPrivilege = regexp.MustCompile(`you need \(at least one of\) the (.+?) privilege`)

// KindOf classifies a server's error and returns a hint.
func (e *Server) KindOf(my *gomysql.MyError) (tidemark.Kind, string) {
	kind, known := Kinds[my.Code]
	if !known {
		kind = kindOfState(my.State)
	}
	if hourly(my) {
		kind = tidemark.Forbidden // a prompt retry gets the same error
	}
	if strings.Contains(my.Message, "No space left") || strings.Contains(my.Message, "rror 28 ") || strings.Contains(my.Message, "rrcode: 28") {
		kind = tidemark.Full
	}
	return kind, e.Hint(my, kind)
}

// kindOfState returns what an error means whose number is not in Kinds: states are few, but most
// numbers have HY000 or 42000, which say nothing.
func kindOfState(state string) tidemark.Kind {
	if len(state) != 5 || state == "HY000" {
		return tidemark.Refused
	}
	switch state[:2] {
	case "08", "40":
		return tidemark.Transient
	case "28":
		return tidemark.Denied
	case "0A":
		return tidemark.Unsupported
	case "42", "70", "XA", "25", "0Z", "3D":
		return tidemark.Refused
	}
	return tidemark.BadRow // a data exception, a violated constraint, what a trigger ends with, and SIGNAL
}

// hourly reports whether a user has exhausted an hourly limit; otherwise 1226 is about concurrent
// connections.
func hourly(my *gomysql.MyError) bool {
	return my.Code == 1226 && !strings.Contains(my.Message, "max_user_connections")
}

func (e *Server) Hint(my *gomysql.MyError, kind tidemark.Kind) string {
	user := e.Grantee()
	switch my.Code {
	case 1044:
		if e.DB != "" {
			return "GRANT SELECT ON " + Quote(e.DB) + ".* TO " + user + " (a source), or GRANT ALL ON " + Quote(e.DB) + ".* TO " + user + " (a target)."
		}
	case 1142, 1143, 1370:
		if m := deniedCommand.FindStringSubmatch(my.Message); m != nil {
			return "GRANT " + m[1] + " ON " + grantObject(m[3], e.DB) + " TO " + user + "."
		}
	case 1227:
		if m := neededPrivilege.FindStringSubmatch(my.Message); m != nil {
			one, _, _ := strings.Cut(m[1], " or ")
			one, _, _ = strings.Cut(one, ", ")
			return "GRANT " + one + " ON *.* TO " + user + "."
		}
	case 1290, 1836:
		return "The server is read-only, or runs with an option that forbids this: ask its administrator."
	case 1419:
		return "SET GLOBAL log_bin_trust_function_creators = 1, or GRANT SUPER ON *.* TO " + user + "."
	case 1153:
		return "SET GLOBAL max_allowed_packet = 1073741824 on the server."
	case 1040:
		return "Use fewer lanes, or let the server take more connections (max_connections)."
	case 1203, 1226:
		if hourly(my) {
			return "The user has reached its hourly limit: ALTER USER " + user + " WITH MAX_QUERIES_PER_HOUR 0 MAX_UPDATES_PER_HOUR 0 MAX_CONNECTIONS_PER_HOUR 0."
		}
		return "Use fewer lanes, or let the user have more connections: ALTER USER " + user + " WITH MAX_USER_CONNECTIONS 0, or max_user_connections of the server."
	case 1412:
		return "Its definition was changed after the source was frozen: start the copy again."
	case 1205:
		return "Another transaction holds a lock; see SHOW ENGINE INNODB STATUS on the server."
	case 1148, 3948, 4166:
		return "SET GLOBAL local_infile = 1 on the server to load rows the fast way."
	case 1034, 1035, 1194, 1195:
		return "The file of that table is damaged: run REPAIR TABLE on the server, then repeat."
	}
	switch kind {
	case tidemark.Refused:
		return "The server itself reports this: remove the cause there; its log may say more."
	case tidemark.Full:
		return "Free space on the server's disk."
	case tidemark.Denied:
		return "Check the user and the password in the URL, and from which hosts the server lets this user in."
	}
	return ""
}

// Grantee returns the user in the syntax of GRANT. Only the server knows the host: it comes from
// CURRENT_USER once a session exists.
func (e *Server) Grantee() string {
	if e.account != "" {
		return e.account
	}
	return Literal(e.to.user)
}

// grantObject returns the object of a "command denied" message in the syntax of GRANT: the message
// has 'name' or `db`.`name`.
func grantObject(s, db string) string {
	if strings.HasPrefix(s, "`") {
		return s
	}
	name := strings.Trim(s, "'")
	if db == "" {
		return Quote(name)
	}
	return Quote(db) + "." + Quote(name)
}

// Ours ends statements of ALTER TABLE that a stream repeats on its target, so that one in the
// opposite direction does not send them back.
const Ours = " /* replicated by tidemark */"

// Quote quotes an identifier.
func Quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// QuoteTable quotes a table's name.
func QuoteTable(id tidemark.TableID) string {
	if id.Schema == "" {
		return Quote(id.Name)
	}
	return Quote(id.Schema) + "." + Quote(id.Name)
}

// Literal quotes a string constant; backslashes are escapes in our sessions.
func Literal(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `''`, "\x00", `\0`).Replace(s) + "'"
}

// account returns user@host in the syntax of GRANT: 'user'@'host'.
func account(user string) string {
	at := strings.LastIndexByte(user, '@')
	if at < 0 {
		return Literal(user)
	}
	return Literal(user[:at]) + "@" + Literal(user[at+1:])
}

// Cell returns a value of a small result, "" for NULL.
func Cell(r *gomysql.Result, row, col int) string {
	s, _ := r.GetString(row, col)
	return s
}

// FirstWords returns a statement's first words, to name it in a message.
func FirstWords(sql string) string {
	one := strings.Join(strings.Fields(sql), " ")
	if len(one) > 60 {
		one = strings.ToValidUTF8(one[:60], "") + "..."
	}
	return one
}

// EmitError marks an error of the caller's emit function, as opposed to ours.
type EmitError struct{ Err error }

func (e *EmitError) Error() string { return e.Err.Error() }

func IsCode(err error, code uint16) bool {
	var my *gomysql.MyError
	return errors.As(err, &my) && my.Code == code
}
