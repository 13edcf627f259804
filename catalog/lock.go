package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/filelock"
	"github.com/tidemarkdb/tidemark/internal/plainfile"
)

// A Lock is the right to work on a run. It is a locked file beside the catalogue, which the
// operating system releases however the process ends: there is no heartbeat that could be late and
// no process number that could be reused.
type Lock struct {
	file *os.File
	dir  plainfile.Dir
	name string
}

// Lock takes the lock of a run. If another holder has it, in this process or another, the error is
// of Kind Invalid and names the holder.
func (c *Catalog) Lock(run string) (*Lock, error) {
	const op = "lock run"
	if run == "" || strings.ContainsAny(run, `/\`) {
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: op, Object: run, Err: errors.New("not the ID of a run")}
	}
	path := c.lockPath(run)
	dir, name := plainfile.Beside(path)
	if err := dir.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return nil, fileError(op, path, err)
	}
	for try := 0; ; try++ {
		f, err := dir.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, fileError(op, path, err)
		}
		switch err := filelock.Lock(f); {
		case errors.Is(err, filelock.ErrLocked) && try < 3:
			f.Close()
			time.Sleep(20 * time.Millisecond) // perhaps it is only Alive that is checking
			continue
		case errors.Is(err, filelock.ErrLocked):
			holder, _ := io.ReadAll(io.LimitReader(f, 1<<10))
			f.Close()
			return nil, &tidemark.Error{Op: op, Object: run, Kind: tidemark.Invalid,
				Hint: "Wait for that process to end, then resume.",
				Err:  &Held{By: cmp.Or(string(holder), "another process")}}
		case err != nil:
			f.Close()
			return nil, fileError(op, path, err)
		}
		if !stillThere(f, dir, name) { // its holder removed it between our opening and our locking
			f.Close()
			continue
		}
		host, _ := os.Hostname()
		f.Truncate(0)
		fmt.Fprintf(f, holderForm, os.Getpid(), host) // only for the message above
		return &Lock{f, dir, name}, nil
	}
}

// A Held is the cause of Lock's error if another holder has the lock.
type Held struct {
	By string // "process 4711 on db1"
}

func (e *Held) Error() string { return e.By + " is working on this run" }

// PID returns the number of the holder's process; 0 if it is not known.
func (e *Held) PID() (pid int) {
	_, _ = fmt.Sscanf(e.By, holderForm, &pid, new(string))
	return pid
}

// holderForm is what a locked file says of its holder.
const holderForm = "process %d on %s"

func stillThere(f *os.File, dir plainfile.Dir, name string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := dir.Lstat(name)
	return err == nil && os.SameFile(a, b)
}

// Unlock releases the lock. Unlocking twice does nothing.
func (l *Lock) Unlock() {
	if l == nil || l.file == nil {
		return
	}
	_ = l.dir.Remove(l.name) // while it is locked: whoever opened it before checks again
	l.file.Close()
	l.file = nil
}

// Alive reports whether somebody holds the lock of a run. A run in state Running
// that is not alive was killed and can be resumed.
func (c *Catalog) Alive(run string) bool {
	dir, name := plainfile.Beside(c.lockPath(run))
	f, err := dir.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(filelock.Lock(f), filelock.ErrLocked)
}

// StateOf returns the state of a run as it is: that of one that was killed is not the recorded one.
func (c *Catalog) StateOf(r Run) string {
	if r.State == Running && !c.Alive(r.ID) {
		return "killed"
	}
	return r.State
}

func (c *Catalog) lockPath(run string) string {
	return filepath.Join(c.path+".locks", run+".lock")
}
