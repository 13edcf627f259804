package physical

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// A Partial is a restore of some databases. A server cannot start without the others: its log
// speaks of their pages. So these are there as zeros, which take no room, and their own
// catalogues too, so that nobody can open one of them and take it for empty. They can be dropped.
//
// What the log says of a page that is zeros counts for nothing, unless it brings the whole page
// along. It does so for the first change since a checkpoint, so mostly nothing is left that
// the server would miss at the end of its recovery and stop for. But some changes never bring
// a page along (that a page has become visible to all, without checksums and wal_log_hints):
// Write has the server pass over these.
type Partial struct {
	// Left are the names of the databases that are left out.
	Left []string
	oids map[string]bool
}

// systemOIDs is the first number that databases of users have. Those that initdb makes have lower ones.
const systemOIDs = 16384

// PartOf chooses databases of those that a backup has. The ones that a server itself cannot do
// without come back in any case. Kind NotFound: a name is none of them.
func PartOf(have []tidemark.DatabaseName, wanted []string) (*Partial, error) {
	if len(have) == 0 {
		return nil, &tidemark.Error{Kind: tidemark.Unsupported, Op: "restore", Object: strings.Join(wanted, ", "), Err: errors.New("the backup does not say which databases it has"), Hint: "It was made by a version that did not note them: restore all of it, or take a newer backup."}
	}
	p := &Partial{oids: map[string]bool{}}
	var known []string
	for _, d := range have {
		known = append(known, d.Name)
		if d.OID >= systemOIDs && !slices.Contains([]string{"postgres", "template0", "template1"}, d.Name) && !slices.Contains(wanted, d.Name) {
			p.Left = append(p.Left, d.Name)
			p.oids[strconv.FormatUint(uint64(d.OID), 10)] = true
		}
	}
	for _, name := range wanted {
		if !slices.Contains(known, name) {
			return nil, &tidemark.Error{Kind: tidemark.NotFound, Op: "restore", Object: "database " + name, Err: errors.New("the backup has none of that name"), Hint: "It has " + strings.Join(known, ", ") + "."}
		}
	}
	return p, nil
}

// Leaves says whether a file, by its path below the data folder, is of a database that is left
// out. Its version stays, which a server looks for in each database's folder.
func (p *Partial) Leaves(name string) bool {
	folder := path.Dir(name)
	return isDatabaseFolder(folder) && p.oids[path.Base(folder)] && path.Base(name) != versionFile
}

// Write puts the setting into a restored data folder that a recovery needs.
func (p *Partial) Write(dir string) error {
	if len(p.Left) == 0 {
		return nil
	}
	return appendSettings(dir, "ignore_invalid_pages = on\n")
}

// Findings say what was left out of a restored data folder, of how many bytes, and what is to be done.
func (p *Partial) Findings(dir string, bytes int64) []tidemark.Finding {
	if len(p.Left) == 0 {
		return nil
	}
	var drops []string
	for _, name := range p.Left {
		drops = append(drops, "DROP DATABASE "+server.QuoteIdent(name)+";")
	}
	return []tidemark.Finding{{Severity: tidemark.Warning, Object: dir,
		Text: fmt.Sprintf("left out, with zeros in place of %d MB: %s", bytes>>20, strings.Join(p.Left, ", ")),
		Hint: "Nobody can open them. When the server has started: " + strings.Join(drops, " ") + " ALTER SYSTEM RESET ignore_invalid_pages; and restart it some time."}}
}
