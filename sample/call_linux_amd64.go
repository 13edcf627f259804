package sample

import "syscall"

const sysPoll = syscall.SYS_POLL
