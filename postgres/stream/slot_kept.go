package stream

import (
	"context"

	"github.com/tidemarkdb/tidemark"
)

// SlotKeeps reports how much log the server keeps for a slot, and how much it may still grow before
// the server removes it (max_slot_wal_keep_size).
func (s *Source) SlotKeeps(ctx context.Context, slot Slot) (tidemark.LogKept, error) {
	conn, release, err := s.Control(ctx)
	if err != nil {
		return tidemark.LogKept{}, err
	}
	defer release()
	var k tidemark.LogKept
	err = conn.QueryRow(ctx, `SELECT coalesce(pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, restart_lsn), 0)::bigint, coalesce(safe_wal_size, -1)
		FROM pg_replication_slots WHERE slot_name = $1`, slot.Name).Scan(&k.Bytes, &k.Room)
	if k.Room >= 0 { // a lost slot has none, and reports a negative one
		k.Room = max(k.Room, 0)
	}
	return k, s.Fail(ctx, "look at slot", slot.Name, err)
}
