package tidemark

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// Hidden replaces what is not printed.
const Hidden = "***"

var (
	schemeForm  = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*$`)
	hostForm    = regexp.MustCompile(`^(?:\[[0-9A-Fa-f:.]+(?:%[0-9A-Za-z._-]+)?\]|[A-Za-z0-9._~%-]*)(?::([0-9]{0,5}))?$`)
	userForm    = regexp.MustCompile(`^[A-Za-z0-9._~!$&'()*+,;=%-]*$`)
	secretParam = regexp.MustCompile(`(?i)((?:pass(?:word|wd|phrase)?|pwd?|psw|secret(?:[-_]?(?:access[-_]?)?key)?|token|account[-_]?key|sig(?:nature)?|credentials?|auth)["']?\s*=\s*)(?:'(?:[^'\\]|\\.)*'?|"(?:[^"\\]|\\.)*"?|[^&;\s]+)`)
	urlInText   = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://\S*`)
	// options as hints recommend them, which are no secrets
	recommended  = regexp.MustCompile(`^(?:require_auth=password|plain-password=true)$`)
	secretInText = regexp.MustCompile(`\b(?:require_auth=password|plain-password=true)\b|` + secretParam.String())
	locatorForm  = regexp.MustCompile(`(?:^|\s)(?:host|hostaddr|dbname|service|port|user)\s*=`)
	keywordForm  = regexp.MustCompile(`^\s*([A-Za-z_]+)\s*=\s*('(?:[^'\\]|\\.)*'|[^\s']\S*|$)?`)
	optionName   = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
	dumpName     = regexp.MustCompile(`\.(?:sql|dump|gz|zst|xz|bz2|lz4|json|ya?ml|csv|cnf|pem)$`)
)

// plainOptions are the options of connection strings whose values are printed: those of all our
// engines, queues and repositories, and of libpq. The value of any other is hidden, since a
// misspelt option may hold a password.
var plainOptions = func() map[string]bool {
	names := map[string]bool{}
	for name := range strings.FieldsSeq(`
		host hostaddr port dbname database user connect_timeout client_encoding options application_name
		fallback_application_name keepalives keepalives_idle keepalives_interval keepalives_count tcp_user_timeout
		replication gssencmode sslmode requiressl sslnegotiation sslcompression sslcert sslkey sslcertmode sslrootcert
		sslcrl sslcrldir sslsni requirepeer ssl_min_protocol_version ssl_max_protocol_version min_protocol_version
		max_protocol_version krbsrvname krbspn gsslib gssdelegation service servicefile passfile target_session_attrs
		load_balance_hosts channel_binding require_auth
		tls tls-ca tls-cert tls-key socket connect-timeout enable-cleartext-plugin get-server-public-key
		server-public-key-path plain-password group ssl ssl-mode ssl_mode usessl ssl-ca ssl_ca ssl-cert ssl-key
		unix_socket timeout charset
		creds ca cert key sasl secret-file known_hosts endpoint region sse account`) {
		names[name] = true
	}
	return names
}()

// An authority is a URL's text, cut where a strict reader cuts it. Its parts are as they
// were written.
type authority struct {
	scheme string
	login  bool   // there is an @
	user   string // before it, without the password
	hosts  string // one, or several with commas
	tail   string // path, query and fragment
}

// split cuts a URL. ok false means that it is not certain what of s is secret: it has no scheme, or
// an @ after the host, or an invalid host.
func split(s string) (a authority, ok bool) {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || !schemeForm.MatchString(scheme) {
		return a, false
	}
	a.scheme = scheme
	a.hosts = rest
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		a.hosts, a.tail = rest[:i], rest[i:]
	}
	login := ""
	if at := strings.LastIndexByte(a.hosts, '@'); at >= 0 {
		login = a.hosts[:at+1]
		a.login = true
		a.user, _, _ = strings.Cut(a.hosts[:at], ":")
		a.hosts = a.hosts[at+1:]
	}
	for host := range strings.SplitSeq(a.hosts, ",") {
		m := hostForm.FindStringSubmatch(host)
		if m == nil {
			return a, false
		}
		if port, _ := strconv.Atoi(m[1]); port > 65535 {
			return a, false
		}
	}
	if strings.Contains(a.tail, "@") {
		return a, false
	}
	_, err := url.Parse(scheme + "://" + login + "h" + a.tail) // lists of hosts are not in the standard
	return a, err == nil
}

