package mapping

import (
	"fmt"
	"strings"
)

// A part is a part of a dotted name; quoted ones are taken literally.
type part struct {
	text   string
	quoted bool
}

// splitName splits schema.table at its dots. Quotation marks make a part whole and literal; a
// doubled one inside is one quotation mark.
func splitName(s string) ([]part, error) {
	var out []part
	for {
		var p part
		if strings.HasPrefix(s, `"`) {
			p.quoted = true
			i := 1
			for ; ; i++ {
				if i >= len(s) {
					return nil, fmt.Errorf("a quotation mark in %s is never closed", s)
				}
				if s[i] == '"' {
					if !strings.HasPrefix(s[i+1:], `"`) {
						break
					}
					i++
				}
				p.text += s[i : i+1]
			}
			s = s[i+1:]
			if s != "" && s[0] != '.' {
				return nil, fmt.Errorf("a dot must follow the closing quotation mark before %s", s)
			}
		} else {
			end := strings.IndexByte(s, '.')
			if end < 0 {
				end = len(s)
			}
			p.text, s = s[:end], s[end:]
		}
		if p.text == "" {
			return nil, fmt.Errorf("a part of the name is empty")
		}
		out = append(out, p)
		if s == "" {
			return out, nil
		}
		s = s[1:]
	}
}

// pattern returns the pattern of a part.
func (p part) pattern() (pattern, error) {
	if p.quoted {
		return literal(p.text), nil
	}
	return yamlWildcards.parse(p.text)
}

// whereOf returns the tables that table, or schema.table, selects.
func whereOf(parts []part) (where, error) {
	w := where{schema: anything(yamlWildcards), table: anything(yamlWildcards)}
	var err error
	if len(parts) > 0 {
		w.table, err = parts[len(parts)-1].pattern()
	}
	if len(parts) > 1 && err == nil {
		w.schema, err = parts[len(parts)-2].pattern()
	}
	return w, err
}
