package sqlfile

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/charset"
	"github.com/tidemarkdb/tidemark/sqltext"
)

// remember keeps a SET for the statements after it. Dumps repeat the same SETs for every table, in
// conditional comments: of equal ones the last is kept.
func (s *Script) remember(p *tidemark.Piece, text []byte) {
	if bytes.HasPrefix(text, []byte("/*!")) || bytes.HasPrefix(text, []byte("/*M!")) {
		for i, have := range s.set.SQL {
			if have != p.SQL {
				continue
			}
			fewer := make([]string, 0, len(s.set.SQL))
			fewer = append(append(fewer, s.set.SQL[:i]...), s.set.SQL[i+1:]...)
			s.set = tidemark.Settings{Version: s.set.Version + 1, SQL: fewer}
			break
		}
	}
	s.set.SQL = append(s.set.SQL, p.SQL)
}

// idle reports whether a SET changes nothing for statements in ASCII: it sets the character set of
// the client, as dumps do around each table, or repeats what is in force.
func (s *Script) idle(st *Statement) bool {
	names, constant := assigned(st.Session, st.Text)
	if len(names) == 0 || s.last == nil {
		s.last = map[string]string{}
	}
	client, again := true, constant
	for _, name := range names {
		client = client && (name == "character_set_client" || name == "@saved_cs_client")
		again = again && s.last[name] == string(st.Text)
	}
	for _, name := range names {
		if s.last[name] = ""; constant {
			s.last[name] = string(st.Text)
		}
	}
	return len(names) > 0 && (client || again)
}

// assigned returns the variables that a SET sets, in lower case; none if it does anything else.
// constant means that their values read no variable.
func assigned(ses *Session, text []byte) (names []string, constant bool) {
	l := ses.reader(text)
	if !l.Accept("SET") {
		return nil, false
	}
	for constant = true; ; {
		t := l.Next()
		if t.Is("SESSION") || t.Is("LOCAL") {
			t = l.Next()
		}
		switch {
		case t.Kind != sqltext.Word:
			return nil, false
		case t.Is("NAMES"):
			names = append(names, "character_set_client", "character_set_connection", "character_set_results", "collation_connection")
		case l.Accept("=") || l.Accept(":", "="):
			names = append(names, strings.TrimPrefix(strings.ToLower(t.Text), "@@"))
		default:
			return nil, false
		}
		if l.Peek().Kind == sqltext.Bad {
			return nil, false
		}
		at := l.At
		ses.value(l, nil)
		value := strings.TrimSpace(string(l.Text[at:l.At]))
		constant = constant && !strings.Contains(value, "@") && !strings.EqualFold(value, "DEFAULT")
		switch t := l.Next(); {
		case t.Kind == sqltext.End:
			return names, constant
		case !t.Is(","):
			return nil, false
		}
	}
}

const hintAll = "Look at the statement in the file. If you trust it, run it with --run-all-statements."

// SQL returns a piece of rows, or of SQL, as the statement that inserts m's rows on a server of the
// file's kind; nil if there is none. Its error is of Kind Unsupported if the statement would have
// another effect on m's target than in the file.
func (s *Script) SQL(p *tidemark.Piece, m *tidemark.Move) (*tidemark.Statement, error) {
	st := &tidemark.Statement{Set: p.Set, Database: m.To.Schema, SQL: p.SQL}
	refuse := func(what, hint string) (*tidemark.Statement, error) {
		return nil, &tidemark.Error{Kind: tidemark.Unsupported, Op: "import", Object: m.From.String(), Err: fmt.Errorf("the statement at line %d %s", p.Line, what), Hint: hint}
	}
	if t, ok := p.Text.(*Tuples); ok && t.Verb != "COPY" {
		head, err := s.head(t, m)
		if err != nil {
			return refuse(err.Error(), "load the file without that rule, and copy from there with it")
		}
		l := t.Session.reader(t.Data)
		rows := l.Resolve(t.Data, l.Server)
		if why := t.Session.impure(t.Session.reader(rows), inRows); why != "" && !s.opt.All {
			return refuse(why, hintAll)
		}
		st.SQL = string(append(head, rows...))
	} else if p.Kind == tidemark.ExecuteAt {
		if err := p.Damage("import", m.From.String()); err != nil {
			return nil, err
		}
		if p.Refuse != "" {
			return refuse(p.Refuse, hintAll)
		}
		if m.To.Name != m.From.Name || !m.Direct {
			return refuse("is SQL, and its table has another name or other columns on the target", "load the file without that rule, and copy from there with it")
		}
		if from := m.From.Schema; from != m.To.Schema && from != "" && regexp.MustCompile("(?i)\\b"+regexp.QuoteMeta(from)+"`?\\s*\\.").MatchString(p.SQL) {
			return refuse("names database "+from+", whose tables go to "+m.To.Schema, "name no database in the target's URL, so that each keeps its name")
		}
	} else {
		return nil, nil
	}
	if what := s.earlier(st); what != "" {
		return refuse("depends on "+what+", and rows are not loaded one after the other", "load the file with the server's own client program")
	}
	return st, nil
}

// earlier returns what a statement depends on in the statements before it, beyond settings; "" if
// nothing.
func (s *Script) earlier(st *tidemark.Statement) string {
	if containsFold(st.SQL, "last_insert_id(") {
		return "LAST_INSERT_ID()"
	}
	if !strings.Contains(st.SQL, "@") {
		return ""
	}
	for _, set := range st.Set.SQL {
		if containsFold(set, "last_insert_id(") || containsFold(set, "select") {
			return "a variable that a query has set"
		}
	}
	return ""
}

// containsFold searches for low, which is in lower case. A text that only quotes it counts too:
// better one refusal too many than wrong rows.
func containsFold(s, low string) bool {
	return strings.Contains(strings.ToLower(s), low)
}

// head writes the text before the rows, with the names on m's target.
func (s *Script) head(t *Tuples, m *tidemark.Move) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(t.Verb + " INTO ")
	if m.To.Schema != "" {
		b.WriteString(inBackticks(m.To.Schema) + ".")
	}
	b.WriteString(inBackticks(m.To.Name))
	names := t.Columns
	if names == nil && !m.Direct {
		for _, c := range m.From.Columns {
			if !c.Invisible {
				names = append(names, c.Name)
			}
		}
	}
	to := m.To.Stored()
	for i, name := range names {
		target := ""
		for k, source := range m.Source {
			if strings.EqualFold(source, name) && k < len(to) {
				target = to[k].Name
			}
		}
		if c := m.From.Column(name); target == "" && c != nil && c.Generated != "" {
			target = c.Name
		}
		if target == "" {
			return nil, fmt.Errorf("is SQL, and fills column %s, which the target does not have", name)
		}
		b.WriteString([]string{" (", ", "}[min(i, 1)] + inBackticks(target))
	}
	if len(names) > 0 {
		b.WriteString(")")
	}
	b.WriteString(" VALUES ")
	if r, ok := charset.New(charset.UTF8, t.Session.Charset); r != nil && ok {
		out, _, err := r.Append(nil, b.Bytes(), true)
		if err != nil {
			return nil, fmt.Errorf("is SQL in %s, which has not all letters of the table's names", t.Session.Charset)
		}
		return out, nil
	}
	return b.Bytes(), nil
}

func inBackticks(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }
