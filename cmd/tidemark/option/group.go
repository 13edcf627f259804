package option

import (
	"slices"

	"github.com/spf13/pflag"
)

// A Group is a heading under which help lists options. They come in this order.
type Group uint8

const (
	_            Group = iota
	Tables             // which tables, by which rules
	Rows               // how rows are copied
	Rejects            // what does not fit the target
	Values             // values, rights and owners
	Sessions           // sessions, and what they create
	Comparing          // how two databases are compared
	Streams            // names and ends of streams
	Applying           // how changes are applied
	Queues             // the queue between capture and apply
	Figures            // what a stream or an archive reports
	Backups            // what is backed up, listed, kept or verified
	Restores           // what is restored, and where
	Recovery           // how far a restored server recovers, and its role then
	Repositories       // how a repository is opened and written
	Resources          // workers and memory
	Archives           // the log of a server
	Inputs             // what ha calculates with
	Measuring          // what ha measures
	Shipping           // what ha simulates
	Output             // what is shown, and where state is kept
)

var groupTitles = [...]string{"Other", "Tables and rules", "Copying rows", "Rejected rows and tables", "Values, rights and owners", "Sessions and objects", "Comparing",
	"Stream", "Applying changes", "Queue", "Monitoring", "Backups", "Restoring", "Recovery", "Repository", "Resources", "Log archive",
	"Inputs", "Measuring", "Simulation", "Output and state"}

func (g Group) String() string { return groupTitles[g] }

// What help needs to know of a flag is in its annotations.
const (
	annotation       = "tidemark" // the heading and the default
	annotationCommon = "tidemark-common"
)

// A Described flag is one as help lists it.
type Described struct {
	*pflag.Flag
	Default string
	Common  bool // for --help too
}

// A Heading has flags under it.
type Heading struct {
	Title string
	Flags []Described
}

// Headings gives the flags of a command in groups. Flags that are not from a table are left out.
func Headings(flags *pflag.FlagSet) (out []Heading) {
	for _, title := range append(groupTitles[1:], groupTitles[0]) {
		h := Heading{Title: title}
		flags.VisitAll(func(f *pflag.Flag) {
			if is, ok := f.Annotations[annotation]; ok && is[0] == title && !f.Hidden {
				_, common := f.Annotations[annotationCommon]
				h.Flags = append(h.Flags, Described{Flag: f, Default: is[1], Common: common})
			}
		})
		if len(h.Flags) > 0 {
			slices.SortStableFunc(h.Flags, func(a, b Described) int { // the common ones first, else in the order of the tables
				if a.Common != b.Common {
					return map[bool]int{true: -1, false: 1}[a.Common]
				}
				return 0
			})
			out = append(out, h)
		}
	}
	return out
}
