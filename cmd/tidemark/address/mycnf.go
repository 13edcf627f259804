package address

import (
	"bufio"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// groupParameter is the option of a URL that names a group of ~/.my.cnf.
const groupParameter = "group"

// tlsModes are MySQL's words for what a URL's tls says.
var tlsModes = map[string]string{"disabled": "false", "preferred": "preferred", "required": "true", "verify_ca": "verify-ca", "verify_identity": "verify-full"}

// A settings is what groups of ~/.my.cnf say, by names with dashes.
type settings map[string]string

// fromConfig puts into a URL of MySQL or MariaDB what it does not say and ~/.my.cnf does: user, host, port, socket, TLS.
// Its password comes later (WithPassword), unless it is that of a group that the URL names.
func fromConfig(text string) (string, error) {
	u, s, err := configured(text)
	if u == nil || err != nil {
		return text, err
	}
	query := u.Query()
	if u.User == nil && s["user"] != "" {
		u.User = url.User(s["user"])
	}
	if query.Has(groupParameter) { // afterwards nobody knows it any more
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

// configured parses a URL of MySQL or MariaDB, and gives what ~/.my.cnf says of it; u is nil where that is nothing. What
// it says of another host is not for this one.
func configured(text string) (u *url.URL, s settings, err error) {
	u, err = url.Parse(text)
	if err != nil || !isMySQL(u) {
		return nil, nil, nil // the engine says what is wrong
	}
	group := u.Query().Get(groupParameter)
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, nil, nil
	}
	file := filepath.Join(home, ".my.cnf")
	groups, err := readGroups(file)
	if os.IsNotExist(err) && group == "" {
		return nil, nil, nil
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
		if groups[group] == nil && groups["client"+group] == nil {
			var names []string
			for name := range groups {
				names = append(names, name)
			}
			slices.Sort(names)
			return nil, nil, wrong(text, fmt.Errorf("%s has no group %s", file, group), "Its groups are "+strings.Join(names, ", ")+".")
		}
	}
	s = settings{}
	for _, name := range wanted {
		for key, value := range groups[name] {
			s[key] = value
		}
	}
	if at := u.Hostname(); at != "" && s["host"] != "" && at != s["host"] {
		return u, settings{}, nil
	}
	return u, s, nil
}

// readGroups reads a file of MySQL's options: its groups, each with its options.
func readGroups(file string) (map[string]settings, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out := map[string]settings{}
	var in settings
	for lines := bufio.NewScanner(f); ; {
		if !lines.Scan() {
			return out, lines.Err()
		}
		line := strings.TrimSpace(lines.Text())
		if name, is := strings.CutPrefix(line, "["); is {
			name = strings.TrimSpace(strings.TrimSuffix(name, "]"))
			if in = out[name]; in == nil {
				in = settings{}
				out[name] = in
			}
			continue
		}
		if line == "" || strings.ContainsAny(line[:1], "#;!") || in == nil { // of what !include names nothing is read
			continue
		}
		key, value, _ := strings.Cut(line, "=")
		key = strings.TrimPrefix(strings.ReplaceAll(strings.ToLower(strings.TrimSpace(key)), "_", "-"), "loose-")
		in[key] = optionValue(strings.TrimSpace(value))
	}
}

// optionValue takes quotes, escapes and comments from a value.
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
