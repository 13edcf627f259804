package server

import "syscall"

// setLeast sets from how many bytes on a socket counts as readable (tcp(7)). Where it
// cannot be set, a sleeping reader is woken more often, and that is all.
func setLeast(fd uintptr, n int) {
	_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVLOWAT, n)
}
