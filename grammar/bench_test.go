package grammar

import (
	"context"
	"encoding/json"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/tokenizer"
	"runner/backend/tokenizer/o200ktest"
	"runner/grammar/suitetest"
)

func o200k(tb testing.TB) *Vocabulary {
	tb.Helper()
	k := o200ktest.Tokenizer(tb)
	tables.Do(func() { table = NewVocabulary(k.Vocab(), encoder(k)) })
	return table
}

func encoder(k *tokenizer.Tokenizer) func([]backend.Token, string) ([]backend.Token, error) {
	return k.Encode
}

var (
	tables sync.Once
	table  *Vocabulary
)

// sample is a schema of MaskBench with its valid and invalid instances.
type sample struct {
	name           string
	schema         json.RawMessage
	valid, invalid []string
}

// maskbench reads the sample of MaskBench. It skips the test if there is none.
func maskbench(tb testing.TB) (out []sample) {
	tb.Helper()
	for _, schema := range suitetest.MaskBench(tb) {
		s := sample{name: schema.Name, schema: schema.Schema}
		for _, c := range schema.Instances {
			if c.Valid {
				s.valid = append(s.valid, spaced(c.Data))
			} else {
				s.invalid = append(s.invalid, spaced(c.Data))
			}
		}
		out = append(out, s)
	}
	return out
}

// spaced writes JSON as models usually do, with a space after each colon and comma and the keys in their order.
func spaced(data json.RawMessage) string {
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.UseNumber()
	var b strings.Builder
	var value func()
	text := func(v any) {
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(v); err != nil {
			panic(err)
		}
	}
	value = func() {
		tok, err := d.Token()
		if err != nil {
			panic(err)
		}
		open, ok := tok.(json.Delim)
		if !ok {
			text(tok)
			return
		}
		b.WriteString(open.String())
		for i := 0; d.More(); i++ {
			if i > 0 {
				b.WriteString(", ")
			}
			if open == '{' {
				key, _ := d.Token()
				text(key)
				b.WriteString(": ")
			}
			value()
		}
		end, _ := d.Token()
		b.WriteString(end.(json.Delim).String())
	}
	value()
	return strings.ReplaceAll(b.String(), "\n", "")
}

// percentile returns the smallest of the sorted durations that is at least as long as the share p of them.
func percentile(d []time.Duration, p float64) time.Duration {
	return d[min(len(d)-1, int(p*float64(len(d))))]
}

func sum(d []time.Duration) (total time.Duration) {
	for _, x := range d {
		total += x
	}
	return total
}

// BenchmarkMaskMaskbench compiles every schema of the sample and walks its valid instances token by token. It fills the
// mask before each token and keeps nothing from one schema to the next. Each iteration is the whole sample. Times are
// those of threadTime.
func BenchmarkMaskMaskbench(b *testing.B) {
	v, samples := o200k(b), maskbench(b)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	b.Log("measured:", clockName)
	mask := backend.NewMask(v.Len())
	var masks, compiles []time.Duration
	largest, refused, died := 0, 0, 0
	for b.Loop() {
		masks, compiles, refused, died = masks[:0], compiles[:0], 0, 0
		for _, s := range samples {
			begin := threadTime()
			g, err := Compile(context.Background(), JSONSchema(s.schema), v)
			compiles = append(compiles, threadTime()-begin)
			if os.Getenv("GRAMMAR_SLOW") != "" && threadTime()-begin > 20*time.Millisecond {
				b.Logf("%s: compiled in %v", s.name, threadTime()-begin)
			}
			if err != nil {
				refused++
				continue
			}
			for _, text := range s.valid {
				tokens, err := v.tokenize(nil, text)
				if err != nil {
					b.Fatal(err)
				}
				m := g.Matcher()
				for _, t := range tokens {
					begin := threadTime()
					m.Fill(mask)
					masks = append(masks, threadTime()-begin)
					if os.Getenv("GRAMMAR_SLOW") != "" && threadTime()-begin > 800*time.Microsecond {
						b.Logf("%s: %v before %q", s.name, threadTime()-begin, v.vocab.Piece(t))
					}
					if mask.Has(t) != m.Allows(t) {
						b.Fatalf("%s: mask and Allows disagree", s.name)
					}
					if !m.Accept(t) {
						died++
						break
					}
				}
			}
			largest = max(largest, g.Bytes())
		}
	}
	slices.Sort(masks)
	slices.Sort(compiles)
	report := func(name string, d time.Duration) { b.ReportMetric(float64(d.Nanoseconds())/1e3, name) }
	report("mask-mean-us", sum(masks)/time.Duration(len(masks)))
	report("mask-p50-us", percentile(masks, 0.5))
	report("mask-p99-us", percentile(masks, 0.99))
	report("mask-max-us", masks[len(masks)-1])
	report("compile-p50-us", percentile(compiles, 0.5))
	report("compile-p99-us", percentile(compiles, 0.99))
	report("compile-max-us", compiles[len(compiles)-1])
	b.ReportMetric(float64(len(masks)), "masks")
	b.ReportMetric(float64(refused), "refused")
	b.ReportMetric(float64(died), "died")
	b.ReportMetric(float64(largest)/(1<<20), "largest-MiB")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkMaskCached fills a mask that is already known.
func BenchmarkMaskCached(b *testing.B) {
	v := o200k(b)
	g,
		err := Compile(context.Background(),
		JSONSchema([]byte(`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`)), v)
	if err != nil {
		b.Fatal(err)
	}
	m := g.Matcher()
	tokens, err := v.tokenize(nil, `{"a": "some text`)
	if err != nil {
		b.Fatal(err)
	}
	for _, t := range tokens {
		if !m.Accept(t) {
			b.Fatal("refused")
		}
	}
	mask := backend.NewMask(v.Len())
	m.Fill(mask)
	b.ReportAllocs()
	for b.Loop() {
		m.Fill(mask)
	}
}

// BenchmarkMaskAllowsAccept checks and accepts a token inside a string, which is the usual cost of a token.
func BenchmarkMaskAllowsAccept(b *testing.B) {
	v := o200k(b)
	g, err := Compile(context.Background(), JSONSchema([]byte(`{"type":"string"}`)), v)
	if err != nil {
		b.Fatal(err)
	}
	m := g.Matcher()
	tokens, err := v.tokenize(nil, `"some`)
	if err != nil {
		b.Fatal(err)
	}
	m.Accept(tokens[0])
	t := tokens[len(tokens)-1]
	place := *m
	b.ReportAllocs()
	for b.Loop() {
		if !m.Allows(t) || !m.Accept(t) {
			b.Fatal("refused")
		}
		*m = place
	}
}

// BenchmarkMaskVocabulary arranges the vocabulary.
func BenchmarkMaskVocabulary(b *testing.B) {
	k := o200ktest.Tokenizer(b)
	var v *Vocabulary
	for b.Loop() {
		v = NewVocabulary(k.Vocab(), encoder(k))
	}
	b.ReportMetric(float64(v.Bytes())/(1<<20), "MiB")
}
