package drda

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// An Error is what a server reports of a statement.
type Error struct {
	Code   int32    // SQLCODE, negative
	State  string   // SQLSTATE
	Tokens []string // what the message is about: names, values
}

func (e *Error) Error() string {
	text := fmt.Sprintf("SQLCODE %d, SQLSTATE %s", e.Code, e.State)
	if t := strings.TrimSpace(strings.Join(e.Tokens, ", ")); t != "" {
		text += ": " + t
	}
	return text
}

// A ProtocolError is a reply that refuses a request as such, not its SQL.
type ProtocolError struct {
	Reply    string // its name
	Severity int    // 8 error, 16 severe, 32 and above: the conversation is over
}

func (e *ProtocolError) Error() string {
	return fmt.Sprintf("the server answered %s, severity %d", e.Reply, e.Severity)
}

// StateOf returns the SQLSTATE of the Error in err's chain, "" if there is none.
func StateOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.State
	}
	return ""
}

// A sqlca is what a server reports of a statement: an SQLCARD, or the beginning of other objects.
type sqlca struct {
	code   int32
	state  string
	rows   int32 // SQLERRD3: how many were changed
	tokens []string
}

// err returns the Error, if it is one.
func (c *sqlca) err() error {
	if c == nil || c.code >= 0 {
		return nil
	}
	return &Error{Code: c.code, State: c.state, Tokens: c.tokens}
}

// parseSQLCA reads an SQLCARD from f. nil means that all is well.
func parseSQLCA(f *fields, decode func([]byte) string) (*sqlca, error) {
	if f.byte() == 0xFF && !f.short {
		return nil, nil
	}
	c := &sqlca{code: f.int32(), state: string(f.bytes(5))}
	f.bytes(8) // SQLERRPROC, the module of the server
	if f.byte() != 0xFF {
		for i := range 6 {
			if v := f.int32(); i == 2 {
				c.rows = v
			}
		}
		f.bytes(11) // warnings
		f.text()    // database
		message := f.text()
		if m := f.text(); len(message) == 0 { // the one is in mixed, the other in single bytes
			message = m
		}
		// Db2 separates tokens by FF, Derby by 14.
		for len(message) > 0 {
			t, rest := message, message[len(message):]
			if i := bytes.IndexByte(message, 0x14); i >= 0 {
				t, rest = message[:i], message[i+1:]
			} else if i := bytes.IndexByte(message, 0xFF); i >= 0 {
				t, rest = message[:i], message[i+1:]
			}
			if message = rest; len(t) > 0 {
				c.tokens = append(c.tokens, decode(t))
			}
		}
	}
	if err := skipDiagnostics(f); err != nil {
		return nil, err
	}
	if f.short {
		return nil, errCut
	}
	return c, nil
}

// skipDiagnostics skips the SQLDIAGGRP, which servers of our level send empty.
func skipDiagnostics(f *fields) error {
	if f.byte() != 0xFF {
		return errors.New("the server sent diagnostics that were not asked for")
	}
	return nil
}

// order maps the TYPDEFNAM of a server to its byte order.
func order(name string) (binary.ByteOrder, error) {
	switch name {
	case "QTDSQLASC":
		return binary.BigEndian, nil
	case "QTDSQLX86":
		return binary.LittleEndian, nil
	}
	return nil, fmt.Errorf("the server's data is of the form %s, which is not read: only Db2 for Linux, UNIX and Windows is supported", name)
}
