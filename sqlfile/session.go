package sqlfile

import (
	"strings"

	"github.com/tidemarkdb/tidemark/sqltext"
)

// A Session is the settings from the statements before a piece, as far as they change the meaning
// of its bytes. It is immutable once a piece carries it.
type Session struct {
	Database    string         // of the last USE; empty if there was none
	Charset     string         // of the file's text: "utf8mb4", "latin1", "binary", ...
	TimeZone    string         // of timestamps, as set: "+00:00"; empty if the file sets none
	NoBackslash bool           // a backslash in a string is a backslash
	AnsiQuotes  bool           // "x" is a name
	Postgres    bool           // a pg_dump file
	Server      sqltext.Server // its conditional comments are executed
}

// esc reports whether backslashes escape.
func (s *Session) esc() bool { return !s.NoBackslash }

// escIn reports whether backslashes escape inside the quote q.
func (s *Session) escIn(q byte) bool {
	return s.esc() && q != '`' && (q != '"' || !s.AnsiQuotes)
}

// reader returns a token reader for a statement.
func (s *Session) reader(text []byte) *sqltext.Reader {
	return &sqltext.Reader{Text: text, Server: s.Server, Dialect: sqltext.Dialect{NoBackslash: s.NoBackslash, AnsiQuotes: s.AnsiQuotes, Variables: true}}
}

// variables holds what SET has stored in user variables, because dumps save settings in them and
// restore these at the end.
type variables map[string]string

// set returns the session after a SET statement; the same one if nothing relevant has changed.
func (s *Session) set(text []byte, vars variables) *Session {
	l := s.reader(text)
	next := *s
	if !l.Accept("SET") {
		return s
	}
	for {
		next.assign(l, vars)
		t := l.Next()
		if !t.Is(",") {
			break
		}
	}
	if next == *s {
		return s
	}
	return &next
}

// assign reads one assignment of a SET list, up to the comma or the end.
func (s *Session) assign(l *sqltext.Reader, vars variables) {
	t := l.Next()
	for t.Is("GLOBAL") || t.Is("SESSION") || t.Is("LOCAL") {
		t = l.Next()
	}
	name := strings.ToLower(t.Text)
	for l.Accept(".") {
		name = strings.ToLower(l.Next().Text)
	}
	switch {
	case name == "names" || name == "charset":
		s.setCharset(strings.ToLower(s.value(l, vars)))
		return
	case name == "character" && l.Accept("SET"):
		s.setCharset(strings.ToLower(s.value(l, vars)))
		return
	}
	if !l.Accept("=") {
		if !l.Accept(":") || !l.Accept("=") {
			s.value(l, vars)
			return
		}
	}
	at := *l
	value := s.value(l, vars)
	switch strings.TrimLeft(name, "@") {
	case "sql_mode":
		if strings.HasPrefix(name, "@") && !strings.HasPrefix(name, "@@") {
			break
		}
		if exact, ok := s.exact(&at, vars, s.mode()); ok {
			value = exact
		}
		mode := strings.ToUpper(value)
		if strings.ContainsAny(mode, "(") {
			return // an expression over the server's own mode
		}
		s.NoBackslash = strings.Contains(mode, "NO_BACKSLASH_ESCAPES")
		s.AnsiQuotes = hasMode(mode, ansiModes)
		return
	case "time_zone":
		if strings.HasPrefix(name, "@") && !strings.HasPrefix(name, "@@") {
			break
		}
		s.TimeZone = value
		if strings.EqualFold(value, "system") {
			s.TimeZone = ""
		}
		return
	case "character_set_client":
		if exact, ok := s.exact(&at, vars, s.Charset); ok {
			value = exact
		}
		s.setCharset(strings.ToLower(value))
		return
	}
	if strings.HasPrefix(name, "@") && !strings.HasPrefix(name, "@@") {
		vars[name] = value
	}
}

func (s *Session) setCharset(name string) {
	if name != "" && name != "default" {
		s.Charset = charsetName(name)
	}
}

// value reads the right side of an assignment and resolves the variables that matter here; anything
// else is returned as its text.
func (s *Session) value(l *sqltext.Reader, vars variables) string {
	t := l.Next()
	if t.Kind == sqltext.End {
		return ""
	}
	start, end := t.At, t.After()
	first, second, n := t, l.Peek(), 1
	for depth := 0; ; n++ {
		p := l.Peek()
		if p.Kind == sqltext.End || p.Kind == sqltext.Bad || depth == 0 && p.Is(",") {
			break
		}
		switch {
		case p.Is("("):
			depth++
		case p.Is(")"):
			depth--
		}
		end = l.Next().After()
	}
	if first.Kind == sqltext.String && (n == 1 || n == 3 && second.Is("COLLATE")) {
		return l.Value(first)
	}
	text := first.Text
	if n == 1 || first.Kind == sqltext.Word && !strings.HasPrefix(text, "@") && n == 3 {
		if !strings.HasPrefix(text, "@") {
			return text
		}
		if v, ok := vars[strings.ToLower(text)]; ok {
			return v
		}
	}
	raw := string(l.Text[start:end])
	switch low := strings.ToLower(raw); {
	case !strings.HasPrefix(low, "@@"):
	case strings.HasSuffix(low, "sql_mode"):
		return s.mode()
	case strings.HasSuffix(low, "time_zone"):
		return s.TimeZone
	case strings.Contains(low, "character_set_"):
		return s.Charset
	}
	if strings.HasPrefix(raw, "@") && !strings.ContainsAny(raw, "(,") {
		return "" // never set in this file: the server's default
	}
	return raw
}

// mode returns the known part of sql_mode.
func (s *Session) mode() string {
	var m []string
	if s.NoBackslash {
		m = append(m, "NO_BACKSLASH_ESCAPES")
	}
	if s.AnsiQuotes {
		m = append(m, "ANSI_QUOTES")
	}
	return strings.Join(m, ",")
}
