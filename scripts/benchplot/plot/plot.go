// Package plot draws the results of benchmarks: a bar for each test of each subject, its 95% interval, the speed that
// the memory allows as a line, and a star above bars with doubtful runs. It is a package of its own because it links a
// plotting library.
package plot

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"runner/bench"
)

// palette has colors that people with color blindness tell apart (Okabe and Ito 2008).
var palette = []color.Color{
	color.RGBA{0x00, 0x72, 0xb2, 0xff}, color.RGBA{0xe6, 0x9f, 0x00, 0xff}, color.RGBA{0x00, 0x9e, 0x73, 0xff},
	color.RGBA{0xcc, 0x79, 0xa7, 0xff}, color.RGBA{0x56, 0xb4, 0xe9, 0xff}, color.RGBA{0xd5, 0x5e, 0x00, 0xff},
}

// The size of a panel, and of a bar with the space beside it.
const (
	height   = 9 * vg.Centimeter
	least    = 10 * vg.Centimeter
	barWidth = 0.9 * vg.Centimeter
	margin   = 3 * vg.Centimeter
	caption  = 0.8 * vg.Centimeter
)

// longLabel is how many characters of a test's name have room below a bar without being turned.
const longLabel = 8

func init() { plot.DefaultFont.Variant = "Sans" } // a page has other fonts where this one is not installed

// SVG draws rows: a panel for tests that read, one for those that generate, and one for workloads. Below them stand the
// models and the processors.
func SVG(w io.Writer, rows []bench.Row) error {
	var panels []*plot.Plot
	var widths []vg.Length
	total := vg.Length(0)
	for _, p := range []struct {
		title string
		has   func(r *bench.Row) bool
	}{
		{"Reading prompts", func(r *bench.Row) bool { return r.Prompt > 0 && r.Generate == 0 }},
		{"Generating", func(r *bench.Row) bool { return r.Generate > 0 }},
		{"Answering", func(r *bench.Row) bool { return r.Workload != "" }},
	} {
		var list []bench.Row
		for i := range rows {
			if p.has(&rows[i]) {
				list = append(list, rows[i])
			}
		}
		if len(list) == 0 {
			continue
		}
		panel, width, err := bars(p.title, list)
		if err != nil {
			return err
		}
		panels, widths, total = append(panels, panel), append(widths, width), total+width
	}
	c := vgsvg.New(total, height+caption)
	whole := draw.New(c)
	at := vg.Length(0)
	for i, p := range panels {
		p.Draw(draw.Crop(whole, at, at+widths[i]-total, caption, 0))
		at += widths[i]
	}
	style := plot.New().X.Label.TextStyle
	style.Font.Size, style.XAlign = vg.Points(9), text.XLeft
	whole.FillText(style, vg.Point{X: margin / 4, Y: caption / 2}, about(rows))
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return err
	}
	_, err := w.Write(bytes.ReplaceAll(b.Bytes(), []byte("font-family:Liberation Sans"),
		[]byte("font-family:Liberation Sans,Arial,sans-serif"))) // few systems have the first one
	return err
}

// about names the models and the processors.
func about(rows []bench.Row) string {
	var list []string
	for _, value := range []func(r *bench.Row) string{
		func(r *bench.Row) string { return r.Model }, func(r *bench.Row) string { return r.CPU },
	} {
		for i := range rows {
			if x := value(&rows[i]); x != "" && !slices.Contains(list, x) {
				list = append(list, x)
			}
		}
	}
	return strings.Join(list, "; ")
}

