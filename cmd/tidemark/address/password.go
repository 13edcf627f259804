package address

import (
	"errors"
	"net/url"
	"os"
	"os/user"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/plainfile"
)

// WithPassword gives a URL the password that it lacks: from file, if there is one; for MySQL and
// MariaDB otherwise from MYSQL_PWD or ~/.my.cnf. PGPASSWORD and PostgreSQL's own password file are
// for the engine. file has lines in the form of ~/.pgpass, host:port:database:user:password with *
// for any, or a password alone.
func WithPassword(text, file string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || !isMySQL(u) && u.Scheme != "postgres" && u.Scheme != "postgresql" && u.Scheme != "db2" {
		return text, nil
	}
	if _, has := u.User.Password(); has || u.Query().Has("password") {
		return text, nil
	}
	if file != "" {
		lines, err := readPasswords(file)
		if err != nil {
			return "", err
		}
		if password, found := match(lines, u); found {
			return with(u, password), nil
		}
	}
	if !isMySQL(u) {
		return text, nil
	}
	password := os.Getenv("MYSQL_PWD")
	if password == "" {
		_, s, err := configured(text)
		if err != nil {
			return "", err
		}
		if password = s["password"]; s["user"] != "" && u.User.Username() != "" && u.User.Username() != s["user"] {
			password = "" // it is another user's
		}
	}
	if password == "" || u.User == nil {
		return text, nil
	}
	return with(u, password), nil
}

func with(u *url.URL, password string) string {
	u.User = url.UserPassword(login(u), password)
	return u.String()
}

// login is the user of a URL, or the engine's default if it names none.
func login(u *url.URL) string {
	if name := u.User.Username(); name != "" || isMySQL(u) {
		return name
	}
	if name := os.Getenv("PGUSER"); name != "" {
		return name
	}
	if me, err := user.Current(); err == nil {
		return me.Username
	}
	return ""
}

// readPasswords reads the lines of a password file.
func readPasswords(file string) ([][]string, error) {
	bad := func(kind tidemark.Kind, cause, hint string) error {
		return &tidemark.Error{Op: "read password file", Object: file, Kind: kind, Err: errors.New(cause), Hint: hint}
	}
	text, err := plainfile.ReadSecret(file)
	switch {
	case os.IsNotExist(err):
		return nil, bad(tidemark.NotFound, "file not found", "Write lines such as host:port:database:user:password into it, or a password alone.")
	case errors.Is(err, plainfile.ErrOpen):
		return nil, bad(tidemark.Invalid, tidemark.Pathless(err).Error(), "chmod 600 it.")
	case err != nil:
		return nil, bad(tidemark.Invalid, tidemark.Pathless(err).Error(), "Let the user who runs this command read it.")
	}
	var out [][]string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimRight(line, "\r\n"); line != "" && line[0] != '#' {
			out = append(out, fields(line))
		}
	}
	switch {
	case len(out) == 0:
		return nil, bad(tidemark.Invalid, "it is empty", "Write lines such as host:port:database:user:password into it, or a password alone.")
	case len(out) == 1 && len(out[0]) != 5: // a password alone
		password := strings.TrimRight(string(text), "\r\n")
		return [][]string{{"*", "*", "*", "*", password}}, nil
	}
	for _, f := range out {
		if len(f) != 5 {
			return nil, bad(tidemark.Invalid, "a line does not have five parts", "Write lines as host:port:database:user:password, with a \\ before each : or \\ in a part.")
		}
	}
	return out, nil
}

// fields cuts a line at colons without a backslash before them; the fifth part is the rest.
func fields(line string) (out []string) {
	var part strings.Builder
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\' && i+1 < len(line):
			i++
			part.WriteByte(line[i])
		case c == ':' && len(out) < 4:
			out = append(out, part.String())
			part.Reset()
		default:
			part.WriteByte(c)
		}
	}
	return append(out, part.String())
}

// match finds the first line for a URL.
func match(lines [][]string, u *url.URL) (password string, found bool) {
	host, port := u.Hostname(), u.Port()
	if host == "" {
		host = "localhost"
	}
	if port == "" {
		port = "5432"
		switch {
		case isMySQL(u):
			port = "3306"
		case u.Scheme == "db2":
			port = "50000"
		}
	}
	is := []string{host, port, strings.Trim(u.Path, "/"), login(u)}
	for _, line := range lines {
		fits := true
		for i, part := range is {
			fits = fits && (line[i] == "*" || line[i] == part)
		}
		if fits {
			return line[4], true
		}
	}
	return "", false
}
