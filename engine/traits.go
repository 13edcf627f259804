// Package engine is the table of what engines differ in where a job has to know it: one row of
// traits for each. Jobs ask for a trait, never for a name: an engine that lacks a row, or a trait,
// is treated as one that has nothing special. What engines do is in their own packages, and in the
// interfaces of the jobs that ask for it.
package engine

import (
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// The names of engines, as their Name method, descriptions, plans and manifests have them. Outside
// the rooms of engines they are keys of tables: layout_test.go allows no comparison with them.
const (
	Postgres = "postgres"
	MySQL    = "mysql"
	MariaDB  = "mariadb"
	Db2      = "db2"
)

// Traits are what jobs have to know of an engine. The zero value is an engine without special
// needs.
type Traits struct {
	Name    string
	Family  string   // the engine whose SQL it speaks: MySQL for MariaDB too
	Title   string   // for people
	Schemes []string // of its URLs; the first is the usual one
	Port    string   // its usual port, if relays may connect to it
	Example string   // a URL for messages
	Program string   // what its server is called among the processes of a machine
	Names
	Rows
	Definitions
	Log
}

// Names are how an engine names what it has.
type Names struct {
	Quote               string // of names in SQL
	MySQLSyntax         bool   // quotes, escapes and names in any case as in MySQL; otherwise as in the standard
	DefaultSchema       string // of tables that are named without one; "": the URL or the user decides
	SchemasAreDatabases bool
	NameBytes           int // it silently cuts longer names; 0: it refuses them
}

// Rows are what an engine's rows can have, and how they travel.
type Rows struct {
	Text         tidemark.Format // in which rows travel unconverted between two of a family
	Binary       bool            // between two of a family they can be CopyBinary too
	MySQLTypes   bool            // types are spelled, and numbered in the log, as mysqltype has them
	LargeObjects bool
	ZeroDates    bool // it stores dates such as 0000-00-00
	CheapRanges  bool // small ranges of a large table cost it little
}

// Definitions are what an engine demands of the order of definitions, and which it has.
type Definitions struct {
	KeysBeforeForeignKeys bool // a foreign key needs the finished key that it references
	ViewsHoldTables       bool // a table cannot be dropped while a view reads it
	ForeignKeysOff        bool // a session can switch foreign keys off, to empty tables in any order
	SequencesApart        bool // a sequence is an object of its own, never part of a table
	RunsDumps             bool // it runs the SQL of mysqldump, mariadb-dump and mydumper
	TriggersFire          bool // no session can switch triggers off
	UnnamedRoutines       bool // other engines' renderers do not name its views, triggers and routines
}

// Log is what an engine's log has, and how long.
type Log struct {
	KeepsLog      bool    // for a stream that is not running: its slot is created, and removed
	KeepsRecords  bool    // tidemark records what the log does not say, until nobody needs it again
	LogsSchema    bool    // two of this engine can replicate definitions in their place in the log
	OldKeysOnly   bool    // of old rows the log has only the key, unless their table says otherwise
	HidesCascades bool    // the log lacks what CASCADE and SET NULL do to rows
	Skips         bool    // single events of the log can be left out
	CommitStep    float64 // seconds between two commit times that the log distinguishes; 0: too few to matter
	StampsSystem  bool    // the stamp of a position begins with the identifier of the cluster
}

var table = []Traits{
	{
		Name: Postgres, Family: Postgres, Title: "PostgreSQL", Schemes: []string{"postgres", "postgresql"}, Example: "postgres://user@host/db", Port: "5432", Program: "postgres",
		Names:       Names{Quote: `"`, DefaultSchema: "public", NameBytes: 63},
		Rows:        Rows{Text: tidemark.CopyText, Binary: true, LargeObjects: true, CheapRanges: true},
		Definitions: Definitions{KeysBeforeForeignKeys: true, ViewsHoldTables: true},
		Log:         Log{KeepsLog: true, LogsSchema: true, OldKeysOnly: true, StampsSystem: true},
	},
	mysql(MySQL, "MySQL", "mysqld", 0),
	mysql(MariaDB, "MariaDB", "mariadbd", 1),
	{
		Name: Db2, Family: Db2, Title: "Db2", Schemes: []string{"db2"}, Example: "db2://user@host/DB",
		Names: Names{Quote: `"`},
		Rows:  Rows{Text: tidemark.CopyText},
	},
}

func mysql(name, title, program string, commitStep float64) Traits {
	return Traits{
		Name: name, Family: MySQL, Title: title, Schemes: []string{name}, Example: name + "://user@host/db", Port: "3306", Program: program,
		Names:       Names{Quote: "`", MySQLSyntax: true, SchemasAreDatabases: true},
		Rows:        Rows{Text: tidemark.LoadData, MySQLTypes: true, ZeroDates: true},
		Definitions: Definitions{ForeignKeysOff: true, SequencesApart: true, RunsDumps: true, TriggersFire: true, UnnamedRoutines: true},
		Log:         Log{KeepsRecords: true, HidesCascades: true, Skips: true, CommitStep: commitStep},
	}
}

// Of returns the traits of an engine by its name; of any other name, traits that have only that.
func Of(name string) Traits {
	for i := range table {
		if table[i].Name == name {
			return table[i]
		}
	}
	return Traits{Name: name, Family: name, Title: name, Names: Names{Quote: `"`}}
}

// OfURL returns the traits of the engine that a URL, masked or not, names by its scheme: of MySQL
// where the server may be MariaDB, which only it knows. Zero: of none.
func OfURL(url string) Traits {
	scheme, _, _ := strings.Cut(url, "://")
	for i := range table {
		for _, s := range table[i].Schemes {
			if strings.EqualFold(s, scheme) {
				return Of(table[i].Family)
			}
		}
	}
	return Traits{}
}

// Family returns the engine whose SQL an engine speaks: MySQL for MariaDB too.
func Family(name string) string { return Of(name).Family }

// Members returns the engines of a family, the one that it is named after first.
func Members(family string) (all []Traits) {
	for i := range table {
		if table[i].Family == family {
			all = append(all, table[i])
		}
	}
	return all
}

// Programs returns what the servers of all engines are called among the processes of a machine.
func Programs() (names []string) {
	for i := range table {
		if table[i].Program != "" {
			names = append(names, table[i].Program)
		}
	}
	return names
}

// Add adds an engine to the table: one that only a test has.
func Add(t Traits) { table = append(table, t) }
