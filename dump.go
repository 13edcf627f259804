package tidemark

import "fmt"

// A PieceKind is the kind of a Piece.
type PieceKind uint8

const (
	Rows      PieceKind = iota // rows as text, to be converted
	Define                     // a table begins: Def, and native DDL in Objects
	OnRows                     // a trigger of Table: as Execute, but before rows of its table that come after it
	Execute                    // SQL that an engine of the dump's kind can run, in order, after the rows: views, triggers, routines
	ExecuteAt                  // SQL that must run where it stands, such as rows that cannot be converted
	Schema                     // a database of the file: its CREATE DATABASE in SQL, its name in Table.Schema
	Beyond                     // SQL that is not run: it is about no table, row, program or setting of the session. What is its kind and place
)

// A Piece is what a dump file yields next.
type Piece struct {
	Kind    PieceKind
	ID      int     // Rows, and ExecuteAt where it makes rows: number of the piece, from 1, the same whenever the same file is read
	Table   TableID // Define, Rows, ExecuteAt; Schema is empty where the file names no database
	Def     *Table  // Define: the logical table; Rows: the same if the file has it, else nil; Execute of an ALTER TABLE: the table after it, nil if unknown
	Columns []string
	Objects []Object // Define: CREATE TABLE without secondary keys, and what adds these later
	SQL     string   // Execute, ExecuteAt
	What    string   // Execute: "view shop.v", for messages; Beyond: "CREATE USER (line 3)"
	Refuse  string   // why it must not run: "calls f"; "" it may. OnRows: not while rows are loaded. Beyond: the import is not complete without it
	Remedy  string   // what to do, if Refuse is about damage of the file
	AsSQL   bool     // Rows: a server of the dump's kind should run them as they are
	Offset  int64    // in the unpacked file, of its first byte
	Line    int64    // from 1
	Bytes   int64    // of text
	Rows    int64    // Rows: how many end in it; 1 where a long row begins
	Long    bool     // Rows: a long row begins; the next piece comes once it is converted
	Idle    bool     // Execute of a SET: it changes nothing for statements in ASCII that are not about rows
	Set     Settings // Rows, ExecuteAt: what the file has set up to here
	Text    any      // Rows: the engine's own
}

// Settings are the SETs of a dump up to a place in it, in their order. Of two with
// the same Version, the longer one begins with the shorter.
type Settings struct {
	Version int
	SQL     []string
}

// A Statement of a dump makes rows that only a server of the dump's kind can evaluate, such as
// NOW(). The server runs it instead of taking rows.
type Statement struct {
	Set      Settings
	Database string // that its unqualified names are in; "" is the session's own
	SQL      string
}

// Damage is the error of a statement that is damaged in the file; nil if it is not. Kind BadInput.
func (p *Piece) Damage(op, object string) error {
	if p.Remedy == "" {
		return nil
	}
	return &Error{Kind: BadInput, Op: op, Object: object, Err: fmt.Errorf("the statement at line %d %s", p.Line, p.Refuse), Hint: p.Remedy}
}
