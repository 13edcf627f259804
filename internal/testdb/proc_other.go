//go:build !linux

package testdb

import (
	"syscall"
	"time"
)

// procAttr runs a process as another user. Only Linux can stop it if this process is killed.
func procAttr(as *syscall.Credential, _ syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: as}
}

var begun = time.Now()

// threadTime returns elapsed time, where per-thread processor time is unavailable.
func threadTime() time.Duration { return time.Since(begun) }
