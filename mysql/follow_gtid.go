package mysql

import (
	"fmt"
	mathbits "math/bits"
	"strconv"
	"time"
)

// gtidMySQL begins a transaction of MySQL.
func (s *Stream) gtidMySQL(body []byte, anonymous bool, at time.Time) error {
	r := &reading{p: body}
	r.take(1)
	id, n := r.take(16), r.uint(8)
	g := group{place: s.place(), time: at}
	if r.bad {
		return errEvent
	}
	if !anonymous {
		if string(id) != s.server { // one server commits most of them
			s.server, s.serverText = string(id), uuidText(id)+":"
		}
		g.gtid = s.serverText + strconv.FormatUint(n, 10)
	}
	if len(r.p) >= 1+16+7 && r.byte() == 2 {
		r.take(16) // for replicas that apply in parallel
		micros := r.uint(7)
		if micros>>55 == 1 && len(r.p) >= 7 { // it was committed elsewhere first
			micros = r.uint(7)
		}
		g.time = time.UnixMicro(int64(micros)).UTC()
	}
	return s.beginGroup(g)
}

func uuidText(b []byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// gtidTagged begins a transaction whose GTID has a tag (MySQL 8.3 and later). The event is
// in the form of the server's library "serialization": a version, the size, the number of
// the last field that must be understood, and fields behind their numbers.
func (s *Stream) gtidTagged(body []byte, at time.Time) error {
	r := &reading{p: body}
	r.varlen()
	r.varlen()
	r.varlen()
	var id [16]byte
	var number, micros uint64
	tag := ""
	for len(r.p) > 0 && !r.bad {
		switch field := r.varlen(); field {
		case 1:
			for i := range id {
				id[i] = byte(r.varlen())
			}
		case 2:
			number = r.varlen() >> 1 // the lowest bit is the sign
		case 3:
			tag = string(r.take(int(min(r.varlen(), 1<<10))))
		case 6:
			micros = r.varlen()
		case 7: // it was committed elsewhere first
			micros = r.varlen()
		case 0, 4, 5, 8, 9, 10, 11:
			r.varlen()
		default: // of a later version
			r.p = nil
		}
	}
	if r.bad || number == 0 {
		return errEvent
	}
	g := group{place: s.place(), time: at, gtid: fmt.Sprintf("%s:%s:%d", uuidText(id[:]), tag, number)}
	if micros > 0 {
		g.time = time.UnixMicro(int64(micros)).UTC()
	}
	return s.beginGroup(g)
}

// varlen reads a number of one to nine bytes, little-endian: as many follow the first as
// it has ones at its low end, and these and a zero are not part of the number.
func (r *reading) varlen() uint64 {
	first := r.byte()
	n := mathbits.TrailingZeros8(^first)
	if n == 8 {
		return r.uint(8)
	}
	return (r.uint(n)<<8 | uint64(first)) >> (n + 1)
}

// gtidMariaDB begins a transaction of MariaDB: the event stands for BEGIN too, unless
// one statement makes the whole group.
func (s *Stream) gtidMariaDB(body []byte, server uint32, at time.Time) error {
	r := &reading{p: body}
	seq, domain, flags := r.uint(8), r.uint(4), r.byte()
	if r.bad {
		return errEvent
	}
	const standalone, grouped, preparedXA = 1, 2, 64
	err := s.beginGroup(group{place: s.place(), time: at, gtid: fmt.Sprintf("%d-%d-%d", domain, server, seq), begun: flags&standalone == 0})
	if err != nil || flags&preparedXA == 0 {
		return err
	}
	if flags&grouped != 0 {
		r.take(8)
	}
	format, gtrid, bqual := r.uint(4), int(r.byte()), int(r.byte())
	if s.group.xid = fmt.Sprintf("X'%x',X'%x',%d", r.take(gtrid), r.take(bqual), format); r.bad {
		return errEvent
	}
	s.prepared = &preparedTx{}
	return nil
}
