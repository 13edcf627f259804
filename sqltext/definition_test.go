package sqltext

import (
	"fmt"
	"testing"
)

func TestDefinition(t *testing.T) {
	for text, want := range map[string]string{
		"`primary` int":                    "0 primary `primary`",
		"period date":                      "0 period period",
		"vector int":                       "0 vector vector",
		"PRIMARY KEY (`a`)":                "1 PRIMARY (",
		"CONSTRAINT `p` PRIMARY KEY (`a`)": "1 PRIMARY (",
		"UNIQUE (a)":                       "2  (",
		"constraint c unique (a)":          "2 c (",
		"CONSTRAINT c UNIQUE INDEX `u``v` USING HASH (a)": "2 u`v USING",
		"KEY (a)":                              "3  (",
		"KEY USING BTREE (a)":                  "3  USING",
		"index i (a)":                          "3 i (",
		"FULLTEXT KEY `f` (`a`)":               "4 f (",
		"SPATIAL s (a)":                        "5 s (",
		"VECTOR KEY `v` (`v`) `M`=6":           "6 v (",
		"FOREIGN KEY (a) REFERENCES b (c)":     "7  (",
		"CONSTRAINT `check` FOREIGN KEY i (a)": "7 check i",
		"CONSTRAINT CHECK (a > 0)":             "8  (",
		"/* x */ CONSTRAINT k CHECK (a > 0)":   "8 k (",
		"PERIOD FOR SYSTEM_TIME (a, b)":        "9  SYSTEM_TIME",
		"/*!50100 KEY `k` (`a`) */":            "3 k (",
		"":                                     "0  ",
	} {
		r := &Reader{Text: []byte(text)}
		is, name := r.Definition()
		if got := fmt.Sprint(uint8(is), " ", name, " ", r.Peek().Text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
