package stream

import (
	"fmt"
	"strconv"
	"time"

	"github.com/tidemarkdb/tidemark/mysql/event"
)

// gtidMySQL begins a transaction of MySQL.
func (s *assembly) gtidMySQL(body []byte, anonymous bool, at time.Time) error {
	r := &event.Reader{Rest: body}
	r.Take(1)
	id, n := r.Take(16), r.Uint(8)
	g := group{place: s.place(), time: at}
	if r.Bad {
		return event.ErrEvent
	}
	if !anonymous {
		if string(id) != s.server { // most transactions come from one server
			s.server, s.serverText = string(id), uuidText(id)+":"
		}
		g.gtid = s.serverText + strconv.FormatUint(n, 10)
	}
	if len(r.Rest) >= 1+16+7 && r.Byte() == 2 {
		r.Take(16) // for replicas that apply in parallel
		micros := r.Uint(7)
		if micros>>55 == 1 && len(r.Rest) >= 7 { // it was first committed on another server
			micros = r.Uint(7)
		}
		g.time = time.UnixMicro(int64(micros)).UTC()
	}
	return s.beginGroup(g)
}

func uuidText(b []byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// gtidTagged begins a transaction whose GTID has a tag (MySQL 8.3 and later). The event is in the
// format of the server's library "serialization": a version, the size, the number of the last field
// that a reader must understand, and the fields, each after its number.
func (s *assembly) gtidTagged(body []byte, at time.Time) error {
	r := &event.Reader{Rest: body}
	r.Varlen()
	r.Varlen()
	r.Varlen()
	var id [16]byte
	var number, micros uint64
	tag := ""
	for len(r.Rest) > 0 && !r.Bad {
		switch field := r.Varlen(); field {
		case 1:
			for i := range id {
				id[i] = byte(r.Varlen())
			}
		case 2:
			number = r.Varlen() >> 1 // the lowest bit is the sign
		case 3:
			tag = string(r.Take(int(min(r.Varlen(), 1<<10))))
		case 6:
			micros = r.Varlen()
		case 7: // it was first committed on another server
			micros = r.Varlen()
		case 0, 4, 5, 8, 9, 10, 11:
			r.Varlen()
		default: // of a later version
			r.Rest = nil
		}
	}
	if r.Bad || number == 0 {
		return event.ErrEvent
	}
	g := group{place: s.place(), time: at, gtid: fmt.Sprintf("%s:%s:%d", uuidText(id[:]), tag, number)}
	if micros > 0 {
		g.time = time.UnixMicro(int64(micros)).UTC()
	}
	return s.beginGroup(g)
}

// gtidMariaDB begins a transaction of MariaDB: the event also acts as BEGIN, unless the whole group
// is one statement.
func (s *assembly) gtidMariaDB(body []byte, server uint32, at time.Time) error {
	r := &event.Reader{Rest: body}
	seq, domain, flags := r.Uint(8), r.Uint(4), r.Byte()
	if r.Bad {
		return event.ErrEvent
	}
	const standalone, grouped, preparedXA = 1, 2, 64
	err := s.beginGroup(group{place: s.place(), time: at, gtid: fmt.Sprintf("%d-%d-%d", domain, server, seq), begun: flags&standalone == 0})
	if err != nil || flags&preparedXA == 0 {
		return err
	}
	if flags&grouped != 0 {
		r.Take(8)
	}
	format, gtrid, bqual := r.Uint(4), int(r.Byte()), int(r.Byte())
	if s.group.xid = fmt.Sprintf("X'%x',X'%x',%d", r.Take(gtrid), r.Take(bqual), format); r.Bad {
		return event.ErrEvent
	}
	s.prepared = &preparedTx{}
	return nil
}
