package main

import (
	"errors"
	"strings"
	"testing"
)

// TestRenew: each table is replaced by that of its benchmark, and the rest of the document stays.
func TestRenew(t *testing.T) {
	text := "# Speed\n<!-- runner bench -p 1 -->\nold\n<!-- end of runner bench -->\ntext\n" +
		"<!-- runner bench --shape x -->\n<!-- end of runner bench -->\nlast <!-- another comment -->\n"
	bench := func(args []string) (string, error) { return "| " + strings.Join(args, "+") + " |\n", nil }
	got, err := renew(text, bench)
	if err != nil {
		t.Fatal(err)
	}
	want := "# Speed\n<!-- runner bench -p 1 -->\n\n| -p+1 |\n\n<!-- end of runner bench -->\ntext\n" +
		"<!-- runner bench --shape x -->\n\n| --shape+x |\n\n<!-- end of runner bench -->\nlast <!-- another comment -->\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if again, err := renew(got, bench); err != nil || again != got {
		t.Errorf("a second time it gives %v\n%s", err, again)
	}
	if _, err := renew("<!-- runner bench -->", bench); !errors.Is(err, errEnd) {
		t.Errorf("without an end the error is %v", err)
	}
	failed := errors.New("no processor")
	if _, err := renew(text, func([]string) (string, error) { return "", failed }); !errors.Is(err, failed) {
		t.Errorf("the error of the benchmark is lost: %v", err)
	}
}
