package tidemark

import (
	"context"
	"io"
	"time"
)

// A DataFile is a file or folder of a server's data, as a physical backup takes it.
type DataFile struct {
	Path     string    // below the data folder, with slashes; what is in a tablespace is below pg_tblspc/OID
	Size     int64     // bytes, when it was listed; more is never read
	Modified time.Time // when it was listed
	Mode     uint32    // permission bits
	Dir      bool      // a folder whose content need not be in the backup
	Pages    bool      // it consists of pages that have checksums
	// Change is set where a server sends, of an incremental backup, some pages of the file only.
	Change *FileChange
}

// A Tablespace is a folder of data outside of the data folder.
type Tablespace struct {
	OID  uint32 `json:"oid"`
	Path string `json:"path"` // absolute, on the server's host
}

// A DatabaseName is a database of a server, and the number that names its folders.
type DatabaseName struct {
	OID  uint32 `json:"oid"`
	Name string `json:"name"`
}

// An Owner is the owner of a server's file.
type Owner struct {
	User  string `json:"user"` // empty where the host does not know a name
	Group string `json:"group"`
	UID   int    `json:"uid"` // -1 where files have no numbered owners
	GID   int    `json:"gid"`
}

// A DataSet is what a server's data consists of at the beginning of a backup.
type DataSet struct {
	Files       DataList // of a server that sends its files none
	Estimate    int64    // bytes that such a server will send, about
	Tablespaces []Tablespace
	Databases   []DatabaseName // by number
	Owner       Owner
	PageSize    int    // bytes
	Checksums   bool   // pages have some
	LogFile     int64  // bytes of a file of the server's log
	System      string // identifies the data: copies of it have the same
	Engine      string // by its name
	Version     string // of the server: 15.18
	Major       int    // 15
	Start       string // the log position from which a restored copy must be recovered
	Standby     bool
	Findings    []Finding
}

// A DataEnd is what a server says at the end of a backup.
type DataEnd struct {
	Ranges []DataLog  // the log ranges that a restored copy must replay, oldest first
	Log    DataList   // the files of that; they can be read until the source is closed
	Made   []MadeFile // files that belong in the backup, but are not read from the data folder
	Spaces string     // the server's own text on its tablespaces; "" if it has none
	// Left reports which files of the set do not belong in a backup after all; nil: all belong.
	Left func(path string) bool
}

// A DataLog is a part of a server's log, in one timeline.
type DataLog struct {
	Timeline    uint32
	From, To    string // as the engine writes places
	First, Last string // files of an archive that have it, as TIMELINE/NAME
}

// A MadeFile is a file of which an engine gives the content.
type MadeFile struct {
	DataFile
	Content []byte
}

// A DataSum is a file as it came into a backup.
type DataSum struct {
	Path     string
	Size     int64
	Modified time.Time
	CRC32C   uint32
}

// A DataSince is an earlier backup of the same data, on which a new one builds.
type DataSince struct {
	// Unfinished means that it was stopped and has only some of the files: its Ranges end at the
	// log position when the last of them was read.
	Unfinished bool
	// Base, of one that was not finished, is the finished one on which that builds; nil: on none.
	// Files that the unfinished one did not reach are built on it.
	Base *DataSince

	Checksums bool      // its pages have some
	Begun     time.Time // when it began
	Ranges    []DataLog // its log, as in its DataEnd: From of the first is where it began, To of the last its end
	// Was returns a file as it came into that backup: its whole size, and when it had been
	// modified.
	Was func(path string) (DataFile, bool)
	// Each returns all files as they came into that backup, as Was does.
	Each func(give func(DataFile) error) error
	// Log opens a file of the archived log, whose name is TIMELINE/NAME, or that of a timeline's
	// history. Kind NotFound: it is not there. nil: there is no archive.
	Log func(ctx context.Context, name string) (io.ReadCloser, error)
}

// A FileChange is the part of a file that an incremental backup needs. Pages count from the file's
// beginning.
type FileChange struct {
	Whole bool // all of it: nothing of the earlier backup counts
	// Newer, if set, reports whether a page that was read has changed, which is unknown before.
	// Those from Limit on have.
	Newer func(page []byte) bool
	Pages []uint32 // else these have, ascending
	// Limit is how many pages of the earlier backup's file count. What is not in Pages there and
	// behind is zeros, as are pages that the earlier file did not have.
	Limit uint32
}
