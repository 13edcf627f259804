package measure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/ha"
)

// A Primary is a server whose standbys are watched.
type Primary interface {
	Replication(ctx context.Context) (tidemark.Replication, error)
}

// A LiveSpec specifies what is watched, and the limits for alerts. Times are seconds.
type LiveSpec struct {
	For      time.Duration
	Forecast *ha.Forecast // nil: no comparison
	Mode     string       // the forecast's mode to compare with; "": the server's present one
	// Behind asks a standby how far its replay is behind; nil: the primary knows.
	Behind func(context.Context) (float64, error)
	// Longest limits the wait of one commit, Mean the average wait of commits, and Lag how far a
	// standby's replay may be behind. Off is the tolerated relative excess over the forecast.
	Longest, Mean, Lag, Off float64
}

// A Figure is a measured value and its forecast; nil means unknown.
type Figure struct {
	Name     string   `json:"name"`
	Unit     string   `json:"unit"` // bytes/s, /s, s
	Measured *float64 `json:"measured,omitempty"`
	Forecast *float64 `json:"forecast,omitempty"`
	Limit    *float64 `json:"limit,omitempty"`
	Alert    string   `json:"alert,omitempty"` // what is wrong, if anything
}

// A LiveReport is the result of Watch.
type LiveReport struct {
	Mode     string   `json:"mode"` // "" if commits do not wait
	Seconds  float64  `json:"seconds"`
	Looks    int      `json:"looks"`
	Figures  []Figure `json:"figures"`
	Standbys []string `json:"standbys"`
	Alerts   []string `json:"alerts"`
	Notes    []string `json:"notes,omitempty"`
}

// Watch samples a server some hundred times, and compares the waits of its commits with the
// forecast.
func Watch(ctx context.Context, p Primary, spec LiveSpec) (*LiveReport, error) {
	w := &watching{spec: spec}
	pause := max(spec.For/100, 20*time.Millisecond)
	for {
		r, err := p.Replication(ctx)
		if err != nil {
			return nil, err
		}
		w.record(r)
		if len(w.all) > 1 && r.At.Sub(w.all[0].At) >= spec.For {
			break
		}
		if err := flow.Sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
	if spec.Behind != nil {
		lag, err := spec.Behind(ctx)
		if err != nil {
			return nil, err
		}
		w.lag = &lag
	}
	return w.report()
}

// A wait is a waiting session, as it was first seen and last seen.
type wait struct {
	first time.Time
	took  float64 // its statement's time at the last sample
}

// A watching accumulates samples.
type watching struct {
	spec    LiveSpec
	all     []tidemark.Replication
	waits   map[int64]wait // now, by session
	longest float64
	waiting float64 // waiting sessions, summed over the samples
	lags    []float64
	lag     *float64
}

func (w *watching) record(r tidemark.Replication) {
	w.all = append(w.all, r)
	w.waiting += float64(len(r.Waiting))
	now := map[int64]wait{}
	for _, c := range r.Waiting {
		x, seen := w.waits[c.Session]
		if !seen || c.Seconds < x.took { // another statement
			x.first = r.At
		}
		x.took = c.Seconds
		now[c.Session] = x
		if c.Only {
			w.longest = max(w.longest, c.Seconds)
		} else { // what the statement did before it waited is unknown
			w.longest = max(w.longest, min(c.Seconds, r.At.Sub(x.first).Seconds()))
		}
	}
	w.waits = now
	for _, s := range r.Standbys {
		lag := map[string]float64{"remote_write": s.Write, "remote_apply": s.Replay}
		v, ok := lag[w.mode(r)]
		if !ok {
			v = s.Flush
		}
		if v >= 0 {
			w.lags = append(w.lags, v)
		}
	}
}

func (w *watching) mode(r tidemark.Replication) string {
	if w.spec.Mode != "" {
		return w.spec.Mode
	}
	return r.Mode
}

func (w *watching) report() (*LiveReport, error) {
	first, last := w.all[0], w.all[len(w.all)-1]
	seconds := last.At.Sub(first.At).Seconds()
	r := &LiveReport{Mode: last.Mode, Seconds: seconds, Looks: len(w.all), Alerts: []string{}}
	var p *ha.Prediction
	if f := w.spec.Forecast; f != nil {
		name := w.mode(last)
		if name == "" {
			name = map[bool]string{true: "local", false: "async"}[f.Sites.Engine == "postgres"]
		}
		i := slices.IndexFunc(f.Predictions, func(p ha.Prediction) bool { return p.Mode == name })
		if i < 0 {
			return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "check", Object: name, Err: errors.New("the forecast does not include this mode"), Hint: "Include it in the calculation, or name the mode with --syncmode."}
		}
		p = &f.Predictions[i]
	}
	r.add(w.logRate((last.Log-first.Log)/seconds, p))
	commits := -1.0
	if first.Commits >= 0 && last.Commits >= 0 {
		commits = float64(last.Commits-first.Commits) / seconds
		f := Figure{Name: "commits", Unit: "/s", Measured: &commits}
		if p != nil {
			f.Forecast = &p.Rate
		}
		r.add(f)
	}
	r.add(w.meanWait(first, last, commits, p))
	longest := Figure{Name: "longest wait of a commit", Unit: "s", Measured: &w.longest, Limit: &w.spec.Longest}
	if w.longest > w.spec.Longest {
		longest.Alert = fmt.Sprintf("a commit waited for %s, more than %s", ha.TimeText(w.longest), ha.TimeText(w.spec.Longest))
	}
	r.add(longest)
	r.add(w.replayLag(last))
	w.standbys(r, last)
	return r, nil
}

