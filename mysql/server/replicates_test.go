package server

import (
	"testing"

	"github.com/tidemarkdb/tidemark"
)

// TestKin: evidence that a server replicates from another, and what only looks like it.
func TestKin(t *testing.T) {
	source := Member{Address: "10.0.0.1", Hostname: "db1", Port: 3306, ServerID: "1", UUID: "aa"}
	plain := source
	plain.UUID = ""
	of := func(address string, feeds ...Feed) Member {
		return Member{Address: address, Hostname: "db2", Port: 3306, ServerID: "2", Feeds: feeds}
	}
	group := func(m Member, names ...string) Member { m.Groups = names; return m }
	for name, x := range map[string]struct {
		a, b Member
		want tidemark.Kinship
	}{
		"by uuid":                         {source, of("10.0.0.2", Feed{Host: "elsewhere", Port: 1, ServerID: "9", UUID: "AA"}), tidemark.Replica},
		"another uuid, all else the same": {source, of("10.0.0.2", Feed{Host: "10.0.0.1", Port: 3306, ServerID: "1", UUID: "bb"}), tidemark.Apart},
		"the other way":                   {of("10.0.0.2", Feed{UUID: "aa"}), source, tidemark.Feeding},
		"by address":                      {plain, of("10.0.0.2", Feed{Host: "10.0.0.1", Port: 3306, ServerID: "1"}), tidemark.Replica},
		"by its own name":                 {plain, of("10.0.0.2", Feed{Host: "DB1", Port: 3306, ServerID: "1"}), tidemark.Replica},
		"never connected":                 {plain, of("10.0.0.2", Feed{Host: "10.0.0.1", Port: 3306, ServerID: "0"}), tidemark.Replica},
		"the same number elsewhere":       {plain, of("10.0.0.2", Feed{Host: "10.0.0.3", Port: 3306, ServerID: "1"}), tidemark.Apart},
		"another port of that host":       {plain, of("10.0.0.2", Feed{Host: "10.0.0.1", Port: 3307, ServerID: "1"}), tidemark.Apart},
		"another server at that place":    {plain, of("10.0.0.2", Feed{Host: "10.0.0.1", Port: 3306, ServerID: "7"}), tidemark.Apart},
		"a loopback of another machine":   {plain, of("10.0.0.2", Feed{Host: "127.0.0.1", Port: 3306, ServerID: "1"}), tidemark.Apart},
		"a loopback of the same machine":  {plain, of("10.0.0.1", Feed{Host: "127.0.0.1", Port: 3306, ServerID: "1"}), tidemark.Replica},
		"the second of two channels":      {source, of("10.0.0.2", Feed{UUID: "cc"}, Feed{UUID: "aa"}), tidemark.Replica},
		"two replicas of a third server":  {of("10.0.0.2", Feed{UUID: "cc"}), of("10.0.0.3", Feed{UUID: "cc"}), tidemark.Apart},
		"one cluster":                     {group(source, "galera 1"), group(of("10.0.0.2"), "galera 1"), tidemark.Member},
		"two clusters":                    {group(source, "galera 1"), group(of("10.0.0.2"), "galera 2", "group 1"), tidemark.Apart},
	} {
		if got := kin(t.Context(), x.a, x.b); got != x.want {
			t.Errorf("%s: %d, want %d", name, got, x.want)
		}
	}
}
