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

// ending is what a backup's end has found.
type ending struct {
	stop     uint64
	timeline uint32     // at the end
	ranges   []logRange // of the log that is needed, oldest first
}

// A logRange is a part of the log, in one timeline.
type logRange struct {
	timeline uint32
	from, to uint64
}

// End ends the backup, when all files were read. It reads pg_control, which has to be
// the last of them: of a standby it tells up to where the log has to be replayed before
// what was read is consistent. Kind Lost: the session that held the backup is gone, or
// a part of the log that is needed.
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
		return nil, &tidemark.Error{Kind: tidemark.Lost, Op: backupOp, Object: b.e.Object, Err: errors.New("it ends at " + lsn + ", before " + wal.FormatLSN(b.least) + ", up to where the backup that it builds on has read"), Hint: "Make a full backup."}
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

// spoilt is the error of a server that says at the end that the backup is of no use: a standby was promoted
// meanwhile, or its primary has written log without the pages (full_page_writes).
func (b *Backup) spoilt(err error) error {
	return &tidemark.Error{Kind: tidemark.Lost, Op: backupOp, Object: b.e.Object, Err: errors.New(server.PlainCause(err)), Hint: "Nothing was kept: begin again."}
}

// made is a file that was made now. Where the group may look into the data folder, it may
// read the server's files.
func (d *dataFolder) made(p string, content []byte) tidemark.MadeFile {
	return tidemark.MadeFile{DataFile: tidemark.DataFile{Path: p, Size: int64(len(content)), Modified: time.Now(), Mode: 0o600 | d.mode&0o040}, Content: content}
}

// timelines finds the parts of the log that are needed. A primary stays in its timeline.
// A standby follows its primary into another one.
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
			return &tidemark.Error{Op: "read", Object: name, Kind: tidemark.Lost, Err: causeOf(err), Hint: "The standby has gone into another timeline meanwhile: begin again."}
		}
		history = string(text)
	}
	b.end.ranges, err = logRanges(history, first, b.end.timeline, b.start, b.end.stop)
	return b.e.Fail(ctx, backupOp, wal.HistoryName(b.end.timeline), err)
}

// logRanges are the parts of the log from a place in one timeline to another in the same or a
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

// dataLogs are the parts as the repository has them.
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

// log lists the files of the log that are needed, and the histories of timelines, by
// which a restored server finds its way through the log.
func (b *Backup) log() (out tidemark.DataList, err error) {
	add := func(name string) error {
		p := path.Join(logFolder, name)
		info, err := os.Stat(filepath.Join(b.dir, filepath.FromSlash(p)))
		if err != nil {
			return &tidemark.Error{Op: "read", Object: p, Kind: tidemark.Lost, Err: causeOf(err),
				Hint: "The backup needs this file of the log, and the server has removed it: raise wal_keep_size, and max_slot_wal_keep_size if it is set."}
		}
		out.Add(tidemark.DataFile{Path: p, Size: info.Size(), Modified: info.ModTime(), Mode: uint32(info.Mode().Perm())})
		return nil
	}
	for i, r := range b.end.ranges {
		for at := r.from / uint64(b.segmentSize) * uint64(b.segmentSize); at < r.to; at += uint64(b.segmentSize) {
			if i+1 < len(b.end.ranges) && at+uint64(b.segmentSize) > r.to {
				continue // the next timeline begins in it, with a copy of what is before
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

// archived names the file that has a place of the log, in the folder that an archive has for
// each timeline.
func (d *dataFolder) archived(timeline uint32, place uint64) string {
	return fmt.Sprintf("%08X/%s", timeline, wal.SegmentName(timeline, place, uint32(d.segmentSize)))
}
