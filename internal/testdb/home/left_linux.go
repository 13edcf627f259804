package home

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// homes matches the folder of a process of tests at the beginning of a path.
func homes() *regexp.Regexp {
	return regexp.MustCompile(`^((?:` + regexp.QuoteMeta(filepath.Clean(Temp)) + `|` + InMemory + `)/` + pattern + `[0-9]+)(?:/|$| \(deleted\)$)`)
}

// programs are those that tests start. What else may look at an abandoned folder is somebody's.
var programs = []string{"postgres", "mariadbd", "mysqld", "pgbouncer", "java", "node", "sshd", "versitygw", "fake-gcs-server", "tidemark"}

// endLeftovers ends such programs that work in, or were started with, the folder of a process that
// has ended, and says which. The kernel stops servers with their parent; this is for what has
// detached itself.
func endLeftovers() (ended []string) {
	form := homes()
	own, _ := os.Readlink("/proc/self/ns/mnt")
	all, _ := filepath.Glob("/proc/[0-9]*")
	var left []int
	for _, at := range all {
		pid, err := strconv.Atoi(filepath.Base(at))
		if space, lerr := os.Readlink(at + "/ns/mnt"); err != nil || lerr != nil || space != own || pid == os.Getpid() {
			continue // of another container, whose folders are not these, or not ours to look at
		}
		text, _ := os.ReadFile(at + "/comm")
		name := string(bytes.TrimSpace(text))
		if !slices.Contains(programs, name) {
			continue
		}
		dir := folderOf(at, form)
		if dir == "" || !abandoned(dir) {
			continue
		}
		if end(pid, name) == nil {
			left = append(left, pid)
			ended = append(ended, fmt.Sprintf("%s (process %d) in %s", name, pid, dir))
		}
	}
	for begun := time.Now(); len(left) > 0; time.Sleep(10 * time.Millisecond) {
		_, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", left[0])) // one that nobody has waited for has none either
		if err != nil || time.Since(begun) > 5*time.Second {
			_ = syscall.Kill(left[0], syscall.SIGKILL) // it has ended, or does not want to
			left = left[1:]
		}
	}
	return ended
}

// end ends a process at once.
func end(pid int, name string) error {
	how := syscall.SIGKILL
	if name == "postgres" {
		how = syscall.SIGQUIT // with SIGKILL its shared memory would stay
	}
	return syscall.Kill(pid, how)
}

// folderOf returns the folder of tests that a process works in or was started with, "" if none.
func folderOf(at string, form *regexp.Regexp) string {
	if dir, err := os.Readlink(at + "/cwd"); err == nil {
		if found := form.FindStringSubmatch(dir); found != nil {
			return found[1]
		}
	}
	line, _ := os.ReadFile(at + "/cmdline") // it may have ended
	for _, arg := range bytes.Split(line, []byte{0}) {
		if found := form.FindSubmatch(arg); found != nil {
			return string(found[1])
		}
	}
	return ""
}

// EndChildren ends all processes that this one has started, and theirs.
func EndChildren() {
	type process struct {
		pid  int
		name string
	}
	children := map[int][]process{}
	all, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range all {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		var state string
		var parent int
		from, to := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
		if _, err := fmt.Sscan(string(text[to+1:]), &state, &parent); err == nil {
			children[parent] = append(children[parent], process{pid, string(text[from+1 : to])})
		}
	}
	for next := []int{os.Getpid()}; len(next) > 0; next = next[1:] {
		for _, child := range children[next[0]] {
			_ = end(child.pid, child.name) // it may have ended
			next = append(next, child.pid)
		}
	}
}

// unmount removes what is mounted in a folder: file systems of tests.
func unmount(dir string) {
	text, _ := os.ReadFile("/proc/self/mounts") // without it nothing is known to be mounted
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 1 && strings.HasPrefix(words[1], dir+"/") {
			_ = syscall.Unmount(words[1], syscall.MNT_DETACH) // only root may
		}
	}
}
