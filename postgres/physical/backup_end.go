package physical

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
	"github.com/tidemarkdb/tidemark/postgres/wal"
)

// ending is what the end of a backup has found.
type ending struct {
	stop     uint64
	timeline uint32     // at the end
	ranges   []logRange // of the log that the backup needs, oldest first
}

// A logRange is a part of the log, in one timeline.
type logRange struct {
	timeline uint32
	from, to uint64
}

// End ends the backup once all files were read. It reads pg_control, which must be the last of
// them: on a standby it says how far the WAL must be replayed before the files are consistent. Kind
// Lost: the session that held the backup is gone, or part of the log that the backup needs.
func (b *Backup) End(ctx context.Context) (*tidemark.DataEnd, error) {
	_, control, err := b.control(ctx)
	if err != nil {
		return nil, err
	}
	call := "pg_backup_stop(false)"
	if b.e.Major < 15 {
		call = "pg_stop_backup(false, false)"
	}
	var lsn, label string
	var spaces *string
	err = b.conn.QueryRow(ctx, "SELECT lsn::text, labelfile, spcmapfile FROM "+call).Scan(&lsn, &label, &spaces)
	if err != nil {
		if server.SQLState(err) == "55000" {
			return nil, b.spoilt(err)
		}
		err = b.e.Fail(ctx, backupOp, b.e.Object, err)
		if tidemark.KindOf(err) == tidemark.Transient {
			err = sessionGone(b.e.Object, err)
		}
		return nil, err
	}
	if b.end.stop, err = wal.ParseLSN(lsn); err != nil {
		return nil, b.e.Fail(ctx, backupOp, b.e.Object, err)
	}
	if b.end.stop < b.least {
		return nil, &tidemark.Error{Kind: tidemark.Lost, Op: backupOp, Object: b.e.Object, Err: errors.New("it ends at " + lsn + ", before " + wal.FormatLSN(b.least) + ", the end of the backup that it builds on"), Hint: "Make a full backup."}
	}
	if err := b.timelines(ctx, label); err != nil {
		return nil, err
	}
	end := &tidemark.DataEnd{Made: []tidemark.MadeFile{b.made("backup_label", []byte(label)), b.made(controlPath, control)}}
	if spaces != nil {
		end.Spaces = *spaces
	}
	end.Left = b.unloggedSince()
	end.Ranges = b.dataLogs()
	end.Log, err = b.log()
	return end, err
}

// spoilt is the error of a server that reports at the end that the backup is unusable: a standby
// was promoted meanwhile, or its primary has written log without full pages (full_page_writes).
func (b *Backup) spoilt(err error) error {
	return &tidemark.Error{Kind: tidemark.Lost, Op: backupOp, Object: b.e.Object, Err: errors.New(server.PlainCause(err)), Hint: "Start the backup again; nothing of this one was kept."}
}

// made returns a file created by us. If the group may read the data folder, it may read this file
// too.
func (d *dataFolder) made(p string, content []byte) tidemark.MadeFile {
	return tidemark.MadeFile{DataFile: tidemark.DataFile{Path: p, Size: int64(len(content)), Modified: time.Now(), Mode: 0o600 | d.mode&0o040}, Content: content}
}

// timelines finds the parts of the log that the backup needs. A primary stays in its timeline. A
// standby follows its primary into another one.
func (b *Backup) timelines(ctx context.Context, label string) error {
	first, err := labelTimeline(label)
	if err != nil {
		return b.e.Fail(ctx, backupOp, "backup_label", err)
	}
	b.end.timeline = first
	if b.standby {
		if err := b.conn.QueryRow(ctx, "SELECT greatest(min_recovery_end_timeline, $1::int) FROM pg_control_recovery()", int32(first)).Scan(&b.end.timeline); err != nil {
			return b.e.Fail(ctx, backupOp, b.e.Object, err)
		}
	}
	var history string
	if b.end.timeline != first {
		name := path.Join(logFolder, wal.HistoryName(b.end.timeline))
		text, err := os.ReadFile(filepath.Join(b.dir, filepath.FromSlash(name)))
		if err != nil {
			return &tidemark.Error{Op: "read", Object: name, Kind: tidemark.Lost, Err: tidemark.Pathless(err), Hint: "The standby switched to another timeline: start the backup again."}
		}
		history = string(text)
	}
	b.end.ranges, err = logRanges(history, first, b.end.timeline, b.start, b.end.stop)
	return b.e.Fail(ctx, backupOp, wal.HistoryName(b.end.timeline), err)
}

// logRanges returns the parts of the log from a place in one timeline to a place in the same or a
// later one. history is that of the later one.
func logRanges(history string, first, last uint32, from, stop uint64) (out []logRange, err error) {
	for timeline := first; timeline < last; timeline++ {
		left, err := server.LeftAt(history, timeline)
		if err != nil {
			return nil, err
		}
		if left > from {
			out = append(out, logRange{timeline, from, left})
			from = left
		}
	}
	return append(out, logRange{last, from, stop}), nil
}

// dataLogs returns the parts in the repository's form.
func (b *Backup) dataLogs() (out []tidemark.DataLog) {
	for _, r := range b.end.ranges {
		out = append(out, tidemark.DataLog{Timeline: r.timeline, From: wal.FormatLSN(r.from), To: wal.FormatLSN(r.to),
			First: b.archived(r.timeline, r.from), Last: b.archived(r.timeline, max(r.to, 1)-1)})
	}
	return out
}

// labelTimeline reads the timeline in which a backup has begun.
func labelTimeline(label string) (uint32, error) {
	for line := range strings.Lines(label) {
		if text, found := strings.CutPrefix(line, "START TIMELINE: "); found {
			n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 32)
			return uint32(n), err
		}
	}
	return 0, errors.New("it has no START TIMELINE")
}

// log lists the WAL files that the backup needs, and the histories of timelines, which a restored
// server needs to find its way through the log.
func (b *Backup) log() (out tidemark.DataList, err error) {
	add := func(name string) error {
		p := path.Join(logFolder, name)
		info, err := os.Stat(filepath.Join(b.dir, filepath.FromSlash(p)))
		if err != nil {
			return &tidemark.Error{Op: "read", Object: p, Kind: tidemark.Lost, Err: tidemark.Pathless(err),
				Hint: "The backup needs this WAL file, and the server has removed it: raise wal_keep_size, and max_slot_wal_keep_size if it is set."}
		}
		out.Add(tidemark.DataFile{Path: p, Size: info.Size(), Modified: info.ModTime(), Mode: uint32(info.Mode().Perm())})
		return nil
	}
	for i, r := range b.end.ranges {
		for at := r.from / uint64(b.segmentSize) * uint64(b.segmentSize); at < r.to; at += uint64(b.segmentSize) {
			if i+1 < len(b.end.ranges) && at+uint64(b.segmentSize) > r.to {
				continue // the next timeline begins in it, with a copy of what precedes
			}
			if err := add(wal.SegmentName(r.timeline, at, uint32(b.segmentSize))); err != nil {
				return out, err
			}
		}
	}
	histories, err := filepath.Glob(filepath.Join(b.dir, logFolder, "*.history"))
	if err != nil {
		return out, b.listFailed(logFolder, err)
	}
	for _, h := range histories {
		if err := add(filepath.Base(h)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return out, err
		}
	}
	return out, nil
}

// archived returns the file that contains a log position, in the folder that an archive has for
// each timeline.
func (d *dataFolder) archived(timeline uint32, place uint64) string {
	return fmt.Sprintf("%08X/%s", timeline, wal.SegmentName(timeline, place, uint32(d.segmentSize)))
}
