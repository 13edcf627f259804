package sqlfile

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// A logPosition is the position in the server's log that a dump records: mysqldump with
// --source-data or --master-data, and with GTIDs; mariadb-dump with --master-data and --gtid.
type logPosition struct {
	file    string // "" unknown
	offset  uint64
	gtids   string // GTID set of MySQL, or GTID position of MariaDB, as in the dump without spaces
	primary bool   // it refers to the log of the server that the dumped one replicates from
}

var (
	filePosition = regexp.MustCompile(`(?is)(?:MASTER|SOURCE)_LOG_FILE\s*=\s*'([^']+)'\s*,\s*(?:MASTER|SOURCE)_LOG_POS\s*=\s*(\d+)`)
	gtidPosition = regexp.MustCompile(`(?is)gtid_(?:slave_pos|purged)\s*=\s*(?:/\*!\d+\s*'\+'\s*\*/\s*)?'\+?([^']+)'`)
	oneRange     = regexp.MustCompile(`^([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}):1(?:-(\d+))?$`)
	oneDomain    = regexp.MustCompile(`^\d+-\d+-\d+$`)
)

// read processes a comment line, or a statement about replication.
func (p *logPosition) read(text string) {
	if strings.Contains(text, "(the master of this slave)") || strings.Contains(text, "(the source of this replica)") {
		p.primary = true
	}
	if m := filePosition.FindStringSubmatch(text); m != nil && p.file == "" {
		if n, err := strconv.ParseUint(m[2], 10, 63); err == nil {
			p.file, p.offset = m[1], n
		}
	}
	if m := gtidPosition.FindStringSubmatch(text); m != nil && p.gtids == "" {
		p.gtids = strings.Join(strings.Fields(m[1]), "")
	}
}

// from returns the value for replicate --from to continue from there; "" if there is none.
func (p *logPosition) from() string {
	if p.file != "" {
		return p.file + ":" + strconv.FormatUint(p.offset, 10)
	}
	if oneDomain.MatchString(p.gtids) {
		return p.gtids
	}
	if m := oneRange.FindStringSubmatch(p.gtids); m != nil {
		last := m[2]
		if last == "" {
			last = "1"
		}
		return strings.ToLower(m[1]) + ":" + last
	}
	return ""
}

// findings reports where a stream can continue.
func (p *logPosition) findings() []tidemark.Finding {
	if p.file == "" && p.gtids == "" {
		return nil
	}
	whose, source := "its server", "SOURCE"
	if p.primary {
		whose, source = "the server that its own replicates from", "THAT_SERVER"
	}
	at := "GTID " + p.gtids
	if p.file != "" {
		at = p.file + ":" + strconv.FormatUint(p.offset, 10)
		if p.gtids != "" {
			at += " (GTID " + p.gtids + ")"
		}
	}
	f := tidemark.Finding{Severity: tidemark.Note, Object: "log position", Text: "the dump is of " + whose + " at " + at}
	if from := p.from(); from != "" {
		f.Hint = "Continue from there with tidemark replicate " + source + " TARGET --from " + from + "."
	} else {
		f.Hint = "To continue from there with tidemark replicate --from, make the dump with --master-data=2 (--source-data=2): it takes a file and offset, or the GTID of one transaction."
	}
	return []tidemark.Finding{f}
}
