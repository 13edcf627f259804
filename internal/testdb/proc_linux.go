package testdb

import "syscall"

// procAttr runs a process as somebody else and lets the kernel stop it when
// the thread that started it ends.
func procAttr(as *syscall.Credential, quit syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: as, Pdeathsig: quit}
}
