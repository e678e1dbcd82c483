package child

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"runner/backend"
	"runner/backend/child/protocol"
)

// rows are the logits of an engine that does not sample, in memory that both processes share.
type rows struct {
	mapped []byte
	values []float32
	width  int
}

// share tells an engine that does not sample how much room there is for logits, and makes it.
func (m *Model) share(c *conn, l *protocol.Loaded) error {
	if c.hello.Samples {
		return nil
	}
	n := l.Info.Sequences + backend.MaxTargets
	if err := c.proc.shared.Truncate(int64(n) * int64(m.vocab.Len()) * 4); err != nil {
		return fmt.Errorf("making room for logits: %w", err)
	}
	if err := seal(c.proc.shared); err != nil {
		return fmt.Errorf("sealing the file of logits: %w", err)
	}
	return c.exchange(noContext, m.engine.times.start, protocol.KindShare, protocol.Share{Rows: n}, protocol.KindDone,
		&protocol.Done{})
}

// open maps the file of a process. Its error is a *crash if the process has ended.
func (r *rows) open(c *conn, m *Model) error {
	r.unmap()
	if m.sampler == nil {
		return nil
	}
	r.width = m.vocab.Len()
	size := (m.info.Sequences + backend.MaxTargets) * r.width * 4
	file, err := c.proc.shared.SyscallConn()
	if err == nil {
		ended := file.Control(func(fd uintptr) {
			r.mapped, err = unix.Mmap(int(fd), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		})
		if ended != nil { // the file was closed, because the process is gone
			return c.fail()
		}
	}
	if err != nil {
		return fmt.Errorf("mapping the engine's logits: %w", err)
	}
	r.values = unsafe.Slice((*float32)(unsafe.Pointer(&r.mapped[0])), size/4)
	return nil
}

func (r *rows) unmap() {
	if r.mapped != nil {
		_ = unix.Munmap(r.mapped) // it is mapped
	}
	*r = rows{}
}

// row returns row i.
func (r *rows) row(i int) []float32 { return r.values[i*r.width : (i+1)*r.width] }

// choose samples from the logits of an engine that does not sample. After an error the engine has tokens that the
// sequences do not have; sync takes them back.
func (m *Model) choose(inputs []backend.Input, outputs []backend.Output) error {
	if m.sampler == nil {
		return nil
	}
	at := 0
	for i := range inputs {
		in, out := &inputs[i], &outputs[i]
		out.Reset()
		for _, target := range in.Targets {
			if err := m.sampler.Score(m.rows.row(at), target, in.TargetTop, out.NextScore()); err != nil {
				return &backend.InputError{Index: i, Err: err}
			}
			at++
		}
		if in.Sampling == nil && in.Logits == nil {
			continue
		}
		row := m.rows.row(at)
		at++
		copy(in.Logits, row)
		if in.Sampling == nil {
			continue
		}
		position := in.Sequence.(*sequence).held
		if err := m.sampler.Sample(row, in.Sampling, position, in.Constraint, out); err != nil {
			return &backend.InputError{Index: i, Err: err}
		}
	}
	return nil
}
