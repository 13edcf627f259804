package server

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
)

// TestUnsupportedVersion connects to a server that reports too old a version.
func TestUnsupportedVersion(t *testing.T) {
	for version, ok := range map[string]bool{"5.7.44": false, "8.0.11": true, "9.7.0": true, "5.5.5-10.5.29-MariaDB": false, "10.6.1-MariaDB-log": true, "11.8.2-MariaDB": true} {
		e := &Server{version: version}
		e.readVersion()
		if err := e.supported(); (err == nil) != ok || err != nil && (tidemark.KindOf(err) != tidemark.Unsupported || !strings.Contains(err.Error(), "the server's version is "+version)) {
			t.Errorf("%s: %v", version, err)
		}
	}
}
