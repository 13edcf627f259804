package holdings

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/engine"
)

// A Choice tells which backups are meant, in a repository with those of several servers and
// databases.
type Choice struct {
	Server    string   // --server; none: the only one
	Databases []string // --database; none: all of a server, the only one of logical backups
	Into      string   // the family of the server that a logical one is restored into
}

// Backup finds a backup by its ID, the beginning of one, or "latest": the newest that is
// logical, or is not.
func (c Choice) Backup(ctx context.Context, r *repo.Repo, id string, logical bool) (*repo.Manifest, error) {
	if len(c.Databases) > 1 && logical {
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "restore", Object: "--database", Err: errors.New("a logical backup is of one database"), Hint: "Name one."}
	}
	if id == "latest" {
		fit, err := c.Latest(ctx, r, logical)
		if err != nil {
			return nil, err
		}
		return r.Manifest(ctx, fit[0].ID)
	}
	ids, err := r.IDs(ctx)
	if err != nil {
		return nil, err
	}
	all := slices.Clone(ids)
	ids = slices.DeleteFunc(ids, func(known string) bool { return !strings.HasPrefix(known, id) })
	switch {
	case len(ids) == 0:
		return nil, noBackup(r, id, all)
	case len(ids) > 1:
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "restore", Object: id, Err: errors.New("several backups begin with this: " + ids[0] + ", " + ids[1]), Hint: "Give more of the ID."}
	}
	m, err := r.Manifest(ctx, ids[0])
	switch {
	case err != nil:
		return nil, err
	case m.Kind == repo.Partial:
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "restore", Object: m.ID, Err: errors.New("it is part of an unfinished backup"), Hint: "Restore another backup (tidemark backups lists them), or resume this one: tidemark backup SOURCE REPO --resume last."}
	case (m.Form == repo.Logical) != logical:
		return nil, otherForm(r, m)
	case !c.isOf(m):
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "restore", Object: m.ID, Err: errors.New("it is a backup of " + m.Origin() + describeDatabase(m)), Hint: "Leave out --server and --database, or name another backup."}
	}
	return m, nil
}

func noBackup(r *repo.Repo, name string, all []string) error {
	return &tidemark.Error{Kind: tidemark.NotFound, Op: "find backup", Object: name, Err: errors.New("there is no such backup in " + r.Store().String()), Hint: tidemark.Meant(name, all) + "tidemark backups lists them."}
}

// isOf reports whether a backup is one of those that --server and, for logical ones, --database
// select.
func (c Choice) isOf(m *repo.Manifest) bool {
	if c.Server != "" && !m.IsOf(c.Server) {
		return false
	}
	return m.Form != repo.Logical || len(c.Databases) == 0 || c.Databases[0] == m.Database
}

func describeDatabase(m *repo.Manifest) string {
	if m.Form != repo.Logical || m.Database == "" {
		return ""
	}
	return ", database " + m.Database
}

// Latest gives the backups of a form that "latest" may mean, newest first, at least one: those of
// the target's own kind of server, if there are any. Kind Invalid: they are of several servers or,
// for logical ones, of several databases.
func (c Choice) Latest(ctx context.Context, r *repo.Repo, logical bool) (fit []*repo.Manifest, err error) {
	ids, err := r.IDs(ctx)
	if err != nil {
		return nil, err
	}
	var other error
	for _, id := range slices.Backward(ids) {
		m, err := r.Brief(ctx, id)
		switch {
		case err != nil && tidemark.KindOf(err) == tidemark.NotFound: // it was removed
		case err != nil && repo.IsDamage(err) && len(fit) > 0: // it is not the latest
		case err != nil:
			return nil, err
		case m.Kind == repo.Partial || !c.isOf(m):
		case (m.Form == repo.Logical) == logical:
			fit = append(fit, m)
		case other == nil:
			other = otherForm(r, m)
		}
	}
	foreign := func(m *repo.Manifest) bool { return engine.Family(m.Engine) != c.Into }
	if own := slices.DeleteFunc(slices.Clone(fit), foreign); logical && len(own) > 0 {
		fit = own
	}
	switch {
	case len(fit) > 0:
		repo.SortByAge(fit) // names have whole seconds only
		slices.Reverse(fit)
		return fit, ambiguous("restore", fit, true)
	case c.Server != "":
		return nil, noBackup(r, "latest of "+c.Server, nil)
	case other != nil:
		return nil, other
	}
	return nil, noBackup(r, "latest", nil)
}

