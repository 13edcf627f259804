package manual

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A block is a fenced part of a page.
type block struct {
	page, lang string
	line       int
	text       string
	exit       string // expected exit code, 0 unless the page says otherwise
	file       string // the file it is written to
	fresh      bool   // begins with the databases in their initial state
	stays      bool
	long       bool
	norun      string // why it is not run
}

func (b block) String() string { return fmt.Sprintf("%s:%d", b.page, b.line) }

// pages reads the blocks of README.md and of the manual, by page.
func pages(t *testing.T) (names []string, blocks map[string][]block) {
	root := filepath.Join("..", "..")
	files, err := filepath.Glob(filepath.Join(root, "doc", "manual", "*.md"))
	if err != nil || len(files) < 30 {
		t.Fatalf("%d pages: %v", len(files), err)
	}
	blocks = map[string][]block{}
	for _, file := range append([]string{filepath.Join(root, "README.md")}, files...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(file)
		if found := parse(t, name, string(text)); len(found) > 0 {
			names, blocks[name] = append(names, name), found
		}
	}
	return names, blocks
}

var (
	fence = regexp.MustCompile("^ *```(.*)$")
	// Text that looks like our command line outside of blocks that are run.
	stray = regexp.MustCompile(`^ +(\$ |# )?(bin/)?tidemark [a-z]`)
	// Placeholders in a line that only shows how a command is written.
	placeholder = regexp.MustCompile(`\b(SOURCE|TARGET|REPO|DIR|URL|FILE|HOST|COMMAND|PAGE|BACKUP|RUN|STREAM)\b|\.\.\.`)
)

func parse(t *testing.T, page, text string) (out []block) {
	var open *block
	for i, line := range strings.Split(text, "\n") {
		m := fence.FindStringSubmatch(line)
		switch {
		case m != nil && open == nil:
			open = begin(t, block{page: page, line: i + 1, exit: "0"}, m[1])
		case m != nil:
			if open.lang == "console" {
				open.text = typed(open.text)
			}
			if open.lang == "sh" || open.lang == "console" || open.file != "" {
				out = append(out, *open)
			}
			open = nil
		case open != nil:
			open.text += line + "\n"
			line = " " + line
			fallthrough
		default:
			if stray.MatchString(line) && (open == nil || open.lang != "sh" && open.lang != "console") && !placeholder.MatchString(line) {
				t.Errorf("%s:%d: a command outside of a block that is run:%s", page, i+1, line)
			}
		}
	}
	if open != nil {
		t.Errorf("%s: a block has no end", open)
	}
	return out
}

// typed returns the commands of a transcript: lines after "$ ", with their continuation lines.
func typed(transcript string) string {
	var out strings.Builder
	within := false
	for line := range strings.Lines(transcript) {
		command, begins := strings.CutPrefix(line, "$ ")
		if begins || within {
			out.WriteString(command)
			within = strings.HasSuffix(strings.TrimRight(line, "\n"), "\\")
		}
	}
	return out.String()
}

// begin parses the text after the marks that open a block.
func begin(t *testing.T, b block, info string) *block {
	info, b.norun, _ = strings.Cut(info, " norun ")
	words := strings.Fields(info)
	for i, w := range words {
		switch {
		case i == 0:
			b.lang = w
		case strings.HasPrefix(w, "exit="):
			b.exit = w[len("exit="):]
		case strings.HasPrefix(w, "file="):
			b.file = w[len("file="):]
		case w == "fresh":
			b.fresh = true
		case w == "stays":
			b.stays = true
		case w == "long":
			b.long = true
		default:
			t.Errorf("%s: %q of a block", b, w)
		}
	}
	return &b
}

var (
	named  = regexp.MustCompile("(?:^|[^a-z-])--([a-z][a-z0-9-]*)")
	inCode = regexp.MustCompile("`[^`]+`")
	ofPage = regexp.MustCompile("(?m)^\\| `([a-z0-9-]+)`((?:, `[^`]+`)*) \\|")
)

// TestManualOptions checks that the options named on pages exist. It ignores other tools' options
// in the first column of coming-from.md.
func TestManualOptions(t *testing.T) {
	dir := filepath.Join("..", "..", "doc", "manual")
	book, err := os.ReadFile(filepath.Join(dir, "options.md"))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{"help": true, "help-all": true, "version": true}
	for _, row := range ofPage.FindAllStringSubmatch(string(book), -1) {
		known[row[1]] = true
		for _, alias := range named.FindAllStringSubmatch(row[2], -1) {
			known[alias[1]] = true
		}
	}
	if len(known) < 150 {
		t.Fatalf("only %d options in options.md", len(known))
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.md"))
	for _, file := range append(files, filepath.Join("..", "..", "README.md")) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			if cells := strings.Split(line, "|"); strings.HasSuffix(file, "coming-from.md") && len(cells) > 2 {
				line = strings.Join(cells[len(cells)-2:], "")
			}
			for _, code := range inCode.FindAllString(line, -1) {
				first, _, _ := strings.Cut(strings.Trim(code, "`"), " ")
				if others[first] {
					continue
				}
				for _, o := range named.FindAllStringSubmatch(code, -1) {
					if !known[o[1]] && !others["--"+o[1]] {
						t.Errorf("%s:%d: there is no option --%s", filepath.Base(file), i+1, o[1])
					}
				}
			}
		}
	}
}

// others are other programs, and their options, that pages name.
var others = map[string]bool{
	"pg_dumpall": true, "mysqldump": true,
	// mysqldump and mydumper, for the files that a copy reads
	"--rows": true, "--chunk-filesize": true, "--load-data": true, "--csv": true, "--tab": true, "--insert-ignore": true, "--replace": true,
	"--schema-only": true, "--threads": true, "--databases": true, "--all-databases": true, "--master-data": true, "--source-data": true, "--gtid": true, "--dump-slave": true, "--dump-replica": true,
}
