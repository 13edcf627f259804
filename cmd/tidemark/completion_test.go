package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// asCommand returns an environment in which this program is called tidemark.
func asCommand(t *testing.T) (env []string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(exe, filepath.Join(dir, "tidemark")); err != nil {
		t.Fatal(err)
	}
	return append(os.Environ(), asMain+"=1", "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+dir, "TERM=dumb")
}

// completions are typed texts, and the completions that a shell must offer.
var completions = []struct {
	typed string
	words []string
}{
	{"tidemark repl", []string{"replicate"}},
	{"tidemark adv", []string{"advise"}},
	{"tidemark fore", []string{"forecast"}},
	{"tidemark forecast --pro", []string{"--probe", "--probe-size"}},
	{"tidemark load x --conn", []string{"--connections"}},
	{"tidemark copy --finish", []string{"--finish-by"}},
	{"tidemark advise x --operation ", []string{"backup", "restore"}},
	{"tidemark ha ", []string{"calculate", "check", "measure", "plan", "scan", "simulate"}},
	{"tidemark copy --lan", []string{"--lanes"}},
	{"tidemark copy --prep ", []string{"empty", "keep", "drop", "truncate"}},
	{"tidemark manual ", []string{"options", "exit-codes"}},
}

// inShell is a script for each shell that completes a line.
var inShell = map[string]string{
	"bash": `source /usr/share/bash-completion/bash_completion; source <(tidemark completion bash)
COMP_LINE=$1; COMP_POINT=${#1}; read -ra COMP_WORDS <<<"$1"; [[ $1 != *' ' ]] || COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]}-1)); COMP_TYPE=9; __start_tidemark; printf '%s\n' "${COMPREPLY[@]}"`,
	"fish": `tidemark completion fish | source; complete -C"$argv[1]"`,
	"zsh": `zmodload zsh/zpty; zpty sh zsh -f -i
zpty -w sh "PS1=; stty columns 200; autoload -U compinit; compinit -u; source <(tidemark completion zsh); LISTMAX=999; print read''y"
zpty -r -m sh line '*ready*'; zpty -w -n sh "$1"$'\t\t'; zpty -w sh ''
for i in {1..120}; do
  sleep 0.25; while zpty -r -t sh line; do said+=$line; done
  all=1; for word in "${@:2}"; do [[ $said == *"$word"* ]] || all=0; done; (( all )) && break
done; print -r -- "$said"`,
}

// TestCompletion completes command lines in the shells themselves.
func TestCompletion(t *testing.T) {
	env := asCommand(t)
	for shell, script := range inShell {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			path, err := exec.LookPath(shell)
			if err != nil {
				t.Fatalf("%v: run make test-deps", err)
			}
			for _, c := range completions {
				args := append([]string{"-c", script, shell, c.typed}, c.words...)
				if shell == "fish" {
					args = []string{"-c", script, c.typed}
				}
				cmd := exec.Command(path, args...)
				cmd.Env = env
				out, err := cmd.CombinedOutput()
				for _, word := range c.words {
					if !strings.Contains(string(out), word) {
						t.Errorf("%s: %s is not offered: %v\n%s", c.typed, word, err, out)
					}
				}
			}
		})
	}
}

// TestManPages writes the man pages, and has man display each.
func TestManPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if o := helpless("man", dir); o.code != 0 {
		t.Fatalf("exit %d: %s", o.code, o.errOut)
	}
	for _, c := range append(allCommands(), rootCommand(nil, nil)) {
		name := strings.ReplaceAll(c.CommandPath(), " ", "-")
		cmd := exec.Command("man", "--warnings", "-P", "cat", "-l", filepath.Join(dir, name+".1"))
		cmd.Env = append(os.Environ(), "MANWIDTH=80", "LC_ALL=C.UTF-8")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), c.Short[:20]) || strings.Contains(string(out), "warning") && !strings.Contains(c.Long, "warning") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		if c.Name() == "copy" {
			for _, want := range []string{"-j, --lanes N", "Copying rows", "tidemark copy --config task.yaml", "tidemark(1)", "${VARIABLE}"} {
				if !strings.Contains(string(out), want) {
					t.Errorf("the page of copy lacks %q:\n%s", want, out)
				}
			}
		}
	}
	if o := helpless("man", dir+"/none"); o.code != 2 || !strings.Contains(o.errOut, "hint: ") {
		t.Errorf("exit %d: %s", o.code, o.errOut)
	}
}
