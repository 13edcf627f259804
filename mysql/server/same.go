package server

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/tidemarkdb/tidemark"
)

// A Sight is what a server sees of another one's user lock.
type Sight struct {
	Held   bool   // somebody here has that lock: they are the same server
	Member Member // unless Held: who this server is
}

// Look reports whether a server has the user lock of that name.
func Look(ctx context.Context, b *Server, name string) (s Sight, err error) {
	err = b.OnSession(ctx, "compare", b.Masked, func(other *Session) error {
		r, err := other.Query(ctx, "SELECT IS_USED_LOCK("+Literal(name)+") IS NOT NULL")
		if err != nil {
			return err
		}
		if s.Held = Cell(r, 0, 0) == "1"; !s.Held {
			s.Member = memberOf(ctx, other, b)
		}
		return nil
	})
	return s, err
}

// Identity distinguishes servers: two of different identities are different ones. "" if that is not
// possible.
func Identity(ctx context.Context, a *Server) (id string, err error) {
	err = a.OnSession(ctx, "identify", a.Masked, func(s *Session) error {
		if m := memberOf(ctx, s, a); m.Hostname != "" {
			id = fmt.Sprintf("mysql %s %s:%d %s", m.UUID, m.Hostname, m.Port, m.ServerID)
		}
		return nil
	})
	return id, err
}

// Relate reports whether a and b, whose Look is given, are the same server, and whether that server
// compares table names without regard to case. It tests this with a user lock: one taken by a
// session of a is visible to all sessions of the same server and to no others, regardless of host
// names, ports, sockets and proxies; MariaDB has no server_uuid, and clones of a MySQL server may
// share one. If they are two servers, it reports whether one replicates from the other directly,
// not through a third server, as far as the user may see that.
func (e *Server) Relate(ctx context.Context, look func(ctx context.Context, name string) (Sight, error)) (k tidemark.Kinship, fold bool, err error) {
	name := fmt.Sprintf("tidemark same %016x", rand.Uint64())
	err = e.OnSession(ctx, "compare", e.Masked, func(one *Session) error {
		r, err := one.Query(ctx, "SELECT GET_LOCK("+Literal(name)+", 1), @@lower_case_table_names")
		if err != nil {
			return err
		}
		fold = Cell(r, 0, 1) != "0"
		defer one.Exec(context.WithoutCancel(ctx), "DO RELEASE_LOCK("+Literal(name)+")") // the session's end releases it too
		s, err := look(ctx, name)
		if err != nil {
			return err
		}
		if k = tidemark.Same; !s.Held {
			k = kin(ctx, memberOf(ctx, one, e), s.Member)
		}
		return nil
	})
	return k, fold, err
}
