package server

import "syscall"

// setLeast sets how many bytes must have arrived before a socket counts as readable (tcp(7)). If
// that fails, a sleeping reader is only woken more often.
func setLeast(fd uintptr, n int) {
	_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVLOWAT, n)
}
