package schema

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// readOwners creates a statement per object that sets its owner. Render omits these unless the user
// asks for owners; neither are they read then.
func (c *creator) readOwners(ctx context.Context) error {
	if !c.opt.Owners {
		return nil
	}
	type role struct {
		OID  uint32
		Name string
	}
	found, err := rows[role](ctx, c.catalogue, `SELECT oid, quote_ident(rolname) FROM pg_roles`)
	if err != nil {
		return err
	}
	names := map[uint32]string{}
	for _, r := range found {
		names[r.OID] = r.Name
	}
	for _, n := range slices.Clone(c.graph.nodes) {
		if n.owner == 0 || names[n.owner] == "" || n.kind == "extension" {
			continue
		}
		keyword := strings.ToUpper(n.kind)
		switch n.kind {
		case "extended statistics":
			keyword = "STATISTICS"
		case "shell type":
			keyword = "TYPE"
		}
		o := c.graph.add(address{}, &node{kind: "owner", name: keyword + " " + n.name, rel: n.rel, phase: tidemark.AfterRows,
			sql: []string{"ALTER " + keyword + " " + n.name + " OWNER TO " + names[n.owner]}})
		c.graph.need(o, n)
		c.graph.owners[n] = o
	}
	return nil
}

// grantsSQL lists, per object, what its access list has in addition to (given) and lacks from (not
// given) the one that it was created with. For objects of the server and of extensions it returns
// the name, since nothing else of them is copied.
const grantsSQL = `
WITH born(class, id, sub, kind, col, acl, base, owner) AS (
     SELECT 1259, oid, 0, CASE relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, NULL::name, relacl,
            acldefault(CASE relkind WHEN 'S' THEN 's'::"char" ELSE 'r' END, relowner), relowner FROM pg_class WHERE relacl IS NOT NULL
     UNION ALL SELECT 1259, attrelid, attnum, 'TABLE', attname, attacl, NULL::aclitem[], c.relowner
            FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid WHERE attacl IS NOT NULL AND NOT attisdropped
     UNION ALL SELECT 1255, oid, 0, CASE prokind WHEN 'p' THEN 'PROCEDURE' ELSE 'FUNCTION' END, NULL, proacl, acldefault('f', proowner), proowner FROM pg_proc WHERE proacl IS NOT NULL
     UNION ALL SELECT 1247, oid, 0, CASE typtype WHEN 'd' THEN 'DOMAIN' ELSE 'TYPE' END, NULL, typacl, acldefault('T', typowner), typowner FROM pg_type WHERE typacl IS NOT NULL
     UNION ALL SELECT 2615, n.oid, 0, 'SCHEMA', NULL, nspacl, acldefault('n', nspowner), nspowner
            FROM pg_namespace n WHERE nspacl IS NOT NULL AND ` + userSchema + `
     UNION ALL SELECT 2612, oid, 0, 'LANGUAGE', NULL, lanacl, acldefault('l', lanowner), lanowner FROM pg_language WHERE lanacl IS NOT NULL
     UNION ALL SELECT 2328, oid, 0, 'FOREIGN DATA WRAPPER', NULL, fdwacl, acldefault('F', fdwowner), fdwowner FROM pg_foreign_data_wrapper WHERE fdwacl IS NOT NULL
     UNION ALL SELECT 1417, oid, 0, 'FOREIGN SERVER', NULL, srvacl, acldefault('S', srvowner), srvowner FROM pg_foreign_server WHERE srvacl IS NOT NULL
     UNION ALL SELECT 2613, oid, 0, 'LARGE OBJECT', NULL, lomacl, acldefault('L', lomowner), lomowner FROM pg_largeobject_metadata WHERE lomacl IS NOT NULL),
acls AS (SELECT b.class, b.id, b.sub, b.kind, b.col, b.acl, coalesce(i.initprivs, b.base) AS base, b.owner
     FROM born b LEFT JOIN pg_init_privs i ON i.classoid = b.class AND i.objoid = b.id AND i.objsubid = b.sub),
diff AS (
     SELECT class, id, sub, kind, col, owner, x.grantee, x.privilege_type, x.is_grantable, true AS given, x.n FROM acls, aclexplode(acl) WITH ORDINALITY x(grantor, grantee, privilege_type, is_grantable, n)
     WHERE NOT EXISTS (SELECT FROM aclexplode(base) b WHERE b.grantee = x.grantee AND b.privilege_type = x.privilege_type AND b.is_grantable = x.is_grantable)
     UNION ALL
     SELECT class, id, sub, kind, col, owner, x.grantee, x.privilege_type, x.is_grantable, false, x.n FROM acls, aclexplode(base) WITH ORDINALITY x(grantor, grantee, privilege_type, is_grantable, n)
     WHERE NOT EXISTS (SELECT FROM aclexplode(acl) b WHERE b.grantee = x.grantee AND b.privilege_type = x.privilege_type)
     UNION ALL -- what everybody had before 15 and was born with, and has no more on a newer target
     SELECT class, id, sub, kind, col, owner, x.grantee, x.privilege_type, x.is_grantable, true, x.n FROM acls, aclexplode(acl) WITH ORDINALITY x(grantor, grantee, privilege_type, is_grantable, n)
     WHERE class = 2615 AND id = 2200 AND x.grantee = 0 AND x.privilege_type = 'CREATE' AND current_setting('server_version_num')::int < 150000)
SELECT d.class::oid, d.id, d.kind, d.class IN (1247, 1255, 1259, 2612) AND d.id < 16384,
       CASE WHEN d.class IN (1247, 1255, 1259, 2612) AND d.id < 16384 OR EXISTS (SELECT FROM pg_depend e WHERE e.classid = d.class AND e.objid = d.id AND e.deptype = 'e')
            THEN coalesce(CASE d.class -- pg_identify_object ends the server if the object's schema was dropped meanwhile
                 WHEN 1259 THEN (SELECT format('%I.%I', n.nspname, o.relname) FROM pg_class o JOIN pg_namespace n ON n.oid = o.relnamespace WHERE o.oid = d.id)
                 WHEN 1247 THEN (SELECT format('%I.%I', n.nspname, o.typname) FROM pg_type o JOIN pg_namespace n ON n.oid = o.typnamespace WHERE o.oid = d.id)
                 WHEN 1255 THEN (SELECT format('%I.%I(%s)', n.nspname, o.proname, (SELECT string_agg(format_type(a.t, NULL), ',' ORDER BY a.i) FROM unnest(o.proargtypes) WITH ORDINALITY a(t, i)))
                                 FROM pg_proc o JOIN pg_namespace n ON n.oid = o.pronamespace WHERE o.oid = d.id)
                 WHEN 2612 THEN (SELECT quote_ident(o.lanname) FROM pg_language o WHERE o.oid = d.id)
                 WHEN 2615 THEN (SELECT quote_ident(o.nspname) FROM pg_namespace o WHERE o.oid = d.id)
                 WHEN 2328 THEN (SELECT quote_ident(o.fdwname) FROM pg_foreign_data_wrapper o WHERE o.oid = d.id)
                 WHEN 1417 THEN (SELECT quote_ident(o.srvname) FROM pg_foreign_server o WHERE o.oid = d.id)
                 ELSE d.id::text END, '') ELSE '' END, coalesce(quote_ident(d.col), ''), d.given, d.grantee = d.owner,
       CASE WHEN d.grantee = 0 THEN 'PUBLIC' ELSE coalesce(quote_ident(r.rolname), '') END, d.is_grantable,
       array_agg(d.privilege_type ORDER BY d.privilege_type)
FROM diff d LEFT JOIN pg_roles r ON r.oid = d.grantee
WHERE NOT (d.class = 1259 AND d.given AND d.grantee = 0 AND d.id < 16384 -- what all may read of information_schema stands in no pg_init_privs
     AND EXISTS (SELECT FROM pg_class c WHERE c.oid = d.id AND c.relnamespace = 'information_schema'::regnamespace))
GROUP BY d.class, d.id, d.sub, d.kind, d.col, d.given, d.grantee, d.owner, r.rolname, d.is_grantable
ORDER BY d.class, d.id, d.given, d.sub, min(d.n)`

