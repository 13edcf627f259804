package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
)

// hosted returns, for each command used in doc/host, a reader of its options.
var hosted = map[string]func(*cobra.Command) func() error{
	"backup": reads[backupOptions], "prune": reads[pruneOptions], "verify": reads[verifyOptions], "archive": reads[archiveOptions], "replicate": reads[replicateOptions],
}

func reads[O any, P interface {
	*O
	option.Set
}](cmd *cobra.Command) func() error {
	read := flags[O, P](cmd)
	return func() error { _, err := read(nil); return err }
}

// The command lines in doc/host for schedulers are valid for this program.
func TestHostExamples(t *testing.T) {
	takes := func(t *testing.T, args []string) {
		t.Helper()
		cmd, rest, err := rootCommand(io.Discard, io.Discard).Find(args)
		if err == nil {
			same := &cobra.Command{Use: cmd.Use} // only the options, whose values are checked when they are read
			read := hosted[cmd.Name()](same)
			if err = same.ParseFlags(rest); err == nil {
				err = read()
			}
			if err == nil {
				err = cmd.ValidateArgs(same.Flags().Args())
			}
		}
		if err != nil {
			t.Errorf("tidemark %s: %v", strings.Join(args, " "), err)
		}
	}
	const where = "../../doc/host"
	units, err := filepath.Glob(where + "/*.service")
	if err != nil || len(units) == 0 {
		t.Fatalf("%v, %v", units, err)
	}
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		_, line, ok := strings.Cut(string(text), "\nExecStart=")
		line, _, _ = strings.Cut(line, "\n")
		if words := strings.Fields(line); !ok || filepath.Base(words[0]) != "tidemark" {
			t.Errorf("%s runs %q", unit, line)
		} else {
			takes(t, words[1:])
		}
	}

	type container struct {
		Name         string   `yaml:"name"`
		Args         []string `yaml:"args"`
		VolumeMounts []struct {
			Name string `yaml:"name"`
		} `yaml:"volumeMounts"`
	}
	var job struct {
		Kind string `yaml:"kind"`
		Spec struct {
			Schedule    string `yaml:"schedule"`
			JobTemplate struct {
				Spec struct {
					Template struct {
						Spec struct {
							InitContainers []container `yaml:"initContainers"`
							Containers     []container `yaml:"containers"`
							Volumes        []struct {
								Name string `yaml:"name"`
							} `yaml:"volumes"`
						} `yaml:"spec"`
					} `yaml:"template"`
				} `yaml:"spec"`
			} `yaml:"jobTemplate"`
		} `yaml:"spec"`
	}
	text, err := os.ReadFile(where + "/tidemark-backup.cronjob.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &job); err != nil {
		t.Fatal(err)
	}
	pod := job.Spec.JobTemplate.Spec.Template.Spec
	var steps, volumes []string
	for _, v := range pod.Volumes {
		volumes = append(volumes, v.Name)
	}
	for _, c := range append(pod.InitContainers, pod.Containers...) {
		steps = append(steps, c.Name)
		takes(t, c.Args)
		for _, m := range c.VolumeMounts {
			if !slices.Contains(volumes, m.Name) {
				t.Errorf("%s mounts %s, of %v", c.Name, m.Name, volumes)
			}
		}
		if len(c.VolumeMounts) == 0 || c.Args[0] != c.Name {
			t.Errorf("%+v", c)
		}
	}
	if job.Kind != "CronJob" || len(strings.Fields(job.Spec.Schedule)) != 5 || !slices.Equal(steps, []string{"backup", "prune", "verify"}) {
		t.Errorf("a %s, at %q, of %v", job.Kind, job.Spec.Schedule, steps)
	}
}
