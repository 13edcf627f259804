//go:build !linux

package testdb

import "syscall"

// procAttr runs a process as somebody else. Only Linux can stop it when we
// are killed.
func procAttr(as *syscall.Credential, _ syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: as}
}
