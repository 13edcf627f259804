package screen

import (
	"fmt"
	"strings"
)

// Stack gives the functions and lines of a stack. Arguments, which are bits of memory, are left
// out.
func Stack(stack []byte) string {
	var out strings.Builder
	function := ""
	for line := range strings.Lines(string(stack)) {
		line = strings.TrimRight(line, "\n")
		if file, isFile := strings.CutPrefix(line, "\t"); isFile {
			file, _, _ = strings.Cut(file, " +0x")
			fmt.Fprintf(&out, "  %s %s\n", function, file)
			continue
		}
		if by, _, is := strings.Cut(line, " in goroutine "); is {
			function = by
		} else {
			function = line[:max(0, strings.LastIndexByte(line, '('))]
		}
	}
	return out.String()
}
