// Package home keeps the folders in which processes of tests and their servers live. Each folder is
// locked as long as its process lives: an unlocked one was left behind by a killed process. What
// still runs in it is ended, and it is removed, by the next process that makes one, and by
// script/suite before a run.
package home

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const pattern = "tidemark-test-"

// InMemory is Linux's in-memory file system.
const InMemory = "/dev/shm"

// Temp is the system's folder for temporary files. Tests have one of their own below it.
var Temp = os.TempDir()

// Cache returns where script/install-test-deps.sh puts programs and where initialised data folders
// are kept. Root has it outside its home, which the servers' users cannot enter.
func Cache() string {
	if dir := os.Getenv("TIDEMARK_TEST_CACHE"); dir != "" {
		return dir
	}
	if os.Getuid() == 0 {
		return "/var/cache/tidemark-test"
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = Temp
	}
	return filepath.Join(dir, "tidemark-test")
}

// Make creates and locks a folder of this process below base, "" for Temp.
func Make(base string) (dir string, remove func(), err error) {
	if base == "" {
		base = Temp
	}
	// This lock keeps others from sweeping a folder that is not locked yet.
	unlock, err := sweeping()
	if err != nil {
		return "", nil, err
	}
	defer unlock()
	sweep()
	if dir, err = os.MkdirTemp(base, pattern); err != nil {
		return "", nil, err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", nil, err
	}
	unlockDir, err := Lock(filepath.Join(dir, "lock"), false)
	return dir, func() {
		removeAll(dir)
		unlockDir()
	}, err
}

// removeAll removes a folder, as far as it can: the next sweep tries again.
func removeAll(dir string) {
	unmount(dir)
	_ = os.RemoveAll(dir)
}

// Made reports whether a folder is one that Make has made.
func Made(dir string) bool { return strings.HasPrefix(filepath.Base(dir), pattern) }

// Sweep ends what runs in folders that killed processes have left behind, removes the folders, and
// says what it has ended.
func Sweep() ([]string, error) {
	unlock, err := sweeping()
	if err != nil {
		return nil, err
	}
	defer unlock()
	return sweep(), nil
}

func sweeping() (unlock func(), err error) {
	if err := os.MkdirAll(Cache(), 0o755); err != nil {
		return nil, err
	}
	return Lock(filepath.Join(Cache(), "home.lock"), true)
}

func sweep() (ended []string) {
	ended = endLeftovers()
	for _, dir := range []string{Temp, InMemory} {
		locks, _ := filepath.Glob(filepath.Join(dir, pattern+"*", "lock"))
		for _, file := range locks {
			if unlock, err := Lock(file, false); err == nil {
				removeAll(filepath.Dir(file))
				unlock()
			}
		}
	}
	return ended
}

// abandoned reports whether the process whose folder this is has ended.
func abandoned(dir string) bool {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return true // its folder is removed last
	}
	if err != nil {
		return false
	}
	defer f.Close()
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

// Lock locks a file; the kernel releases the lock when the process ends. Without wait it fails if
// another process holds the lock.
func Lock(file string, wait bool) (unlock func(), err error) {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	how := syscall.LOCK_EX
	if !wait {
		how |= syscall.LOCK_NB
	}
	for {
		err = syscall.Flock(int(f.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", file, err)
	}
	return func() { f.Close() }, nil
}
