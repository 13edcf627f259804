// Package text reads what Db2 and its tools print: the statistics of backups and restores in
// db2diag.log, LIST UTILITIES SHOW DETAIL, LIST TABLESPACES SHOW DETAIL, db2pd -edus, -agents and
// -hadr. It knows no server and gives no advice: package advisor does that.
//
// Values are found by the name of their column or key, never by their place alone, because
// versions add columns, and because texts arrive by mail, from web pages and out of other logs:
// with any kind of dash, wrapped, in one line with a log's prefix, or cut in the middle. A file
// may hold any number of listings. Memory is bounded by the largest listing, not by the file.
//
// Start reading at Read.
package text

import (
	"bufio"
	"io"
	"strings"
	"time"
)

// A Listing is one text of Db2. Exactly one of its parts is set.
type Listing struct {
	File    string    // which text it is in, if the caller says so
	Written time.Time // when that file was written, likewise
	Line    int       // where it begins
	Stats   *Stats
	Spaces  []Space
	Utility *Utility
	EDUs    []EDU
	Agents  []Agent
	HADR    *HADR
	Taken   time.Time // when it was printed, if the text says so; server's local time, as if in UTC
	DB      string    // its database, if the text around it says so
}

// Seen is what a text has besides listings, for a message if it has none.
type Seen struct {
	Lines    int
	Bytes    int64
	Records  int  // of db2diag.log
	Brief    bool // LIST TABLESPACES or LIST UTILITIES without SHOW DETAIL
	Pd       bool // db2pd -utilities, which is not read
	Language bool // Db2's output in another language than English
	Binary   bool // it was not read further
}

// maxLine is how much of a line is read: Db2's are short, but a dump in db2diag.log may be long.
const maxLine = 64 << 10

// maxEntries bounds a listing: a database has at most 32,768 table spaces, and a server that many
// EDUs.
const maxEntries = 1 << 16

// Read reads a text to its end and gives each listing to found, in their order.
func Read(r io.Reader, found func(Listing)) (Seen, error) {
	in := bufio.NewReaderSize(r, maxLine)
	head, err := in.Peek(4096)
	if err != nil && err != io.EOF && err != bufio.ErrBufferFull {
		return Seen{}, err
	}
	wide, order := wideText(head)
	if wide {
		in = bufio.NewReaderSize(narrow(in, order), maxLine)
	} else if binary(head) {
		return Seen{Binary: true}, nil
	}
	p := parser{found: found}
	for {
		line, n, err := readLine(in)
		if n > 0 {
			p.seen.Lines++
			p.seen.Bytes += int64(n)
			p.text(clean(line))
		}
		if err == io.EOF {
			if n > 0 && p.stats != nil { // the text may end within a number
				p.stats.unended()
			}
			p.flush()
			return p.seen, nil
		}
		if err != nil {
			p.flush()
			return p.seen, err
		}
	}
}

// readLine gives a line without its end, cut to maxLine, and how many bytes it took from the text.
func readLine(in *bufio.Reader) (line []byte, n int, err error) {
	line, err = in.ReadSlice('\n')
	n = len(line)
	if err == bufio.ErrBufferFull {
		line = append([]byte(nil), line...)
		for err == bufio.ErrBufferFull {
			var more []byte
			more, err = in.ReadSlice('\n')
			n += len(more)
		}
	}
	for len(line) > 0 && (line[len(line)-1] == '\n' || line[len(line)-1] == '\r') {
		line = line[:len(line)-1]
	}
	return line, n, err
}

// A parser finds listings in lines. What it reads now is in one of its parts.
type parser struct {
	found func(Listing)
	seen  Seen
	last  string // the line before, for headings of two lines

	context context
	stats   *statsReader
	pairs   *pairs     // key = value listings: utilities, table spaces, HADR
	table   *pdTable   // a table of db2pd
	old     *hadrTable // db2pd -hadr of 9.7
}

