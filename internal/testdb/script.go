package testdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	mysql "github.com/go-mysql-org/go-mysql/client"
	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/jackc/pgx/v5/pgconn"
)

// Load feeds an SQL script to the engine's own client (psql, mariadb or mysql), which stops at the
// first error; args are further options. If r is an io.Closer, Load closes it.
func Load(tb testing.TB, url string, r io.Reader, args ...string) {
	tb.Helper()
	if c, ok := r.(io.Closer); ok {
		defer c.Close()
	}
	if strings.HasPrefix(url, "db2://") {
		if err := loadDerby(url, r); err != nil {
			tb.Fatalf("testdb: load: %v", err)
		}
		return
	}
	cmd, err := client(url, args...)
	if err != nil {
		fail(tb, err)
	}
	cmd.Stdin = r
	if _, err := output(cmd); err != nil {
		tb.Fatalf("testdb: load: %v", err)
	}
}

// Query runs SQL and returns its rows: columns separated by tabs, rows by newlines, values as the
// server writes them; a null is NULL.
func Query(tb testing.TB, url, sql string) string {
	tb.Helper()
	OnData(tb)
	rows, err := TryQuery(url, sql)
	if err != nil {
		fail(tb, fmt.Errorf("testdb: %w\nin %s", err, sql))
	}
	return rows
}

// TryQuery is Query for statements that the server may refuse.
func TryQuery(rawURL, sql string) (string, error) {
	s := NewSession(rawURL)
	defer s.Close()
	return s.Try(sql)
}

// A Session queries a server repeatedly over one connection, which also keeps one server process.
// It belongs to one goroutine.
type Session struct {
	url string
	pg  *pgconn.PgConn
	my  *mysql.Conn
}

// NewSession returns a session that connects at its first query.
func NewSession(url string) *Session { return &Session{url: url} }

// Close ends the session.
func (s *Session) Close() {
	if s.pg != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = s.pg.Close(ctx) // all queries have been answered or refused
	}
	if s.my != nil {
		_ = s.my.Close()
	}
	s.pg, s.my = nil, nil
}

// Try runs statements, and returns the rows of all as Query does. After an error it reconnects, so
// no transaction stays open.
func (s *Session) Try(sql string) (out string, err error) {
	if strings.HasPrefix(s.url, "postgres://") {
		out, err = s.tryPostgres(sql)
	} else {
		out, err = s.tryMySQL(sql)
	}
	if err != nil {
		s.Close()
	}
	return out, err
}

func (s *Session) tryPostgres(sql string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if s.pg == nil {
		conn, err := pgconn.Connect(ctx, s.url)
		if err != nil {
			return "", err
		}
		s.pg = conn
	}
	results, err := s.pg.Exec(ctx, sql).ReadAll()
	if err != nil {
		return "", err
	}
	var rows []string
	for _, result := range results {
		for _, row := range result.Rows {
			values := make([]string, len(row))
			for i, v := range row {
				values[i] = string(v)
				if v == nil {
					values[i] = "NULL"
				}
			}
			rows = append(rows, strings.Join(values, "\t"))
		}
	}
	return strings.Join(rows, "\n"), nil
}

func (s *Session) tryMySQL(sql string) (string, error) {
	if s.my == nil {
		conn, err := connectMySQL(s.url)
		if err != nil {
			return "", err
		}
		s.my = conn
	}
	var rows []string
	var failed error
	_, err := s.my.ExecuteMultiple(sql, func(r *gomysql.Result, err error) {
		switch {
		case gomysql.ErrorCode(fmt.Sprint(err)) == gomysql.ER_EMPTY_QUERY: // a comment after the last statement
		case err != nil:
			failed = err
		case r.Resultset != nil:
			for _, row := range r.RowDatas {
				values := make([]string, len(r.Fields))
				for i := range values {
					v, null, n, err := gomysql.LengthEncodedString(row)
					if failed = errors.Join(failed, err); null {
						v = []byte("NULL")
					}
					values[i], row = string(v), row[min(n, len(row)):]
				}
				rows = append(rows, strings.Join(values, "\t"))
			}
		}
	})
	return strings.Join(rows, "\n"), errors.Join(failed, err)
}

// connectMySQL connects as the client program does.
func connectMySQL(rawURL string) (*mysql.Conn, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, err
	}
	pw, _ := u.User.Password()
	conn, err := mysql.Connect(u.Host, u.User.Username(), pw, strings.TrimPrefix(u.Path, "/"), func(c *mysql.Conn) error {
		return errors.Join(c.SetCapability(gomysql.CLIENT_MULTI_STATEMENTS), c.SetCapability(gomysql.CLIENT_MULTI_RESULTS))
	})
	if err != nil {
		return nil, err
	}
	if _, err := conn.Execute("SET NAMES utf8mb4"); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// Shell runs a sh script in a folder. CLIENT holds the command line of the engine's client program
// for a database; env are further variables (NAME=value).
func Shell(tb testing.TB, dir, script, rawURL string, env ...string) (string, error) {
	tb.Helper()
	cmd, err := client(rawURL)
	if err != nil {
		fail(tb, err)
	}
	sh := exec.Command("sh", script)
	sh.Dir, sh.Env = dir, append(append(os.Environ(), cmd.Env...), append(env, "CLIENT="+strings.Join(cmd.Args, " "))...)
	return output(sh)
}

// client returns the command of the client program for a database; the program reads SQL from
// standard input.
func client(rawURL string, args ...string) (*exec.Cmd, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, err
	}
	pw, _ := u.User.Password()
	switch u.Scheme {
	case "postgres":
		psql, err := program("psql", "/usr/lib/postgresql/15/bin/psql", "psql")
		if err != nil {
			return nil, err
		}
		return exec.Command(psql, append([]string{"-X", "-q", "-v", "ON_ERROR_STOP=1", "-o", os.DevNull, "-d", rawURL}, args...)...), nil
	case "mariadb", "mysql":
		path := "mariadb"
		if u.Scheme == "mysql" {
			path = filepath.Join(mysqlDist(), "bin", "mysql")
		}
		mysql, err := program("the client of "+u.Scheme, path)
		if err != nil {
			return nil, err
		}
		cmd := exec.Command(mysql, append([]string{"--no-defaults", "--protocol=tcp", "--default-character-set=utf8mb4",
			"--host=" + u.Hostname(), "--port=" + u.Port(), "--user=" + u.User.Username(),
			"--database=" + strings.TrimPrefix(u.Path, "/")}, args...)...)
		cmd.Env = append(os.Environ(), "MYSQL_PWD="+pw)
		return cmd, nil
	}
	return nil, fmt.Errorf("testdb: no client for a URL of scheme %q", u.Scheme)
}

func lines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}
