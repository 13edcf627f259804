package tidemark_test

import (
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tidemarkdb/tidemark"
)

// avoided are words with a better one in their place: one word for each idea, and the field's own.
var avoided = []struct {
	not *regexp.Regexp
	say string
}{
	{regexp.MustCompile(`(?i)\b(go|goes|going|went|gone) on\b`), "resume, continue"},
	{regexp.MustCompile(`(?i)\b(take|takes|taking|took|taken) up\b`), "resume, continue"},
	{regexp.MustCompile(`(?i)\bmend(s|ed|ing)?\b`), "repair, fix"},
	{regexp.MustCompile(`(?i)\b(set|sets|setting) aside\b`), "reject, rejected rows"},
	{regexp.MustCompile(`(?i)\bmeets?\b`), "conflict, overlap, find, reach"},
	{regexp.MustCompile(`(?i)\bpass(es|ed|ing)? over\b`), "skip, ignore"},
	{regexp.MustCompile(`(?i)\b(is|are|was|were|be|been|being) told\b`), "receive, be notified of"},
	{regexp.MustCompile(`(?i)\b(that|which|what|one)( is| are|'s) none\b|\bof nothing\b`), "invalid, unset, none"},
	{regexp.MustCompile(`(?i)\bparted by\b`), "separated by"},
	{regexp.MustCompile(`(?i)\bovert(ake|akes|aking|aken|ook)\b`), "supersede, take over, fenced"},
	{regexp.MustCompile(`(?i)\bsee(s|ing)? to (it|the|that|all|its|what|a)\b`), "clean up, make sure"},
	{regexp.MustCompile(`(?i)\bhoses?\b`), "link, connection"},
	{regexp.MustCompile(`(?i)\bwhat lies between\b`), "durable queue, in-memory queue"},
	{regexp.MustCompile(`(?i)\btime left\b`), "estimated time remaining (ETA)"},
}

// TestWords reads comments, texts of the program and pages.
func TestWords(t *testing.T) {
	read := func(where, text string) {
		for _, w := range avoided {
			for _, found := range w.not.FindAllString(text, -1) {
				t.Errorf("%s: %q: say %s", where, found, w.say)
			}
		}
	}
	for _, s := range sources(t) {
		if s.path == "words_test.go" {
			continue
		}
		at := func(p token.Pos) string { return s.path + ":" + strconv.Itoa(s.set.Position(p).Line) }
		for _, group := range s.file.Comments {
			read(at(group.Pos()), strings.Join(strings.Fields(group.Text()), " "))
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				read(at(lit.Pos()), lit.Value)
			}
			return true
		})
	}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".md") {
			var text []byte
			if text, err = os.ReadFile(name); err == nil {
				for i, l := range strings.Split(string(text), "\n") {
					read(name+":"+strconv.Itoa(i+1), l)
				}
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestCommentsAreNarrow holds lines of comments, other than tables, to 100 columns (a tab is four).
func TestCommentsAreNarrow(t *testing.T) {
	for _, s := range sources(t) {
		text, err := os.ReadFile(s.path)
		if err != nil {
			t.Fatal(err)
		}
		for i, l := range strings.Split(string(text), "\n") {
			comment := strings.TrimLeft(l, "\t ")
			if !strings.HasPrefix(comment, "// ") || strings.HasPrefix(comment, "//  ") {
				continue
			}
			if n := utf8.RuneCountInString(strings.ReplaceAll(l, "\t", "    ")); n > 100 {
				t.Errorf("%s:%d: a comment of %d columns", s.path, i+1, n)
			}
		}
	}
}

var lower = regexp.MustCompile("^[a-z]+('s)?[ ,;:]")

// TestSentencesAreNotMasked: what hides secrets leaves our own sentences as they are.
func TestSentencesAreNotMasked(t *testing.T) {
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(lit.Value)
			if err != nil || !strings.HasSuffix(text, ".") || !strings.Contains(text, " ") {
				return true
			}
			if masked := tidemark.MaskText(text); strings.Contains(masked, "="+tidemark.Hidden) {
				t.Errorf("%s:%d: the user reads %q", s.path, s.set.Position(lit.Pos()).Line, masked)
			}
			return true
		})
	}
}

// TestHints: a hint is a sentence, or begins with a command of ours.
func TestHints(t *testing.T) {
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			pair, ok := n.(*ast.KeyValueExpr)
			if !ok {
				return true
			}
			if key, ok := pair.Key.(*ast.Ident); !ok || key.Name != "Hint" {
				return true
			}
			first := pair.Value
			for b, ok := first.(*ast.BinaryExpr); ok; b, ok = first.(*ast.BinaryExpr) {
				first = b.X
			}
			if call, ok := first.(*ast.CallExpr); ok && len(call.Args) > 0 {
				first = call.Args[0] // a format
			}
			if lit, ok := first.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				text := strings.Trim(lit.Value, "\"`")
				if lower.MatchString(text) && !strings.HasPrefix(text, "tidemark ") {
					t.Errorf("%s:%d: the hint %q begins with a small letter", s.path, s.set.Position(lit.Pos()).Line, text)
				}
			}
			return true
		})
	}
}
