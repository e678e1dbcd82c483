package mlx

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/child"
	"runner/backend/child/protocol"
)

// conversation is a worker that a test speaks to in frames.
type conversation struct {
	*protocol.Writer
	*protocol.Reader
	cmd *exec.Cmd
}

// talk starts a worker. Its shared file has some bytes.
func talk(t *testing.T, p child.Program, shared int64) *conversation {
	t.Helper()
	theirIn, in, err := os.Pipe()
	out, theirOut, err2 := os.Pipe()
	rows, err3 := os.CreateTemp(t.TempDir(), "rows")
	if err := errors.Join(err, err2, err3); err != nil {
		t.Fatal(err)
	}
	if err := rows.Truncate(shared); err != nil {
		t.Fatal(err)
	}
	c := &conversation{protocol.NewWriter(in), protocol.NewReader(out), exec.Command(p.Path, p.Args...)}
	c.cmd.Stdin = bytes.NewReader(p.Input)
	c.cmd.ExtraFiles = []*os.File{theirIn, theirOut, rows}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	limit := time.AfterFunc(2*time.Minute, func() { _ = c.cmd.Process.Kill() }) // it is this test's own
	for _, f := range []*os.File{theirIn, theirOut, rows} {
		f.Close()
	}
	t.Cleanup(func() {
		in.Close()
		_ = c.cmd.Wait() // the status says all
		limit.Stop()
		out.Close()
	})
	return c
}

// ask sends a request and returns the answer. It calls progress for each frame of progress before that.
func (c *conversation) ask(t *testing.T, f protocol.Frame, progress func(protocol.Progress)) protocol.Frame {
	t.Helper()
	if err := c.Write(f); err != nil {
		t.Fatal(err)
	}
	for {
		f, err := c.Next()
		if err != nil {
			t.Fatal(err)
		}
		if f.Kind != protocol.KindProgress {
			if f.Kind == protocol.KindError {
				t.Fatalf("error %s", f.Head)
			}
			return f
		}
		var p protocol.Progress
		if err := f.JSON(&p); err != nil {
			t.Fatal(err)
		}
		if progress != nil {
			progress(p)
		}
	}
}

// slow makes a worker take its model for a slow one, and report all progress.
const slow = `
model.Model.slow = property(lambda m: True, lambda m, slow: None)
from worker import protocol
def tell(self, head):
    self.pipes.send(protocol.PROGRESS, head)
protocol.Progress.tell = tell
`

// TestLayersAreProgress: a slow model reports each of its layers in a step, and says how many there are. Another one
// does neither.
func TestLayersAreProgress(t *testing.T) {
	p := python(t)
	path := demoFolder(t)
	f, err := ReadFolder(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, python string
		parts        int
	}{{"slow", slow, 6}, {"fast", "", 0}} {
		t.Run(c.name, func(t *testing.T) {
			start, err := Start(p, f, 0)
			if err != nil {
				t.Fatal(err)
			}
			change(t, &start, c.python)
			w := talk(t, start, int64(f.Vocab.Len())*4)
			answer := w.ask(t, protocol.Frame{Kind: protocol.KindLoad, Head: []byte(`{"path":"` + path + `"}`)}, nil)
			var loaded protocol.Loaded
			if err := answer.JSON(&loaded); err != nil || loaded.Parts != c.parts || loaded.Info.Layers != 6 {
				t.Fatalf("%d layers and %d parts, %v", loaded.Info.Layers, loaded.Parts, err)
			}
			w.ask(t, protocol.Frame{Kind: protocol.KindShare, Head: []byte(`{"rows":1}`)}, nil)
			w.ask(t, protocol.Frame{Kind: protocol.KindNew, Head: []byte(`{"sequence":0}`)}, nil)
			for length, tokens := range [][]backend.Token{{65}, {66}} { // the first one is a prefill, however short
				head, raw := protocol.AppendInput(protocol.AppendCount(nil, 1), nil, &protocol.Input{Length: length, Tokens: tokens,
					Flags: protocol.FlagLogits})
				var counts []uint64
				w.ask(t, protocol.Frame{Kind: protocol.KindStep, Head: head, Raw: raw}, func(p protocol.Progress) {
					if len(counts) > 0 && p.Count <= counts[len(counts)-1] {
						t.Errorf("the count %d follows %v", p.Count, counts)
					}
					counts = append(counts, p.Count)
				})
				if len(counts) < c.parts || c.parts == 0 && len(counts) > 1 {
					t.Errorf("step %d: progress %v, and %d parts", length, counts, c.parts)
				}
			}
		})
	}
}
