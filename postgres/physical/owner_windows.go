package physical

import (
	"io/fs"

	"github.com/tidemarkdb/tidemark"
)

// ownerOf returns no owner: Windows has no numbered owners.
func ownerOf(fs.FileInfo) tidemark.Owner { return tidemark.Owner{UID: -1, GID: -1} }