// A context is what the text around a listing says of it.
type context struct {
	record bool // within a record of db2diag.log
	time   time.Time
	db     string
	member string
	edu    string
	begun  begun
}

// text reads a line, which may be a whole listing whose ends of lines a log has escaped: "\n" in
// JSON, "#012" by rsyslog.
func (p *parser) text(s string) {
	for _, end := range []string{`\r\n`, `\n`, "#012"} {
		if strings.Contains(s, end) && (strings.Contains(s, "BM#") || strings.Contains(s, "MC#") || strings.Contains(s, " = ")) {
			s = strings.NewReplacer(`\t`, "  ", "#011", "  ").Replace(s)
			for part := range strings.SplitSeq(s, end) {
				p.line(part)
			}
			return
		}
	}
	p.line(s)
}

func (p *parser) line(s string) {
	defer func() { p.last = s }()
	if strings.TrimSpace(s) == "" {
		return
	}
	if p.stats != nil && p.stats.line(s) {
		return
	}
	if p.table != nil && p.table.line(s) {
		return
	}
	if p.old != nil && p.old.line(s) {
		return
	}
	switch {
	case strings.Contains(s, "BM#") || strings.Contains(s, "MC#"):
		if p.stats != nil && p.stats.ends(s) {
			p.flush()
		}
		p.statsOpen().head(s, p.last)
	case strings.Contains(s, "LEVEL") && p.diagHead(s):
	case strings.Contains(s, " -- ") && p.pdHead(s):
	case pdTableHead(s) != nil:
		p.flush()
		p.table = pdTableHead(s)
		p.table.listing = Listing{Line: p.seen.Lines, Taken: p.context.time, DB: p.context.db}
	case strings.Contains(s, "HeartBeatsMissed") && strings.Contains(s, "SyncMode"):
		p.flush()
		p.old = newHADRTable(s, Listing{Line: p.seen.Lines, Taken: p.context.time, DB: p.context.db})
	case strings.Contains(s, "="):
		p.pair(s)
	case p.context.record:
		p.diagField(s)
	case p.pairs != nil:
		p.pairs.plain(s)
	default:
		p.hints(s)
	}
}

// flush gives what is being read to found, as far as it is there.
func (p *parser) flush() {
	if p.stats != nil {
		if l, ok := p.stats.listing(); ok {
			p.found(l)
		}
		p.stats = nil
	}
	if p.pairs != nil {
		p.pairs.flush(p)
		p.pairs = nil
	}
	if p.table != nil {
		if l := p.table.listing; len(l.EDUs)+len(l.Agents) > 0 {
			p.found(l)
		}
		p.table = nil
	}
	if p.old != nil {
		if l := p.old.listing; l.HADR.ok() {
			p.found(l)
		}
		p.old = nil
	}
}

// hints notes what a text looks like that has nothing to read.
func (p *parser) hints(s string) {
	switch {
	case strings.Contains(s, "CompletedWork") && strings.Contains(s, "TotalWork"):
		p.seen.Pd = true
	case foreign(s):
		p.seen.Language = true
	}
}

// foreignWords begin headings and keys of the same texts in other languages of Db2.
var foreignWords = []string{
	"Tabellenbereich", "Dienstprogramm", "Gesamtseiten", "Seiten insgesamt", "Datenbankname", "Obere Grenze", // German
	"Espace table", "Espaces table", "Nom de la base", "Utilitaire", // French
	"Espacio de tablas", "Espacios de tablas", "Nombre de base", "Espaço de tabelas", "Nome do banco", "Spazio tabelle", // Spanish, Portuguese, Italian
	"表空间", "数据库名", "实用程序", "表空間", "資料庫名稱", "表スペース", "データベース名", "ユーティリティー", "테이블 스페이스", "데이터베이스 이름", "Табличное пространство",
}

func foreign(s string) bool {
	for _, w := range foreignWords {
		if strings.Contains(s, w) {
			return true
		}
	}
	return false
}