// bars draws a panel.
func bars(title string, rows []bench.Row) (*plot.Plot, vg.Length, error) {
	p := plot.New()
	p.Title.Text = title
	p.Y.Label.Text = "tokens a second"
	p.Y.Min = 0
	p.Y.Tick.Marker = plot.TickerFunc(func(low, high float64) []plot.Tick {
		ticks := plot.DefaultTicks{}.Ticks(low, high)
		for i := range ticks {
			if ticks[i].Label != "" {
				ticks[i].Label = strconv.FormatFloat(ticks[i].Value, 'g', 6, 64)
			}
		}
		return ticks
	})
	p.Legend.Top, p.Legend.Left = true, true // so that a wider font than the one measured here does not cross the swatch
	p.Legend.Padding = vg.Points(3)
	subject := naming(rows)
	var tests, subjects []string
	add := func(list *[]string, name string) int {
		if i := slices.Index(*list, name); i >= 0 {
			return i
		}
		*list = append(*list, name)
		return len(*list) - 1
	}
	for i := range rows {
		add(&tests, rows[i].Test())
		add(&subjects, subject(&rows[i]))
	}
	step := float64(len(subjects)) + 1 // bars of a test and a gap
	most := 0.0
	var allowed *plotter.Line
	var doubtful plotter.XYLabels
	for i := range rows {
		r := &rows[i]
		which := add(&subjects, subject(r))
		x := float64(add(&tests, r.Test()))*step + float64(which)
		bar, err := plotter.NewPolygon(plotter.XYs{{X: x - 0.4}, {X: x - 0.4, Y: r.Median}, {X: x + 0.4, Y: r.Median},
			{X: x + 0.4}})
		if err != nil {
			return nil, 0, err
		}
		bar.Color, bar.Width = palette[which%len(palette)], 0
		p.Add(bar)
		whisker, err := line(x, x, r.Low, r.High, vg.Points(1.5))
		if err != nil {
			return nil, 0, err
		}
		p.Add(whisker)
		most = max(most, r.High)
		if r.Doubtful() > 0 {
			doubtful.XYs = append(doubtful.XYs, plotter.XY{X: x, Y: r.High})
			doubtful.Labels = append(doubtful.Labels, "*")
		}
		if r.Roofline > 0 {
			roof := r.Median / r.Roofline
			l, err := line(x-0.5, x+0.5, roof, roof, vg.Points(1))
			if err != nil {
				return nil, 0, err
			}
			l.Dashes = []vg.Length{vg.Points(4), vg.Points(2)}
			p.Add(l)
			allowed, most = l, max(most, roof)
		}
	}
	for i, name := range subjects {
		p.Legend.Add(" "+name, swatch{palette[i%len(palette)]})
	}
	entries := len(subjects)
	if allowed != nil {
		p.Legend.Add(" roofline", allowed)
		entries++
	}
	if len(doubtful.XYs) > 0 {
		stars, err := plotter.NewLabels(doubtful)
		if err != nil {
			return nil, 0, err
		}
		for i := range stars.TextStyle {
			stars.TextStyle[i].XAlign = text.XCenter
		}
		p.Add(stars)
		p.Legend.Add(" * has doubtful runs")
		entries++
	}
	p.Y.Max = most / max(0.3, 0.92-0.065*float64(entries)) // room for the legend
	p.X.Min, p.X.Max = -1, float64(len(tests))*step-1
	ticks := make([]plot.Tick, len(tests))
	for i, name := range tests {
		ticks[i] = plot.Tick{Value: float64(i)*step + float64(len(subjects)-1)/2, Label: name}
	}
	p.X.Tick.Marker = plot.ConstantTicks(ticks)
	if slices.ContainsFunc(tests, func(name string) bool { return len(name) > longLabel }) {
		p.X.Tick.Label.Rotation = math.Pi / 5
		p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = text.XRight, text.YCenter
	}
	p.X.Tick.Length = 0
	p.X.Width = 0
	return p, max(least, margin+barWidth*vg.Length(math.Ceil(step*float64(len(tests))))), nil
}

// naming returns a function that names what a bar is about: the engine with its threads, and the model if there are
// several. Bars of the same test have different names.
func naming(rows []bench.Row) func(r *bench.Row) string {
	models := slices.ContainsFunc(rows, func(r bench.Row) bool { return r.Model != rows[0].Model })
	names := map[*bench.Row]string{}
	used := map[[2]string]bool{}
	for i := range rows {
		r := &rows[i]
		name := r.Label()
		if models {
			name = strings.TrimPrefix(r.Model+", "+name, ", ")
		}
		unique := name
		for n := 2; used[[2]string{r.Test(), unique}]; n++ {
			unique = fmt.Sprintf("%s (%d)", name, n)
		}
		used[[2]string{r.Test(), unique}] = true
		names[r] = unique
	}
	return func(r *bench.Row) string { return names[r] }
}

// line returns a line between two points.
func line(x1, x2, y1, y2 float64, width vg.Length) (*plotter.Line, error) {
	l, err := plotter.NewLine(plotter.XYs{{X: x1, Y: y1}, {X: x2, Y: y2}})
	if err != nil {
		return nil, err
	}
	l.Width = width
	return l, nil
}

// swatch is the picture of a bar in the legend.
type swatch struct{ color color.Color }

// Thumbnail implements plot.Thumbnailer.
func (s swatch) Thumbnail(c *draw.Canvas) {
	c.FillPolygon(s.color, []vg.Point{{X: c.Min.X, Y: c.Min.Y}, {X: c.Min.X, Y: c.Max.Y}, {X: c.Max.X, Y: c.Max.Y},
		{X: c.Max.X, Y: c.Min.Y}})
}
