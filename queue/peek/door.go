// Package peek prints the transactions in a queue (Print), also if another process has it open: a
// queue on a disk belongs to the replicating process, which answers at a Door in the queue's
// folder; other processes send their request there (Ask).
package peek

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/queue"
)

// A queue on this machine's disk belongs to the replicating process. So that peek can still look
// into it, that process answers at a socket in the queue's folder, which only the folder's owner
// may enter.

// A Door answers requests about the queue that a process has open. The zero value is closed.
type Door struct {
	mu       sync.Mutex
	log      *queue.Log // the session's
	listener net.Listener
	folder   *os.File // held if the socket's name goes through it
	wg       crash.Group
}

const doorName = "peek.sock"

// doorAddress returns a name for the socket that is short enough for the system, which accepts
// about 100 bytes: if it is not, a name through the open folder, on Linux. Close held once the name
// is no longer used.
func doorAddress(dir string) (name string, held *os.File, err error) {
	if name = filepath.Join(dir, doorName); len(name) < 100 {
		return name, nil, nil
	}
	if held, err = os.Open(dir); err != nil {
		return "", nil, err
	}
	name = fmt.Sprintf("/proc/self/fd/%d/%s", held.Fd(), doorName)
	if _, err := os.Stat(filepath.Dir(name)); err != nil {
		held.Close()
		return "", nil, err
	}
	return name, held, nil
}

// Show makes the door answer for a queue, and opens it if it is closed. A stream does not depend on
// it: if it fails, only peek does not work.
func (d *Door) Show(dir string, log *queue.Log) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log = log
	if d.listener != nil {
		return
	}
	name, held, err := doorAddress(dir)
	if err != nil {
		return
	}
	_ = os.Remove(name) // left by a killed process: the queue is ours
	if d.listener, err = net.Listen("unix", name); err != nil {
		d.listener = nil
		if held != nil {
			held.Close()
		}
		return
	}
	d.folder = held
	d.wg.Go(func() { d.serve(d.listener) })
}

// Close closes the door.
func (d *Door) Close() {
	d.mu.Lock()
	l, folder := d.listener, d.folder
	d.mu.Unlock()
	if l == nil {
		return
	}
	_ = l.Close() // which deletes its file
	d.wg.Wait()
	if folder != nil {
		folder.Close()
	}
}

func (d *Door) serve(l net.Listener) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		d.wg.Go(func() {
			defer crash.OnDone(ctx, func() { conn.Close() })()
			defer conn.Close()
			d.answer(ctx, conn)
		})
	}
}

// A Question is a request sent to a door.
type Question struct {
	Limit int  `json:"limit"`
	JSON  bool `json:"json"`
}

// A part is a part of the answer; the last one has Done.
type part struct {
	Out   []byte        `json:"out,omitempty"`
	Done  bool          `json:"done,omitempty"`
	Kind  tidemark.Kind `json:"kind,omitempty"`
	Error string        `json:"error,omitempty"`
	Hint  string        `json:"hint,omitempty"`
}

// answer writes what peek would print.
func (d *Door) answer(ctx context.Context, conn net.Conn) {
	var q Question
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if json.NewDecoder(io.LimitReader(conn, 1<<10)).Decode(&q) != nil {
		return
	}
	d.mu.Lock()
	log := d.log
	d.mu.Unlock()
	parts := json.NewEncoder(conn)
	err := Print(ctx, log, partWriter{parts}, q)
	last := part{Done: true}
	if err != nil {
		last.Kind, last.Error, last.Hint = tidemark.KindOf(err), err.Error(), tidemark.HintOf(err)
	}
	_ = parts.Encode(last) // the other side may have gone
}

// A partWriter sends what is written as parts.
type partWriter struct{ to *json.Encoder }

func (w partWriter) Write(b []byte) (int, error) { return len(b), w.to.Encode(part{Out: b}) }

// ErrNoDoor means that no process answers.
var ErrNoDoor = errors.New("no process answers for the queue")

// Ask prints the answer of the process that has the queue of a folder open.
func Ask(ctx context.Context, dir string, q Question, out io.Writer) error {
	name, held, err := doorAddress(dir)
	if err != nil {
		return ErrNoDoor
	}
	if held != nil {
		defer held.Close()
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", name)
	if err != nil {
		return ErrNoDoor
	}
	defer crash.OnDone(ctx, func() { conn.Close() })()
	defer conn.Close()
	if err := json.NewEncoder(conn).Encode(q); err != nil {
		return ErrNoDoor
	}
	for parts := json.NewDecoder(conn); ; {
		var p part
		if err := parts.Decode(&p); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return &tidemark.Error{Kind: tidemark.Transient, Op: "peek", Object: dir, Err: errors.New("the process that replicates has ended"), Hint: "Ask again."}
		}
		if _, err := out.Write(p.Out); err != nil {
			return err
		}
		switch {
		case p.Error != "":
			return &tidemark.Error{Op: "peek", Object: dir, Kind: p.Kind, Err: errors.New(p.Error), Hint: p.Hint}
		case p.Done:
			return nil
		}
	}
}
