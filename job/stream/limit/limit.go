package limit

import (
	"fmt"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/job/sampled"
	"github.com/tidemarkdb/tidemark/sample"
)

// The roles whose I/O the servers tell about.
const (
	captureRole = "Capture"
	agentRole   = "Agent"
	queueRole   = "Queue" // writes to a durable queue
)

// captures is the Half of a stream whose changes another process applies.
const captures = "capture"

// A Pace is what tells what limits a stream, besides its status: figures between two samples.
type Pace struct {
	Fresh   int64   // transactions that were applied
	Sent    int     // transactions that are sent to the target and not answered
	Full    float64 // part of the time in which the target had as many batches as it gets
	Blocked float64 // part of the time in which nothing more could be read, for lack of room
}

// Of tells in a sentence what limits a stream, if anything does, and in another what its servers do
// about it, where that is known.
func Of(s sampled.Status, p Pace) string {
	role, text := stage(s, p)
	for _, split := range s.Servers {
		if split.Role == role {
			text = words(text, split)
			break
		}
	}
	if s.TablesStopped > 0 && !s.Idle && s.Half != captures {
		text += fmt.Sprintf(" Stopped tables, whose changes are skipped: %d.", s.TablesStopped)
	}
	return text
}

// stage is Of without the servers: the sentence, and the role whose I/O is the reason; "" if none's
// is.
func stage(s sampled.Status, p Pace) (role, text string) {
	switch {
	case s.State == sampled.Retrying || s.State == sampled.Halted || s.State == sampled.Waiting || s.State == sampled.Connecting:
		return "", strings.ToUpper(s.Doing[:1]) + s.Doing[1:] + "."
	case s.HeldBy != "" && s.InFlight == 0:
		return "", "The source sends no more of its log until its standbys have it (synchronized_standby_slots): " + s.HeldBy + ". Start them, or take their slots from that setting and reload the server."
	case s.Half == captures && s.QueueFull && s.QueueNarrow:
		return "", Full(s)
	case s.Half == captures && s.QueueFull:
		return "", "The queue is full: apply limits."
	case s.Half == captures && s.Busy > 0.85:
		return queueRole, fmt.Sprintf("The queue limits: %.0f%% of the time is spent writing to it.", 100*s.Busy)
	case s.Half == captures:
		return captureRole, "The source's log limits: all of it is in the queue."
	case s.Idle && s.TablesStopped > 0:
		return "", fmt.Sprintf("Stopped tables wait for what their messages say: %d, whose changes are skipped. All else that has come is applied.", s.TablesStopped)
	case s.Idle && s.Half != "":
		return "", "Nothing waits: everything in the queue is applied."
	case s.Idle:
		return "", "Nothing waits: everything in the source's log is applied."
	case s.State == sampled.OneAlone:
		return "", "One transaction is too large to be applied beside others: later ones wait for it."
	case p.Fresh == 0 && s.InFlight > 0:
		return agentRole, fmt.Sprintf("%d transactions are being applied, and none has finished: the target limits (locks held by others?).", s.InFlight)
	case s.Mode == sampled.InBatches && (s.Busy > 0.85 || s.CaptureWaits > 0.5) && waitsFar(s):
		return "", fmt.Sprintf("Round trips to the target limit: one batch follows the other, and each waits for at least one of %.1f ms. tidemark apply near the target would not.", s.RoundTrip)
	case s.Mode == sampled.InBatches && s.Busy > 0.85:
		return agentRole, "The target limits: it applies one batch after the other."
	case s.Mode == sampled.InBatches && p.Full > 0.5:
		return agentRole, "The target limits: batches follow each other on their way to it, and wait for its answers."
	case s.Mode == sampled.InBatches:
		return captureRole, "The source's log limits: batches wait for transactions."
	case s.Busy > 0.85*float64(s.Agents) && waitsFar(s):
		return "", fmt.Sprintf("Round trips to the target limit: %.1f of %d agents wait for one at any time, of %.1f ms. More agents (--agents %d) wait side by side.", s.InTransit, s.Agents, s.RoundTrip, 2*s.Agents)
	case s.Busy > 0.85*float64(s.Agents):
		return agentRole, fmt.Sprintf("The agents limit: %.1f of %d are always busy. More of them (--agents) help if the target itself is not saturated.", s.Busy, s.Agents)
	case p.Blocked > 0.5 && p.Sent > s.InFlight/2:
		return agentRole, fmt.Sprintf("The target limits: %d of %d transactions that are read are on their way to it, without an answer.", p.Sent, s.InFlight)
	case s.InFlight-p.Sent > 4*s.Agents && waitsFar(s):
		return "", fmt.Sprintf("Dependencies and round trips limit: %d transactions are read and wait for others that change the same rows, and each of those for a round trip of %.1f ms. tidemark apply near the target would not.", s.InFlight-p.Sent, s.RoundTrip)
	case s.InFlight-p.Sent > 4*s.Agents:
		return agentRole, fmt.Sprintf("Dependencies limit: %d transactions are read and wait for others that change the same rows; %.1f of %d agents are busy.", s.InFlight-p.Sent, s.Busy, s.Agents)
	}
	return captureRole, "The source's log limits: the agents wait for transactions."
}

// Full is the sentence about a stream whose capture waits for space in the queue.
func Full(s sampled.Status) string {
	if s.QueueNarrow {
		return "The disk of the queue is full, and capture waits until apply has made room, or somebody else has."
	}
	return "The queue is full, and capture waits for space in it."
}

// waitsFar reports whether the agents spend most of their time waiting for round trips that are
// long enough to matter.
func waitsFar(s sampled.Status) bool { return s.RoundTrip >= 1 && s.InTransit >= s.Busy/2 }

// sends says what the server that sends its log does in a kind of time.
var sends = map[tidemark.WaitKind]string{
	tidemark.WaitCPU:       "it decodes its log",
	tidemark.WaitProcessor: "it decodes its log, and has no processor for that",
	tidemark.WaitDataRead:  "it reads its log from its disk",
	tidemark.WaitTemp:      "transactions are larger than logical_decoding_work_mem",
	tidemark.WaitStandby:   "it waits until the standbys of synchronized_standby_slots have that log",
	tidemark.WaitNetwork:   "it waits for the link, or for this machine to take more",
}

// words adds to a sentence what a split tells about it.
func words(text string, s sample.Split) string {
	if idle := s.Share(tidemark.WaitNewLog); s.Role == captureRole && idle >= 0.5 {
		return fmt.Sprintf("Nothing to gain here: the source makes no more changes than these; %.0f%% of the time it has sent all of its log.", 100*idle)
	}
	most := s.Parts[0].Kind
	share := 100 * s.Share(most)
	if most == tidemark.WaitUnknown || share < 25 {
		return text
	}
	if s.Role == captureRole && sends[most] != "" {
		return fmt.Sprintf("%s %.0f%% of the time %s (%s).", text, share, sends[most], most)
	}
	return fmt.Sprintf("%s %.0f%% of the waiting for the %s is %s.", text, share, s.On, most)
}
