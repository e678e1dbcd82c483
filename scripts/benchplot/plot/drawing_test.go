package plot

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"runner/bench"
)

// shape is a path of a picture: its bounds in points, upwards, and its style.
type shape struct {
	left, right, low, high float64
	style                  map[string]string
}

func (s *shape) width() float64 { return s.right - s.left }

// label is a text of a picture, with where it begins.
type label struct {
	text string
	x, y float64
}

// drawing is what a picture shows.
type drawing struct {
	shapes []shape
	labels []label
}

// read reads a picture. It knows the paths of straight lines that the plotting library writes.
func read(t *testing.T, svg []byte) (d drawing) {
	t.Helper()
	number := func(text string) float64 {
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	var picture struct {
		Group struct {
			Paths []struct {
				D     string `xml:"d,attr"`
				Style string `xml:"style,attr"`
			} `xml:"path"`
			Texts []struct {
				X    string `xml:"x,attr"`
				Y    string `xml:"y,attr"`
				Text string `xml:",chardata"`
			} `xml:"text"`
		} `xml:"g"`
	}
	if err := xml.Unmarshal(svg, &picture); err != nil {
		t.Fatal(err)
	}
	for _, p := range picture.Group.Paths {
		s := shape{math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1), map[string]string{}}
		for _, point := range strings.FieldsFunc(p.D, func(r rune) bool { return strings.ContainsRune("MLZ", r) }) {
			x, y, _ := strings.Cut(point, ",")
			s.left, s.right = min(s.left, number(x)), max(s.right, number(x))
			s.low, s.high = min(s.low, number(y)), max(s.high, number(y))
		}
		for _, part := range strings.Split(p.Style, ";") {
			name, value, _ := strings.Cut(part, ":")
			s.style[name] = value
		}
		d.shapes = append(d.shapes, s)
	}
	for _, x := range picture.Group.Texts {
		d.labels = append(d.labels, label{x.Text, number(x.X), -number(x.Y)})
	}
	return d
}

// only returns the shapes for which a condition holds, from left to right.
func (d *drawing) only(holds func(s *shape) bool) (list []shape) {
	for i := range d.shapes {
		if holds(&d.shapes[i]) {
			list = append(list, d.shapes[i])
		}
	}
	slices.SortStableFunc(list, func(a, b shape) int { return int(math.Copysign(1, a.left-b.left)) })
	return list
}

// panels returns the panels of a picture. Each has a white background.
func (d *drawing) panels() (list []drawing) {
	for _, back := range d.only(func(s *shape) bool { return s.style["fill"] == "#FFFFFF" }) {
		p := drawing{shapes: d.only(func(s *shape) bool {
			return s.style["fill"] != "#FFFFFF" && s.left >= back.left && s.right <= back.right
		})}
		for _, l := range d.labels {
			if l.x >= back.left && l.x < back.right && l.y >= back.low {
				p.labels = append(p.labels, l)
			}
		}
		list = append(list, p)
	}
	return list
}

// axis returns a function that gives the value at a height, as the numbers beside the axis say.
func (d *drawing) axis(t *testing.T) func(height float64) float64 {
	t.Helper()
	level := d.only(func(s *shape) bool { return s.low == s.high && s.style["stroke-dasharray"] == "" })
	longest := slices.MaxFunc(level, func(a, b shape) int { return int(math.Copysign(1, a.width()-b.width())) })
	var ticks, values []float64
	for _, s := range level {
		if s.width() > longest.width()-0.01 {
			ticks = append(ticks, s.low)
		}
	}
	for _, l := range d.labels {
		if x, err := strconv.ParseFloat(l.text, 64); err == nil && l.x < longest.left {
			values = append(values, x)
		}
	}
	slices.Sort(ticks)
	slices.Sort(values)
	n := len(ticks) - 1
	if n < 1 || len(values) != len(ticks) {
		t.Fatalf("the axis has marks at %v for %v", ticks, values)
	}
	return func(height float64) float64 {
		return values[0] + (height-ticks[0])*(values[n]-values[0])/(ticks[n]-ticks[0])
	}
}

