package random

import (
	"io"
	"testing"
)

// counting counts bytes.
type counting int64

func (c *counting) Write(b []byte) (int, error) {
	*c += counting(len(b))
	return len(b), nil
}

// TestSizes: a file is as large as Size says, and some more for the vocabulary.
func TestSizes(t *testing.T) {
	for _, name := range Shapes() {
		c, ok := Shape(name)
		if !ok {
			t.Fatal("no shape ", name)
		}
		c.Layers, c.Experts, c.Vocabulary = 1, min(c.Experts, 2), 4096
		var written counting
		if err := Write(io.Writer(&written), c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if more := int64(written) - c.Size(); more < 0 || more > 1<<20 {
			t.Errorf("%s: the file has %d bytes more than the %d of its weights", name, more, c.Size())
		}
	}
}

// TestShapesHaveTheirSize: the shapes are as large as the models that they are named after. Sizes are in GB.
func TestShapesHaveTheirSize(t *testing.T) {
	for name, want := range map[string]float64{"gpt-oss-20b": 12.1, "gpt-oss-120b": 63.4, "qwen3-30b-a3b": 17.3,
		"llama-3.1-8b": 4.6} {
		c, _ := Shape(name)
		if got := float64(c.Size()) / 1e9; got < 0.95*want || got > 1.05*want {
			t.Errorf("%s has %.2f GB, want about %.1f", name, got, want)
		}
	}
}
