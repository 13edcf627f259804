package advise

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/advisor"
	"github.com/tidemarkdb/tidemark/db2/text"
)

func sample(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "text", "testdata", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func file(t *testing.T, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "x.txt")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestTextsWithoutAnswer: each has its sentence, its hint and its kind.
func TestTextsWithoutAnswer(t *testing.T) {
	record := "2018-02-28-06.47.20.921681-480 E548681E1520          LEVEL: Info\nMESSAGE : hello\n"
	for content, want := range map[string]struct {
		kind tidemark.Kind
		text string
	}{
		"":                                      {tidemark.Invalid, "is empty"},
		"hello\n":                               {tidemark.Invalid, "has nothing that is known"},
		"\x1f\x8b\x00\x00":                      {tidemark.Invalid, "is not a text"},
		"Tablespace ID = 0\nName = X\nType = Y": {tidemark.Invalid, "has no figures"},
		" Tabellenbereichs-ID = 0\n Name = X\n": {tidemark.Invalid, "is in another language than English"},
		" 表空间标识 = 0\n 名称 = X\n":                 {tidemark.Invalid, "is in another language than English"},
		"Address ID PhaseNum CompletedWork TotalWork StartTime Description\n0x1 81 1 0 bytes": {tidemark.Invalid, "is of db2pd -utilities"},
		record + record: {tidemark.Empty, "has 2 records of db2diag.log and no statistics of a backup or restore among them"},
		"Address AppHandl [nod-index] AgentEDUID\n0x1 1473 [000-01473] 17686\n": {tidemark.Empty, "has nothing that tells what limits"},
	} {
		_, _, _, err := Read(t.Context(), []string{file(t, content)}, Options{Last: 5})
		var e *tidemark.Error
		if !errors.As(err, &e) || e.Kind != want.kind || e.Err.Error() != want.text || e.Hint == "" || !strings.HasSuffix(e.Object, "x.txt") {
			t.Errorf("%q: %v, hint %q", content, err, tidemark.HintOf(err))
		}
	}
	for name, kind := range map[string]tidemark.Kind{filepath.Join(t.TempDir(), "none"): tidemark.NotFound, t.TempDir(): tidemark.Invalid} {
		if _, _, _, err := Read(t.Context(), []string{name}, Options{Last: 5}); tidemark.KindOf(err) != kind {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A log without statistics beside one that has some is no error, and text that is unknown is.
	good := file(t, sample(t, "skew"))
	all, _, notes, err := Read(t.Context(), []string{file(t, record), good}, Options{Last: 5})
	if err != nil || len(all) != 1 || len(notes) != 1 || all[0].File != good {
		t.Errorf("%v, %v, %v", all, notes, err)
	}
	if _, _, _, err := Read(t.Context(), []string{good, file(t, "hello\n")}, Options{Last: 5}); tidemark.KindOf(err) != tidemark.Invalid {
		t.Error(err)
	}
}

// TestLast: the last listings of each kind are explained, however many there are; the ones before
// them are compared with.
func TestLast(t *testing.T) {
	content := strings.Repeat(sample(t, "skew"), 300) + strings.Repeat(sample(t, "hadr"), 3) + strings.Repeat(sample(t, "skew"), 2)
	all, left, _, err := Read(t.Context(), []string{file(t, content)}, Options{Last: 2})
	if err != nil || len(all) != 4 || left != 301 || all[0].Of != "HADR" || all[3].Of != "backup" || all[2].Line >= all[3].Line {
		t.Errorf("%d, %d left, %v", len(all), left, err)
	}
	var k keeper
	k.most = 100
	for range 10_000 {
		k.add(text.Listing{Stats: &text.Stats{}})
	}
	if len(k.all()) != 100 || k.forgotten != 9900 || k.all()[99].Stats == nil {
		t.Errorf("%d kept", len(k.all()))
	}
	all, left, _, err = Read(t.Context(), []string{"-"}, Options{Last: 1, Stdin: strings.NewReader(sample(t, "fragmented"))})
	if err != nil || left != 1 || len(all) != 1 || !strings.Contains(all[0].Advice[len(all[0].Advice)-1].Do, "high-water mark") || all[0].File != "standard input" {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestSeveralFiles: table spaces of one file name what a backup of another has read.
func TestSeveralFiles(t *testing.T) {
	all, _, _, err := Read(t.Context(), []string{file(t, sample(t, "fragmented")), file(t, sample(t, "spaces"))}, Options{Last: 5})
	if err != nil || len(all) != 3 || !strings.HasSuffix(all[1].Limit, "That is USERSPACE1.") {
		t.Fatalf("%+v, %v", all, err)
	}
	a := all[1].Advice[0]
	if a.Settings[0].Run != "ALTER TABLESPACE USERSPACE1 LOWER HIGH WATER MARK" || a.Seconds < 30 || a.Seconds > 50 || a.Sure != advisor.Likely {
		t.Errorf("the study gained 37.9 s: %+v", a)
	}
}

// TestWhen: a listing of utilities is of the time when its file was written, unless that cannot be.
func TestWhen(t *testing.T) {
	name := file(t, sample(t, "utility"))
	limit := func(o Options) string {
		o.Last = 1
		all, _, _, err := Read(t.Context(), []string{name}, o)
		if err != nil {
			t.Fatal(err)
		}
		return all[0].Limit + strings.Join(all[0].Notes, " ")
	}
	if got := limit(Options{}); !strings.Contains(got, "It cannot have been printed at") {
		t.Error(got)
	}
	written := time.Date(2018, 2, 28, 16, 22, 8, 0, time.Local)
	if err := os.Chtimes(name, written, written); err != nil {
		t.Fatal(err)
	}
	if got := limit(Options{}); !strings.Contains(got, "until 2018-02-28 16:27:09.") || !strings.Contains(got, "--at TIME corrects that") {
		t.Error(got)
	}
	at, err := ParseClock("2018-02-28 16:24:08")
	if got := limit(Options{Facts: advisor.Db2Facts{At: at}}); err != nil || !strings.Contains(got, "until 2018-02-28 16:34:12.") {
		t.Error(got, err)
	}
	if _, err := ParseClock("yesterday"); err == nil {
		t.Error("yesterday is no time")
	}
}

// TestStops: a reading that waits for a pipe ends when it is asked to.
func TestStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	defer w.Close()
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, _, _, err := Read(ctx, []string{"-"}, Options{Last: 1, Stdin: r}); tidemark.KindOf(err) != tidemark.Cancelled {
		t.Error(err)
	}
}
