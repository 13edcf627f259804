package measure

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"net"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// A diskOrder asks a listener to measure the disk of its folder.
type diskOrder struct {
	Engine string        `json:"engine"`
	Time   time.Duration `json:"time"`
}

// A diskAnswer is the listener's answer.
type diskAnswer struct {
	Report *DiskReport `json:"report,omitempty"`
	Error  string      `json:"error,omitempty"`
	Hint   string      `json:"hint,omitempty"`
}

const maxPeerDiskTime = time.Minute

// LookAtPeer reports whether a listener is there, and whether it has a folder whose disk can be
// measured. Errors: those of dialLink.
func LookAtPeer(ctx context.Context, peer, secret string) (hasDisk bool, err error) {
	l, err := dialLink(ctx, withPort(peer), hello{Purpose: "look", secret: secret})
	if err != nil {
		return false, err
	}
	defer l.close()
	return l.granted.Disk, nil
}

// MeasurePeerDisk makes a listener measure its disk, for at most a minute. Errors: those of
// dialLink; Unsupported if the disk could not be measured there.
func MeasurePeerDisk(ctx context.Context, peer, secret, engine string, length time.Duration) (*DiskReport, error) {
	peer = withPort(peer)
	length = min(cmp.Or(length, 20*time.Second), maxPeerDiskTime)
	l, err := dialLink(ctx, peer, hello{Purpose: "disk", Disk: &diskOrder{Engine: engine, Time: length}, secret: secret})
	if err != nil {
		return nil, err
	}
	defer l.close()
	l.c.SetDeadline(time.Now().Add(length + 2*idleTime))
	var a diskAnswer
	if err := l.reply(&a); err != nil {
		return nil, linkError(ctx, peer, err)
	}
	if a.Report == nil {
		return nil, &tidemark.Error{Op: "measure disk", Object: peer, Kind: tidemark.Unsupported, Hint: a.Hint, Err: errors.New(cmp.Or(a.Error, "no answer"))}
	}
	return a.Report, nil
}

// measureDisk carries out an order, until the peer goes away.
func (spec *StandbySpec) measureDisk(ctx context.Context, c net.Conn, r *bufio.Reader, order diskOrder) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	crash.Go(func() { // ends with the connection
		if _, err := r.ReadByte(); err != nil {
			cancel()
		}
	})
	var a diskAnswer
	var err error
	a.Report, err = MeasureDisk(ctx, DiskSpec{Dir: spec.Dir, Engine: order.Engine, Time: min(max(order.Time, 0), maxPeerDiskTime), Force: spec.Force})
	if err != nil {
		a.Error, a.Hint = err.Error(), tidemark.HintOf(err)
	}
	c.SetWriteDeadline(time.Now().Add(idleTime))
	return errors.Join(err, writeReply(c, a))
}
