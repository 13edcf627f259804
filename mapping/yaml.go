package mapping

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/tidemarkdb/tidemark"
)

// parseYAML reads one YAML document. An empty one is an empty object. Anchors,
// aliases, merge keys and tags are errors: a task file is too short to need them,
// and an unquoted * at the start of a name would silently be an alias.
func parseYAML(text []byte, p *problems) (*node, error) {
	bad := func(line, col int, hint, format string, args ...any) error {
		return &tidemark.Error{Kind: tidemark.BadInput, Op: p.op, Object: fmt.Sprintf("line %d, column %d", line, col), Err: fmt.Errorf(format, args...), Hint: hint}
	}
	f, err := parser.ParseBytes([]byte(strings.TrimPrefix(string(text), "\ufeff")), 0)
	if err != nil {
		// The library's message is used without its excerpt of the text, which may contain a
		// password.
		var e yaml.Error
		if errors.As(err, &e) && e.GetToken() != nil {
			at := e.GetToken().Position
			hint := "Names with * ? [ { : # in them must stand in quotation marks."
			if strings.Contains(e.GetMessage(), "already defined") {
				hint = "Join the two."
			}
			return nil, bad(at.Line, at.Column, hint, "%s", e.GetMessage())
		}
		return nil, &tidemark.Error{Kind: tidemark.BadInput, Op: p.op, Err: errors.New("this is not YAML")}
	}
	var body ast.Node
	for _, d := range f.Docs {
		if d.Body == nil || isComment(d.Body) {
			continue
		}
		if body != nil {
			return nil, bad(d.Body.GetToken().Position.Line, 1, "Put the second task in a file of its own.", "a second document begins")
		}
		body = d.Body
	}
	if body == nil {
		return &node{kind: object, place: place{1, 1}}, nil
	}
	y := yamlTree{bad: bad}
	return y.node(body, 0)
}

func isComment(n ast.Node) bool { _, ok := n.(*ast.CommentGroupNode); return ok }

type yamlTree struct {
	bad func(line, col int, hint, format string, args ...any) error
}

func (y yamlTree) node(n ast.Node, depth int) (*node, error) {
	out := &node{place: place{1, 1}}
	if n == nil {
		out.kind = null
		return out, nil
	}
	if t := n.GetToken(); t != nil && t.Position != nil {
		out.place = place{t.Position.Line, t.Position.Column}
	}
	if depth > maxDepth {
		return nil, y.bad(out.line, out.col, "", "nested more than %d deep", maxDepth)
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		out.kind = object
		return out, y.members(out, n.Values, depth)
	case *ast.MappingValueNode:
		out.kind = object
		return out, y.members(out, []*ast.MappingValueNode{n}, depth)
	case *ast.SequenceNode:
		out.kind = list
		for _, v := range n.Values {
			it, err := y.node(v, depth+1)
			if err != nil {
				return nil, err
			}
			out.items = append(out.items, it)
		}
	case *ast.StringNode:
		out.text = n.Value
		if n.Token.Type != token.SingleQuoteType && n.Token.Type != token.DoubleQuoteType {
			out.kind = plain
		}
	case *ast.LiteralNode:
		out.text = strings.TrimRight(n.Value.Value, "\n")
	case *ast.NullNode:
		out.kind = null
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		out.kind, out.text = plain, strings.TrimSpace(n.GetToken().Value)
	case *ast.AliasNode, *ast.AnchorNode, *ast.MergeKeyNode:
		return nil, y.bad(out.line, out.col, "Put names that begin with * or & in quotation marks.", "anchors and aliases are not supported")
	default:
		return nil, y.bad(out.line, out.col, "Use plain keys, strings, lists and objects.", "this YAML form is not supported")
	}
	return out, nil
}

func (y yamlTree) members(out *node, values []*ast.MappingValueNode, depth int) error {
	for _, v := range values {
		k, err := y.node(v.Key, depth+1)
		if err != nil {
			return err
		}
		if k.kind > plain {
			return y.bad(k.line, k.col, "", "a key must be a text, not %s", k.kind)
		}
		val, err := y.node(v.Value, depth+1)
		if err != nil {
			return err
		}
		out.members = append(out.members, member{k.text, val, k.place})
	}
	if len(out.members) > 0 {
		out.place = out.members[0].place
	}
	return nil
}
