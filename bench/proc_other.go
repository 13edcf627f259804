//go:build !linux

package main

import (
	"errors"
	"syscall"
	"time"
)

var errLinux = errors.New("bench needs Linux, whose /proc tells how much CPU the servers use")

func procAttr(*syscall.Credential, syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{}
}
func treeCPU(int) (time.Duration, error) { return 0, errLinux }
func machineCPU() (time.Duration, error) { return 0, errLinux }
func peakRSS(*syscall.Rusage) int64      { return 0 }
func machine() string                    { return "" }
