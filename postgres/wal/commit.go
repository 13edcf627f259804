package wal

import (
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// Kinds of transaction records, and the parts of commit and abort records (access/xact.h).
const (
	xactMask           = 0x70
	xactCommit         = 0x00
	xactPrepare        = 0x10
	xactAbort          = 0x20
	xactCommitPrepared = 0x30
	xactAbortPrepared  = 0x40
	xactAssignment     = 0x50
	xactHasMore        = 0x80 // a word of flags follows the time

	moreDatabase      = 1 << 0
	moreChildren      = 1 << 1
	moreFiles         = 1 << 2
	moreInvalidations = 1 << 3
	morePrepared      = 1 << 4
	moreStatistics    = 1 << 8
)

// epoch is 2000-01-01 UTC, the zero of PostgreSQL's clock, in microseconds since 1970.
const epoch = 946_684_800_000_000

// transaction reads a record of the transaction manager.
func (s *scanner) transaction(kind byte, main []byte) bool {
	switch kind & xactMask {
	case xactCommit, xactCommitPrepared:
		s.rec.Ended = tidemark.Committed
	case xactAbort, xactAbortPrepared:
		s.rec.Ended = tidemark.RolledBack
	case xactPrepare:
		return s.prepare(main)
	case xactAssignment:
		if len(main) < 8 {
			return false
		}
		s.rec.Tx = uint64(le.Uint32(main))
		_, ok := s.children(main[4:])
		return ok
	default:
		return true
	}
	return s.ending(kind, main)
}

// ending reads the parts of a commit or abort, up to the last one used here.
func (s *scanner) ending(kind byte, main []byte) (ok bool) {
	if len(main) < 8 {
		return false
	}
	s.rec.Time, s.rec.Exact = int64(le.Uint64(main))+epoch, true
	main = main[8:]
	if kind&xactHasMore == 0 {
		return true
	}
	if len(main) < 4 {
		return false
	}
	more := le.Uint32(main)
	main, ok = main[4:], true
	if more&moreDatabase != 0 {
		if len(main) < 8 {
			return false
		}
		main = main[8:]
	}
	if more&moreChildren != 0 {
		main, ok = s.children(main)
	}
	if ok && more&moreFiles != 0 {
		files := main
		if main, ok = pass(main, nameSize); ok {
			s.drop(files[4 : len(files)-len(main)])
		}
	}
	if ok && more&moreStatistics != 0 {
		size := 12
		if s.major >= 18 { // a statistic's identifier has 8 bytes, before that 4
			size = 16
		}
		main, ok = pass(main, size)
	}
	if ok && more&moreInvalidations != 0 {
		main, ok = pass(main, 16)
	}
	if ok && more&morePrepared != 0 {
		if len(main) < 4 {
			return false
		}
		s.rec.Tx = uint64(le.Uint32(main))
	}
	return ok
}

// count reads the number of items that follow; it returns at most longest.
func count(b []byte) int { return int(min(le.Uint32(b), longest)) }

// pass skips a counted array of items of this size.
func pass(b []byte, size int) (rest []byte, ok bool) {
	if len(b) < 4 {
		return nil, false
	}
	n := count(b)
	if b = b[4:]; n > len(b)/size {
		return nil, false
	}
	return b[n*size:], true
}

// children reads a counted array of transactions.
func (s *scanner) children(b []byte) (rest []byte, ok bool) {
	if rest, ok = pass(b, 4); !ok {
		return nil, false
	}
	s.rec.Children = s.list(0, b[4:len(b)-len(rest)])
	return rest, true
}

// list reads transactions into memory that is reused for each record.
func (s *scanner) list(which int, b []byte) []uint64 {
	out := s.lists[which][:0]
	for ; len(b) >= 4; b = b[4:] {
		out = append(out, uint64(le.Uint32(b)))
	}
	if out == nil {
		out = []uint64{}
	}
	s.lists[which] = out
	return out
}

// prepare reads the header of a transaction prepared for two-phase commit (xl_xact_prepare), and
// the subtransactions and the transaction's name after it.
func (s *scanner) prepare(main []byte) bool {
	header, name := 64, 46
	if s.major >= 15 { // numbers of dropped statistics
		header, name = 72, 54
	}
	if len(main) < header {
		return false
	}
	s.rec.Ended, s.rec.Tx = tidemark.Prepared, uint64(le.Uint32(main[8:]))
	s.rec.Time, s.rec.Exact = int64(le.Uint64(main[16:]))+epoch, true
	n := count(main[28:])
	at := header + (int(le.Uint16(main[name:]))+7)&^7
	if at > len(main) || n > (len(main)-at)/4 {
		return false
	}
	s.rec.Children = s.list(0, main[at:at+4*n])
	return true
}

// running reads the list of open transactions (xl_running_xacts), if it includes the
// subtransactions; the server leaves these out when there are too many.
func (s *scanner) running(main []byte) bool {
	if len(main) < 24 {
		return false
	}
	n := count(main) + count(main[4:])
	if main[8] != 0 {
		return true
	}
	if n > (len(main)-24)/4 {
		return false
	}
	s.rec.Open = s.list(1, main[24:24+4*n])
	return true
}

// Values of wal_level.
const levelMinimal = 0

// control reads records of checkpoints and of settings, and those with a time. end is where the
// record ends.
func (s *scanner) control(kind byte, end uint64, main []byte) bool {
	switch kind {
	case xlogShutdown, xlogOnline:
		if len(main) < 72 {
			return false
		}
		s.rec.Redo = le.Uint64(main)
		if s.major >= 17 && le.Uint32(main[20:]) == levelMinimal {
			s.minimal = true
		}
		if kind == xlogShutdown { // the time is when the checkpoint began: at a shutdown no other record came since
			s.rec.Time = int64(le.Uint64(main[64:])) * 1e6
		}
	case xlogParameters:
		if len(main) < 24 {
			return false
		}
		s.minimal = s.minimal || le.Uint32(main[20:]) == levelMinimal
	case xlogRestore, xlogEndRecovery:
		if len(main) < 8 {
			return false
		}
		s.rec.Time, s.rec.Exact = int64(le.Uint64(main))+epoch, true
		if kind == xlogRestore {
			name, _, _ := strings.Cut(string(main[8:]), "\x00")
			s.rec.Label = name
		}
	case xlogSwitch:
		size := uint64(s.head.segment)
		s.until = (end-1)/size*size + size
	}
	return true
}
