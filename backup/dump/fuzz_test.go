package dump

import (
	"bytes"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
)

// Any description of a logical backup is parsed or rejected.
func FuzzDescription(f *testing.F) {
	f.Add([]byte(`{"head":{"form":1,"engine":"postgres","version":"15","major":15,"name":"shop"}}` + "\n" + `{"table":{"schema":"public","name":"t"}}` + "\n" + `{"move":{"table":{"schema":"public","name":"t"}}}`))
	f.Add([]byte(`{"head":{"form":1,"engine":"cheese"}}` + "\n" + `{"rows":{"path":"../x","move":7,"range":{"id":-1}}}`))
	f.Add([]byte(`{"move":{}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		d := &Dump{Database: new(tidemark.Database), m: &repo.Manifest{ID: "x"}, files: map[string]repo.File{}}
		if err := d.parse(bytes.NewReader(text)); err != nil {
			return
		}
		for i := range d.Rows {
			if n := d.Rows[i].Move; n < 0 || n >= len(d.Moves) {
				t.Errorf("rows of move %d of %d are taken", n, len(d.Moves))
			}
		}
	})
}
