package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"runner/bench"
	"runner/bench/machine"
)

// TestSVG: the picture is well-formed, has the names of tests and subjects, a bar for each row, and is the same each
// time.
func TestSVG(t *testing.T) {
	rows := []bench.Row{
		{Subject: "one & <only>", Prompt: 512, Median: 100, Low: 90, High: 110},
		{Subject: "two", Prompt: 512, Median: 200, Low: 190, High: 220},
		{Subject: "two", Generate: 128, Median: 20, Low: 19, High: 21, Roofline: 0.8},
	}
	var first, second bytes.Buffer
	for _, b := range []*bytes.Buffer{&first, &second} {
		if err := SVG(b, rows); err != nil {
			t.Fatal(err)
		}
	}
	if first.String() != second.String() {
		t.Error("two pictures of the same rows differ")
	}
	var words strings.Builder
	bars := 0
	d := xml.NewDecoder(&first)
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch x := token.(type) {
		case xml.CharData:
			words.Write(x)
		case xml.StartElement:
			for _, a := range x.Attr {
				if x.Name.Local == "path" && strings.Contains(a.Value, "fill:#") {
					bars++
				}
			}
		}
	}
	for _, want := range []string{"pp512", "tg128", "one & <only>", "two", "Reading prompts", "Generating"} {
		if !strings.Contains(words.String(), want) {
			t.Errorf("the picture does not say %q", want)
		}
	}
	if bars < len(rows) {
		t.Errorf("%d filled shapes, want at least %d", bars, len(rows))
	}
}

// TestDoubtfulBars: a bar with doubtful runs has a star, which is explained.
func TestDoubtfulBars(t *testing.T) {
	rows := []bench.Row{{Subject: "one", Generate: 8, Median: 10, Low: 9, High: 11}}
	for _, changed := range [][]string{nil, {"the clock was lower"}} {
		rows[0].Runs = []machine.State{{Changed: changed}}
		var b bytes.Buffer
		if err := SVG(&b, rows); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(b.String(), ">*</text>"); got != len(changed) {
			t.Errorf("%q: %d stars", changed, got)
		}
		if strings.Contains(b.String(), "has doubtful runs") != (changed != nil) {
			t.Errorf("%q: the legend is wrong", changed)
		}
	}
}

// TestBarsStandApart: rows that differ in the model, the threads or nothing at all have bars at different places.
func TestBarsStandApart(t *testing.T) {
	rows := []bench.Row{
		{Subject: "one", Threads: 1, Generate: 8, Median: 10, Low: 9, High: 11, Samples: []float64{10}},
		{Subject: "one", Threads: 2, Generate: 8, Median: 20, Low: 19, High: 22, Samples: []float64{20}},
		{Subject: "one", Threads: 2, Generate: 8, Median: 20, Low: 19, High: 21, Samples: []float64{20}},
		{Subject: "one", Threads: 2, Generate: 8, Median: 20, Low: 19, High: 21, Model: "another", Samples: []float64{20}},
	}
	var b bytes.Buffer
	if err := SVG(&b, rows); err != nil {
		t.Fatal(err)
	}
	places := map[string]bool{}
	for _, bar := range regexp.MustCompile(`<path d="(M[0-9.]+),[^"]*"[^>]*fill:#`).FindAllStringSubmatch(b.String(), -1) {
		places[bar[1]] = true
	}
	if len(places) < len(rows)+1 { // and the place of the legend
		t.Errorf("bars begin at %v, want %d places:\n%s", places, len(rows)+1, b.String())
	}
	for _, want := range []string{"one, 1 thread", "one, 2 threads (2)", "another, one, 2 threads"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the legend does not say %q", want)
		}
	}
}
