// Package words proves what commands say: what applications will notice, once and in few lines.
package words

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

const shop = `CREATE TABLE item (id bigint unsigned PRIMARY KEY AUTO_INCREMENT, name varchar(40) UNIQUE, note text NOT NULL, active tinyint(1) NOT NULL DEFAULT 1,
	lasts time, changed timestamp NOT NULL DEFAULT '2020-01-01', Price decimal(9,2)) COLLATE utf8mb4_general_ci;
CREATE TABLE other (id int PRIMARY KEY, name varchar(40)) ENGINE=MyISAM COLLATE utf8mb4_general_ci;
CREATE VIEW both_of AS SELECT item.id, other.name FROM item JOIN other USING (id);
CREATE VIEW items AS SELECT id FROM item;
CREATE TRIGGER other_new BEFORE INSERT ON other FOR EACH ROW SET NEW.name = 'x';
CREATE TRIGGER item_new BEFORE INSERT ON item FOR EACH ROW SET NEW.note = 'x';
INSERT INTO item (name, note) VALUES ('a', 'b')`

// check says once each what an application will notice, in ten lines; copy says the same, before
// the rows and not again; nothing is said about tables that are not selected.
func TestApplicationsAreTold(t *testing.T) {
	t.Parallel()
	src, dst := testdb.MariaDB(t).NewDatabase(t, "shop"), testdb.Postgres(t, 17).NewDatabase(t, "shop")
	testdb.Query(t, src, shop)
	notices := map[string]string{
		"comparisons of text ignore case": " columns: public.item.name", "unless --tinyint1-bool makes boolean of it": "(1 column: public.item.active)", "names with capitals": "(public.item.Price)",
		"NOT NULL text and blobs have no default": "(1 column: public.item.note)", "unsigned integers take negative numbers": "as a decimal (1 column: public.item.id)",
		"time becomes interval": "public.item.lasts", "timestamp is shown in the time zone": "public.item.changed", "ORDER BY puts NULLs last": "", "zero dates": "",
	}
	findings := regexp.MustCompile(`(?m)^(blocker|warning|note): .*$`)
	told := func(all bool, args ...string) []string {
		t.Helper()
		o := testdb.Run(t, args...)
		lines := findings.FindAllString(o.Out+o.ErrOut, -1)
		for what, where := range notices {
			n := 0
			for _, l := range lines {
				if strings.Contains(l, what) && strings.Contains(l, where) {
					n++
				}
			}
			if n > 1 || all && n == 0 {
				t.Errorf("%v: %q %q is said %d times:\n%s%s", args, what, where, n, o.Out, o.ErrOut)
			}
		}
		slices.Sort(lines)
		if n := len(lines) - len(slices.Compact(slices.Clone(lines))); o.Code != 0 || n > 0 || !all && len(lines) > 9 {
			t.Errorf("%v: exit %d, %d lines, %d of them twice:\n%s%s", args, o.Code, len(lines), n, o.Out, o.ErrOut)
		}
		return lines
	}
	plain, whole := told(false, "check", src, dst), told(true, "check", src, dst, "-v")
	if len(plain) >= len(whole) {
		t.Errorf("-v shows no more: %q, %q", plain, whole)
	}
	for _, l := range told(true, "check", src, dst, "-v", "--include", "item") {
		if strings.Contains(l, "other") || strings.Contains(l, "both_of") {
			t.Error("not selected: ", l)
		}
	}
	if items := told(false, "check", src, dst, "--tinyint1-bool"); !slices.ContainsFunc(items, func(l string) bool { return strings.Contains(l, "active = 1 fails (1 column: public.item.active)") }) {
		t.Errorf("%q", items)
	}
	delete(notices, "zero dates") // the copy itself looks at values
	told(false, "copy", src, dst)
	told(true, "copy", src, dst, "-v", "--prep", "drop")
}
