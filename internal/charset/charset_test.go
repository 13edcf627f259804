package charset

import (
	"bytes"
	"testing"
)

var languages = map[string]string{
	"cp932": "a\\日本語ｱ①Ⅰ～", "sjis": "a日本語ｱ\\", "ujis": "a日本語ｱ丂", "eucjpms": "a日本語ｱ①丂", "euckr": "a한국어", "big5": "a中文許",
	"gb2312": "a中文", "gbk": "a中文丂", "gb18030": "a中文丂é😀\U0010FFFF", "latin1": "aé€\u0081", "swe7": "aÅä", "utf8mb4": "aé日😀\uFFFD",
	"ucs2": "aé日\uFFFD", "utf16": "aé日😀", "utf16le": "aé日😀", "utf32": "aé日😀",
}

// Text converted in parts equals text converted at once.
func TestInParts(t *testing.T) {
	for set, text := range languages {
		write, ok := New("utf32", set)
		read, ok2 := New(set, "utf16")
		if !ok || !ok2 {
			t.Fatal(set)
		}
		for _, r := range []*Recoder{write, read} {
			if r == nil {
				continue // utf32 to utf32
			}
			in := recode(t, UTF8, r.fromName, []byte(text))
			want := recode(t, UTF8, r.toName, []byte(text))
			for cut := range len(in) + 1 {
				out, n, err := r.Append(nil, in[:cut], false)
				if err == nil {
					out, _, err = r.Append(out, in[n:], true)
				}
				if err != nil || !bytes.Equal(out, want) || cut-n > 3 {
					t.Errorf("%s to %s, cut at %d of %X: %X (%v), want %X", r.fromName, r.toName, cut, in, out, err, want)
				}
			}
			if out, _, err := r.Append(nil, in[:len(in)-1], true); err == nil && r.fromName != "latin1" && r.fromName != "swe7" {
				t.Errorf("%s: %X is cut and becomes %X", r.fromName, in[:len(in)-1], out)
			}
		}
	}
}

func recode(t *testing.T, from, to string, text []byte) []byte {
	r, ok := New(from, to)
	if !ok {
		t.Fatal(from, to)
	}
	if r == nil {
		return text
	}
	out, n, err := r.Append(nil, text, true)
	if err != nil || n != len(text) {
		t.Fatalf("%q from %s to %s: %v", text, from, to, err)
	}
	return out
}

// Errors name what a set lacks.
func TestErrors(t *testing.T) {
	for _, c := range []struct{ from, to, in, want string }{
		{"sjis", UTF8, "a\x93\xfa\xed\x40", "the bytes ED40 are no character in sjis"},
		{"ujis", UTF8, "\x8f\xa1", "the text ends inside a character of ujis: 8FA1"},
		{"tis620", UTF8, "\xa0", "the bytes A0 are no character in tis620"},
		{"utf16", UTF8, "\xd8\x3d\x00\x41", "the bytes D83D0041 are no character in utf16"},
		{"ucs2", UTF8, "\xd8\x3d\xde\x00", "the bytes D83D are no character in ucs2"},
		{"utf32", UTF8, "\x00\x11\x00\x00", "the bytes 00110000 are no character in utf32"},
		{UTF8, "latin1", "a\xe9", "the text ends inside a character of utf8mb4: E9"},
		{UTF8, "latin1", "\xe9a", "the bytes E9 are no character in utf8mb4"},
		{UTF8, "ucs2", "😀", "ucs2 has no character U+1F600"},
		{UTF8, "big5", "\uFFFD", "big5 has no character U+FFFD"},
		{"cp1251", "latin1", "\xcf", "latin1 has no character U+041F"},
	} {
		r, ok := New(c.from, c.to)
		if !ok {
			t.Fatal(c.from)
		}
		if out, _, err := r.Append(nil, []byte(c.in), true); err == nil || err.Error() != c.want {
			t.Errorf("%q from %s to %s: %q, %v", c.in, c.from, c.to, out, err)
		}
	}
	if _, ok := New("klingon", UTF8); ok {
		t.Error("klingon is known")
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, set := range []string{"latin1", "sjis"} {
		b.Run(set, func(b *testing.B) {
			r, _ := New(set, UTF8)
			in := bytes.Repeat([]byte("some words, \x93\xfa\x96\x7b, and more words of ASCII"), 1000)
			out := make([]byte, 0, 4*len(in))
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := r.Append(out[:0], in, true); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
