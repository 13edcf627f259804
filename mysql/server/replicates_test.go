package server

import (
	"testing"

	"github.com/tidemarkdb/tidemark"
)

// TestKin: evidence that a server replicates from another, and what only looks like it.
func TestKin(t *testing.T) {
	source := member{address: "10.0.0.1", hostname: "db1", port: 3306, serverID: "1", uuid: "aa"}
	plain := source
	plain.uuid = ""
	of := func(address string, feeds ...feed) member {
		return member{address: address, hostname: "db2", port: 3306, serverID: "2", feeds: feeds}
	}
	group := func(m member, names ...string) member { m.groups = names; return m }
	for name, x := range map[string]struct {
		a, b member
		want tidemark.Kinship
	}{
		"by uuid":                         {source, of("10.0.0.2", feed{host: "elsewhere", port: 1, serverID: "9", uuid: "AA"}), tidemark.Replica},
		"another uuid, all else the same": {source, of("10.0.0.2", feed{host: "10.0.0.1", port: 3306, serverID: "1", uuid: "bb"}), tidemark.Apart},
		"the other way":                   {of("10.0.0.2", feed{uuid: "aa"}), source, tidemark.Feeding},
		"by address":                      {plain, of("10.0.0.2", feed{host: "10.0.0.1", port: 3306, serverID: "1"}), tidemark.Replica},
		"by its own name":                 {plain, of("10.0.0.2", feed{host: "DB1", port: 3306, serverID: "1"}), tidemark.Replica},
		"never connected":                 {plain, of("10.0.0.2", feed{host: "10.0.0.1", port: 3306, serverID: "0"}), tidemark.Replica},
		"the same number elsewhere":       {plain, of("10.0.0.2", feed{host: "10.0.0.3", port: 3306, serverID: "1"}), tidemark.Apart},
		"another port of that host":       {plain, of("10.0.0.2", feed{host: "10.0.0.1", port: 3307, serverID: "1"}), tidemark.Apart},
		"another server at that place":    {plain, of("10.0.0.2", feed{host: "10.0.0.1", port: 3306, serverID: "7"}), tidemark.Apart},
		"a loopback of another machine":   {plain, of("10.0.0.2", feed{host: "127.0.0.1", port: 3306, serverID: "1"}), tidemark.Apart},
		"a loopback of the same machine":  {plain, of("10.0.0.1", feed{host: "127.0.0.1", port: 3306, serverID: "1"}), tidemark.Replica},
		"the second of two channels":      {source, of("10.0.0.2", feed{uuid: "cc"}, feed{uuid: "aa"}), tidemark.Replica},
		"two replicas of a third server":  {of("10.0.0.2", feed{uuid: "cc"}), of("10.0.0.3", feed{uuid: "cc"}), tidemark.Apart},
		"one cluster":                     {group(source, "galera 1"), group(of("10.0.0.2"), "galera 1"), tidemark.Member},
		"two clusters":                    {group(source, "galera 1"), group(of("10.0.0.2"), "galera 2", "group 1"), tidemark.Apart},
	} {
		if got := kin(t.Context(), x.a, x.b); got != x.want {
			t.Errorf("%s: %d, want %d", name, got, x.want)
		}
	}
}