// readGrants creates one object per access list. The owner's own privileges are set by the
// statement that changes the owner.
func (c *creator) readGrants(ctx context.Context) error {
	if !c.opt.Grants {
		return nil
	}
	type grant struct {
		Class, ID      uint32
		Kind           string
		System         bool   // it belongs to the server
		Member         string // name of an object of an extension or of the server
		Col            string
		Given, ToOwner bool
		Grantee        string
		Grantable      bool
		Privileges     []string
	}
	found, err := rows[grant](ctx, c.catalogue, grantsSQL)
	if err != nil {
		return err
	}
	g := &c.graph
	made := map[address]*node{}
	for _, f := range found {
		a := address{f.Class, f.ID}
		if f.System {
			if object := f.Kind + " " + f.Member; !f.ToOwner && f.Grantee != "" { // the owner may do everything
				if made[a] == nil {
					made[a] = g.add(address{}, &node{kind: "grant", name: object, phase: tidemark.AfterRows})
				}
				made[a].sql = append(made[a].sql, grantStatement(f.Given, f.Grantable, f.Privileges, f.Col, object, f.Grantee))
			}
			continue
		}
		n, about := c.spoken(a, 0)
		if f.Member != "" {
			n, about = g.resolve(a), f.Kind+" "+f.Member
		}
		if f.Class == classLargeObj {
			n, about = g.lobOwners, fmt.Sprintf("LARGE OBJECT %d", f.ID)
		}
		if n == nil || f.Grantee == "" || f.Class == classLargeObj && len(n.sql) == 0 || f.Class != classClass && f.Class != classLargeObj && f.Member == "" && g.byID[a] == nil {
			continue // a range type's constructors and multirange follow their type
		}
		// VIEW, MATERIALIZED VIEW, DOMAIN and others have no keyword of their own in GRANT.
		object := f.Kind + " " + n.name
		if f.Class == classLargeObj || f.Member != "" {
			object = about
		} else if f.Class == classClass && n.kind == "table" && f.Kind == "SEQUENCE" {
			object = about // of an identity column
		}
		statement := grantStatement(f.Given, f.Grantable, f.Privileges, f.Col, object, f.Grantee)
		if f.ToOwner {
			if o := g.owners[n]; o != nil {
				o.sql = append(o.sql, statement)
			}
			continue
		}
		if made[a] == nil {
			made[a] = g.add(address{}, &node{kind: "grant", name: object, rel: n.rel, phase: tidemark.AfterRows})
			g.need(made[a], n)
			g.need(made[a], g.owners[n])
		}
		made[a].sql = append(made[a].sql, statement)
	}
	return c.readDefaultPrivileges(ctx)
}

