package address

import (
	"net"
	"net/url"
	"strings"
)

// OnThisMachine reports whether a URL's server, or a dump file, is on this machine.
func OnThisMachine(raw string) bool {
	if IsDump(raw) {
		return true
	}
	u, err := url.Parse(raw)
	if err != nil {
		return false
	}
	if q := u.Query(); q.Has("service") || q.Get("host") != "" && q.Get("host")[0] != '/' {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "" || u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// IsDump reports whether a source is a file and not a server.
func IsDump(source string) bool {
	return strings.HasPrefix(source, "file:") || !strings.Contains(source, "://")
}