// ambiguous is the error of "latest" if there are backups of several servers or, if that counts,
// databases.
func ambiguous(op string, of []*repo.Manifest, databases bool) error {
	var servers, names []string
	texts := map[string]string{}
	for _, m := range of {
		if id := m.Cluster(); texts[id] == "" {
			servers, texts[id] = append(servers, id), m.Origin()
		}
		if db := m.Database; databases && m.Form == repo.Logical && !slices.Contains(names, db) {
			names = append(names, db)
		}
	}
	if len(servers) > 1 {
		var all []string
		for _, id := range servers {
			all = append(all, texts[id])
		}
		return &tidemark.Error{Kind: tidemark.Invalid, Op: op, Object: "latest", Err: errors.New("there are backups of " + screen.Count(len(servers), "server") + ": " + strings.Join(all, "; ")), Hint: "Choose one with --server, by its name or system identifier, or name a backup: tidemark backups lists them."}
	}
	if len(names) > 1 {
		for i, n := range names {
			if n == "" {
				names[i] = "all of the server"
			}
		}
		return &tidemark.Error{Kind: tidemark.Invalid, Op: op, Object: "latest", Err: errors.New("there are backups of several databases: " + strings.Join(names, ", ")), Hint: "Choose one with --database, or name a backup: tidemark backups lists them."}
	}
	return nil
}

// Named gives the ID of a backup of any form, named by it, by the beginning of it, or as
// latest.
func (c Choice) Named(all []*repo.Manifest, name string) (string, error) {
	all = slices.DeleteFunc(slices.Clone(all), func(m *repo.Manifest) bool { return c.Server != "" && !m.IsOf(c.Server) })
	if name == "latest" && len(all) > 0 {
		return all[len(all)-1].ID, ambiguous("find backup", all, false)
	}
	var found, ids []string
	for _, m := range all {
		ids = append(ids, m.ID)
		if m.ID == name {
			return name, nil
		}
		if strings.HasPrefix(m.ID, name) {
			found = append(found, m.ID)
		}
	}
	switch len(found) {
	case 0:
		return "", &tidemark.Error{Kind: tidemark.NotFound, Op: "find backup", Object: name, Err: errors.New("there is no such backup"), Hint: tidemark.Meant(name, ids) + "tidemark backups lists them."}
	case 1:
		return found[0], nil
	}
	return "", &tidemark.Error{Kind: tidemark.Invalid, Op: "find backup", Object: name, Err: errors.New(screen.Count(len(found), "backup") + " begin with this"), Hint: "Give more of its name; tidemark backups lists them."}
}

// otherForm is the error of a backup that does not fit the target.
func otherForm(r *repo.Repo, m *repo.Manifest) error {
	if m.Form == repo.Logical {
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "restore", Object: m.ID, Err: errors.New("it is a logical backup: it has definitions and rows, not the files of a server"), Hint: "Restore it into a database: tidemark restore " + r.AnyPlace() + " " + m.ID + " " + engine.Of(m.Engine).Example}
	}
	return &tidemark.Error{Kind: tidemark.Invalid, Op: "restore", Object: m.ID, Err: errors.New("it has the files of a server, not definitions and rows"), Hint: "Restore it into an empty folder, and start a server there. For a backup that restores into a database, use tidemark backup --logical."}
}
