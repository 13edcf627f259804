package testdb

import (
	"syscall"
	"time"
)

// procAttr runs a process as somebody else and lets the kernel stop it when
// the thread that started it ends.
func procAttr(as *syscall.Credential, quit syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: as, Pdeathsig: quit}
}

// threadTime is the processor time that this thread has taken.
func threadTime() time.Duration {
	const thread = 1 // RUSAGE_THREAD
	var u syscall.Rusage
	if err := syscall.Getrusage(thread, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
