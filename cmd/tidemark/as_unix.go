//go:build !windows

package main

import (
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// runAs makes a program run as another user, with that user's groups. Only root may do that.
func runAs(cmd *exec.Cmd, uid, gid int) {
	as := &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		cmd.Env = append(cmd.Environ(), "HOME="+u.HomeDir, "USER="+u.Username, "LOGNAME="+u.Username)
		groups, _ := u.GroupIds() // without them it has fewer rights
		for _, g := range groups {
			if n, err := strconv.ParseUint(g, 10, 32); err == nil {
				as.Groups = append(as.Groups, uint32(n))
			}
		}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
}
