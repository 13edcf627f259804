package server

import (
	"time"

	"github.com/tidemarkdb/tidemark"
)

// A Policy decides what happens to a value that the target cannot hold.
type Policy uint8

const (
	Refuse Policy = iota // stop with an Error of Kind BadRow that names the value
	Null                 // store NULL
	Epoch                // zero dates only: store 1970-01-01
)

// A Lock is how Freeze blocks writers while the lanes take their snapshots.
type Lock uint8

const (
	LockAuto   Lock = iota // no lock if the binlog can show writes; otherwise Global, or Tables if RELOAD is not granted
	LockGlobal             // FLUSH TABLES WITH READ LOCK
	LockBackup             // MariaDB: BACKUP STAGE BLOCK_COMMIT; MySQL: LOCK INSTANCE FOR BACKUP until Close, besides Global
	LockTables             // LOCK TABLES ... READ on all tables of the database
	LockNone               // no lock: for a source without writers; Freeze checks that
)

// Options of an engine. The zero value is good.
type Options struct {
	ZeroDates       Policy                 // invalid dates, such as 0000-00-00, copied to other engines
	Unrepresentable Policy                 // infinity, NaN, dates before Christ and the like, copied from other engines
	TinyInt1Bool    bool                   // tinyint(1) is described as a boolean
	Lock            Lock                   //
	LockWait        time.Duration          // how long Freeze waits for its lock; 0: 60 s
	NoBinlog        bool                   // target: writes are not logged to the binlog (needs SUPER, BINLOG ADMIN or SYSTEM_VARIABLES_ADMIN)
	DeferKeys       bool                   // MyISAM and Aria: non-unique keys are disabled while a fresh table is loaded
	Definer         Definer                // target: the definer of views and programs
	Warn            func(tidemark.Finding) // receives what a connection does not protect against, once for each engine, and other findings; nil: discarded
}

// A Definer selects the account that becomes the definer of views, triggers, routines and events on
// the target. With SQL SECURITY DEFINER they have that account's rights.
type Definer uint8

const (
	KeepDefiner    Definer = iota // the source's; the account must exist, and naming another account needs a privilege
	CurrentDefiner                // the account that runs the copy
)

// AsWritten is the Policy for targets that can hold invalid dates.
const AsWritten Policy = 255
