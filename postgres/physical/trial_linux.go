package physical

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"syscall"

	"github.com/tidemarkdb/tidemark"
)

// runAsOwner has a program run as whom the data folder belongs to, since a server refuses to be run
// by root, and end with this process.
func runAsOwner(cmd *exec.Cmd, dir string) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
	info, err := os.Stat(dir)
	if err != nil {
		return trialFailed("look at", dir, err)
	}
	owner := ownerOf(info)
	if os.Geteuid() != 0 {
		return nil
	}
	if owner.UID == 0 {
		return &tidemark.Error{Kind: tidemark.Forbidden, Op: trialOp, Object: dir, Err: errors.New("it belongs to root, as whom no server runs, since the backup does not say to whom it belonged"), Hint: "Run it as the user that servers run as."}
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(owner.UID), Gid: uint32(owner.GID)}
	return nil
}

// giveLike gives a folder to whom another thing belongs.
func giveLike(info fs.FileInfo, path string) error {
	owner := ownerOf(info)
	if os.Geteuid() != 0 {
		return nil
	}
	if err := os.Chown(path, owner.UID, owner.GID); err != nil {
		return trialFailed("give away", path, err)
	}
	return nil
}
