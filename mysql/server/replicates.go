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

// A Feed is a replication source, as its replica's status names it.
type Feed struct {
	Host     string
	Port     int
	ServerID string // its server_id; "" or 0: never reached
	UUID     string // its server_uuid; MariaDB has none
}

// SourcesOf lists the sources of all replication channels of a server, running or not.
func SourcesOf(ctx context.Context, s *Session, e *Server) ([]Feed, error) {
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
		var out []Feed
		for i := range r.RowNumber() {
			var f Feed
			for j, field := range r.Fields {
				switch value := Cell(r, i, j); strings.ToLower(string(field.Name)) {
				case "master_host", "source_host":
					f.Host = value
				case "master_port", "source_port":
					f.Port, _ = strconv.Atoi(value)
				case "master_server_id", "source_server_id":
					f.ServerID = value
				case "master_uuid", "source_uuid":
					f.UUID = value
				}
			}
			out = append(out, f)
		}
		return out, nil
	}
	return nil, err
}

// A Member is a server's identity in a replication topology, as far as its user may see it.
type Member struct {
	Address  string // the host by which it was reached; "" for a socket of this machine
	Hostname string // its own name for its machine
	Port     int
	ServerID string
	UUID     string
	Feeds    []Feed
	Groups   []string // groups and clusters of which it is currently a member
}

// noCluster is the cluster state UUID of a Galera node that is in no cluster.
const noCluster = "00000000-0000-0000-0000-000000000000"

func memberOf(ctx context.Context, s *Session, e *Server) (m Member) {
	if e.to.network == "tcp" {
		m.Address, _, _ = net.SplitHostPort(e.to.host)
	}
	if r, err := s.Query(ctx, "SELECT @@hostname, @@port, @@server_id"); err == nil {
		m.Hostname, m.ServerID = Cell(r, 0, 0), Cell(r, 0, 2)
		m.Port, _ = strconv.Atoi(Cell(r, 0, 1))
	}
	if r, err := s.Query(ctx, "SHOW GLOBAL VARIABLES LIKE 'server_uuid'"); err == nil && r.RowNumber() > 0 {
		m.UUID = Cell(r, 0, 1)
	}
	m.Feeds, _ = SourcesOf(ctx, s, e) // without the privilege there are none
	if r, err := s.Query(ctx, "SHOW GLOBAL STATUS LIKE 'wsrep_cluster_state_uuid'"); err == nil && r.RowNumber() > 0 && Cell(r, 0, 1) != noCluster {
		m.group("galera ", Cell(r, 0, 1))
	}
	if r, err := s.Query(ctx, "SHOW GLOBAL VARIABLES LIKE 'group_replication_group_name'"); err == nil && r.RowNumber() > 0 && m.online(ctx, s) {
		m.group("group ", Cell(r, 0, 1))
	}
	return m
}

// online reports whether a server is an active member of its group.
func (m *Member) online(ctx context.Context, s *Session) bool {
	r, err := s.Query(ctx, "SELECT COUNT(*) FROM performance_schema.replication_group_members WHERE MEMBER_ID = @@server_uuid AND MEMBER_STATE IN ('ONLINE', 'RECOVERING')")
	return err == nil && Cell(r, 0, 0) == "1"
}

func (m *Member) group(kind, name string) {
	if name != "" {
		m.Groups = append(m.Groups, kind+strings.ToLower(name))
	}
}

// kin reports how b relates to a.
func kin(ctx context.Context, a, b Member) tidemark.Kinship {
	switch {
	case slices.ContainsFunc(a.Groups, func(g string) bool { return slices.Contains(b.Groups, g) }):
		return tidemark.Member
	case slices.ContainsFunc(b.Feeds, func(f Feed) bool { return f.is(ctx, a, b) }):
		return tidemark.Replica
	case slices.ContainsFunc(a.Feeds, func(f Feed) bool { return f.is(ctx, b, a) }):
		return tidemark.Feeding
	}
	return tidemark.Apart
}

// is reports whether a feed of a replica is this source. Without a uuid, unrelated servers often
// share a server_id: then port and host must match too.
func (f Feed) is(ctx context.Context, source, replica Member) bool {
	if f.UUID != "" && source.UUID != "" {
		return strings.EqualFold(f.UUID, source.UUID)
	}
	if f.ServerID != source.ServerID && f.ServerID != "0" && f.ServerID != "" || f.Port != source.Port {
		return false
	}
	if local(f.Host) { // on the replica's own machine
		return source.Address == replica.Address || local(source.Address) && local(replica.Address) || source.Hostname == replica.Hostname
	}
	return strings.EqualFold(f.Host, source.Hostname) || strings.EqualFold(f.Host, source.Address) || oneHost(ctx, f.Host, source.Address)
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
