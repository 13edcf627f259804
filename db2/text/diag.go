package text

import (
	"regexp"
	"strings"
)

var (
	// 2018-02-28-06.47.20.921681-480 E548681E1520          LEVEL: Info
	diagTime = regexp.MustCompile(`\b(\d{4}-\d\d-\d\d-\d\d\.\d\d\.\d\d\.\d{1,6})[-+−–]\d+ +\S+ +LEVEL *:`)
	// Database Member 0 -- Database HADRDB -- Active -- Up 0 days 00:23:17 -- Date 2018-02-28
	pdMember = regexp.MustCompile(`\bDatabase (?:Member|Partition) (\d+)\b`)
	pdName   = regexp.MustCompile(` -- Database (\S+) -- `)
	pdDate   = regexp.MustCompile(` -- +Date ([-0-9./]+(?: [0-9:.]+)?)`)
)

// diagHead reads the first line of a record of db2diag.log.
func (p *parser) diagHead(s string) bool {
	m := diagTime.FindStringSubmatch(s)
	if m == nil {
		return false
	}
	p.flush()
	p.seen.Records++
	p.context = context{record: true, begun: p.context.begun}
	p.context.time, _ = moment(m[1])
	return true
}

// diagField reads what a record says of itself, and messages that tell what statistics are of.
func (p *parser) diagField(s string) {
	c := &p.context
	switch {
	case strings.Contains(s, "INSTANCE") || strings.Contains(s, "EDUID"):
		diagValue(s, "NODE", &c.member)
		diagValue(s, "DB", &c.db)
		diagValue(s, "EDUID", &c.edu)
	case strings.Contains(s, "Starting a"):
		// "Starting an online db backup.", "Starting a full database restore."
		text := strings.ToLower(s)
		switch {
		case strings.Contains(text, "backup"):
			c.begun.note(start{Backup, strings.Contains(text, "online")}, "edu "+c.edu, "db "+c.db)
		case strings.Contains(text, "restore"):
			c.begun.note(start{op: Restore}, "edu "+c.edu, "db "+c.db)
		}
	}
}

// diagValue reads a field of lines such as this one. A log may have millions of them.
//
//	INSTANCE: inst105             NODE : 000            DB   : SAMPLE
func diagValue(s, name string, to *string) {
	for at := 0; ; {
		i := strings.Index(s[at:], name)
		if i < 0 {
			return
		}
		i += at
		at = i + len(name)
		rest, is := strings.CutPrefix(strings.TrimLeft(s[at:], " "), ":")
		if !is || i > 0 && s[i-1] != ' ' {
			continue
		}
		if value, _, _ := strings.Cut(strings.TrimLeft(rest, " "), " "); value != "" {
			*to = value
		}
		return
	}
}

// pdHead reads the first line of what db2pd prints.
func (p *parser) pdHead(s string) bool {
	m := pdMember.FindStringSubmatch(s)
	if m == nil {
		return false
	}
	p.flush()
	p.context = context{begun: p.context.begun, member: m[1]}
	if m := pdName.FindStringSubmatch(s); m != nil {
		p.context.db = m[1]
	}
	if m := pdDate.FindStringSubmatch(s); m != nil {
		p.context.time, _ = moment(m[1])
	}
	return true
}
