package tidemark

import (
	"fmt"
	"strings"
)

// Some lists the first n names and counts the others: "a, b and 3 more".
func Some(names []string, n int) string {
	if len(names) > n {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:n], ", "), len(names)-n)
	}
	return strings.Join(names, ", ")
}
