package define

import (
	"regexp"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
	"github.com/tidemarkdb/tidemark/sqltext"
)

// longName finds what may be a name that the server truncates.
var longName = regexp.MustCompile(`[^\s.(),;']{64,}|"[^"]{62,}`)

// clipped returns objects with names as the server has them, which truncates them.
func clipped(objects []tidemark.Object) []tidemark.Object {
	long := func(o tidemark.Object) bool {
		return longName.MatchString(o.ID) || slices.ContainsFunc(o.SQL, longName.MatchString)
	}
	if !slices.ContainsFunc(objects, long) {
		return objects
	}
	out := slices.Clone(objects)
	for i := range out {
		switch o := &out[i]; o.Kind {
		case "table", "partition", "index", "constraint", "foreign key", "foreign key validation", "check", "default", "sequence", "sequence value", "type":
			o.ID, o.Table = clipText(o.ID), tidemark.TableID{Schema: server.Clip(o.Table.Schema), Name: server.Clip(o.Table.Name)}
			o.SQL, o.Depends = clipTexts(o.SQL), clipTexts(o.Depends)
		}
	}
	return out
}

func clipTexts(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = clipText(s)
	}
	return out
}

// clipText truncates the names in a definition. Strings stay as they are, unless they name a
// sequence.
func clipText(s string) string {
	tokens := scan(s)
	for i, t := range tokens {
		switch {
		case t.Kind == sqltext.Word:
			tokens[i].Text = server.Clip(t.Text)
		case t.Kind == sqltext.Name && len(t.Name()) > server.MaxName:
			tokens[i].Text = server.QuoteIdent(server.Clip(t.Name()))
		case t.Kind == sqltext.String && (sqltext.At(tokens, i-2).Is("nextval") || sqltext.At(tokens, i+2).Is("regclass")):
			at, end := strings.IndexByte(t.Text, '\'')+1, len(t.Text)-1
			tokens[i].Text = t.Text[:at] + clipText(t.Text[at:end]) + t.Text[end:]
		}
	}
	return sqltext.Join(tokens)
}
