package drda

import (
	"context"
	"errors"
	"fmt"
)

// sectionImmediate is the section of a package by which statements are run at once.
const sectionImmediate = 65

// maxSections are the sections of a package that queries and prepared statements may use.
const maxSections = 64

var emptyToken = []byte("SYSLVL01")

// section appends the name of a section of one of the packages that every Db2 has for dynamic SQL:
// SYSSN, "small, no hold", and 2 for the isolation "cursor stability".
func (c *Conn) section(n int) error {
	f := &c.out
	names := make([][]byte, 2)
	for i, s := range []string{fmt.Sprintf("%-18s", "NULLID"), fmt.Sprintf("%-18s", "SYSSN200")} {
		b, err := c.spell(s)
		if err != nil {
			return err
		}
		names[i] = b
	}
	m := f.open(cpPKGNAMCSN)
	long := len(c.rdb) > 18 // then each name has a length
	for _, name := range [][]byte{c.rdb, names[0], names[1]} {
		if long {
			f.body = append(f.body, byte(len(name)>>8), byte(len(name)))
		}
		f.body = append(f.body, name...)
	}
	f.body = append(f.body, emptyToken...)
	f.body = append(f.body, byte(n>>8), byte(n))
	f.close(m)
	return nil
}

// sqlText appends an object with a text: an SQL statement, or attributes of one.
func (c *Conn) sqlText(code uint16, sql string) {
	f := &c.out
	f.begin(dssObject)
	m := f.open(code)
	f.body = append(f.body, 0) // mixed text is present
	f.body = be.AppendUint32(f.body, uint32(len(sql)))
	f.body = append(f.body, sql...)
	f.body = append(f.body, 0xFF) // single-byte text is not
	f.close(m)
	f.end()
}

// request appends a request with a section and what more returns.
func (c *Conn) request(code uint16, section int, more func(f *frames)) error {
	f := &c.out
	f.begin(dssRequest)
	m := f.open(code)
	if err := c.section(section); err != nil {
		f.reset()
		return err
	}
	if more != nil {
		more(f)
	}
	f.close(m)
	f.end()
	return nil
}

// Exec runs a statement without result rows, and returns the number of rows that it changed.
func (c *Conn) Exec(ctx context.Context, sql string) (rows int64, err error) {
	if err := c.request(cpEXCSQLIMM, sectionImmediate, func(f *frames) { f.param(cpRDBCMTOK, 0xF1) }); err != nil {
		return 0, err
	}
	c.sqlText(cpSQLSTT, sql)
	return c.Run(ctx)
}

// Set runs a SET statement, by the command that Db2 has for them.
func (c *Conn) Set(ctx context.Context, sql string) error {
	if err := c.request(cpEXCSQLSET, sectionImmediate, nil); err != nil {
		return err
	}
	c.sqlText(cpSQLSTT, sql)
	_, err := c.Run(ctx)
	return err
}

// Commit commits the transaction.
func (c *Conn) Commit(ctx context.Context) error { return c.end(ctx, cpRDBCMM) }

// Rollback rolls it back.
func (c *Conn) Rollback(ctx context.Context) error { return c.end(ctx, cpRDBRLLBCK) }

func (c *Conn) end(ctx context.Context, code uint16) error {
	c.out.begin(dssRequest)
	m := c.out.open(code)
	c.out.close(m)
	c.out.end()
	_, err := c.Run(ctx)
	return err
}

// results sends the requests and reads the replies, up to their end.
func (c *Conn) results() (rows int64, err error) {
	if err := c.send(); err != nil {
		return 0, err
	}
	for {
		code, e := c.next()
		switch {
		case e != nil:
			return rows, errorOf(err, e)
		case code == 0:
			return rows, err
		case code == cpSQLCARD:
			var ca *sqlca
			if ca, e = c.card(); ca != nil && e == nil {
				rows += max(0, int64(ca.rows))
				e = ca.err()
			}
		case code == cpENDUOWRM:
			_, e = c.whole()
		default:
			e = c.other(code)
		}
		if err = errorOf(err, e); c.Broken {
			return rows, err
		}
	}
}

// card reads an SQLCARD.
func (c *Conn) card() (*sqlca, error) {
	body, err := c.whole()
	if err != nil {
		return nil, err
	}
	ca, err := parseSQLCA(&fields{b: body, order: c.order}, c.text)
	if err != nil {
		return nil, c.broken(err)
	}
	return ca, nil
}

// reserveSection reserves a section for a query or a statement.
func (c *Conn) reserveSection() (int, error) {
	if c.sections == maxSections {
		return 0, errors.New("too many queries at a time in one session")
	}
	c.sections++
	return c.sections, nil
}
