//go:build !linux

package flow

func threadID() int { return 0 }
