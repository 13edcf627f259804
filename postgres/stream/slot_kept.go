package stream

import (
	"context"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// StandbySlots selects, as text, the slots in synchronized_standby_slots that hold failover slots
// back, each with the reason. Slots before a position are behind.
const StandbySlots = `SELECT string_agg(name || CASE WHEN slot_name IS NULL THEN ' (does not exist)' WHEN slot_type <> 'physical' THEN ' (is not physical)'
		WHEN to_jsonb(s) ->> 'invalidation_reason' <> '' THEN ' (is invalidated)' WHEN NOT active THEN ' (has no standby)' ELSE ' (is behind)' END, ', ' ORDER BY name)
	FROM (SELECT btrim(unnest(string_to_array(current_setting('synchronized_standby_slots', true), ',')), ' "') AS name) w LEFT JOIN pg_replication_slots s ON slot_name = name
	WHERE slot_name IS NULL OR slot_type <> 'physical' OR to_jsonb(s) ->> 'invalidation_reason' <> '' OR restart_lsn IS NULL OR `

// SlotKeeps reports how much log the server keeps for a slot, and how much it may still grow before
// the server removes it (max_slot_wal_keep_size).
func (s *Source) SlotKeeps(ctx context.Context, slot Slot) (tidemark.LogKept, error) {
	conn, release, err := s.Control(ctx)
	if err != nil {
		return tidemark.LogKept{}, err
	}
	defer release()
	var k tidemark.LogKept
	var open float64
	err = conn.QueryRow(ctx, `SELECT coalesce(pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, restart_lsn), 0)::bigint, coalesce(safe_wal_size, -1), coalesce(extract(epoch FROM clock_timestamp() - at), 0)::float8, coalesce(who, ''),
		CASE WHEN active_pid IN (SELECT pid FROM pg_stat_activity WHERE wait_event = 'WaitForStandbyConfirmation') THEN coalesce((`+StandbySlots+`restart_lsn < pg_current_wal_flush_lsn()), '') ELSE '' END
		FROM pg_replication_slots LEFT JOIN (SELECT at, who FROM (
			SELECT xact_start, 'process ' || pid || ' of ' || coalesce(usename, '?') || coalesce(' (' || nullif(application_name, '') || ')', '') FROM pg_stat_activity WHERE backend_xid IS NOT NULL
			UNION ALL SELECT prepared, 'the prepared transaction ' || gid FROM pg_prepared_xacts) o(at, who) ORDER BY at LIMIT 1) oldest ON true WHERE slot_name = $1`, slot.Name).Scan(&k.Bytes, &k.Room, &open, &k.OpenBy, &k.HeldBy)
	k.Open = time.Duration(open * float64(time.Second))
	if k.Room >= 0 { // a lost slot has none, and reports a negative one
		k.Room = max(k.Room, 0)
	}
	return k, s.Fail(ctx, "look at slot", slot.Name, err)
}
