package text

import (
	"slices"
	"strings"
	"time"
)

// An Operation is what statistics are of. The record itself does not say it: records around it do.
type Operation string

const (
	Unknown Operation = ""
	Backup  Operation = "backup"
	Restore Operation = "restore"
)

// Stats is a record of statistics of a backup or a restore, which db2diag.log has after each that
// succeeded.
type Stats struct {
	Operation   Operation
	Online      bool   // it said that it was an online backup
	Member      string // of the instance
	EDU         string // of the agent that ran it
	Parallelism int    // 0: the text does not say it (10.x)
	Buffers     int
	BufferSize  int64    // bytes
	BM          []Worker // buffer manipulators: they read table spaces, or write them
	MC          []Worker // media controllers: they write the image, or read it
	BMTotal     *Worker  // what the text gives as their sum
	MCTotal     *Worker
	Columns     []string // of BM#, as far as they are known
	Cut         bool     // the text ends within it, or begins within it
}

// A Worker is a thread of a backup or a restore. Times that the text does not have are 0.
type Worker struct {
	ID         string
	Total      time.Duration // its life
	IO         time.Duration
	Compr      time.Duration
	MsgQ       time.Duration // waiting for a buffer: BM of a backup and MC of a restore for an empty one, the others for a full one
	WaitQ      time.Duration // waiting for a message: nothing to do
	Throttle   time.Duration // 12.1
	LogPhase   time.Duration // 12.1: copying logs into the image
	Buffers    int64
	Bytes      int64
	ComprBytes int64 // handed to the compressor
	LogBytes   int64
}

// maxWorkers bounds a table: Db2 takes PARALLELISM up to 1,024.
const maxWorkers = 4096

// begun are operations that records said to begin, by the EDU of their agent and by database.
type begun struct {
	by map[string]start
}

type start struct {
	op     Operation
	online bool
}

// maxBegun bounds them: an operation that fails leaves its entry.
const maxBegun = 1024

func (b *begun) note(s start, keys ...string) {
	if b.by == nil || len(b.by) > maxBegun {
		b.by = map[string]start{}
	}
	for _, k := range keys {
		if k != "" {
			b.by[k] = s
		}
	}
}

// A statsReader reads one record.
type statsReader struct {
	at    Listing
	stats Stats
	table *table          // the one being read
	seen  map[string]bool // headings, by BM and MC
}

func (p *parser) statsOpen() *statsReader {
	if p.stats == nil {
		p.flush()
		c := &p.context
		p.stats = &statsReader{seen: map[string]bool{}, at: Listing{Line: p.seen.Lines, Taken: c.time, DB: c.db}}
		p.stats.stats.Member, p.stats.stats.EDU = c.member, c.edu
		for _, key := range []string{"edu " + c.edu, "db " + c.db} {
			if s, ok := c.begun.by[key]; ok {
				p.stats.stats.Operation, p.stats.stats.Online = s.op, s.online
				break
			}
		}
	}
	return p.stats
}

func (s *statsReader) listing() (Listing, bool) {
	s.close()
	s.stats.Cut = s.stats.Cut || len(s.stats.BM) == 0 || len(s.stats.MC) == 0 || s.stats.MCTotal == nil || s.stats.BMTotal == nil
	s.at.Stats = &s.stats
	return s.at, len(s.stats.BM)+len(s.stats.MC) > 0
}

// ends reports whether headings are of another record: of each table, a record has one.
func (s *statsReader) ends(line string) bool {
	return strings.Contains(line, "BM#") && (s.seen["BM"] || s.seen["MC"]) || strings.Contains(line, "MC#") && s.seen["MC"]
}

// A column of a table, by its heading.
type column struct {
	name       string
	unit       float64 // bytes, of amounts
	start, end int
}

// table is one of the two tables of a record.
type table struct {
	id      string // BM or MC
	columns []column
	prefix  prefix
	row     []word // begun on a line before
	begun   bool   // it has a row or a rule: headings are complete
}

// A prefix is what a log or a mail puts before each line: some words, the last of which may be
// glued to the line.
type prefix struct {
	words int
	glue  byte
}

func prefixOf(before string) prefix {
	if strings.TrimSpace(before) == "" {
		return prefix{}
	}
	p := prefix{words: len(words(before))}
	if last := before[len(before)-1]; last != ' ' && last != '|' {
		p.glue = last
	}
	return p
}

