package help

import "strings"

// wrap breaks a text into lines of at most width columns; all but the first are indented.
func wrap(text string, width int, indent string) (out []string) {
	line := text[:len(text)-len(strings.TrimLeft(text, " "))]
	first := line
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == first:
			line += word
		case len([]rune(line))+1+len([]rune(word)) <= width:
			line += " " + word
		default:
			out = append(out, line)
			line = indent + word
		}
	}
	return append(out, line)
}

// row is a name and, from a column on, its text.
func row(name, text string, column, width int) []string {
	lines := wrap(text, max(width-column, 20), "")
	pad := strings.Repeat(" ", column)
	var out []string
	if len(name)+2 > column {
		out = append(out, name)
		name = ""
	}
	for _, line := range lines {
		out = append(out, name+pad[len(name):]+line)
		name = ""
	}
	return out
}

// paragraphs cuts a text at its empty lines, and wraps each paragraph again; an indented one stays
// as it is.
func paragraphs(text string, width int) (out [][]string) {
	for p := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		switch {
		case p == "":
		case strings.HasPrefix(p, " "):
			out = append(out, strings.Split(p, "\n"))
		default:
			out = append(out, wrap(p, width, ""))
		}
	}
	return out
}

// blocks cuts examples at their empty lines, and breaks long command lines with backslashes.
func blocks(text string, width int) (out [][]string) {
	for b := range strings.SplitSeq(strings.Trim(text, "\n"), "\n\n") {
		if b == "" {
			continue
		}
		var lines []string
		for line := range strings.SplitSeq(b, "\n") {
			lines = append(lines, breakCommand(line, width)...)
		}
		out = append(out, lines)
	}
	return out
}

// breakCommand breaks a command line at spaces that are not in quotes, before an option if it can.
func breakCommand(line string, width int) (out []string) {
	for len(line) > width {
		at, option, quoted := -1, -1, false
		for i, c := range line[:width-1] {
			switch {
			case c == '\'':
				quoted = !quoted
			case c == ' ' && !quoted && strings.TrimSpace(line[:i]) != "":
				if at = i; line[i+1] == '-' {
					option = i
				}
			}
		}
		if option > width/2 {
			at = option
		}
		if at < 0 {
			break
		}
		out = append(out, line[:at]+" \\")
		line = "      " + line[at+1:]
	}
	return append(out, line)
}

// joined puts an empty line between blocks.
func joined(blocks [][]string) (out []string) {
	for i, b := range blocks {
		if i > 0 {
			out = append(out, "")
		}
		out = append(out, b...)
	}
	return out
}