// add adds a figure, with its alert.
func (r *LiveReport) add(f Figure) {
	r.Figures = append(r.Figures, f)
	if f.Alert != "" {
		r.Alerts = append(r.Alerts, f.Alert)
	}
}

func (w *watching) logRate(rate float64, p *ha.Prediction) Figure {
	f := Figure{Name: "log", Unit: "bytes/s"}
	if rate < 0 {
		return f // files were removed meanwhile
	}
	f.Measured = &rate
	if p != nil {
		f.Forecast, f.Limit = &p.LogRate, &p.Sustainable
		if rate > p.Sustainable {
			f.Alert = fmt.Sprintf("the log grows by %s, but %s carries %s according to the forecast", ha.RateText(rate), p.Mode, ha.RateText(p.Sustainable))
		}
	}
	return f
}

// meanWait returns the server's own figure; else the mean number of waiting sessions divided by the
// commits a second (Little); else, if none waits, the waits that the standbys report they would
// cause.
func (w *watching) meanWait(first, last tidemark.Replication, commits float64, p *ha.Prediction) Figure {
	f := Figure{Name: "wait of a commit, mean", Unit: "s", Limit: &w.spec.Mean}
	var mean float64
	switch n := last.Waits - first.Waits; {
	case first.Waits >= 0 && n > 0:
		mean = (last.WaitSeconds - first.WaitSeconds) / float64(n)
	case first.Waits < 0 && last.Mode != "" && commits > 0 && w.spec.Mode == "":
		mean = w.waiting / float64(len(w.all)) / commits
	case first.Waits < 0 && len(w.lags) > 0:
		f.Name = "wait of a commit, by the standbys' lag (median)"
		slices.Sort(w.lags)
		mean = ha.QuantileOf(w.lags, 0.5)
	default:
		return f
	}
	f.Measured = &mean
	if p != nil {
		f.Forecast = &p.Added.Mean
	}
	switch {
	case mean > w.spec.Mean:
		f.Alert = fmt.Sprintf("commits wait %s for a standby on average, more than %s", ha.TimeText(mean), ha.TimeText(w.spec.Mean))
	case p != nil && last.Mode != "" && mean > p.Added.Mean*(1+w.spec.Off):
		f.Alert = fmt.Sprintf("commits wait %s for a standby on average, but the forecast for %[3]s is %[2]s", ha.TimeText(mean), ha.TimeText(p.Added.Mean), p.Mode)
	}
	return f
}

// replayLag returns that of the standby that is furthest behind.
func (w *watching) replayLag(last tidemark.Replication) Figure {
	f := Figure{Name: "replay lag", Unit: "s", Limit: &w.spec.Lag}
	f.Measured = w.lag
	for _, s := range last.Standbys {
		if s.Replay >= 0 && (f.Measured == nil || s.Replay > *f.Measured) {
			f.Measured = new(s.Replay)
		}
	}
	if f.Measured != nil && *f.Measured > w.spec.Lag {
		f.Alert = fmt.Sprintf("a standby's replay is %s behind, more than %s", ha.TimeText(*f.Measured), ha.TimeText(w.spec.Lag))
	}
	return f
}

func (w *watching) standbys(r *LiveReport, last tidemark.Replication) {
	waited := 0
	for _, s := range last.Standbys {
		text := s.Name
		if s.Waited {
			waited++
			text += ", commits wait for it"
		}
		if s.Behind >= 0 {
			text += fmt.Sprintf(", %s behind", ha.SizeText(s.Behind))
		}
		r.Standbys = append(r.Standbys, text)
	}
	switch {
	case last.Degraded:
		r.Alerts = append(r.Alerts, "semi-synchronous replication timed out: commits are asynchronous")
	case last.Mode != "" && waited == 0:
		r.Alerts = append(r.Alerts, "commits wait for a standby, but none is connected")
	case last.Mode == "" && len(last.Standbys) == 0:
		r.Notes = append(r.Notes, "no standby is connected, and commits wait for none")
	case last.Mode == "":
		r.Notes = append(r.Notes, "commits do not wait for a standby now")
	}
	if w.lag != nil && *w.lag < 0 {
		r.Alerts = append(r.Alerts, "the replica is not replicating")
	}
}
