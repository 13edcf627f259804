package schema

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// Describe reads the catalogue: the tables that want selects (nil: all) in logical form, and all
// native objects as DDL. Names in DDL are qualified. After Freeze it locks these tables against
// ALTER until the snapshot ends, as far as the server's lock table has room.
func (s *Schema) Describe(ctx context.Context, want func(tidemark.TableID) bool) (*tidemark.Database, error) {
	return s.describe(ctx, want, false)
}

// Tables reads the logical form of these tables and views. Those that do not exist are missing.
func (s *Schema) Tables(ctx context.Context, names []tidemark.TableID) ([]*tidemark.Table, error) {
	wanted := map[tidemark.TableID]bool{}
	for _, id := range names {
		wanted[id] = true
	}
	db, err := s.describe(ctx, func(id tidemark.TableID) bool { return wanted[id] }, true)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(db.Tables, func(t *tidemark.Table) bool { return !wanted[t.TableID] }), nil
}

func (s *Schema) describe(ctx context.Context, want func(tidemark.TableID) bool, logical bool) (*tidemark.Database, error) {
	conn, release, err := s.Leader(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	for try := time.Duration(1); ; try++ {
		db, err := describe(ctx, conn, s.Options, want, logical)
		switch {
		case err == nil:
			return db, nil
		case !vanished(err) || conn.PgConn().TxStatus() != 'I':
			return nil, s.Fail(ctx, "read the catalogue of", s.Object, err)
		case try == describeTries:
			return nil, &tidemark.Error{Op: "read the catalogue of", Object: s.Object, Kind: tidemark.Transient, Err: err,
				Hint: "Objects were dropped during each attempt to read it: start again when the schema is quiet."}
		}
		select {
		case <-ctx.Done(): // the next attempt says so
		case <-time.After(try * 50 * time.Millisecond):
		}
	}
}

// describeTries is how often the catalogue is read while objects are being dropped.
const describeTries = 10

// vanished reports whether a catalogue query found an object that was dropped since the query
// began: pg_get_indexdef and the like read the current catalogue, and fail or return NULL.
func vanished(err error) bool {
	switch server.SQLState(err) {
	case "XX000": // the server does not translate these messages
		for _, text := range []string{"cache lookup failed", "could not open relation", "could not find"} {
			if strings.Contains(err.Error(), text) {
				return true
			}
		}
	case "42P01", "42703", "42704", "42883", "3F000": // a name that the query resolved from an OID
		return true
	}
	return strings.Contains(err.Error(), "cannot scan NULL into")
}

// An address names an object of the catalogue as pg_depend does: by the OID of its catalogue table
// and its own OID.
type address struct{ class, id uint32 }

// named identifies an object that has its own name in a schema.
type named struct {
	OID          uint32
	Schema, Name string
	SQL          string // qualified and quoted
}

// inSQL returns the name as a part of the SQL if it stands there unquoted, so that one text serves
// both.
func (n *named) inSQL() string {
	if at := len(n.SQL) - len(n.Name); at > 0 && n.SQL[at:] == n.Name {
		return n.SQL[at:]
	}
	return n.Name
}

// OIDs of catalogue tables; they are the same on every server (catalog/pg_*.h).
const (
	classDefault    = 826
	classProc       = 1255
	classType       = 1247
	classClass      = 1259
	classServer     = 1417
	classUserMap    = 1418
	classAM         = 2601
	classAmop       = 2602
	classAmproc     = 2603
	classAttrdef    = 2604
	classCast       = 2605
	classConstraint = 2606
	classConversion = 2607
	classLanguage   = 2612
	classLargeObj   = 2613
	classNamespace  = 2615
	classOpclass    = 2616
	classOperator   = 2617
	classRewrite    = 2618
	classTrigger    = 2620
	classOpfamily   = 2753
	classLoMeta     = 2995
	classFDW        = 2328
	classExtension  = 3079
	classPolicy     = 3256
	classStatExt    = 3381
	classCollation  = 3456
	classEventTrig  = 3466
	classTransform  = 3576
	classTSDict     = 3600
	classTSParser   = 3601
	classTSConfig   = 3602
	classTSTemplate = 3764
	classPub        = 6104
	classPubRel     = 6106
	classPubSchema  = 6237
)

// A catalogue is a database's catalogue in memory, read by a fixed number of queries for any number
// of tables. The logical tables (describe_logical.go) and, by a creator, the native objects
// (native.go) are made from it.
type catalogue struct {
	conn *pgx.Conn
	num  int // server_version_num
	db   *tidemark.Database
	opt  server.Options
	want func(tidemark.TableID) bool

	types     map[uint32]*pgType
	relations map[uint32]*relation
	ordered   []*relation // by schema and name
	indexes   []*index
	sequences map[uint32]*sequence
	fresh     []*sequence                  // those that have not returned a value yet
	byName    map[string]*sequence         // by qualified and quoted name
	words     map[uint32]string            // SQL of operator classes and collations in indexes
	texts     map[address]map[int32]string // comments, per column
	lobs      bool                         // there are large objects
	origins   *origins
	ahead     questions
	alike     map[uint64]columns // by a sum of their shapes
	seed      maphash.Seed
}

// Origins record where objects without DDL of their own come from.
type origins struct {
	member map[address]uint32  // objects of extensions
	alias  map[address]address // objects that come with another one
	silent map[address]bool    // accounted for, but nothing is created for them
}

// describe reads the catalogue through conn, whose search_path must be pg_catalog, so that the
// server's own functions qualify every name. If only the logical tables are asked for, native
// objects are left out.
func describe(ctx context.Context, conn *pgx.Conn, opt server.Options, want func(tidemark.TableID) bool, logical bool) (*tidemark.Database, error) {
	if want == nil {
		want = func(tidemark.TableID) bool { return true }
	}
	c := newCatalogue(conn, opt, want)
	create := newCreator(c)
	if err := c.readServer(ctx); err != nil {
		return nil, err
	}
	if err := c.lockTables(ctx); err != nil {
		return nil, err
	}
	if err := create.together(ctx, (*creator).readMembers, (*creator).readTypes, (*creator).readRelations, (*creator).readColumns, (*creator).readInheritance,
		(*creator).readConstraints, (*creator).readDefaults, (*creator).readIndexes, (*creator).readSequences); err != nil {
		return nil, err
	}
	if err := c.readFreshSequences(ctx); err != nil {
		return nil, err
	}
	if err := c.readIndexSizes(ctx); err != nil {
		return nil, err
	}
	if logical {
		if err := create.readComments(ctx); err != nil {
			return nil, err
		}
		c.addTables()
		return c.db, nil
	}
	if err := create.together(ctx, (*creator).readClasses, (*creator).addNative, (*creator).readOpclassMembers, (*creator).readDependencies,
		(*creator).readComments, (*creator).readLabels, (*creator).readOwners, (*creator).readLargeObjects, (*creator).readGrants, (*creator).readLimits,
		(*creator).readLoose, (*creator).readUncovered, (*creator).finishNative); err != nil {
		return nil, err
	}
	c.dropGraph()
	c.addTables()
	return c.db, nil
}

// dropGraph lets go of the nodes, which are as large as what is made of them.
func (c *catalogue) dropGraph() {
	for _, r := range c.ordered {
		r.node = nil
		for _, k := range r.checks {
			k.node = nil
		}
		for _, k := range r.fks {
			k.node = nil
		}
		for _, k := range r.keys {
			k.node = nil
		}
		for _, x := range r.indexes {
			x.node, x.build = nil, nil
		}
		for _, col := range r.columns {
			if col.def != nil {
				col.def.node = nil
			}
		}
	}
}

// since returns text if the server has at least this major version, else otherwise.
func (c *catalogue) since(major int, text, otherwise string) string {
	if c.num >= major*10000 {
		return text
	}
	return otherwise
}

func (c *catalogue) find(s tidemark.Severity, object, text, hint string) {
	f := tidemark.Finding{Severity: s, Object: object, Text: text, Hint: hint}
	if s == tidemark.Blocker {
		f.Kind = tidemark.Unsupported
	}
	c.db.Findings = append(c.db.Findings, f)
}

func (c *catalogue) readServer(ctx context.Context) error {
	err := c.conn.QueryRow(ctx, `
		SELECT split_part(current_setting('server_version'), ' ', 1), current_setting('server_version_num')::int, d.datname,
		       pg_encoding_to_char(d.encoding), d.datcollate
		FROM pg_database d WHERE d.datname = current_database()`, pgx.QueryExecModeExec).
		Scan(&c.db.Version, &c.num, &c.db.Name, &c.db.Charset, &c.db.Collate)
	c.db.Major = c.num / 10000
	return err
}

// userSchema is a condition on a schema n: neither the server's own nor that of a DDLLog.
const userSchema = `n.nspname NOT IN ('information_schema', '` + DDLSchema + `') AND n.nspname !~ '^pg_'`

// notMember returns a condition that excludes the objects of extensions.
func notMember(class int, oid string) string {
	return fmt.Sprintf(`%s NOT IN (SELECT objid FROM pg_depend WHERE classid = %d AND deptype = 'e')`, oid, class) // few, so it is hashed
}

// lockTables protects wanted tables from ALTER and DROP while the frozen view is read. A failing
// statement would end the transaction and the view, so it runs in a savepoint. It takes at most
// half of the lock table, for the sake of other sessions.
func (c *catalogue) lockTables(ctx context.Context) error {
	if c.conn.PgConn().TxStatus() != 'T' {
		return nil
	}
	type table struct {
		Schema, Name, SQL string
		Room              int64
	}
	found, err := rows[table](ctx, c, `
		SELECT n.nspname, c.relname, format('%I.%I', n.nspname, c.relname),
		       current_setting('max_locks_per_transaction')::bigint * (current_setting('max_connections')::bigint
		       + current_setting('max_prepared_transactions')::bigint)
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind IN ('r', 'p') AND c.relpersistence <> 't' AND has_table_privilege(c.oid, 'SELECT') AND `+userSchema)
	if err != nil {
		return err
	}
	var names []string
	for _, t := range found {
		if c.want(tidemark.TableID{Schema: t.Schema, Name: t.Name}) {
			names = append(names, t.SQL)
		}
	}
	if len(names) == 0 {
		return nil
	}
	const hint = "Do not change the schema during the copy, or raise max_locks_per_transaction on the source."
	if int64(len(names)) > found[0].Room/2 {
		c.find(tidemark.Note, "", fmt.Sprintf("%d tables are not locked against ALTER and DROP during the copy: the lock table of the source has room for %d",
			len(names), found[0].Room), hint)
		return nil
	}
	if _, err := c.conn.Exec(ctx, "SAVEPOINT tidemark_lock"); err != nil {
		return err
	}
	if _, err := c.conn.Exec(ctx, "LOCK TABLE ONLY "+strings.Join(names, ", ONLY ")+" IN ACCESS SHARE MODE"); err != nil {
		if _, undo := c.conn.Exec(ctx, "ROLLBACK TO SAVEPOINT tidemark_lock"); undo != nil {
			return err
		}
		c.find(tidemark.Note, "", "tables are not locked against ALTER and DROP during the copy: "+server.PlainCause(err), hint)
	}
	return nil
}

// readMembers records the objects of extensions, which CREATE EXTENSION creates.
func (c *catalogue) readMembers(ctx context.Context) error {
	type member struct{ Class, ID, Extension uint32 }
	found, err := rows[member](ctx, c, `SELECT classid, objid, refobjid FROM pg_depend WHERE deptype = 'e'`)
	for _, m := range found {
		c.origins.member[address{m.Class, m.ID}] = m.Extension
	}
	if err != nil {
		return err
	}
	// A range type creates its constructor functions, a view its rule, a constraint trigger its
	// constraint.
	type part struct{ Class, ID, WholeClass, Whole uint32 }
	made, err := rows[part](ctx, c, `
		SELECT classid, objid, refclassid, refobjid FROM pg_depend WHERE classid = 1255 AND refclassid = 1247 AND deptype = 'i'
		UNION ALL SELECT 2618, oid, 1259, ev_class FROM pg_rewrite WHERE rulename = '_RETURN' AND oid >= 16384
		UNION ALL SELECT 2606, tgconstraint, 2620, oid FROM pg_trigger WHERE tgconstraint <> 0 AND NOT tgisinternal`)
	for _, m := range made {
		c.origins.alias[address{m.Class, m.ID}] = address{m.WholeClass, m.Whole}
	}
	return err
}

func (c *catalogue) readTypes(ctx context.Context) error {
	found, err := rows[pgType](ctx, c, fmt.Sprintf(typesSQL, c.since(14, "OR r.rngmultitypid = t.oid", "")))
	for _, t := range found {
		c.types[t.OID] = t
	}
	// Dependencies on an array become dependencies on its element, those on a multirange on its
	// range, and those on a row type on its table.
	for _, t := range found {
		if t.Array != 0 {
			c.origins.alias[address{classType, t.Array}] = address{classType, t.OID}
		}
		if t.Range != 0 {
			c.origins.alias[address{classType, t.OID}] = address{classType, t.Range}
		}
		if t.Rel != 0 && t.RelKind != "c" {
			c.origins.alias[address{classType, t.OID}] = address{classClass, t.Rel}
		} else if t.Rel != 0 {
			c.origins.alias[address{classClass, t.Rel}] = address{classType, t.OID}
		}
	}
	return err
}

// LargeObjects is the table name under which large objects are copied.
var LargeObjects = tidemark.TableID{Schema: "pg_catalog", Name: "pg_largeobject"}

// DDLSchema contains a DDLLog's function. It is not part of the described database.
const DDLSchema = "tidemark_ddl"

// notOurs returns a condition on a name: not one of a DDLLog.
func notOurs(column string) string { return column + " !~ '^" + DDLSchema + "'" }