// TestHeights reads the picture: each bar is as high as the axis says its median is, its interval goes from its low to
// its high end, and the speed that the memory allows is a dashed line across it.
func TestHeights(t *testing.T) {
	row := func(subject string, median, low, high, share float64, prompt, generate int, workload string) bench.Row {
		return bench.Row{Subject: subject, Median: median, Low: low, High: high, Mean: 1.3 * median, Roofline: share,
			Prompt: prompt, Generate: generate, Workload: workload}
	}
	panels := [][]bench.Row{
		{row("one", 100, 90, 130, 0, 512, 0, ""), row("two", 200, 190, 220, 0, 512, 0, ""),
			row("one", 50, 49, 52, 0, 2048, 0, ""), row("two", 25, 20, 26, 0, 2048, 0, "")},
		{row("one", 20, 17, 21, 0.8, 0, 128, ""), row("two", 14, 13, 18, 0.4, 0, 128, ""),
			row("one", 30, 29, 31, 0, 16, 16, ""), row("two", 28, 22, 29, 0, 16, 16, "")},
		{row("one", 7, 6, 7.5, 0, 0, 0, "answer"), row("two", 3, 2.5, 4, 0, 0, 0, "answer")},
	}
	var b bytes.Buffer
	if err := SVG(&b, slices.Concat(panels...)); err != nil {
		t.Fatal(err)
	}
	picture := read(t, b.Bytes())
	drawn := picture.panels()
	if len(drawn) != len(panels) {
		t.Fatalf("%d panels, want %d", len(drawn), len(panels))
	}
	for i, rows := range panels {
		checkPanel(t, &drawn[i], rows)
	}
}

// checkPanel compares a panel with its rows, which are in the order of their bars.
func checkPanel(t *testing.T, d *drawing, rows []bench.Row) {
	t.Helper()
	value := d.axis(t)
	near := func(got, want float64) bool { return math.Abs(got-want) < 0.001*rows[0].Median }
	bars := d.only(func(s *shape) bool { return s.style["fill"] != "none" && near(value(s.low), 0) })
	whiskers := d.only(func(s *shape) bool { return s.style["stroke-width"] == "1.5" })
	dashed := d.only(func(s *shape) bool { return s.style["stroke-dasharray"] != "" && s.low == s.high })
	roofs := 0
	if axis := d.only(func(s *shape) bool { return s.left == s.right }); !near(value(axis[0].low), 0) {
		t.Errorf("the axis begins at %.2f", value(axis[0].low))
	}
	if len(bars) != len(rows) || len(whiskers) != len(rows) {
		t.Fatalf("%d bars and %d intervals for %d rows", len(bars), len(whiskers), len(rows))
	}
	colors := map[string]string{}
	for i, r := range rows {
		what := fmt.Sprintf("%s of %s", r.Test(), r.Subject)
		bar, w := bars[i], whiskers[i]
		if !near(value(bar.high), r.Median) {
			t.Errorf("the bar of %s is %.2f high, want %v", what, value(bar.high), r.Median)
		}
		if !near(value(w.low), r.Low) || !near(value(w.high), r.High) {
			t.Errorf("the interval of %s is %.2f to %.2f, want %v to %v", what, value(w.low), value(w.high), r.Low, r.High)
		}
		if middle := (bar.left + bar.right) / 2; math.Abs(w.left-middle) > 0.02 || math.Abs(w.right-middle) > 0.02 {
			t.Errorf("the interval of %s is at %.2f and not in the middle of the bar, %.2f", what, w.left, middle)
		}
		if color, ok := colors[r.Subject]; ok && color != bar.style["fill"] {
			t.Errorf("%s is %s, and another bar of it is %s", what, bar.style["fill"], color)
		}
		colors[r.Subject] = bar.style["fill"]
		if r.Roofline > 0 {
			roofs++
		}
		across := slices.DeleteFunc(slices.Clone(dashed), func(s shape) bool {
			return s.left > bar.left || s.right < bar.right
		})
		switch {
		case r.Roofline == 0 && len(across) > 0:
			t.Errorf("%s has a roofline at %.2f", what, value(across[0].low))
		case r.Roofline > 0 && (len(across) != 1 || !near(value(across[0].low), r.Median/r.Roofline)):
			t.Errorf("the rooflines of %s are %+v, want one at %.2f", what, across, r.Median/r.Roofline)
		}
	}
	legend := slices.ContainsFunc(d.labels, func(l label) bool { return strings.TrimSpace(l.text) == "roofline" })
	if legend != (roofs > 0) || legend && len(dashed) != roofs+1 {
		t.Errorf("%d rooflines, %d dashed lines, and the legend names them: %v", roofs, len(dashed), legend)
	}
	if len(colors) != 2 || colors["one"] == colors["two"] {
		t.Errorf("the subjects have the colors %v", colors)
	}
}