// strip removes it from the words of a line.
func (p prefix) strip(ws []word) []word {
	if p.words == 0 || len(ws) < p.words {
		return ws
	}
	if p.glue == 0 {
		return ws[p.words:]
	}
	ws = slices.Clone(ws[p.words-1:])
	i := strings.LastIndexByte(ws[0].text, p.glue)
	ws[0].text = ws[0].text[i+1:]
	if ws[0].text == "" {
		return ws[1:]
	}
	return ws
}

// unitsOf are the words for amounts, in bytes.
var unitsOf = map[string]float64{"bytes": 1, "kbytes": 1 << 10, "mbytes": 1 << 20, "gbytes": 1 << 30, "tbytes": 1 << 40, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40}

// headings are the other columns.
var headings = map[string]string{"total": "Total", "i/o": "I/O", "io": "I/O", "compr": "Compr", "msgq": "MsgQ", "waitq": "WaitQ", "throttle": "Throttle", "logphase": "LogPhase", "buffers": "Buffers", "log": "log"}

// head reads the headings of a table. above is the line before, which has the first word of
// headings in two lines: Compr and Log over kBytes.
func (s *statsReader) head(line, above string) {
	s.close()
	at := strings.Index(line, "BM#")
	id := "BM"
	if at < 0 {
		at, id = strings.Index(line, "MC#"), "MC"
	}
	s.seen[id] = true
	t := &table{id: id, prefix: prefixOf(line[:at])}
	skip := len(words(line[:at]))
	if t.prefix.glue != 0 {
		skip--
	}
	ws := words(line)[skip:]
	t.columns = columnsOf(ws[1:])
	var over []word
	for _, w := range t.prefix.strip(words(above)) {
		switch strings.ToLower(w.text) {
		case "compr", "log":
			over = append(over, w)
		default:
			if !isRule(w.text) {
				over = nil
			}
		}
	}
	t.label(over)
	s.table = t
}

// columnsOf gives the columns of headings.
func columnsOf(ws []word) (out []column) {
	for _, w := range ws {
		name := strings.ToLower(strings.Trim(w.text, "[]*"))
		if unit := unitsOf[name]; unit > 0 {
			c := column{"bytes", unit, w.start, w.end}
			// "Log kBytes" is one column, and "Compr kBytes" if there is one for its time.
			if n := len(out); n > 0 && (out[n-1].name == "log" || out[n-1].name == "Compr" && slices.ContainsFunc(out[:n-1], func(c column) bool { return c.name == "Compr" })) {
				c.name, c.start = strings.ToLower(out[n-1].name)+" bytes", out[n-1].start
				out = out[:n-1]
			}
			out = append(out, c)
			continue
		}
		if known := headings[name]; known != "" {
			name = known
		}
		out = append(out, column{name: name, start: w.start, end: w.end})
	}
	return out
}

// label names the amounts of which there are several: by the word over them, or by their order,
// in which the data come first.
func (t *table) label(over []word) {
	amounts := 0
	for i := range t.columns {
		c := &t.columns[i]
		if c.name != "bytes" {
			continue
		}
		amounts++
		for _, w := range over {
			if w.start < c.end+2 && c.start < w.end+2 {
				c.name = strings.ToLower(w.text) + " bytes"
			}
		}
	}
	var plain []int
	for i, c := range t.columns {
		if c.name == "bytes" {
			plain = append(plain, i)
		}
	}
	for _, i := range plain[min(1, len(plain)):] {
		t.columns[i].name = "compr bytes"
		if t.has("LogPhase") {
			t.columns[i].name = "log bytes"
		}
	}
	if len(plain) == 0 && amounts == 1 { // the only one cannot be another's
		for i := range t.columns {
			if t.columns[i].unit > 0 {
				t.columns[i].name = "bytes"
			}
		}
	}
}

func (t *table) has(name string) bool {
	return slices.ContainsFunc(t.columns, func(c column) bool { return c.name == name })
}

