// Package address reads the ways in which users name a database: URLs, the keyword strings of libpq
// (host=... dbname=...), host:port/database, JDBC URLs. It makes a URL of each, and finds what
// other PostgreSQL and MySQL programs read from files and variables: ~/.my.cnf and its groups, the
// login paths of mysql_config_editor, MYSQL_PWD, a password file. Its errors contain no secrets.
// Start with URL and WithPassword.
package address

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// keywords are those of a keyword string that locate a database; others may be among them.
var keywords = []string{"host", "hostaddr", "dbname", "service", "port", "user"}

var (
	keywordForm  = regexp.MustCompile(`^\s*([a-z_]+)\s*=`)
	hostPortForm = regexp.MustCompile(`^(?:([^@/:]+)(?::([^@/]*))?@)?([A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\]):([0-9]{1,5})(/[^/?]*)?(\?.*)?$`)
	loginForm    = regexp.MustCompile(`^[^/@]+@[A-Za-z0-9.-]+/[^/]*$`)
)

// schemes are those of the usual ports of servers, and their neighbours.
var schemes = map[string]string{"5432": "postgres", "5433": "postgres", "5434": "postgres", "6432": "postgres", "3306": "mysql", "3307": "mysql", "3308": "mysql"}

// databases are the schemes of databases: in capitals they mean the same.
var databases = []string{"postgres", "postgresql", "mysql", "mariadb", "db2"}

// socketForm is libpq's way to write a Unix socket's folder, percent-encoded, as the host.
var socketForm = regexp.MustCompile(`^(postgres(?:ql)?://(?:[^@/?#]*@)?)(%2[Ff][^@/:?#]*)(?::([0-9]+))?(/[^?#@]*)?(?:\?([^#]*))?$`)

// fromSocket moves such a host into the options, where other URLs have it.
func fromSocket(text string) string {
	m := socketForm.FindStringSubmatch(text)
	if m == nil {
		return text
	}
	text = m[1] + "/" + strings.TrimPrefix(m[4], "/") + "?host=" + m[2]
	if m[3] != "" {
		text += "&port=" + m[3]
	}
	if m[5] != "" {
		text += "&" + m[5]
	}
	return text
}

// URL makes a URL of a database's address. Anything else, such as the name of a file, stays as it
// is.
func URL(text string) (string, error) {
	switch m := keywordForm.FindStringSubmatch(text); {
	case strings.Contains(text, "://"):
		text = strings.TrimPrefix(text, "jdbc:")
		if scheme, rest, _ := strings.Cut(text, "://"); slices.Contains(databases, strings.ToLower(scheme)) {
			text = strings.ToLower(scheme) + "://" + rest
		}
		return fromConfig(fromSocket(text))
	case isFile(text):
		return text, nil
	case m != nil && slices.Contains(keywords, m[1]):
		return fromKeywords(text)
	case hostPortForm.MatchString(text):
		return fromHostPort(text)
	case loginForm.MatchString(text):
		return "", wrong(text, errors.New("the engine is unclear"), "Use postgres://user@host/database or mysql://user@host/database.")
	}
	return text, nil
}

func isFile(text string) bool {
	_, err := os.Stat(text)
	return err == nil
}

func wrong(text string, cause error, hint string) error {
	return &tidemark.Error{Op: "read address", Object: tidemark.MaskURL(text), Kind: tidemark.Invalid, Err: cause, Hint: hint}
}

// fromHostPort reads host:port and host:port/database, whose port implies the engine. Without a
// database and with another port it may be any service.
func fromHostPort(text string) (string, error) {
	m := hostPortForm.FindStringSubmatch(text)
	scheme, known := schemes[m[4]]
	if !known && m[5] == "" {
		return text, nil
	}
	if !known {
		return "", wrong(text, fmt.Errorf("the engine is unclear from port %s", m[4]), "Use postgres://host:port/database or mysql://host:port/database.")
	}
	u := url.URL{Scheme: scheme, Host: m[3] + ":" + m[4], Path: m[5], RawQuery: strings.TrimPrefix(m[6], "?")}
	switch {
	case m[2] != "":
		u.User = url.UserPassword(m[1], m[2])
	case m[1] != "":
		u.User = url.User(m[1])
	}
	return fromConfig(u.String())
}

// fromKeywords reads a keyword string, in which values may be in quotes.
func fromKeywords(text string) (string, error) {
	bad := func(cause string) error {
		return wrong(text, errors.New(cause), "Use the form host=db.example.com port=5432 dbname=shop user=me, with single quotes around a value with spaces.")
	}
	given := map[string]string{}
	for rest := strings.TrimSpace(text); rest != ""; rest = strings.TrimSpace(rest) {
		key, after, ok := strings.Cut(rest, "=")
		key = strings.TrimSpace(key)
		if !ok || key == "" || strings.ContainsAny(key, " \t'") {
			return "", bad("a keyword has no = after it")
		}
		value, left, closed := keywordValue(strings.TrimLeft(after, " \t"))
		if !closed {
			return "", bad("the value of " + key + " has no closing quote")
		}
		given[key], rest = value, left
	}
	u := url.URL{Scheme: "postgres", Path: "/" + given["dbname"]}
	host, port := given["host"], given["port"]
	query := url.Values{}
	if strings.ContainsAny(host+port, ",/@") { // several, or the folder of a socket
		for key, value := range map[string]string{"host": host, "port": port} {
			if value != "" {
				query.Set(key, value)
			}
		}
	} else if u.Host = host; port != "" {
		u.Host = net.JoinHostPort(host, port)
	}
	switch user, password := given["user"], given["password"]; {
	case password != "" && user != "":
		u.User = url.UserPassword(user, password)
	case user != "":
		u.User = url.User(user)
	case password != "":
		query.Set("password", password)
	}
	for key, value := range given {
		if !slices.Contains([]string{"host", "port", "dbname", "user", "password"}, key) {
			query.Set(key, value)
		}
	}
	u.RawQuery = query.Encode()
	return u.String(), nil
}

// keywordValue takes a value from the beginning of a text, as libpq does.
func keywordValue(text string) (value, rest string, closed bool) {
	quoted := strings.HasPrefix(text, "'")
	if quoted {
		text = text[1:]
	}
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text):
			i++
			out.WriteByte(text[i])
		case quoted && c == '\'':
			return out.String(), text[i+1:], true
		case !quoted && (c == ' ' || c == '\t' || c == '\n'):
			return out.String(), text[i:], true
		default:
			out.WriteByte(c)
		}
	}
	return out.String(), "", !quoted
}

// isMySQL reports whether a URL is one of MySQL or MariaDB.
func isMySQL(u *url.URL) bool { return u.Scheme == "mysql" || u.Scheme == "mariadb" }
