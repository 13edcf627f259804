package stream

import "github.com/tidemarkdb/tidemark/job"

// A Pause is when a stream that begins with a copy stops by itself, once.
type Pause string

const (
	NoPause      Pause = "never"
	AfterCopy    Pause = "copy"    // before any change is applied
	AfterChanges Pause = "changes" // once the changes that came during the copy are applied
)

// Pauses are all of them.
var Pauses = []Pause{NoPause, AfterCopy, AfterChanges}

// announcePause reports that a stream stops because of its Pause.
func (p *process) announcePause(what string) {
	text := KeepsLog(p.spec.Copy.Source) + "."
	if p.spec.Role == ApplyHalf {
		text = "The queue keeps new changes."
	}
	p.env.Event(job.Event{Kind: "stopped", Object: "stream " + p.spec.Name, Error: what, Text: "The same command resumes it. " + text})
}
