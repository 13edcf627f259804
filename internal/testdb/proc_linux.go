package testdb

import (
	"syscall"
	"time"
)

// procAttr runs a process as another user, and has the kernel stop it when the thread that started
// it ends.
func procAttr(as *syscall.Credential, quit syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: as, Pdeathsig: quit}
}

// threadTime returns the processor time that this thread has used.
func threadTime() time.Duration {
	const thread = 1 // RUSAGE_THREAD
	var u syscall.Rusage
	if err := syscall.Getrusage(thread, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
