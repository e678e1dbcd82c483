package render

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rivo/uniseg"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// Transfers shows the progress of downloads: a bar for each file on a terminal, and else a line now and then. It is
// safe for concurrent use.
type Transfers struct {
	out io.Writer

	mu    sync.Mutex
	bars  *mpb.Progress // nil where there is no terminal
	order []string
	files map[string]*transfer
	names int // the columns of the longest name
}

type transfer struct {
	bar   *mpb.Bar
	state atomic.Pointer[string] // read while the bar is drawn
	told  time.Time

	begin time.Time
	// first is how much was done when the transfer began. It is not part of its speed.
	first atomic.Int64
}

// pace returns how fast the bytes of this transfer came on average, and how long the rest takes at that speed. It is
// empty while nothing can be said.
func (f *transfer) pace(done, total int64, now time.Time) (speed, left string) {
	took := now.Sub(f.begin).Seconds()
	got := done - f.first.Load()
	if got <= 0 || took < 0.5 {
		return "", ""
	}
	rate := float64(got) / took
	if done < total {
		left = (time.Duration(float64(total-done)/rate) * time.Second).String()
	}
	return Size(int64(rate)) + "/s", left
}

// Size formats a number of bytes, such as 1.5 KiB.
func Size(bytes int64) string {
	n := float64(bytes)
	switch {
	case bytes < 1<<10:
		return fmt.Sprintf("%d B", bytes)
	case bytes < 1<<20:
		return fmt.Sprintf("%.1f KiB", n/(1<<10))
	case bytes < 1<<30:
		return fmt.Sprintf("%.1f MiB", n/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", n/(1<<30))
}

// tellEvery is how often a file is reported without a terminal.
const tellEvery = 10 * time.Second

// NewTransfers returns a view of downloads that writes to out. The bars have the order of files, whichever moves first.
func NewTransfers(out io.Writer, terminal bool, files []string) *Transfers {
	t := &Transfers{out: out, order: files, files: map[string]*transfer{}}
	for _, f := range files {
		t.names = max(t.names, min(uniseg.StringWidth(CleanLine(f)), nameColumns))
	}
	if terminal {
		t.bars = mpb.New(mpb.WithOutput(out), mpb.WithAutoRefresh())
	}
	return t
}

// Set says how many bytes of a file are done. done may fall.
func (t *Transfers) Set(file, state string, done, total int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.files[file]
	if f == nil {
		f = &transfer{begin: time.Now()}
		f.first.Store(done)
		f.state.Store(new(string))
		if t.files[file] = f; t.bars != nil {
			f.bar = t.addBar(file, f, total)
			f.bar.SetCurrent(done)
		}
	}
	f.first.Store(min(f.first.Load(), done))
	changed := *f.state.Swap(&state) != state
	if f.bar != nil {
		f.bar.SetCurrent(done)
		return
	}
	if now := time.Now(); changed || now.Sub(f.told) >= tellEvery {
		f.told = now
		fmt.Fprintf(t.out, "%s: %s, %s of %s\n", CleanLine(file), state, Size(done), Size(total))
	}
}

// addBar adds the bar of a file.
func (t *Transfers) addBar(file string, f *transfer, total int64) *mpb.Bar {
	place := slices.Index(t.order, file)
	if place < 0 {
		place = len(t.order)
	}
	name, names := CleanLine(file), t.names
	draw := func(w io.Writer, s decor.Statistics) error {
		speed, left := f.pace(s.Current, s.Total, time.Now())
		r := row{name: name, names: names, state: *f.state.Load(), done: s.Current, total: s.Total, speed: speed, left: left}
		// What was typed, such as ^C, is left of the cursor. The last column stays free.
		_, err := io.WriteString(w, "\r"+r.text(s.AvailableWidth-1))
		return err
	}
	bar, err := t.bars.Add(total, mpb.BarFillerFunc(draw), mpb.BarFillerTrim(), mpb.BarPriority(place))
	if err != nil {
		panic(err) // it was ended
	}
	return bar
}

// Say writes a line above the bars.
func (t *Transfers) Say(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bars != nil {
		fmt.Fprintln(t.bars, CleanLine(line))
		return
	}
	fmt.Fprintln(t.out, CleanLine(line))
}

// End leaves the bars as they are. whole says that all files are done.
func (t *Transfers) End(whole bool) {
	if t.bars == nil {
		return
	}
	t.mu.Lock()
	for _, f := range t.files {
		switch {
		case whole:
			f.bar.SetTotal(-1, true)
		default:
			f.bar.Abort(false)
		}
	}
	t.mu.Unlock()
	t.bars.Wait()
}
