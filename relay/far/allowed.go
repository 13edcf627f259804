package far

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/engine"
)

// harmless are the options of a URL that do not change where a connection leads, nor which files
// are read for it.
var harmless = []string{"sslmode", "ssl-mode", "tls", "connect_timeout", "connect-timeout", "application_name", "password"}

// allowed reports whether a relay may connect to a database: one of the targets has the same kind,
// host and port, and if it names a database, the same one. Options of the URL that are not harmless
// must be those of the target.
//
// A relay connects as its own user, on its own machine: with its password file, and where servers
// trust who is local. So whom it connects to is its operator's decision.
func allowed(targets []string, text string) error {
	refuse := func(why, hint string) error {
		return &tidemark.Error{Kind: tidemark.Forbidden, Op: "open", Object: tidemark.MaskURL(text), Err: errors.New(why), Hint: hint}
	}
	if len(targets) == 0 {
		return refuse("this relay serves no copies", "Start it with --target and the URL of its server.")
	}
	want, err := placeOf(text)
	if err != nil {
		return refuse("not the URL of a database", "Write postgres://user@host/db, mysql://user@host/db or mariadb://user@host/db, with the host as the relay reaches it.")
	}
	for _, t := range targets {
		may, err := placeOf(t)
		if err != nil || want.server != may.server || may.database != "" && may.database != want.database {
			continue
		}
		for name, values := range want.options {
			if !slices.Contains(harmless, name) && !slices.Equal(values, may.options[name]) {
				return refuse(fmt.Sprintf("its relay does not allow the option %.40q", name), "Leave it out, or add it to the URL of --target there.")
			}
		}
		return nil
	}
	return refuse("this relay does not connect to that server", "Name the host and port as --target of tidemark relay does.")
}

// A place is what a URL leads to.
type place struct {
	server, database string
	options          url.Values
}

// ParseTarget validates a URL of Server.Targets.
func ParseTarget(text string) (string, error) {
	if _, err := placeOf(text); err != nil {
		return "", fmt.Errorf("must be the URL of a server, such as postgres://localhost or mariadb://localhost:3306/shop: %w", err)
	}
	return text, nil
}

func placeOf(text string) (p place, err error) {
	u, err := url.Parse(text)
	if err != nil {
		return p, errors.New("it is not a URL")
	}
	of := engine.OfURL(text)
	port := of.Port
	switch {
	case port == "":
		return p, errors.New("it is of no engine")
	case u.Host == "":
		return p, errors.New("it names no host")
	case u.Port() != "":
		port = u.Port()
	}
	host := u.Hostname()
	if strings.Contains(u.Host, ",") { // of several servers
		host, port = u.Host, ""
	}
	return place{of.Name + "://" + net.JoinHostPort(strings.ToLower(host), port), strings.Trim(u.Path, "/"), u.Query()}, nil
}