func grantStatement(given, grantable bool, privileges []string, col, object, grantee string) string {
	list := strings.Join(privileges, ", ")
	if col != "" {
		list = strings.Join(privileges, "("+col+"), ") + "(" + col + ")"
	}
	if !given {
		return "REVOKE " + list + " ON " + object + " FROM " + grantee
	}
	s := "GRANT " + list + " ON " + object + " TO " + grantee
	if grantable {
		s += " WITH GRANT OPTION"
	}
	return s
}

const defaultPrivilegesSQL = `
WITH acls AS (
     SELECT d.oid, d.defaclrole, d.defaclnamespace, d.defaclobjtype, d.defaclacl AS acl,
            CASE WHEN d.defaclnamespace = 0 THEN acldefault(CASE d.defaclobjtype WHEN 'S' THEN 's'::"char" ELSE d.defaclobjtype END, d.defaclrole) END AS base
     FROM pg_default_acl d),
diff AS (
     SELECT a.*, x.grantee, x.privilege_type, x.is_grantable, true AS given FROM acls a, aclexplode(acl) x
     WHERE NOT EXISTS (SELECT FROM aclexplode(base) b WHERE b.grantee = x.grantee AND b.privilege_type = x.privilege_type AND b.is_grantable = x.is_grantable)
     UNION ALL
     SELECT a.*, x.grantee, x.privilege_type, x.is_grantable, false FROM acls a, aclexplode(base) x
     WHERE NOT EXISTS (SELECT FROM aclexplode(acl) b WHERE b.grantee = x.grantee AND b.privilege_type = x.privilege_type))
SELECT d.oid, format('FOR ROLE %I%s ON %s', o.rolname, ' IN SCHEMA ' || quote_ident(n.nspname),
       CASE d.defaclobjtype WHEN 'r' THEN 'TABLES' WHEN 'S' THEN 'SEQUENCES' WHEN 'f' THEN 'FUNCTIONS' WHEN 'T' THEN 'TYPES' WHEN 'n' THEN 'SCHEMAS' ELSE 'LARGE OBJECTS' END),
       format('ALTER DEFAULT PRIVILEGES FOR ROLE %I%s %s %s ON %s %s %s%s', o.rolname, ' IN SCHEMA ' || quote_ident(n.nspname),
              CASE WHEN d.given THEN 'GRANT' ELSE 'REVOKE' END, string_agg(d.privilege_type, ', ' ORDER BY d.privilege_type),
              CASE d.defaclobjtype WHEN 'r' THEN 'TABLES' WHEN 'S' THEN 'SEQUENCES' WHEN 'f' THEN 'FUNCTIONS' WHEN 'T' THEN 'TYPES' WHEN 'n' THEN 'SCHEMAS' ELSE 'LARGE OBJECTS' END,
              CASE WHEN d.given THEN 'TO' ELSE 'FROM' END, CASE WHEN d.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(r.rolname) END,
              CASE WHEN d.given AND d.is_grantable THEN ' WITH GRANT OPTION' END)
FROM diff d JOIN pg_roles o ON o.oid = d.defaclrole LEFT JOIN pg_namespace n ON n.oid = d.defaclnamespace LEFT JOIN pg_roles r ON r.oid = d.grantee
GROUP BY d.oid, o.rolname, n.nspname, d.defaclobjtype, d.given, d.grantee, r.rolname, d.is_grantable
ORDER BY d.oid, d.given, r.rolname`

