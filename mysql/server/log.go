package server

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// ParsePlace reads a log position as the server writes it: binlog.000003:1234.
func ParsePlace(text string) (uint64, error) {
	if place := PlaceOf(text); place > 0 {
		return place, nil
	}
	return 0, fmt.Errorf("%q is not a log position", text)
}

// PlaceOf returns the Place of "binlog.000042:1187"; 0 if the text is invalid.
func PlaceOf(text string) uint64 {
	at := strings.LastIndexByte(text, ':')
	if at < 0 {
		return 0
	}
	number, ok := LogNumber(text[:at])
	offset, err := strconv.ParseUint(text[at+1:], 10, 64)
	switch {
	case !ok || err != nil:
		return 0
	case offset >= 1<<32: // the file ends here
		return uint64(number+1)<<32 | 4
	}
	return uint64(number)<<32 | offset
}

// LogNumber returns the number at the end of a log file's name.
func LogNumber(name string) (uint32, bool) {
	n, err := strconv.ParseUint(name[strings.LastIndexByte(name, '.')+1:], 10, 32)
	return uint32(n), err == nil
}

func PlaceText(place uint64) string { return fmt.Sprintf("file %d:%d", place>>32, uint32(place)) }

// A LogFile is a log file on the server.
type LogFile struct {
	Name   string
	Number uint32
	Size   uint64
}

// Binlogs lists the log files, oldest first.
func (e *Server) Binlogs(ctx context.Context) ([]LogFile, error) {
	s, back, err := e.Lend(ctx)
	if err != nil {
		return nil, err
	}
	defer back()
	r, err := s.Query(ctx, "SHOW BINARY LOGS")
	if err != nil {
		return nil, err
	}
	var out []LogFile
	for i := range r.RowNumber() {
		f := LogFile{Name: Cell(r, i, 0)}
		f.Number, _ = LogNumber(f.Name)
		f.Size, _ = r.GetUint(i, 1)
		f.Name = strings.Clone(f.Name)
		out = append(out, f)
	}
	return out, nil
}

// End returns the current end of the server's log: everything committed is before it.
func (e *Server) End(ctx context.Context) (uint64, error) {
	s, back, err := e.Lend(ctx)
	if err != nil {
		return 0, err
	}
	defer back()
	place, err := e.LogEnd(ctx, s)
	return place, e.Fail("follow", e.Masked, err)
}

// Base is the number added to the log's file numbers in places.
func (e *Server) Base() (uint64, error) {
	if e.LogBase == nil {
		return 0, nil
	}
	return e.LogBase()
}

func (e *Server) LogEnd(ctx context.Context, s *Session) (uint64, error) {
	r, err := s.Query(ctx, e.ShowPosition())
	if err != nil {
		return 0, err
	}
	if r.RowNumber() == 0 {
		return 0, &tidemark.Error{Kind: tidemark.Unsupported, Op: "follow", Object: e.Masked, Err: errors.New("the server keeps no binlog"), Hint: "Start the server with log_bin."}
	}
	base, err := e.Base()
	return base + PlaceOf(Cell(r, 0, 0)+":"+Cell(r, 0, 1)), err
}

// Clock returns the server's time.
func (e *Server) Clock(ctx context.Context) (time.Time, error) {
	s, back, err := e.Lend(ctx)
	if err != nil {
		return time.Time{}, err
	}
	defer back()
	r, err := s.Query(ctx, "SELECT UTC_TIMESTAMP(6)")
	if err != nil {
		return time.Time{}, e.Fail("read the clock", e.Masked, err)
	}
	return time.Parse("2006-01-02 15:04:05.999999", Cell(r, 0, 0))
}

func (e *Server) ShowPosition() string {
	if !e.MariaDB && e.AtLeast(8, 2, 0) {
		return "SHOW BINARY LOG STATUS"
	}
	return "SHOW MASTER STATUS"
}

func (e *Server) StatusTable() string {
	if e.MariaDB {
		return "information_schema.GLOBAL_STATUS"
	}
	return "performance_schema.global_status"
}

// InScope returns the SQL condition that a schema is the URL's database, or any user database if
// the URL names none.
func (e *Server) InScope(column string) string {
	if e.DB != "" {
		return column + "=" + Literal(e.DB)
	}
	return column + " NOT IN ('mysql','sys','information_schema','performance_schema')"
}

// NameLock returns the name of the lock on a stream's name.
func NameLock(stream string) string {
	h := fnv.New128a()
	h.Write([]byte(stream))
	return "tidemark follow " + hex.EncodeToString(h.Sum(nil))
}

// LockName acquires the lock on a stream's name on the server.
func LockName(ctx context.Context, s *Session, name string) error {
	r, err := s.Query(ctx, "SELECT GET_LOCK("+Literal(NameLock(name))+", 1)")
	if err == nil && Cell(r, 0, 0) != "1" {
		err = &tidemark.Error{Kind: tidemark.Transient, Op: "follow", Object: name, Err: errors.New("nothing is applied, because another process follows this server's log under the same name"), Hint: "Stop that process, or wait until the server notices that it is gone; another stream needs another --name."}
	}
	return err
}
