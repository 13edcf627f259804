package event

import (
	"testing"
)

// A diff that does not fit a document is refused, and not skipped.
func TestJSONDiffsThatDoNotFit(t *testing.T) {
	const doc = "\x00\x02\x00\x1c\x00\x12\x00\x01\x00\x13\x00\x02\x00\x05\x07\x00\x02\x15\x00abb\x01\x00\x07\x00\x05\x01\x00" // {"a": 7, "bb": [1]}
	diff := func(what byte, path string, value ...byte) string {
		d := string(what) + string(rune(len(path))) + path
		if value != nil {
			d += string(rune(len(value))) + string(value)
		}
		return d
	}
	null := []byte{jsonLiteral, 0}
	for diffs, want := range map[string]string{
		"":                                   `{"a": 7, "bb": [1]}`,
		diff(diffReplace, "$.a", null...):    `{"a": null, "bb": [1]}`,
		diff(diffReplace, "$.a[0]", null...): `{"a": null, "bb": [1]}`,
		diff(diffReplace, "$.bb[last]", null...) + diff(diffInsert, "$.bb[0]", jsonLiteral, 1): `{"a": 7, "bb": [true, null]}`,
		diff(diffInsert, "$.bb[7]", null...):                                                   `{"a": 7, "bb": [1, null]}`,
		diff(diffInsert, "$.b", null...):                                                       `{"a": 7, "b": null, "bb": [1]}`,
		diff(diffInsert, `$."aa"`, null...) + diff(diffRemove, "$.bb"):                         `{"a": 7, "aa": null}`,
		diff(diffInsert, `$."\u0062\"\\"`, null...):                                            `{"a": 7, "bb": [1], "b\"\\": null}`,
		diff(diffRemove, "$.bb[last-0]") + diff(diffRemove, "$.a"):                             `{"bb": []}`,
		diff(diffReplace, "$.c", null...):                                                      errDiff.Error(),
		diff(diffReplace, "$.bb[1]", null...):                                                  errDiff.Error(),
		diff(diffReplace, "$.a[1]", null...):                                                   errDiff.Error(),
		diff(diffReplace, "$", null...):                                                        errDiff.Error(),
		diff(diffInsert, "$.a", null...):                                                       errDiff.Error(),
		diff(diffInsert, "$.a.b", null...):                                                     errDiff.Error(),
		diff(diffInsert, "$[1]", null...):                                                      errDiff.Error(),
		diff(diffRemove, "$.bb[last-1]"):                                                       errDiff.Error(),
		diff(diffRemove, "$.bb") + diff(diffReplace, "$.bb", null...):                          errDiff.Error(),
		diff(diffReplace, ".a", null...):                                                       errValue.Error(),
		diff(diffReplace, "$.*", null...):                                                      errValue.Error(),
		diff(diffReplace, "$.bb[*]", null...):                                                  errValue.Error(),
		diff(diffReplace, "$.bb[1", null...):                                                   errValue.Error(),
		diff(diffReplace, `$."a`, null...):                                                     errValue.Error(),
		diff(diffReplace, "$.a", 99):                                                           errValue.Error(),
		diff(diffReplace, "$.a"):                                                               errValue.Error(),
		diff(3, "$.a", null...):                                                                errValue.Error(),
		diff(diffRemove, "$.a") + "\x02":                                                       errValue.Error(),
	} {
		out, err := appendPatched(nil, []byte(doc), []byte(diffs))
		got := string(out)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %s, not %s", diffs, got, want)
		}
	}
	if out, err := appendPatched(nil, nil, nil); err != nil || string(out) != "null" {
		t.Errorf("%s %v", out, err)
	}
}

// FuzzJSONDiffs applies diffs to documents, both damaged: the result is JSON, or nothing.
func FuzzJSONDiffs(f *testing.F) {
	doc := "\x00\x02\x00\x1c\x00\x12\x00\x01\x00\x13\x00\x02\x00\x05\x07\x00\x02\x15\x00abb\x01\x00\x07\x00\x05\x01\x00"
	for _, diffs := range []string{"\x00\x03$.a\x03\x05\x02\x00", "\x01\x07$.bb[1]\x03\x0c\x01x", "\x02\x0c$.bb[last-0]", "\x01\x06$.\"\\u\"\x02\x04\x00", "\x01\x08$.\"\\n\".c\x02\x04\x00", "\x01\x04$.\xc3\xbc\x02\x04\x01\x02\x03$.a"} {
		f.Add([]byte(doc), []byte(diffs))
	}
	f.Fuzz(func(t *testing.T, doc, diffs []byte) {
		out, err := appendPatched(nil, doc, diffs)
		if err != nil {
			return
		}
		if len(out) == 0 {
			t.Fatal("nothing")
		}
		if again, err := appendPatched(nil, doc, diffs); err != nil || string(again) != string(out) {
			t.Fatalf("%q, and then %q: %v", out, again, err)
		}
		if plain, ok := appendJSON(nil, doc); len(diffs) == 0 && (!ok || string(plain) != string(out)) {
			t.Fatalf("%q without a change is %q", plain, out)
		}
	})
}

// FuzzJSON prints damaged documents of the binary form.
func FuzzJSON(f *testing.F) {
	f.Add([]byte("\x00\x01\x00\x0c\x00\x0b\x00\x01\x00\x05\x01\x00a"))
	f.Add([]byte("\x02\x02\x00\x0c\x00\x0c\x0a\x00\x04\x01\x00\x01b"))
	f.Add([]byte("\x0f\xf6\x04\x03\x02\x81\x0f"))
	f.Add([]byte("\x0b\x00\x00\x00\x00\x00\x00\xf0\x3f"))
	f.Fuzz(func(t *testing.T, v []byte) {
		if out, ok := appendJSON(nil, v); ok && len(out) == 0 {
			t.Fatal("nothing")
		}
	})
}
