package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestManualPages compares the generated pages of the manual with what the program prints. To
// update one:
//
//	go run ./cmd/tidemark manual options > doc/manual/options.md
func TestManualPages(t *testing.T) {
	for _, page := range []string{"options", "types", "exit-codes", "engines", "monitor", "ddl", "parameters-capture", "parameters-queue", "parameters-apply", "parameters-table"} {
		t.Run(page, func(t *testing.T) {
			want := must(t, "manual", page).out
			file := filepath.Join("..", "..", "doc", "manual", page+".md")
			have, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if want != string(have) {
				t.Errorf("doc/manual/%s.md is not what the program prints; to update it:\n\tgo run ./cmd/tidemark manual %s > doc/manual/%s.md\n%s",
					page, page, page, testdb.FirstDifference(string(have), want))
			}
		})
	}
}

// TestReadmeIsShort limits the README to what a newcomer reads, and its first screen to what it is,
// how fast, and how to try it.
func TestReadmeIsShort(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(readme), "\n")
	if len(lines) > 120 {
		t.Errorf("it has %d lines, more than 120", len(lines))
	}
	first := strings.Join(lines[:15], "\n")
	for _, want := range []string{"PostgreSQL", "rivals.svg", "make demo", "tidemark copy"} {
		if !strings.Contains(first, want) {
			t.Errorf("its first 15 lines lack %q", want)
		}
	}
}

// TestManualLinks checks the links between pages: each leads to an existing file, and to an
// existing heading where it names one.
func TestManualLinks(t *testing.T) {
	root := filepath.Join("..", "..")
	files, err := filepath.Glob(filepath.Join(root, "doc", "*", "*.md"))
	if err != nil || len(files) < 10 {
		t.Fatalf("%d pages: %v", len(files), err)
	}
	for _, pages := range []string{"*.md", "doc/*.md", "bench/*.md", "bench/story/*.md"} {
		more, _ := filepath.Glob(filepath.Join(root, filepath.FromSlash(pages)))
		files = append(files, more...)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, to := range links(text) {
			path, heading, _ := strings.Cut(to, "#")
			target := file
			if path != "" {
				target = filepath.Join(filepath.Dir(file), filepath.FromSlash(path))
			}
			page, err := os.ReadFile(target)
			switch st, serr := os.Stat(target); {
			case serr != nil:
				t.Errorf("%s: %s is not there", file, to)
			case st.IsDir():
			case err != nil:
				t.Error(err)
			case heading != "" && !headings(page)[heading]:
				t.Errorf("%s: %s has no such heading", file, to)
			}
		}
	}
}

// links returns the targets of a page's links to files.
func links(page []byte) []string {
	var out []string
	for rest := page; ; {
		_, after, found := bytes.Cut(rest, []byte("]("))
		if !found {
			return out
		}
		to, _, closed := bytes.Cut(after, []byte(")"))
		if closed && !bytes.ContainsAny(to, " \n:") && len(to) > 0 {
			out = append(out, string(to))
		}
		rest = after
	}
}

// headings returns the anchors of a page as forges generate them.
func headings(page []byte) map[string]bool {
	out := map[string]bool{}
	for line := range strings.Lines(string(page)) {
		title := strings.TrimLeft(line, "#")
		if len(title) == len(line) {
			continue
		}
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r > 127:
				return r
			}
			return -1
		}, strings.ToLower(strings.TrimSpace(title)))
		out[anchor] = true
	}
	return out
}