// MaskURL hides the secrets of a connection string, so that it may be printed, logged and stored:
// the password, and what else may be one. If the text is not certainly a URL, nothing after the
// scheme is kept.
func MaskURL(s string) string {
	if strings.Contains(s, "://") && strings.Contains(s, ",") {
		if all := strings.Split(s, ","); everyURL(all) {
			for i, one := range all {
				all[i] = MaskURL(one)
			}
			return strings.Join(all, ",")
		}
	}
	a, ok := split(s)
	switch {
	case ok:
	case a.scheme != "":
		return a.scheme + "://..."
	default:
		return maskOther(s)
	}
	out := a.scheme + "://"
	if a.login {
		// NATS knows tokens, which stand where others have the user; what is masked already stays
		// as it is.
		token := strings.EqualFold(a.scheme, "nats") || strings.EqualFold(a.scheme, "tls")
		if !userForm.MatchString(a.user) || strings.Contains(strings.ToLower(a.user), "%3a") || token {
			a.user = Hidden
		}
		out += a.user + "@"
	}
	return out + a.hosts + cutOptions(a.tail)
}

// cutOptions leaves of a URL's path and query what stands before the first value that may be a
// secret.
func cutOptions(tail string) string {
	tail, _, fragment := strings.Cut(tail, "#")
	if fragment { // valid in none of our URLs
		tail += "#" + Hidden
	}
	_, query, _ := strings.Cut(tail, "?")
	for at := len(tail) - len(query); at < len(tail); {
		option, _, _ := strings.Cut(tail[at:], "&")
		name, _, valued := strings.Cut(option, "=")
		decoded, err := url.QueryUnescape(name)
		switch {
		case option == "", valued && err == nil && plainOptions[strings.ToLower(decoded)]:
			at += len(option) + 1
			continue
		case valued && optionName.MatchString(name):
			at += len(name) + 1
		}
		return cutSecret(tail[:at] + Hidden)
	}
	return cutSecret(tail)
}

// cutSecret leaves of s what stands before the value of a secret parameter: where that
// ends depends on how it was quoted.
func cutSecret(s string) string {
	if m := secretParam.FindStringSubmatchIndex(s); m != nil {
		return s[:m[3]] + Hidden
	}
	return s
}

// UnknownOption says that a URL's query has an option that does not exist. What follows a secret
// may be a part of it, with an & that is not encoded, and is not repeated; nor is what follows an
// unknown name, which may be that of a secret.
func UnknownOption(u *url.URL, name string) string {
	if m := secretParam.FindStringSubmatchIndex(u.RawQuery); m != nil {
		if before, err := url.ParseQuery(u.RawQuery[:m[3]]); err != nil || !before.Has(name) {
			return "unknown option after a password; an & in a password is written as %26"
		}
	}
	for option := range strings.SplitSeq(u.RawQuery, "&") {
		is, _, valued := strings.Cut(option, "=")
		is, err := url.QueryUnescape(is)
		switch {
		case err != nil || option == "":
		case !valued && !plainOptions[strings.ToLower(is)]:
			return "an option has no value"
		case is == name || !plainOptions[strings.ToLower(is)] && !secretParam.MatchString(option):
			return fmt.Sprintf("unknown option %q", is)
		}
	}
	return fmt.Sprintf("unknown option %q", name)
}

// UnknownKeyword says that a string of keywords, or a file that it names, has one that does not
// exist. One that is no plain word, or that follows a secret, may be a part of that, and is not
// repeated.
func UnknownKeyword(text, name string) string {
	before, _, found := strings.Cut(text, name)
	if !plainWord.MatchString(name) || found && secretParam.MatchString(before) {
		return "neither a URL nor libpq's keywords and values; a password with blanks is quoted: password='...'"
	}
	return fmt.Sprintf("unknown option %q", name)
}

var plainWord = regexp.MustCompile(`^[a-z][a-z0-9_.]*$`)

