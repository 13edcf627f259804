package server

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// A feed is a replication source, as its replica's status names it.
type feed struct {
	host     string
	port     int
	serverID string // its server_id; "" or 0: never reached
	uuid     string // its server_uuid; MariaDB has none
}

// SourcesOf lists the sources of all replication channels of a server, running or not.
func SourcesOf(ctx context.Context, s *Session, e *Server) ([]feed, error) {
	statements := []string{"SHOW REPLICA STATUS", "SHOW SLAVE STATUS"} // 8.4 has only the first, versions before 8.0.22 only the second
	if e.MariaDB {
		statements = []string{"SHOW ALL SLAVES STATUS"}
	}
	var err error
	for _, sql := range statements {
		r, qerr := s.Query(ctx, sql)
		if err = qerr; err != nil {
			continue
		}
		var out []feed
		for i := range r.RowNumber() {
			var f feed
			for j, field := range r.Fields {
				switch value := Cell(r, i, j); strings.ToLower(string(field.Name)) {
				case "master_host", "source_host":
					f.host = value
				case "master_port", "source_port":
					f.port, _ = strconv.Atoi(value)
				case "master_server_id", "source_server_id":
					f.serverID = value
				case "master_uuid", "source_uuid":
					f.uuid = value
				}
			}
			out = append(out, f)
		}
		return out, nil
	}
	return nil, err
}

// A member is a server's identity in a replication topology, as far as its user may see it.
type member struct {
	address  string // the host by which it was reached; "" for a socket of this machine
	hostname string // its own name for its machine
	port     int
	serverID string
	uuid     string
	feeds    []feed
	groups   []string // groups and clusters of which it is currently a member
}

// noCluster is the cluster state UUID of a Galera node that is in no cluster.
const noCluster = "00000000-0000-0000-0000-000000000000"

func memberOf(ctx context.Context, s *Session, e *Server) (m member) {
	if e.to.network == "tcp" {
		m.address, _, _ = net.SplitHostPort(e.to.host)
	}
	if r, err := s.Query(ctx, "SELECT @@hostname, @@port, @@server_id"); err == nil {
		m.hostname, m.serverID = Cell(r, 0, 0), Cell(r, 0, 2)
		m.port, _ = strconv.Atoi(Cell(r, 0, 1))
	}
	if r, err := s.Query(ctx, "SHOW GLOBAL VARIABLES LIKE 'server_uuid'"); err == nil && r.RowNumber() > 0 {
		m.uuid = Cell(r, 0, 1)
	}
	m.feeds, _ = SourcesOf(ctx, s, e) // without the privilege there are none
	if r, err := s.Query(ctx, "SHOW GLOBAL STATUS LIKE 'wsrep_cluster_state_uuid'"); err == nil && r.RowNumber() > 0 && Cell(r, 0, 1) != noCluster {
		m.group("galera ", Cell(r, 0, 1))
	}
	if r, err := s.Query(ctx, "SHOW GLOBAL VARIABLES LIKE 'group_replication_group_name'"); err == nil && r.RowNumber() > 0 && m.online(ctx, s) {
		m.group("group ", Cell(r, 0, 1))
	}
	return m
}

// online reports whether a server is an active member of its group.
func (m *member) online(ctx context.Context, s *Session) bool {
	r, err := s.Query(ctx, "SELECT COUNT(*) FROM performance_schema.replication_group_members WHERE MEMBER_ID = @@server_uuid AND MEMBER_STATE IN ('ONLINE', 'RECOVERING')")
	return err == nil && Cell(r, 0, 0) == "1"
}

func (m *member) group(kind, name string) {
	if name != "" {
		m.groups = append(m.groups, kind+strings.ToLower(name))
	}
}

// kin reports how b relates to a.
func kin(ctx context.Context, a, b member) tidemark.Kinship {
	switch {
	case slices.ContainsFunc(a.groups, func(g string) bool { return slices.Contains(b.groups, g) }):
		return tidemark.Member
	case slices.ContainsFunc(b.feeds, func(f feed) bool { return f.is(ctx, a, b) }):
		return tidemark.Replica
	case slices.ContainsFunc(a.feeds, func(f feed) bool { return f.is(ctx, b, a) }):
		return tidemark.Feeding
	}
	return tidemark.Apart
}

// is reports whether a feed of a replica is this source. Without a uuid, unrelated servers often
// share a server_id: then port and host must match too.
func (f feed) is(ctx context.Context, source, replica member) bool {
	if f.uuid != "" && source.uuid != "" {
		return strings.EqualFold(f.uuid, source.uuid)
	}
	if f.serverID != source.serverID && f.serverID != "0" && f.serverID != "" || f.port != source.port {
		return false
	}
	if local(f.host) { // on the replica's own machine
		return source.address == replica.address || local(source.address) && local(replica.address) || source.hostname == replica.hostname
	}
	return strings.EqualFold(f.host, source.hostname) || strings.EqualFold(f.host, source.address) || oneHost(ctx, f.host, source.address)
}

func local(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// oneHost reports whether two names resolve to the same address.
func oneHost(ctx context.Context, a, b string) bool {
	if local(b) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	one, err := net.DefaultResolver.LookupHost(ctx, a)
	if err != nil {
		return false
	}
	other, err := net.DefaultResolver.LookupHost(ctx, b)
	return err == nil && slices.ContainsFunc(one, func(x string) bool { return slices.Contains(other, x) })
}
