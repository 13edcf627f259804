//go:build !linux

package physical

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"

	"github.com/tidemarkdb/tidemark"
)

// runAsOwner leaves a program as it is: on this system the user who runs a trial is the server's
// user.
func runAsOwner(*exec.Cmd, string) error {
	if os.Geteuid() == 0 {
		return &tidemark.Error{Kind: tidemark.Forbidden, Op: trialOp, Err: errors.New("no server runs as root"), Hint: "Run it as the user that servers run as."}
	}
	return nil
}

func giveLike(fs.FileInfo, string) error { return nil }
