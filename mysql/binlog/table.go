package binlog

import (
	"bytes"
	"encoding/binary"
	"strings"
)

// tableMap records the table that a number stands for in later events.
func (s *Scanner) tableMap(body []byte) uint32 {
	if len(body) < 9 {
		return 0
	}
	id := binary.LittleEndian.Uint64(body) & (1<<48 - 1)
	n := int(body[8])
	if len(body) < 9+n+2 {
		return 0
	}
	m := int(body[9+n+1])
	if len(body) < 9+n+2+m {
		return 0
	}
	name := body[8 : 9+n+2+m]
	if id == s.lastID && bytes.Equal(name, s.lastName) {
		return s.lastTab
	}
	tab, ok := s.tables[string(name)]
	if !ok {
		tab = uint32(len(s.out.Tables))
		s.tables[string(name)] = tab
		s.out.Tables = append(s.out.Tables, strings.ToValidUTF8(string(name[1:1+n])+"."+string(name[len(name)-m:]), "\uFFFD"))
	}
	s.byID[id] = tab
	s.lastID, s.lastTab = id, tab
	s.lastName = append(s.lastName[:0], name...)
	return tab
}

// rowsOf returns the table of an event with rows.
func (s *Scanner) rowsOf(body []byte) uint32 {
	if len(body) < 8 {
		return 0
	}
	id := binary.LittleEndian.Uint64(body) & (1<<48 - 1)
	if id == s.lastID {
		return s.lastTab
	}
	return s.byID[id]
}
