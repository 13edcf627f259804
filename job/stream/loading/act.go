package loading

import (
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/engine"
)

// Actions on a table of a stream.
const (
	Start  = "start"
	Stop   = "stop"
	Reload = "reload"
	Done   = "loaddone"
)

// Act puts a table into the state that an action wants.
func Act(t *catalog.StreamTable, action string, noLoad bool, now time.Time) error {
	op, object := "sub "+action, t.Table.String()
	switch {
	case t.State == "" && action != Start:
		return &tidemark.Error{Kind: tidemark.NotFound, Op: op, Object: object, Err: errors.New("is not a table of the stream"), Hint: "tidemark sub lists them; tidemark sub start " + object + " adds it."}
	case action == Stop && t.State == catalog.TableStopped:
		return nil
	case action == Stop:
		Halt(t, "stopped by hand", "tidemark sub reload "+object+" starts it again.", now)
		return nil
	case action == Start && (t.State == catalog.TableActive || t.State == catalog.TableLoading):
		return &tidemark.Error{Kind: tidemark.Exists, Op: op, Object: object, Err: errors.New("is " + t.State + " already"), Hint: "tidemark sub reload " + object + " loads it again."}
	case action == Done:
		if t.State != catalog.TableLoading || !Of(t).Manual {
			return &tidemark.Error{Kind: tidemark.Invalid, Op: op, Object: object, Err: errors.New("it is not waiting for a load of yours: it is " + t.State), Hint: "Use loaddone only after sub start --no-load."}
		}
		t.State, t.Since = catalog.TableActive, Later(t, now)
		return nil
	}
	was := Of(t)
	x := was.Anew()
	x.Manual, x.Made = noLoad, (was.Lacks || was.Gone) && action == Reload
	Become(t, catalog.TableLoading, "", "", x, now)
	return nil
}

// Named finds the table that a name means in a stream from the source of a URL.
func Named(source string, known []catalog.StreamTable, action, name string) (tidemark.TableID, error) {
	var found []tidemark.TableID
	for _, t := range known {
		if t.Table.String() == name || t.Table.Name == name {
			found = append(found, t.Table)
		}
	}
	schema, rest, dotted := strings.Cut(name, ".")
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return tidemark.TableID{}, &tidemark.Error{Kind: tidemark.Invalid, Op: "sub " + action, Object: name, Err: errors.New("names more than one table of the stream"), Hint: "Name its schema: " + found[0].String() + "."}
	case dotted:
		return tidemark.TableID{Schema: schema, Name: rest}, nil
	}
	id := tidemark.TableID{Schema: engine.OfURL(source).DefaultSchema, Name: name}
	if u, err := url.Parse(source); err == nil && id.Schema == "" {
		id.Schema = strings.Trim(u.Path, "/")
	}
	return id, nil
}
