package wire

import (
	"net/url"
	"testing"
)

func TestReadPage(t *testing.T) {
	for _, c := range []struct {
		query string
		want  Page
		param string
	}{
		{"", Page{Limit: 20}, ""}, {"limit=1&order=asc&after=x", Page{1, true, "x"}, ""},
		{"limit=100&order=desc", Page{Limit: 100}, ""},
		{"limit=0", Page{}, "limit"}, {"limit=101", Page{}, "limit"}, {"limit=x", Page{}, "limit"},
		{"limit=99999999999999999999", Page{}, "limit"},
		{"order=up", Page{Limit: 20}, "order"},
	} {
		query, err := url.ParseQuery(c.query)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ReadPage(query, 100)
		if param := paramOf(t, err); got != c.want || param != c.param {
			t.Errorf("%s: %+v, error about %q", c.query, got, param)
		}
	}
}