// everyURL reports whether a list, as NATS takes it, has a URL in each place.
func everyURL(all []string) bool {
	for _, one := range all {
		if scheme, _, ok := strings.Cut(one, "://"); !ok || !schemeForm.MatchString(scheme) {
			return false
		}
	}
	return true
}

// maskOther hides the secrets of what is no URL: a path, a keyword string of libpq's, or
// the form of another program, user:password@host or user/password@host, of which nothing is left.
func maskOther(s string) string {
	at := strings.LastIndexByte(s, '@')
	before := func(sign byte) bool { i := strings.IndexByte(s, sign); return i >= 0 && i < at }
	switch {
	case strings.HasPrefix(s, "file:"):
	case before(':'), before('/') && !isPath(s):
		return "..."
	}
	return cutSecret(cutKeywords(s))
}

// isPath reports whether a text with a slash before an @ is a file's name, by how it begins or
// ends.
func isPath(s string) bool {
	return strings.ContainsAny(s[:1], "/.~") || dumpName.MatchString(s)
}

// cutKeywords leaves of a keyword string what stands before the value of a keyword that may be that
// of a secret. What is not certainly a keyword string stays as it is.
func cutKeywords(s string) string {
	if !locatorForm.MatchString(s) {
		return s
	}
	for at := 0; at < len(s); {
		m := keywordForm.FindStringSubmatchIndex(s[at:])
		switch {
		case m == nil:
			return s
		case !plainOptions[strings.ToLower(s[at+m[2]:at+m[3]])]:
			return s[:at+strings.IndexByte(s[at:], '=')+1] + Hidden
		case m[4] < 0:
			return s
		}
		at += m[1]
	}
	return s
}

// HideLogin hides the user of a URL in an error if it has a colon: what follows is a password then,
// encoded with the user.
func HideLogin(e *Error, user string) *Error {
	if strings.Contains(user, ":") {
		e.Err, e.Hint = errors.New(strings.ReplaceAll(e.Err.Error(), user, Hidden)), strings.ReplaceAll(e.Hint, user, Hidden)
	}
	return e
}

// MaskText hides the secrets of the connection strings in a text, such as a message.
func MaskText(s string) string {
	s = urlInText.ReplaceAllStringFunc(s, func(u string) string {
		body := strings.TrimRight(u, ".,;:)]}>'\"`")
		return MaskURL(body) + u[len(body):]
	})
	return secretInText.ReplaceAllStringFunc(s, func(found string) string {
		if recommended.MatchString(found) {
			return found
		}
		return secretParam.ReplaceAllString(found, "${1}"+Hidden)
	})
}

// oneHost is a URL of one host, whose login has nothing in it that could end another part.
var oneHost = regexp.MustCompile(`^[A-Za-z0-9+.-]+://(?:[^@/?#]*@)?[A-Za-z0-9._-]+:([A-Za-z0-9_-]+)(?:[/?][^@]*)?$`)

// badPort reports whether nothing but the port of a URL is wrong. What stands in for it may be a
// password without its host.
func badPort(s string) bool {
	m := oneHost.FindStringSubmatch(s)
	if m == nil {
		return false
	}
	n, err := strconv.Atoi(m[1])
	return err != nil || n < 1 || n > 65535
}

// ParseURL parses a connection string, and refuses what others may read differently. Its errors
// contain nothing of s.
func ParseURL(s string) (*url.URL, error) {
	if _, ok := split(s); !ok {
		switch {
		case badPort(s):
			return nil, errors.New("not a URL: its port is not a number from 1 to 65535")
		case !strings.Contains(s, "://"):
			return nil, errors.New("not a URL")
		case strings.Contains(s, "@"):
			return nil, errors.New("not a URL: user, password and host cannot be separated")
		}
		return nil, errors.New("not a URL: its host or port is not valid")
	}
	if strings.Contains(s, "#") {
		return nil, errors.New("not a URL: it has a # in it")
	}
	u, err := url.Parse(s)
	if err != nil {
		return nil, errors.New("not a URL: a part of it is not percent-encoded as it has to be")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("not a URL: its options are not percent-encoded as they have to be")
	}
	for _, values := range query {
		if len(values) > 1 { // some programs take the first, others the last
			return nil, errors.New("not a URL: an option is in it twice")
		}
	}
	return u, nil
}
