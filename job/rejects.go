package job

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"unicode/utf8"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/plainfile"
)

// A lineFile takes JSON lines. Closing a nil one does nothing.
type lineFile struct {
	mu   sync.Mutex
	path string
	f    *os.File
}

func openLines(folder, name string) (*lineFile, error) {
	dir := plainfile.Dir(folder)
	if err := dir.MkdirAll(".", 0o700); err != nil {
		return nil, &tidemark.Error{Kind: tidemark.Forbidden, Op: "create", Object: folder, Err: err, Hint: "Choose another folder with --reject-dir."}
	}
	path := filepath.Join(folder, name)
	f, err := dir.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600) // the rows are as secret as the table
	if err != nil {
		return nil, &tidemark.Error{Kind: tidemark.Forbidden, Op: "create", Object: path, Err: err, Hint: plainfile.Hint(err, "Choose another folder with --reject-dir.")}
	}
	return &lineFile{path: path, f: f}, nil
}

func (l *lineFile) put(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err = l.f.Write(append(text, '\n'))
	return err
}

func (l *lineFile) close() {
	if l != nil {
		l.f.Close()
	}
}

// A RejectedRow is a line of the reject file. Row is the text of the row in the named format if it
// is UTF-8, otherwise Bytes has it in base64.
type RejectedRow struct {
	Table  string `json:"table"`
	Reason string `json:"reason"`
	Format string `json:"format"`
	Row    string `json:"row,omitempty"`
	Bytes  []byte `json:"bytes,omitempty"`
}

// reject writes a rejected row to the reject file, until there are too many.
func (c *copying) reject(m *tidemark.Move, f tidemark.Format, row []byte, reason string) error {
	c.mu.Lock()
	c.rejected++
	n := c.rejected
	var err error
	if c.rejects == nil {
		c.rejects, err = openLines(c.env.Files, c.run.ID+"-rejects.jsonl")
	}
	file := c.rejects
	c.mu.Unlock()
	if err != nil {
		return err
	}
	if f != tidemark.CopyBinary {
		row = bytes.TrimSuffix(row, []byte("\n"))
	}
	line := RejectedRow{Table: m.From.String(), Reason: reason, Format: f.String()}
	if utf8.Valid(row) {
		line.Row = string(row)
	} else {
		line.Bytes = append([]byte(nil), row...)
	}
	if err := file.put(line); err != nil {
		return &tidemark.Error{Kind: tidemark.Full, Op: "write", Object: file.path, Err: err}
	}
	c.env.Event(Event{Kind: "reject", Object: m.From.String(), Rows: 1, Text: reason})
	if n > c.spec.RejectLimit {
		return &tidemark.Error{Kind: tidemark.BadRow, Op: "copy", Object: m.From.String(), Err: fmt.Errorf("rejected rows exceed --reject-limit %d (last: %s)", c.spec.RejectLimit, reason), Hint: "The rows are in " + file.path + ": correct them on the source, or raise --reject-limit."}
	}
	return nil
}

// A CutValue is a line of the file of truncated values.
type CutValue struct {
	Table  string `json:"table"`
	Key    string `json:"key"`
	Column string `json:"column"`
	Bytes  int64  `json:"bytes"` // before it was truncated
}

// cutValue records a value that limited LOB mode has truncated.
func (c *copying) cutValue(m *tidemark.Move, key, column string, bytes int64) {
	c.mu.Lock()
	c.cut++
	if c.cuts == nil {
		c.cuts, _ = openLines(c.env.Files, c.run.ID+"-truncated.jsonl")
	}
	file := c.cuts
	c.mu.Unlock()
	if file != nil {
		file.put(CutValue{m.From.String(), key, column, bytes})
	}
	c.env.Event(Event{Kind: "truncated", Object: m.From.String() + "." + column, Bytes: bytes, Text: key})
}
