package bulk

import "testing"

func TestHolds(t *testing.T) {
	for _, x := range []struct {
		set, text string
		want      bool
	}{
		{"latin1", "größe", true}, {"latin1", "日本", false}, {"latin1", "plain", true}, {"ascii", "größe", false}, {"ascii", "plain", true},
		{"utf8mb3", "日本", true}, {"utf8", "größe", true}, {"utf8mb3", "😀", false}, {"utf8mb4", "😀", true}, {"", "😀", true},
		{"cp1251", "кот", true}, {"cp1251", "größe", false}, {"gb18030", "😀", true}, {"ucs2", "日本", true}, {"ucs2", "😀", false},
	} {
		if got := holds(x.set, x.text); got != x.want {
			t.Errorf("%s holds %q: %v", x.set, x.text, got)
		}
	}
}
