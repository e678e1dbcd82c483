package render

import (
	"fmt"
	"io"
	"strings"
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
	files map[string]*transfer
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

// Size formats a number of bytes in MiB or GiB.
func Size(bytes int64) string {
	const gib, mib = 1 << 30, 1 << 20
	if bytes >= gib {
		return fmt.Sprintf("%.1f GiB", float64(bytes)/gib)
	}
	return fmt.Sprintf("%.1f MiB", float64(bytes)/mib)
}

const (
	// nameColumns is the most columns of a file's name, so that the numbers fit into 80 columns.
	nameColumns = 26
	// usualState is not shown next to a bar.
	usualState = "downloading"
)

// shortened returns the end of a long name, which says more than its beginning: the quantization and the part.
func shortened(name string) string {
	for uniseg.StringWidth(name) > nameColumns {
		_, rest, _, _ := uniseg.FirstGraphemeClusterInString(strings.TrimPrefix(name, "…"), -1)
		name = "…" + rest
	}
	return name
}

// tellEvery is how often a file is reported without a terminal.
const tellEvery = 10 * time.Second

// NewTransfers returns a view of downloads that writes to out.
func NewTransfers(out io.Writer, terminal bool) *Transfers {
	t := &Transfers{out: out, files: map[string]*transfer{}}
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
			f.bar = t.bars.AddBar(total,
				mpb.PrependDecorators(decor.Name(shortened(CleanLine(file)), decor.WCSyncSpaceR),
					decor.Any(func(decor.Statistics) string {
						if state := *f.state.Load(); state != usualState {
							return state
						}
						return ""
					}, decor.WCSyncSpaceR)),
				mpb.AppendDecorators(decor.Any(func(s decor.Statistics) string {
					return Size(s.Current) + " / " + Size(s.Total)
				}, decor.WCSyncSpace), decor.Any(func(s decor.Statistics) string {
					speed, _ := f.pace(s.Current, s.Total, time.Now())
					return speed
				}, decor.WCSyncSpace), decor.Any(func(s decor.Statistics) string {
					_, left := f.pace(s.Current, s.Total, time.Now())
					return left
				}, decor.WCSyncSpace)))
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
