package engine

import "testing"

func TestTraits(t *testing.T) {
	for _, x := range table {
		family := Of(x.Family)
		if family.Name != x.Family || family.Family != x.Family {
			t.Errorf("%s is of the family %q, which has no row of its own", x.Name, x.Family)
		}
		if x.Title == "" || x.Quote == "" || x.Example == "" {
			t.Errorf("%s lacks a title, a quote or a scheme", x.Name)
		}
		for _, scheme := range x.Schemes {
			if of := OfURL(scheme + "://user:***@host/db"); of.Name != x.Family {
				t.Errorf("a URL with the scheme %s is of %q, want %q", scheme, of.Name, x.Family)
			}
		}
	}
	for _, x := range []struct{ url, name string }{
		{"PostgreSQL://h/d", Postgres}, {"mariadb://h", MySQL}, {"db2://h/D", Db2}, {"postgres", Postgres}, {"dump.sql", ""}, {"oracle://h/d", ""}, {"", ""},
	} {
		if is := OfURL(x.url).Name; is != x.name {
			t.Errorf("%q is of %q, want %q", x.url, is, x.name)
		}
	}
	if of := Of("oracle"); of.Family != "oracle" || of.Title != "oracle" || of.KeepsLog || Family("oracle") != "oracle" {
		t.Errorf("an engine without a row has the traits %+v", of)
	}
}
