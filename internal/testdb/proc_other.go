//go:build !linux

package testdb

import (
	"syscall"
	"time"
)

// procAttr runs a process as somebody else. Only Linux can stop it when we
// are killed.
func procAttr(as *syscall.Credential, _ syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: as}
}

var begun = time.Now()

// threadTime is the time that passes, where that of a thread is not known.
func threadTime() time.Duration { return time.Since(begun) }
