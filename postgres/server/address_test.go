package server

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
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

// TestUnknownOption: what is no option of libpq is refused, as libpq does, wherever it stands: the
// driver would send it to the server as a setting, and a misspelt sslmode would go unnoticed.
func TestUnknownOption(t *testing.T) {
	for _, name := range []string{"PGAPPNAME", "PGSERVICE", "PGHOST", "PGSSLMODE"} {
		t.Setenv(name, "")
	}
	service := filepath.Join(t.TempDir(), "services")
	if err := os.WriteFile(service, []byte("[shop]\nhost=db\nsslmod=verify-full\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"postgres://me:s3cret@db/shop?sslmod=verify-full", "postgres://me@db/shop?SSLMODE=verify-full", "postgres://me@db/shop?sslmode=disable&passwrd=s3cret", "postgres://me@db/shop?passwrd=s3cret&cret=s3cret",
		"host=db sslmod=verify-full", "host=db passwrd=s3cret", "host=db sslmode=disable search_path=s3cret", "service=shop servicefile=" + service, "postgres:///?service=shop&servicefile=" + service,
		"postgres://me@db/shop?search_path=s3cret", "postgres://me@db/shop?pool_max_conns=3", "postgres://me@db/shop?sslmode%20=verify-full"} {
		_, err := readURL(text)
		if tidemark.KindOf(err) != tidemark.Invalid || !strings.Contains(err.Error(), "unknown option") || strings.Contains(err.Error(), "cret") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestPasswordThatLooksLikeKeywords: a string that is no URL may have a password with an = or a
// blank in it. No part of that is taken for the name of an option.
func TestPasswordThatLooksLikeKeywords(t *testing.T) {
	for _, text := range []string{`tm:FSZ\FA1J/VVW^=7AF@tcp(127.0.0.1:1)/shop`, "tm/FSZ'=B[G@127.0.0.1", "user=tm password=a fsz=b host=db", "user=tm pwd='x' FSZ=7 host=db"} {
		if _, err := readURL(text); tidemark.KindOf(err) != tidemark.Invalid || strings.Contains(strings.ToLower(err.Error()+tidemark.HintOf(err)), "fsz") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestOptionsArePrinted: the values of all options but secrets are in messages.
func TestOptionsArePrinted(t *testing.T) {
	for _, name := range append(slices.Sorted(maps.Keys(libpqOptions)), append(driverOptions, slices.Sorted(maps.Keys(foreignOptions))...)...) {
		text := "postgres://me@db/shop?" + name + "=value"
		secret := slices.Contains([]string{"password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key", "oauth_issuer", "oauth_client_id", "oauth_scope", "sslkeylogfile", "require_auth"}, name)
		if masked := tidemark.MaskURL(text); (masked == text) == secret {
			t.Errorf("%s is printed as %s", text, masked)
		}
	}
}
