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
// refers to their pages. So the others are restored as zeros, which take no space. This includes
// their catalogues, so that nobody can open one of them and mistake it for empty. They can be
// dropped.
//
// Recovery ignores log records for a zero page unless they contain the whole page. The first change
// since a checkpoint does, so usually no page is missing at the end of recovery, which would make
// the server stop. But some changes never contain the whole page (that a page has become
// all-visible, without checksums and wal_log_hints): Write makes the server skip these.
type Partial struct {
	// Left returns the names of the databases that are left out.
	Left []string
	oids map[string]bool
}

// systemOIDs is the lowest OID of user databases. Those that initdb creates have lower ones.
const systemOIDs = 16384

// PartOf selects databases of a backup. Those that a server needs are always restored. Kind
// NotFound: a name is not among them.
func PartOf(have []tidemark.DatabaseName, wanted []string) (*Partial, error) {
	if len(have) == 0 {
		return nil, &tidemark.Error{Kind: tidemark.Unsupported, Op: "restore", Object: strings.Join(wanted, ", "), Err: errors.New("the backup does not record which databases it has"), Hint: "It was made by a version that did not record them: restore all of it, or use a newer backup."}
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

// Leaves reports whether a file, by its path below the data folder, belongs to a database that is
// left out. The version file stays: a server looks for it in each database's folder.
func (p *Partial) Leaves(name string) bool {
	folder := path.Dir(name)
	return isDatabaseFolder(folder) && p.oids[path.Base(folder)] && path.Base(name) != versionFile
}

// Write adds the setting that recovery needs to a restored data folder.
func (p *Partial) Write(dir string) error {
	if len(p.Left) == 0 {
		return nil
	}
	return appendSettings(dir, "ignore_invalid_pages = on\n")
}

// Findings report what was left out of a restored data folder, how many bytes that is, and what to
// do about it.
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
		Hint: "Nobody can open them. Once the server has started: " + strings.Join(drops, " ") + " ALTER SYSTEM RESET ignore_invalid_pages; and restart it some time."}}
}
