package tidemark

import "time"

// A DataFile is a file or folder of a server's data, as a physical backup takes it.
type DataFile struct {
	Path     string    // below the data folder, with slashes; what is in a tablespace is below pg_tblspc/OID
	Size     int64     // bytes, when it was listed; more is never read
	Modified time.Time // when it was listed
	Mode     uint32    // permission bits
	Dir      bool      // a folder, of which nothing has to be in the backup
	Pages    bool      // it consists of pages that have checksums
}

// A Tablespace is a folder of data outside of the data folder.
type Tablespace struct {
	OID  uint32 `json:"oid"`
	Path string `json:"path"` // absolute, on the server's host
}

// An Owner is whom a file of a server belongs to.
type Owner struct {
	User  string `json:"user"` // empty where the host does not know a name
	Group string `json:"group"`
	UID   int    `json:"uid"` // -1 where files have no numbered owners
	GID   int    `json:"gid"`
}

// A DataSet is what a server's data consists of at the beginning of a backup.
type DataSet struct {
	Files       []DataFile // folders before what is in them
	Tablespaces []Tablespace
	Owner       Owner
	PageSize    int    // bytes
	Checksums   bool   // pages have some
	LogFile     int64  // bytes of a file of the server's log
	System      string // identifies the data: copies of it have the same
	Version     string // of the server: 15.18
	Major       int    // 15
	Start       string // the place of its log from which a restored copy has to be brought up
	Standby     bool
	Findings    []Finding
}

// A DataEnd is what a server says at the end of a backup.
type DataEnd struct {
	Ranges []DataLog  // what of its log a restored copy has to go through, oldest first
	Log    []DataFile // the files of that; they can be read until the source is closed
	Made   []MadeFile // files that belong into the backup, and are not read from the data folder
	Spaces string     // the server's own text on its tablespaces; "" if it has none
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
