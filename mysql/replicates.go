package mysql

import (
	"context"
	"strconv"
	"strings"
)

// A feed is a server that another one replicates from, as that one's replication says.
type feed struct {
	host     string
	port     int
	serverID string // its server_id; "" or 0: it was never reached
	uuid     string // its server_uuid; MariaDB has none
}

// sourcesOf lists what a server replicates from: all its channels, whether they run now or not.
func sourcesOf(ctx context.Context, s *session, e *Engine) ([]feed, error) {
	statements := []string{"SHOW REPLICA STATUS", "SHOW SLAVE STATUS"} // 8.4 knows the first only, before 8.0.22 there is but the second
	if e.mariadb {
		statements = []string{"SHOW ALL SLAVES STATUS"}
	}
	var err error
	for _, sql := range statements {
		r, qerr := s.query(ctx, sql)
		if err = qerr; err != nil {
			continue
		}
		var out []feed
		for i := range r.RowNumber() {
			var f feed
			for j, field := range r.Fields {
				switch value := cell(r, i, j); strings.ToLower(string(field.Name)) {
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
