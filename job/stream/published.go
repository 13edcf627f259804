package stream

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/ddl"
	"github.com/tidemarkdb/tidemark/job/stream/loading"
)

// A publisher is a source that sends the changes of the tables in a list, which others can change
// too, without a trace in the log.
type publisher interface {
	Published(ctx context.Context, stream string, tables []tidemark.TableID) (map[tidemark.TableID]change.Published, error)
	Withdraw(ctx context.Context, stream string, table tidemark.TableID) error
}

// listed gives the tables that the source has to send by now, and since when they are in their
// states: not those which a load has yet to add to its list.
func (s *subscriptions) listed() map[tidemark.TableID]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[tidemark.TableID]time.Time{}
	for id, t := range s.of {
		if t.State == catalog.TableActive || t.State == catalog.TableLoading && loading.Of(t).Begun {
			out[id] = t.Since
		}
	}
	return out
}

// lists checks whether the source still sends the changes of tables as it did when the stream got
// them. now are the tables' definitions: of another table under the same name nothing is said here.
func (w *definitionWatch) lists(ctx context.Context, listed map[tidemark.TableID]time.Time, now map[tidemark.TableID]*change.Definition) error {
	p, ok := w.r.src.(publisher)
	if !ok || len(listed) == 0 {
		return nil
	}
	ids := slices.Collect(maps.Keys(listed))
	all, err := p.Published(ctx, w.r.spec.Name, ids)
	if err != nil {
		return err
	}
	for _, id := range ids {
		is, there := all[id]
		x := w.r.subs.load(id)
		if !there || now[id] == nil || now[id].ID != is.ID || x.Known != nil && x.Known.ID != 0 && x.Known.ID != is.ID {
			continue
		}
		err := ddl.Unlisted(id, x.Published, is, w.logged)
		switch {
		case err != nil:
			err = w.stopIf(ctx, id, err, func(t *catalog.StreamTable) bool { return t.Since.Equal(listed[id]) })
		case x.Published == "":
			err = w.r.subs.note(ctx, id, func(l *loading.Load) { l.Published = is.As })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// publish makes the source send the changes of a table that is to be loaded; anew, if somebody has
// changed how it does.
func (l *reload) publish(ctx context.Context, id tidemark.TableID, m *tidemark.Move) error {
	p, ok := l.r.src.(publisher)
	var all map[tidemark.TableID]change.Published
	if ok {
		var err error
		all, err = p.Published(ctx, l.r.spec.Name, []tidemark.TableID{id})
		if err != nil {
			return err
		}
		was := l.subs.load(id).Published
		if is := all[id].As; is != "" && is != was {
			if err := p.Withdraw(ctx, l.r.spec.Name, id); err != nil {
				return err
			}
		}
	}
	err := l.from.Publish(ctx, l.r.spec.Name, m)
	if ok && err == nil {
		all, err = p.Published(ctx, l.r.spec.Name, []tidemark.TableID{id})
	}
	if !ok || err != nil {
		return err
	}
	return l.note(ctx, id, func(t *loading.Load) { t.Published = all[id].As })
}
