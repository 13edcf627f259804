package repo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/engine"
)

// Cluster identifies the server of a backup: its system identifier, or host and port for servers
// without one.
func (m *Manifest) Cluster() string {
	if m.SystemID != "" {
		return m.SystemID
	}
	if system, _, ok := strings.Cut(m.Position.Stamp, " "); ok && engine.Of(m.Engine).StampsSystem {
		return system
	}
	if u, err := url.Parse(m.Source); err == nil && u.Host != "" {
		return u.Host
	}
	return m.Source
}

// Origin describes that server for messages: "main (postgres://me@db1/shop, system identifier
// 7388...)".
func (m *Manifest) Origin() string {
	text := cmp.Or(m.Source, m.Engine)
	if id := m.Cluster(); engine.Of(m.Engine).StampsSystem && id != m.Source {
		text += ", system identifier " + id
	}
	if m.Server == "" {
		return text
	}
	return m.Server + " (" + text + ")"
}

// Called is what users call the kind of a backup: logical ones are of no other kind.
func (m *Manifest) Called() string {
	if m.Form == Logical {
		return m.Form
	}
	return m.Kind
}

// IsOf reports whether a backup is of the named server: by the name it was given, its system
// identifier, or its host and port.
func (m *Manifest) IsOf(server string) bool {
	return server == m.Server && server != "" || server == m.Cluster()
}

// CheckServerName reports what is wrong with a server's name.
func CheckServerName(name string) error {
	odd := func(c rune) bool { return !unicode.IsPrint(c) }
	if len(name) > 100 || !utf8.ValidString(name) || strings.ContainsFunc(name, odd) {
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "name server", Object: fmt.Sprintf("%.120q", name), Err: errors.New("is not a valid name"), Hint: "Use printable text of at most 100 bytes."}
	}
	return nil
}

// Admit returns the server name for m, a backup that need not exist yet: the given one, or the one
// that its server has here. Kind Collision: the name is another server's; or it is a backup of
// files without a name, and the repository is another server's.
func (r *Repo) Admit(ctx context.Context, m *Manifest, name string) (string, error) {
	if err := CheckServerName(name); err != nil {
		return "", err
	}
	var other *Manifest
	known := false
	for b, err := range r.newestFirst(ctx) {
		if err != nil {
			return "", err
		}
		same := b.Cluster() == m.Cluster()
		switch {
		case same && (b.Form == m.Form || m.Form == Logical):
			if name == b.Server || name == "" {
				return b.Server, nil
			}
			known = true
		case !same && name != "" && b.Server == name:
			return "", &tidemark.Error{Kind: tidemark.Collision, Op: "back up", Object: name, Err: errors.New("the repository has another server of that name: " + b.Origin()), Hint: "Give this server another name with --server."}
		case !same && b.Form != Logical && other == nil:
			other = b
		}
	}
	if name != "" || known || m.Form == Logical {
		return name, nil
	}
	whose := ""
	if other != nil {
		whose = "backups of another server: " + other.Origin()
	} else if of, err := r.LogServer(ctx); err == nil && of.System != m.Cluster() {
		whose = "the log of another server, with the system identifier " + of.System
	} else if err != nil && tidemark.KindOf(err) != tidemark.NotFound {
		return "", err
	}
	if whose == "" {
		return "", nil
	}
	return "", &tidemark.Error{Kind: tidemark.Collision, Op: "back up", Object: r.store.String(), Err: errors.New("it has " + whose + "; this server is " + m.Origin()), Hint: "Give each server its own repository, or name this one with --server NAME, so that restore --server can tell them apart."}
}

// newestFirst yields the brief manifests of readable backups, from the newest name on.
func (r *Repo) newestFirst(ctx context.Context) func(yield func(*Manifest, error) bool) {
	return func(yield func(*Manifest, error) bool) {
		if there, err := r.there(ctx); err == nil && !there {
			return
		}
		ids, err := r.IDs(ctx) // if the place is unreachable, Admit fails with the same error
		if err != nil {
			yield(nil, err)
			return
		}
		for _, id := range slices.Backward(ids) {
			m, err := r.Brief(ctx, id)
			if IsDamage(err) && err != nil {
				continue // its server is unknown
			}
			if !yield(m, err) || err != nil {
				return
			}
		}
	}
}

// Systems returns the system identifiers of the servers whose files are backed up here, sorted.
func (r *Repo) Systems(ctx context.Context) (out []string, err error) {
	for m, err := range r.newestFirst(ctx) {
		if err != nil {
			return nil, err
		}
		if id := m.Cluster(); m.Form != Logical && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out, nil
}

// A LogServer tells which server the archived log is of.
type LogServer struct {
	System  string // identifier
	Segment int    // bytes of a file of the log
}

// LogServerName is the name of the log that holds it.
const LogServerName = "server"

// LogServer reads it. Kind NotFound: no log is archived here. Kind Corrupt.
func (r *logs) LogServer(ctx context.Context) (s LogServer, err error) {
	there, err := r.there(ctx)
	if err == nil && !there {
		err = &tidemark.Error{Kind: tidemark.NotFound, Op: "read log", Object: LogServerName, Err: errors.New("there is no repository yet in " + r.store.String())}
	}
	if err != nil {
		return s, err
	}
	in, err := r.GetLog(ctx, LogServerName)
	if err != nil {
		return s, err
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, 1<<10))
	if err != nil {
		return s, err
	}
	if _, err := fmt.Sscanf(string(text), "system %s\nsegment %d\n", &s.System, &s.Segment); err != nil || s.Segment < 1<<20 || s.Segment > 1<<30 {
		return s, &tidemark.Error{Kind: tidemark.Corrupt, Op: "read the archive", Object: LogServerName, Err: errors.New("it is not in its format")}
	}
	return s, nil
}

// PutLogServer records which server the log is of, unless that is recorded already.
func (r *logs) PutLogServer(ctx context.Context, s LogServer, c Codec) error {
	err := r.PutLog(ctx, LogServerName, strings.NewReader(fmt.Sprintf("system %s\nsegment %d\n", s.System, s.Segment)), c)
	if tidemark.KindOf(err) == tidemark.Collision && err != nil {
		return nil
	}
	return err
}
