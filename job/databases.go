package job

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/engines"
)

// fileEnd stands for the file where the schemas of the two sides are matched. Like a server's URL,
// it has one database or several.
type fileEnd struct {
	known   bool
	several bool // each keeps its name
}

func (fileEnd) Name() string { return engines.DumpedBy("") }

func (f fileEnd) Default() string {
	if f.several {
		return ""
	}
	return "file"
}

// system reports whether a database of the file is skipped, and says so once.
func (im *importJob) system(schema string) bool {
	if !engines.SystemDatabase(schema) {
		return false
	}
	name := strings.ToLower(schema)
	if !im.told["database "+name] {
		im.told["database "+name] = true
		im.find([]tidemark.Finding{{Severity: tidemark.Note, Object: "database " + schema, Text: "belongs to the server that was dumped, and was skipped",
			Hint: "Create accounts and privileges on the target."}})
	}
	return true
}

// settleDatabases decides, at the first selected table, whether the databases of the file keep
// their names. A single one goes where the target's URL says, and only the rest of the file can
// tell whether it is single; a pipe cannot be read twice, so the databases that it names keep their
// names.
func (im *importJob) settleDatabases(ctx context.Context, first string) error {
	switch {
	case first == "" && im.tgt.Default() == "":
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "import", Object: tidemark.MaskURL(im.spec.Target), Err: errors.New("neither the file nor the target's URL names a database"), Hint: "Use mysql://user@host/DATABASE."}
	case im.end.known && !im.end.several && im.spec.TargetSchema == "":
		if _, same := im.places[first]; !same && first != "" && len(im.places) > 0 {
			return &tidemark.Error{Kind: tidemark.Collision, Op: "import", Object: "database " + first, Err: errors.New("the file names it after tables of another database"), Hint: "Give --target-schema to load all into one, or load them one at a time with --include '" + first + ".*'."}
		}
		return nil
	case im.end.known:
		return nil
	case first == "" || im.spec.TargetSchema != "":
		im.end.several = false
	case im.tgt.Default() == "" || im.dump.Stamp() == "":
		im.end.several = true
	default:
		several, err := im.lookAhead(ctx, first)
		if err != nil {
			return err
		}
		im.end.several = several
	}
	im.end.known = true
	return nil
}

// lookAhead reads the file up to a selected table of another database, or up to where no more
// tables are defined.
func (im *importJob) lookAhead(ctx context.Context, first string) (bool, error) {
	dump, err := im.again()
	if err != nil {
		return false, err
	}
	defer dump.Close()
	for !dump.Defined() {
		p, err := dump.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return false, nil
		case tidemark.KindOf(err) == tidemark.Cancelled || ctx.Err() != nil:
			return false, err
		case err != nil:
			return false, nil // the actual reading gets there too, with everything before it loaded
		}
		if p.Kind == tidemark.Rows {
			dump.Done(p)
		}
		if p.Kind == tidemark.Define && p.Table.Schema != first && !engines.SystemDatabase(p.Table.Schema) && im.spec.Rules.Wants(p.Table) {
			return true, nil
		}
	}
	return false, nil
}

// schemasOf gives the file's CREATE DATABASE for the databases of these tables, if each keeps its
// name. The database in the target's URL is left as it is.
func (im *importJob) schemasOf(tables []*tidemark.Table) []tidemark.Object {
	if !im.end.several {
		return nil
	}
	var out []tidemark.Object
	seen := map[string]bool{}
	for _, t := range tables {
		if sql := im.creates[t.Schema]; sql != "" && !seen[t.Schema] {
			seen[t.Schema] = true
			out = append(out, tidemark.Object{ID: "schema " + t.Schema, Kind: "schema", Table: tidemark.TableID{Schema: t.Schema}, SQL: []string{sql}})
		}
	}
	return out
}

// makeSchemas creates the schemas among a table's objects, each once, and gives the others: the
// target is inspected next, and marker rows need a schema.
func (im *importJob) makeSchemas(ctx context.Context, objects []tidemark.Object) ([]tidemark.Object, error) {
	var rest []tidemark.Object
	for _, o := range objects {
		if o.Kind != "schema" {
			rest = append(rest, o)
			continue
		}
		if im.made[o.ID] {
			continue
		}
		im.made[o.ID] = true
		if err := runStatement(ctx, im, o.SQL); err != nil && tidemark.KindOf(err) != tidemark.Exists {
			return nil, err
		}
	}
	return rest, nil
}

// ledger creates the table of marker rows if the target's URL names no database for it.
func (im *importJob) ledger(ctx context.Context) error {
	if !im.unmarked {
		return nil
	}
	if err := im.tgt.Begin(ctx, im.run.ID); err != nil {
		return err
	}
	im.mu.Lock()
	defer im.mu.Unlock()
	im.unmarked = false
	return nil
}

// carries reports whether a view, trigger or routine of the file belongs to what is copied.
func (im *importJob) carries(p *tidemark.Piece) bool {
	id := tidemark.TableID{Schema: im.from(p), Name: p.Table.Name}
	if p.Kind == tidemark.OnRows || alters(p) {
		return im.spec.Rules.Wants(id)
	}
	if _, ok := im.places[id.Schema]; ok {
		return true
	}
	// A database without tables, or a file that does not name its own.
	return im.spec.Rules.Wants(tidemark.TableID{Schema: id.Schema, Name: max(id.Name, "x")})
}

// strange reports whether a statement names a database other than the one that is copied: it would
// change what the target's URL does not name.
func strange(im *importJob, p *tidemark.Piece) bool {
	if len(im.places) == 0 || im.end.several || strings.EqualFold(im.from(p), im.tgt.Default()) {
		return false
	}
	for name := range im.places {
		if strings.EqualFold(name, im.from(p)) {
			return false
		}
	}
	return true
}

// from is the database that a statement of the file is about.
func (im *importJob) from(p *tidemark.Piece) string {
	if p.Table.Schema == "" {
		return im.tgt.Default()
	}
	return p.Table.Schema
}

// inPlace gives a statement of the file, run in the database that its names belong to.
func (im *importJob) inPlace(p *tidemark.Piece) []string {
	to, ok := im.places[im.from(p)]
	switch {
	case ok:
	case im.end.several:
		to = im.from(p)
	default:
		to = im.tgt.Default()
	}
	if to == "" || p.What == "" {
		return []string{p.SQL}
	}
	return []string{"USE `" + strings.ReplaceAll(to, "`", "``") + "`", p.SQL}
}
