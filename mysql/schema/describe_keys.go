package schema

import (
	"regexp"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// jsonCheck matches the check with which MariaDB marks a column declared JSON.
var jsonCheck = regexp.MustCompile("^\\(*json_valid\\(`((?:[^`]|``)+)`\\)\\)*$")

// readChecks runs before the columns are read, because on MariaDB a check makes a longtext JSON.
func (d *describer) readChecks() error {
	sql := "SELECT CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, CHECK_CLAUSE FROM information_schema.CHECK_CONSTRAINTS WHERE " + d.inScope("CONSTRAINT_SCHEMA")
	if !d.e.MariaDB {
		if !d.e.AtLeast(8, 0, 16) {
			return nil // older versions parse checks and discard them
		}
		sql = "SELECT t.TABLE_SCHEMA, t.TABLE_NAME, t.CONSTRAINT_NAME, c.CHECK_CLAUSE, t.ENFORCED FROM information_schema.TABLE_CONSTRAINTS t " +
			"JOIN information_schema.CHECK_CONSTRAINTS c ON c.CONSTRAINT_SCHEMA = t.CONSTRAINT_SCHEMA AND c.CONSTRAINT_NAME = t.CONSTRAINT_NAME " +
			"WHERE t.CONSTRAINT_TYPE = 'CHECK' AND " + d.inScope("t.TABLE_SCHEMA") + " ORDER BY 1, 2, 3"
	}
	return d.each(sql, func(r rowReader) {
		id, expr := r.id(), r.text(3)
		t := d.tables[id]
		if t == nil {
			return
		}
		if !d.e.MariaDB {
			expr = plainQuotes(expr)
		} else if m := jsonCheck.FindStringSubmatch(expr); m != nil {
			d.json[columnID{id, strings.ReplaceAll(m[1], "``", "`")}] = true
			return
		}
		check := tidemark.Check{Name: r.text(2), Expr: expr}
		if !d.e.MariaDB && r.text(4) == "NO" {
			check.Unchecked = tidemark.NotEnforced
		}
		t.Checks = append(t.Checks, check)
	})
}

func (d *describer) readIndexes() error {
	expr := "NULL"
	if !d.e.MariaDB && d.e.AtLeast(8, 0, 13) {
		expr = "EXPRESSION"
	}
	return d.each("SELECT TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, NON_UNIQUE, COLUMN_NAME, COLLATION, SUB_PART, INDEX_TYPE, INDEX_COMMENT, SEQ_IN_INDEX, "+
		expr+" FROM information_schema.STATISTICS WHERE "+d.inScope("TABLE_SCHEMA"), func(r rowReader) {
		t := d.tables[r.id()]
		if t == nil {
			return
		}
		part := tidemark.IndexPart{Column: r.text(4), Desc: r.text(5) == "D", Prefix: int(r.int(6, 0))}
		if !r.null(10) {
			part.Expr = plainQuotes(r.text(10))
		}
		method := strings.ToLower(r.text(7))
		if method == "btree" || method == "rtree" {
			method = strings.TrimSuffix(method, "btree")
			method = strings.Replace(method, "rtree", "spatial", 1)
		}
		if method == "spatial" || method == "fulltext" {
			part.Prefix = 0 // spatial: length of the bounding box; fulltext: meaningless
		}
		name := r.text(2)
		seq := int(r.int(9, 1))
		x := indexOf(t, name)
		if x == nil {
			unique := r.int(3, 1) == 0
			made := tidemark.Index{Name: name, Unique: unique, Constraint: unique, Method: method, Comment: r.text(8)}
			if name == "PRIMARY" {
				t.Key = &made
				x = t.Key
			} else {
				t.Indexes = append(t.Indexes, made)
				x = &t.Indexes[len(t.Indexes)-1]
			}
		}
		for len(x.Parts) < seq {
			x.Parts = append(x.Parts, tidemark.IndexPart{})
		}
		x.Parts[seq-1] = part
	})
}

func indexOf(t *tidemark.Table, name string) *tidemark.Index {
	if name == "PRIMARY" {
		return t.Key
	}
	for i := range t.Indexes {
		if t.Indexes[i].Name == name {
			return &t.Indexes[i]
		}
	}
	return nil
}

func (d *describer) readForeignKeys() error {
	type fkID struct {
		table tidemark.TableID
		name  string
	}
	actions := map[fkID][2]string{}
	err := d.each("SELECT CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, UPDATE_RULE, DELETE_RULE FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE "+
		d.inScope("CONSTRAINT_SCHEMA"), func(r rowReader) {
		rules := [2]string{r.text(3), r.text(4)}
		for i := range rules {
			if d.e.MariaDB && rules[i] == "RESTRICT" { // what it calls its default; SHOW CREATE, and so dumps, say nothing
				rules[i] = "NO ACTION"
			}
		}
		actions[fkID{r.id(), r.text(2)}] = rules
	})
	if err != nil {
		return err
	}
	return d.each("SELECT TABLE_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, COLUMN_NAME, REFERENCED_TABLE_SCHEMA, REFERENCED_TABLE_NAME, REFERENCED_COLUMN_NAME "+
		"FROM information_schema.KEY_COLUMN_USAGE WHERE "+d.inScope("TABLE_SCHEMA")+" AND REFERENCED_TABLE_NAME IS NOT NULL "+
		"ORDER BY TABLE_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, ORDINAL_POSITION", func(r rowReader) {
		t := d.tables[r.id()]
		if t == nil {
			return
		}
		name := r.text(2)
		if n := len(t.ForeignKeys); n == 0 || t.ForeignKeys[n-1].Name != name {
			action := actions[fkID{t.TableID, name}]
			t.ForeignKeys = append(t.ForeignKeys, tidemark.ForeignKey{Name: name, OnUpdate: action[0], OnDelete: action[1],
				Ref: tidemark.TableID{Schema: r.text(4), Name: r.text(5)}})
		}
		f := &t.ForeignKeys[len(t.ForeignKeys)-1]
		f.Columns = append(f.Columns, r.text(3))
		f.RefColumns = append(f.RefColumns, r.text(6))
	})
}
