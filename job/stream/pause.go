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

// tellPause reports that a stream stops because of its Pause.
func (r *life) tellPause(what string) {
	text := KeepsLog(r.spec.Copy.Source) + "."
	if r.spec.Half == ApplyHalf {
		text = "The queue keeps new changes."
	}
	r.env.Event(job.Event{Kind: "stopped", Object: "stream " + r.spec.Name, Error: what, Text: "The same command resumes it. " + text})
}
