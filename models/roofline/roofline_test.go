package roofline

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"runner/backend/gguf"
	"runner/models/random"
	"runner/models/random/randomtest"
)

// randomModel writes a random model and returns its header.
func randomModel(t *testing.T, c random.Config) *gguf.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := randomtest.WriteFile(path, c); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// A token reads the experts that work on it, one row of the embedding table, and all of the rest.
func TestGGUF(t *testing.T) {
	f := randomModel(t, random.Config{Experts: 8, Used: 2})
	all, experts := int64(0), int64(0)
	for _, x := range f.Tensors {
		all += x.Size
		if strings.Contains(x.Name, "_exps.") {
			experts += x.Size
		}
	}
	table, ok := f.Tensor("token_embd.weight")
	if !ok || experts == 0 {
		t.Fatalf("no table, or %d bytes of experts", experts)
	}
	if _, ok := f.Tensor("output.weight"); !ok {
		t.Fatal("the model has no output matrix")
	}
	if got, want := GGUF([]*gguf.File{f}), all-table.Size-experts*3/4; got != want {
		t.Errorf("%d bytes, want %d of %d", got, want, all)
	}
}

// Without a matrix of its own for the output, the whole embedding table is read.
func TestSharedTable(t *testing.T) {
	f := &gguf.File{Tensors: []gguf.Tensor{{Name: "token_embd.weight", Size: 1000},
		{Name: "blk.0.attn_q.weight", Size: 50},
		{Name: "per_layer_token_embd.weight", Size: 9000}}}
	if got := GGUF([]*gguf.File{f}); got != 1050 {
		t.Errorf("%d bytes, want 1050", got)
	}
	other := &gguf.File{Tensors: []gguf.Tensor{{Name: "output.weight", Size: 800},
		{Name: "blk.1.attn_q.weight", Size: 50}}}
	if got := GGUF([]*gguf.File{f, other}); got != 900 {
		t.Errorf("in two parts %d bytes, want 900", got)
	}
}

func TestSafetensors(t *testing.T) {
	write := func(name string, tensors map[string][2]int64, extra int) string {
		head := map[string]any{"__metadata__": map[string]string{"format": "mlx"}}
		end := int64(0)
		for name, at := range tensors {
			head[name] = map[string]any{"dtype": "U8", "shape": []int64{at[1] - at[0]}, "data_offsets": at}
			end = max(end, at[1])
		}
		text, err := json.Marshal(head)
		if err != nil {
			t.Fatal(err)
		}
		content := binary.LittleEndian.AppendUint64(nil, uint64(len(text)+extra))
		content = append(append(content, text...), make([]byte, end)...)
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	a := write("a.safetensors", map[string][2]int64{"model.embed_tokens.weight": {0, 1000},
		"model.layers.0.mlp.switch_mlp.up_proj.weight": {1000, 1800}}, 0)
	b := write("b.safetensors", map[string][2]int64{"lm_head.weight": {0, 500}, "model.norm.weight": {500, 510}}, 0)
	if got, err := Safetensors([]string{a, b}, Share{2, 8}); err != nil || got != 200+500+10 {
		t.Errorf("%d bytes, %v, want 710", got, err)
	}
	if got, err := Safetensors([]string{a}, Share{}); err != nil || got != 1800 {
		t.Errorf("%d bytes, %v, want 1800", got, err)
	}
	bad := write("c.safetensors", map[string][2]int64{"x": {0, 10}}, 1<<20)
	if got, err := Safetensors([]string{bad}, Share{}); err == nil {
		t.Errorf("a damaged header has %d bytes", got)
	}
}

// The measurement is quick and gives a bandwidth that a machine can have.
func TestMeasure(t *testing.T) {
	begin := time.Now()
	rate, ok := Measure(0)
	if took := time.Since(begin); took > 10*time.Second { // on a busy machine
		t.Errorf("it took %v", took)
	}
	if !ok || rate < 1e8 || rate > 1e13 {
		t.Errorf("%.3g bytes a second, %v", rate, ok)
	}
	if rate, ok := Measure(readLeast); ok {
		t.Errorf("with little memory: %.3g bytes a second", rate)
	}
}

// A machine is measured once. Another one, an old measurement and a damaged file are measured again.
func TestStore(t *testing.T) {
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	measured := 0
	s := &Store{Path: filepath.Join(t.TempDir(), "cache", "bandwidth.json"), Machine: "one",
		Now: func() time.Time { return now }, Measure: func() (float64, bool) {
			measured++
			return float64(1e9 * measured), true
		}}
	want := func(what string, times int) {
		t.Helper()
		if rate, ok := s.Bandwidth(); !ok || measured != times || rate != float64(1e9*times) {
			t.Errorf("%s: %g bytes a second after %d measurements, want %d", what, rate, measured, times)
		}
	}
	want("at first", 1)
	want("again", 1)
	now = now.Add(goodFor - time.Hour)
	want("after some days", 1)
	now = now.Add(2 * time.Hour)
	want("after a week", 2)
	s.Machine = "two"
	want("on another machine", 3)
	if err := os.WriteFile(s.Path, []byte(`{"machine":"two","bytes_per_second":-1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	want("with a damaged file", 4)
	right := s.Measure
	for rate, want := range map[float64]float64{1e9: 4e9, 9e9: 9e9} {
		s.Measure = func() (float64, bool) { return rate, true }
		if got, ok := s.Refresh(); !ok || got != want {
			t.Errorf("%g measured: %g, want %g", rate, got, want)
		}
		if err := os.WriteFile(s.Path, []byte(`{"machine":"two","bytes_per_second":4e9,"measured":"`+
			now.Format(time.RFC3339)+`"}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.Measure = right
	s.Path = filepath.Join(s.Path, "below-a-file")
	want("where nothing can be written", 5)
	s.Measure = func() (float64, bool) { return 0, false }
	if _, ok := s.Bandwidth(); ok {
		t.Error("what cannot be measured has a bandwidth")
	}
	if Machine() == "" {
		t.Error("this machine has no name")
	}
}
