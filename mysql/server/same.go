package server

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/tidemarkdb/tidemark"
)

// Relate reports whether two are one server, and whether that compares names of tables without regard to
// case. A user lock that a session of a takes is seen by all sessions of the same server and by no others,
// whatever host names, ports, sockets and proxies lead there; MariaDB has no server_uuid, and clones of a
// MySQL server may share one. Of two servers it tells whether one replicates from the other, as far as the user may know:
// by a channel of its own, not by way of a third server.
func (a *Server) Relate(ctx context.Context, b *Server) (k tidemark.Kinship, fold bool, err error) {
	name := fmt.Sprintf("tidemark same %016x", rand.Uint64())
	err = a.OnSession(ctx, "compare", a.Masked, func(one *Session) error {
		r, err := one.Query(ctx, "SELECT GET_LOCK("+Literal(name)+", 1), @@lower_case_table_names")
		if err != nil {
			return err
		}
		fold = Cell(r, 0, 1) != "0"
		defer one.Exec(context.WithoutCancel(ctx), "DO RELEASE_LOCK("+Literal(name)+")") // it ends with the session too
		return b.OnSession(ctx, "compare", b.Masked, func(other *Session) error {
			r, err := other.Query(ctx, "SELECT IS_USED_LOCK("+Literal(name)+") IS NOT NULL")
			if err != nil {
				return err
			}
			if k = tidemark.Same; Cell(r, 0, 0) != "1" {
				k = kin(ctx, memberOf(ctx, one, a), memberOf(ctx, other, b))
			}
			return nil
		})
	})
	return k, fold, err
}
