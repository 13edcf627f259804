package server

import (
	"time"

	"github.com/tidemarkdb/tidemark"
)

// A Policy says what becomes of a value that the other side cannot hold.
type Policy uint8

const (
	Refuse Policy = iota // stop with an Error of Kind BadRow that names the value
	Null                 // NULL in its place
	Epoch                // zero dates only: 1970-01-01 in its place
)

// A Lock says how Freeze keeps writers out while the lanes take their snapshots.
type Lock uint8

const (
	LockAuto   Lock = iota // none where there is a binlog to tell by; otherwise Global, and Tables where RELOAD is not granted
	LockGlobal             // FLUSH TABLES WITH READ LOCK
	LockBackup             // MariaDB: BACKUP STAGE BLOCK_COMMIT; MySQL: LOCK INSTANCE FOR BACKUP until Close, besides Global
	LockTables             // LOCK TABLES ... READ on all tables of the database
	LockNone               // nothing: for a source that nobody writes to; Freeze looks whether that is so
)

// Options of an engine. The zero value is good.
type Options struct {
	ZeroDates       Policy                 // dates that are no dates, such as 0000-00-00, towards other engines
	Unrepresentable Policy                 // infinity, NaN, dates before Christ and the like, from other engines
	TinyInt1Bool    bool                   // tinyint(1) is described as a boolean
	Lock            Lock                   //
	LockWait        time.Duration          // how long Freeze waits for its lock before it gives up; 0: 60 s
	NoBinlog        bool                   // target: what is written is kept out of the binlog (needs SUPER, BINLOG ADMIN or SYSTEM_VARIABLES_ADMIN)
	DeferKeys       bool                   // MyISAM and Aria: non-unique keys are disabled while a fresh table is loaded
	Definer         Definer                // target: under whose name views and programs are made
	Warn            func(tidemark.Finding) // what a connection does not protect from, once for each engine, and what else is worth knowing; nil: nowhere
}

// A Definer says under whose name views, triggers, routines and events are made
// on the target. SQL SECURITY DEFINER gives them that account's rights.
type Definer uint8

const (
	KeepDefiner    Definer = iota // the source's; the account must exist, and naming another one needs a privilege
	CurrentDefiner                // the account that copies
)

// AsWritten is the Policy towards targets that hold what is no date elsewhere.
const AsWritten Policy = 255
