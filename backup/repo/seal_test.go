package repo

import (
	"bytes"
	"testing"
)

// TestSeal: a unit opens only as what it was sealed as, and two writers never encrypt with the same
// key and nonce.
func TestSeal(t *testing.T) {
	u := unit{kind: unitPiece, place: "a", number: 7, codec: 1, plain: 4, crc: 9}
	for name, key := range map[string][]byte{"encrypted": bytes.Repeat([]byte{1}, keySize), "plain": nil} {
		one, two := must(newSeal([idSize]byte{1}, key, [saltSize]byte{1})), must(newSeal([idSize]byte{1}, key, [saltSize]byte{2}))
		sealed := one.close([]byte("text"), &u)
		if got, err := one.open(bytes.Clone(sealed), &u); err != nil || string(got) != "text" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		for what, change := range map[string]func(*unit){
			"kind": func(u *unit) { u.kind = unitIndex }, "place": func(u *unit) { u.place = "b" }, "number": func(u *unit) { u.number++ },
			"codec": func(u *unit) { u.codec++ }, "last": func(u *unit) { u.last = true }, "size": func(u *unit) { u.plain++ }, "checksum": func(u *unit) { u.crc++ },
		} {
			other := u
			change(&other)
			if _, err := one.open(bytes.Clone(sealed), &other); err == nil {
				t.Errorf("%s: it opens with another %s", name, what)
			}
		}
		if _, err := two.open(bytes.Clone(sealed), &u); err == nil {
			t.Errorf("%s: it opens as another writer's", name)
		}
		if again := two.close([]byte("text"), &u); key != nil && bytes.Equal(again[:4], sealed[:4]) {
			t.Error("two writers encrypt alike")
		}
	}
}