func (c *creator) readDefaultPrivileges(ctx context.Context) error {
	type privilege struct {
		OID       uint32
		Name, SQL string
	}
	found, err := rows[privilege](ctx, c.catalogue, defaultPrivilegesSQL)
	for _, f := range found {
		a := address{classDefault, f.OID}
		n := c.graph.byID[a]
		if n == nil {
			n = c.graph.add(a, &node{kind: "default privileges", name: f.Name, phase: tidemark.AfterRows})
		}
		n.sql = append(n.sql, f.SQL)
	}
	return err
}

// addLast makes event triggers wait for everything else, so that they do not fire on our own
// statements, and default privileges for everything that they would apply to.
func (c *creator) addLast() {
	var privileges, triggers []*node
	for _, n := range c.graph.nodes {
		switch n.kind {
		case "default privileges":
			privileges = append(privileges, n)
		case "event trigger":
			triggers = append(triggers, n)
		}
	}
	if len(privileges)+len(triggers) == 0 {
		return
	}
	after := map[*node]bool{} // nodes that follow an event trigger: they set its owner
	for _, t := range triggers {
		after[c.graph.owners[t]] = true
	}
	for _, n := range slices.Clone(c.graph.nodes) {
		if n.unit() != n || n.kind == "event trigger" || after[n] {
			continue
		}
		for _, t := range triggers {
			c.graph.after(t, n)
		}
		if n.kind != "default privileges" {
			for _, p := range privileges {
				c.graph.after(p, n)
			}
		}
	}
}

// readLargeObjects reads the comments and owners of large objects. The writer of their rows creates
// the objects themselves.
func (c *creator) readLargeObjects(ctx context.Context) error {
	type lob struct {
		OID     uint32
		Owner   string
		Comment string
	}
	found, err := rows[lob](ctx, c.catalogue, `SELECT l.oid, coalesce(quote_ident(r.rolname), ''), coalesce(d.description, '') FROM pg_largeobject_metadata l
		LEFT JOIN pg_roles r ON r.oid = l.lomowner LEFT JOIN pg_description d ON d.classoid = 2613 AND d.objoid = l.oid ORDER BY l.oid`)
	if len(found) == 0 || err != nil {
		return err
	}
	c.lobs = true
	comments := &node{kind: "comment", name: "LARGE OBJECTS", rel: lobRelation, phase: tidemark.AfterRows}
	owners := &node{kind: "owner", name: "LARGE OBJECTS", rel: lobRelation, phase: tidemark.AfterRows}
	for _, l := range found {
		if l.Comment != "" {
			comments.sql = append(comments.sql, fmt.Sprintf("COMMENT ON LARGE OBJECT %d IS %s", l.OID, server.QuoteLiteral(l.Comment)))
		}
		if l.Owner != "" {
			owners.sql = append(owners.sql, fmt.Sprintf("ALTER LARGE OBJECT %d OWNER TO %s", l.OID, l.Owner))
		}
	}
	for _, n := range []*node{comments, owners} {
		if len(n.sql) > 0 {
			c.graph.add(address{}, n)
		}
	}
	c.graph.lobOwners = owners
	return nil
}

// lobRelation is the relation under whose name the rows of large objects are copied.
var lobRelation = &relation{traits: &traits{}, named: named{Schema: LargeObjects.Schema, Name: LargeObjects.Name, SQL: "pg_catalog.pg_largeobject"}}
