package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// A fault is a change that makes the program wrong.
type fault struct {
	line     int    // of the list
	what     string // a sentence
	file     string
	find     string // occurs once in the file
	becomes  string
	packages []string       // whose tests should find it, the cheapest first
	run      *regexp.Regexp // the tests to run; nil for all
}

// parse reads the list. A blank line ends a block; its first line is the sentence, and after it
// stand lines that begin with
//
//	file  the file
//	in    the packages
//	run   the pattern of go test -run, if not all tests run
//	-     a line of the text to find
//	+     a line of the text that replaces it
//
// A line with # is a comment.
func parse(text string) ([]fault, error) {
	var out []fault
	var f fault
	var find, becomes []string
	end := func() error {
		if f.what == "" {
			return nil
		}
		f.find, f.becomes = strings.Join(find, "\n"), strings.Join(becomes, "\n")
		if f.file == "" || len(f.packages) == 0 || f.find == "" || f.find == f.becomes {
			return fmt.Errorf("line %d: a fault needs a file, packages, a text to find and another one", f.line)
		}
		out = append(out, f)
		f, find, becomes = fault{}, nil, nil
		return nil
	}
	for i, l := range strings.Split(text, "\n") {
		key, value, _ := strings.Cut(l, " ")
		switch {
		case strings.HasPrefix(l, "#"):
		case l == "":
			if err := end(); err != nil {
				return nil, err
			}
		case f.what == "":
			f.line, f.what = i+1, l
		case l[0] == '-':
			find = append(find, l[1:])
		case l[0] == '+':
			becomes = append(becomes, l[1:])
		case key == "file":
			f.file = value
		case key == "in":
			f.packages = strings.Fields(value)
		case key == "run":
			var err error
			if f.run, err = regexp.Compile(value); err != nil {
				return nil, fmt.Errorf("line %d: %w", i+1, err)
			}
		default:
			return nil, fmt.Errorf("line %d: %q is no line of a fault", i+1, l)
		}
	}
	return out, end()
}

// changed returns what the fault makes of the file's text.
func (f fault) changed(text string) (string, error) {
	if n := strings.Count(text, f.find); n != 1 {
		return "", fmt.Errorf("line %d: %s: its text occurs %d times in %s", f.line, f.what, n, f.file)
	}
	return strings.Replace(text, f.find, f.becomes, 1), nil
}

// apply puts the fault into the tree at root, and returns what undoes it.
func (f fault) apply(root string) (undo func() error, err error) {
	name := filepath.Join(root, filepath.FromSlash(f.file))
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	wrong, err := f.changed(string(text))
	if err != nil {
		return nil, err
	}
	undo = func() error { return os.WriteFile(name, text, 0o644) }
	if err := os.WriteFile(name, []byte(wrong), 0o644); err != nil {
		return nil, errors.Join(err, undo())
	}
	return undo, nil
}