// isID reports whether a word begins a row.
func isID(s string) bool {
	if s == "TOT" {
		return true
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return len(s) >= 2 && len(s) <= 4
}

// isValue reports whether a word may be a value: a number, a time, or a dash for none.
func isValue(s string) bool {
	if _, ok := duration(s); ok {
		return true
	}
	_, ok := number(s)
	return ok || isRule(s) && !strings.ContainsAny(s, "=_+:")
}

// line reads a line of the table, and reports whether it was one.
func (s *statsReader) line(line string) bool {
	t := s.table
	if t == nil || strings.Contains(line, "BM#") || strings.Contains(line, "MC#") {
		return false
	}
	ws := t.prefix.strip(words(line))
	if len(ws) > 0 && !isID(ws[0].text) && t.prefix.words > 0 {
		if all := words(line); isID(all[0].text) {
			ws = all
		}
	}
	if len(ws) == 0 {
		return true
	}
	if !slices.ContainsFunc(ws, func(w word) bool { return !isRule(w.text) || len([]rune(w.text)) < 2 }) {
		s.commit()
		t.begun = true
		return true
	}
	values := !slices.ContainsFunc(ws[1:], func(w word) bool { return !isValue(w.text) })
	switch missing := len(t.columns) + 1 - len(t.row); {
	case t.row != nil && values && isValue(ws[0].text) && len(ws) <= missing:
		t.row = append(t.row, ws...)
	case isID(ws[0].text) && values && len(ws) > 1:
		s.commit()
		t.row, t.begun = ws, true
	case !t.begun && known(ws): // headings continue
		t.columns = append(t.columns, columnsOf(ws)...)
		t.label(nil)
		return true
	default:
		s.close()
		return false
	}
	if len(t.row) > len(t.columns) || t.placed() {
		s.commit()
	}
	return true
}

// known reports whether all words are headings.
func known(ws []word) bool {
	return !slices.ContainsFunc(ws, func(w word) bool {
		name := strings.ToLower(w.text)
		return headings[name] == "" && unitsOf[name] == 0
	})
}

// placed reports whether a row that lacks values has them under their headings, so that blanks are
// where there are none.
func (t *table) placed() bool {
	if t.row[0].text != "TOT" || len(t.row) > len(t.columns) {
		return false
	}
	used := -1
	for _, w := range t.row[1:] {
		i := slices.IndexFunc(t.columns, func(c column) bool { return w.start < c.end && c.start < w.end })
		if i <= used {
			return false
		}
		used = i
	}
	return used == len(t.columns)-1
}

// commit ends the row that is being read.
func (s *statsReader) commit() {
	t := s.table
	if t == nil || t.row == nil {
		return
	}
	row := t.row
	t.row = nil
	w := Worker{ID: row[0].text}
	for i, v := range row[1:] {
		at := i
		if len(row)-1 < len(t.columns) && row[0].text == "TOT" {
			at = slices.IndexFunc(t.columns, func(c column) bool { return v.start < c.end && c.start < v.end })
		}
		if at >= 0 && at < len(t.columns) { // more values than headings: the last ones have no name
			w.set(t.columns[at], v.text)
		}
	}
	if len(row)-1 < len(t.columns) && row[0].text != "TOT" {
		s.stats.Cut = true // without all of its values a row is worth nothing
		return
	}
	list, sum := &s.stats.BM, &s.stats.BMTotal
	if t.id == "MC" {
		list, sum = &s.stats.MC, &s.stats.MCTotal
	} else if s.stats.Columns == nil {
		for _, c := range t.columns {
			s.stats.Columns = append(s.stats.Columns, c.name)
		}
	}
	switch {
	case w.ID == "TOT":
		*sum = &w
		s.table = nil
	case len(*list) < maxWorkers:
		*list = append(*list, w)
	}
}

// unended drops a row that ends the text: its last value may lack digits.
func (s *statsReader) unended() {
	t := s.table
	if t == nil || t.row != nil { // that one lacks values, and is not kept
		return
	}
	list := &s.stats.BM
	if t.id == "MC" {
		list = &s.stats.MC
	}
	if n := len(*list); n > 0 {
		*list, s.stats.Cut = (*list)[:n-1], true
	}
}

// close ends a table.
func (s *statsReader) close() {
	s.commit()
	s.table = nil
}

func (w *Worker) set(c column, value string) {
	switch c.name {
	case "Buffers":
		f, _ := number(value)
		w.Buffers = int64(max(f, 0))
		return
	case "bytes", "compr bytes", "log bytes":
		f, _ := number(value)
		n := int64(min(max(f, 0)*c.unit, 1<<50)) // a petabyte each, of maxWorkers
		switch c.name {
		case "bytes":
			w.Bytes = n
		case "compr bytes":
			w.ComprBytes = n
		default:
			w.LogBytes = n
		}
		return
	}
	d, _ := duration(value)
	switch c.name {
	case "Total":
		w.Total = d
	case "I/O":
		w.IO = d
	case "Compr":
		w.Compr = d
	case "MsgQ":
		w.MsgQ = d
	case "WaitQ":
		w.WaitQ = d
	case "Throttle":
		w.Throttle = d
	case "LogPhase":
		w.LogPhase = d
	}
}
