package physical

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"syscall"

	"github.com/tidemarkdb/tidemark"
)

// runAsOwner makes a program run as the owner of the data folder, since a server refuses to run as
// root, and end with this process.
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
		return &tidemark.Error{Kind: tidemark.Forbidden, Op: trialOp, Object: dir, Err: errors.New("it belongs to root, since the backup does not record its owner, and no server runs as root"), Hint: "Run it as the user that servers run as."}
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(owner.UID), Gid: uint32(owner.GID)}
	return nil
}

// giveLike gives a folder the owner of another file.
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
