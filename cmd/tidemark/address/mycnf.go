package address

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark/internal/plainfile"
)

// groupParameter is the option of a URL that names a group of ~/.my.cnf.
const groupParameter = "group"

// tlsModes maps MySQL's words to the values of a URL's tls option.
var tlsModes = map[string]string{"disabled": "false", "preferred": "preferred", "required": "true", "verify_ca": "verify-ca", "verify_identity": "verify-full"}

// A settings has the options of groups of ~/.my.cnf, by names with dashes.
type settings map[string]string

// fromConfig completes a URL of MySQL or MariaDB from ~/.my.cnf: user, host, port, socket, TLS. The
// password comes later (WithPassword), unless it is that of a group that the URL names.
func fromConfig(text string) (string, error) {
	u, s, err := configured(text)
	if u == nil || err != nil {
		return text, err
	}
	query := u.Query()
	if u.User == nil && s["user"] != "" {
		u.User = url.User(s["user"])
	}
	if query.Has(groupParameter) { // the engine does not know it
		query.Del(groupParameter)
		if _, has := u.User.Password(); !has && s["password"] != "" && u.User.Username() == s["user"] {
			u.User = url.UserPassword(s["user"], s["password"])
		}
	}
	if u.Path == "" && s["database"] != "" {
		u.Path = "/" + s["database"]
	}
	set := func(name, value string) {
		if value != "" && !query.Has(name) {
			query.Set(name, value)
		}
	}
	if u.Host == "" {
		host, port := s["host"], s["port"]
		if host == "" || host == "localhost" {
			set("socket", s["socket"])
		}
		switch {
		case port != "":
			u.Host = net.JoinHostPort(host, port)
		case host != "":
			u.Host = host
		}
	}
	if !query.Has("tls") && !query.Has("tls-ca") {
		set("tls", tlsModes[strings.ToLower(s["ssl-mode"])])
		set("tls-ca", s["ssl-ca"])
	}
	if s["ssl-cert"] != "" && !query.Has("tls-cert") {
		set("tls-cert", s["ssl-cert"])
		set("tls-key", s["ssl-key"])
	}
	u.RawQuery = query.Encode()
	return u.String(), nil
}

// configured parses a URL of MySQL or MariaDB, and gives the settings of ~/.my.cnf for it; u is nil
// if there are none. Settings for another host do not count.
func configured(text string) (u *url.URL, s settings, err error) {
	u, err = url.Parse(text)
	if err != nil || !isMySQL(u) {
		return nil, nil, nil // the engine reports what is wrong
	}
	group := u.Query().Get(groupParameter)
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, nil, nil
	}
	file := filepath.Join(home, ".my.cnf")
	groups, err := readGroups(file, home)
	var missing *fs.PathError
	if os.IsNotExist(err) && errors.As(err, &missing) && missing.Path == file { // not a folder that it includes
		err = nil
	}
	files := []map[string]settings{groups}
	if err == nil && u.Scheme == "mysql" { // MariaDB's programs do not know it
		var logins map[string]settings
		if logins, err = readLogins(loginFile(home)); err == nil {
			files = append(files, logins)
		} else if os.IsNotExist(err) {
			err = nil
		}
	}
	if err != nil {
		return nil, nil, wrong(text, err, "It is read for user, password, host, port, socket and TLS of mysql:// URLs.")
	}
	wanted := []string{"client", "mysql"}
	if u.Scheme == "mariadb" {
		wanted = []string{"client", "client-mariadb", "mysql", "mariadb-client"}
	}
	if group != "" {
		wanted = append(wanted, "client"+group, group)
	}
	s = settings{}
	known := map[string]bool{}
	for _, groups := range files { // what comes later holds
		for _, name := range wanted {
			maps.Copy(s, groups[name])
		}
		for name := range groups {
			known[name] = true
		}
	}
	if group != "" && !known[group] && !known["client"+group] {
		return nil, nil, wrong(text, fmt.Errorf("%s has no group %s", file, group), "Use one of its groups: "+strings.Join(slices.Sorted(maps.Keys(known)), ", ")+".")
	}
	if len(known) == 0 {
		return nil, nil, nil
	}
	if at := u.Hostname(); at != "" && s["host"] != "" && at != s["host"] {
		return u, settings{}, nil
	}
	return u, s, nil
}

// readGroups reads a file of MySQL options and those that it includes: its groups, each with its
// options.
func readGroups(file, home string) (map[string]settings, error) {
	r := groupReader{groups: map[string]settings{}, home: home}
	return r.groups, r.file(file, 0)
}

// A groupReader reads files of options.
type groupReader struct {
	groups map[string]settings
	home   string
}

// maxIncludes is how deep files may include each other, as in MySQL.
const maxIncludes = 10

func (r *groupReader) file(name string, depth int) error {
	f, err := plainfile.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return r.read(io.LimitReader(f, plainfile.Small), depth)
}

func (r *groupReader) read(from io.Reader, depth int) error {
	var in settings
	for lines := bufio.NewScanner(from); ; {
		if !lines.Scan() {
			return lines.Err()
		}
		line := strings.TrimSpace(lines.Text())
		if name, is := strings.CutPrefix(line, "["); is {
			name = strings.TrimSpace(strings.TrimSuffix(name, "]"))
			if in = r.groups[name]; in == nil {
				in = settings{}
				r.groups[name] = in
			}
			continue
		}
		if words := strings.Fields(line); len(words) > 1 && depth < maxIncludes && (words[0] == "!include" || words[0] == "!includedir") {
			if err := r.include(words[0], strings.TrimSpace(line[len(words[0]):]), depth+1); err != nil {
				return err
			}
			continue
		}
		if line == "" || strings.ContainsAny(line[:1], "#;!") || in == nil {
			continue
		}
		key, value, _ := strings.Cut(line, "=")
		key = strings.TrimPrefix(strings.ReplaceAll(strings.ToLower(strings.TrimSpace(key)), "_", "-"), "loose-")
		in[key] = optionValue(strings.TrimSpace(value))
	}
}

// include reads a file, or the files of a folder whose names end in .cnf, by their names. MySQL
// ignores a file that does not exist, but not a folder.
func (r *groupReader) include(how, name string, depth int) error {
	if rest, is := strings.CutPrefix(name, "~/"); is {
		name = filepath.Join(r.home, rest)
	}
	names := []string{name}
	if how == "!includedir" {
		entries, err := os.ReadDir(name)
		if err != nil {
			return err
		}
		names = nil
		for _, e := range entries {
			if filepath.Ext(e.Name()) == ".cnf" {
				names = append(names, filepath.Join(name, e.Name()))
			}
		}
	}
	for _, n := range names {
		if err := r.file(n, depth); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}

// optionValue removes quotes, escapes and comments from a value.
func optionValue(text string) string {
	if len(text) > 1 && (text[0] == '\'' || text[0] == '"') {
		if end := strings.LastIndexByte(text, text[0]); end > 0 {
			return unescaped(text[1:end])
		}
	}
	if i := strings.Index(text, " #"); i >= 0 {
		text = strings.TrimSpace(text[:i])
	}
	return unescaped(text)
}

var unescaped = strings.NewReplacer(`\\`, `\`, `\s`, " ", `\t`, "\t", `\n`, "\n", `\r`, "\r", `\b`, "\b", `\"`, `"`, `\'`, `'`).Replace
