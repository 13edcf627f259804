//go:build linux && !amd64

package sample

const sysPoll = -1 // newer architectures have ppoll only
