package flow

import "syscall"

func threadID() int { return syscall.Gettid() }
