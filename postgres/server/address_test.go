package server

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
)

// TestLibpqOptions: libpq options are accepted if they match what is done here, and otherwise
// refused by name; none is sent to the server as a setting.
func TestLibpqOptions(t *testing.T) {
	for _, name := range []string{"PGAPPNAME", "PGSERVICE", "PGHOST"} {
		t.Setenv(name, "")
	}
	const base = "postgres://me:s3cret@db/shop?sslmode=disable&"
	for _, query := range []string{"keepalives=1&keepalives_idle=30", "tcp_user_timeout=1000", "gssencmode=prefer", "sslcompression=0", "client_encoding=UTF8", "fallback_application_name=x",
		"target_session_attrs=read-write", "channel_binding=prefer", "load_balance_hosts=disable", "connect_timeout=3", "sslsni=1", "options=-c%20geqo%3Doff"} {
		cfg, err := readURL(base + query)
		if err != nil {
			t.Errorf("%s: %v", query, err)
			continue
		}
		for name := range cfg.RuntimeParams {
			if name != "application_name" && name != "options" {
				t.Errorf("%s: %s goes to the server", query, name)
			}
		}
	}
	for _, query := range []string{"keepalives=0", "gssencmode=require", "sslcrl=/x", "hostaddr=10.0.0.1", "client_encoding=LATIN1", "replication=database", "load_balance_hosts=random", "requirepeer=postgres", "oauth_issuer=x"} {
		_, err := readURL(base + query)
		name, _, _ := strings.Cut(query, "=")
		if tidemark.KindOf(err) != tidemark.Invalid || !strings.Contains(err.Error(), "libpq option "+name+" ") || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", query, err)
		}
	}
	if cfg, err := readURL(base + "fallback_application_name=mine"); err != nil || cfg.RuntimeParams["application_name"] != "mine" {
		t.Errorf("%v", err)
	}
}
