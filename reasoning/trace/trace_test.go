package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"runner/reasoning"

	"runner/reasoning/internal/base64url"
	"runner/testenv"
)

// sealed returns a blob with the records for two recipients, flushed after each record if flush is set.
func sealed(t testing.TB, to []Recipient, flush bool, recs ...string) []byte {
	t.Helper()
	var blob bytes.Buffer
	w, err := NewWriter(&blob, NewID(), to)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range recs {
		if err := w.Append([]byte(r)); err != nil {
			t.Fatal(err)
		}
		if flush {
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return blob.Bytes()
}

func refused(err error) bool {
	var e *Error
	return errors.As(err, &e)
}

func TestRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	identities := []*Identity{NewIdentity(), NewIdentity(), NewIdentity()}
	for range 100 {
		var to []Recipient
		for _, i := range identities[:1+rng.IntN(3)] {
			to = append(to, i.Recipient())
		}
		var want []string
		for range rng.IntN(20) {
			want = append(want, strings.Repeat("x", 1+rng.IntN(1<<rng.IntN(17))))
		}
		blob := sealed(t, to, rng.IntN(2) == 0, want...)
		got, err := records(blob, identities[rng.IntN(len(to))])
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%d records, %v, want %d", len(got), err, len(want))
		}
	}
}

func TestEveryFlippedByteIsRefused(t *testing.T) {
	ours, theirs := NewIdentity(), NewIdentity()
	blob := sealed(t, []Recipient{ours.Recipient(), theirs.Recipient()}, true, "one", "two")
	want := []string{"one", "two"}
	for i := range blob {
		masks := []byte{1, 0x80, 0xff}
		if !testenv.Long() {
			masks = masks[i%3 : i%3+1]
		}
		for _, mask := range masks {
			blob[i] ^= mask
			got, err := records(blob, ours)
			if !refused(err) || len(got) > 2 || !slices.Equal(got, want[:len(got)]) {
				t.Fatalf("byte %d xor %#x: %q, %v", i, mask, got, err)
			}
			blob[i] ^= mask
		}
	}
}

func TestEveryCutIsRefused(t *testing.T) {
	i := NewIdentity()
	blob := sealed(t, []Recipient{i.Recipient()}, true, "one", "two")
	for n := range blob {
		got, err := records(blob[:n], i)
		if !errors.Is(err, ErrTruncated) || len(got) > 2 {
			t.Fatalf("cut to %d: %q, %v", n, got, err)
		}
	}
}

func TestMovedChunksAreRefused(t *testing.T) {
	i := NewIdentity()
	to := []Recipient{i.Recipient()}
	a, b := sealed(t, to, true, "one", "two"), sealed(t, to, true, "one", "two")
	head := fixedHeader + recipientSize
	for _, blob := range [][]byte{
		append(bytes.Clone(a[:head]), b[head:]...),
		append(bytes.Clone(a[:len(a)-1045]), b[len(b)-1045:]...),
		append(bytes.Clone(a), b[head:]...),
	} {
		if _, err := records(blob, i); !errors.Is(err, ErrTampered) {
			t.Errorf("%v, want ErrTampered", err)
		}
	}
}

func TestWrongKey(t *testing.T) {
	blob := sealed(t, []Recipient{NewIdentity().Recipient()}, false, "one")
	for _, with := range [][]*Identity{nil, {NewIdentity()}} {
		if _, err := NewReader(bytes.NewReader(blob), with...); !errors.Is(err, ErrNotRecipient) {
			t.Errorf("%v, want ErrNotRecipient", err)
		}
	}
}

func TestNothingShowsBeforeItIsSealed(t *testing.T) {
	const canary = "canary-6b1f"
	var out bytes.Buffer
	to := []Recipient{NewIdentity().Recipient()}
	w, err := NewWriter(&out, NewID(), to)
	if err != nil {
		t.Fatal(err)
	}
	for range 10_000 {
		if err := w.Append([]byte(canary)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if out.Len() < 100_000 || bytes.Contains(out.Bytes(), []byte(canary)) {
		t.Errorf("%d bytes, which may hold the text", out.Len())
	}
	if err := w.Append([]byte("x")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("%v, want os.ErrClosed", err)
	}
	if bytes.Contains(w.plain[:cap(w.plain)], []byte(canary)) || *w.key != [keySize]byte{} {
		t.Error("the writer keeps text or key")
	}
}

func TestSizesShowClassesOnly(t *testing.T) {
	to := []Recipient{NewIdentity().Recipient()}
	sizes := map[int]bool{}
	for n := 1; n < maxClass-lengthSize; n += 7 {
		sizes[len(sealed(t, to, false, strings.Repeat("x", n)))] = true
	}
	if len(sizes) != 5 {
		t.Errorf("%d sizes show, want the 5 classes", len(sizes))
	}
}

// TestCrashLosesLessThanAChunk reads what was written at each moment, as if the writer had crashed then.
func TestCrashLosesLessThanAChunk(t *testing.T) {
	i := NewIdentity()
	var out bytes.Buffer
	w, err := NewWriter(&out, NewID(), []Recipient{i.Recipient()})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	appended := 0
	for n := range 300 {
		rec := fmt.Appendf(nil, "%d %s", n, strings.Repeat("y", rng.IntN(3000)))
		if err := w.Append(rec); err != nil {
			t.Fatal(err)
		}
		appended += len(rec) + 1
		got, err := records(out.Bytes(), i)
		if !errors.Is(err, ErrTruncated) {
			t.Fatalf("%v, want ErrTruncated", err)
		}
		have := 0
		for _, r := range got {
			have += len(r) + 1
		}
		if lost := appended - have; lost > maxChunk+3010 {
			t.Fatalf("%d bytes are lost", lost)
		}
	}
}

func TestWriterRefuses(t *testing.T) {
	r := NewIdentity().Recipient()
	for _, to := range [][]Recipient{nil, {r, r}, {{}}, make([]Recipient, 33)} {
		if _, err := NewWriter(io.Discard, NewID(), to); !errors.Is(err, ErrRecipients) {
			t.Errorf("%d recipients: %v", len(to), err)
		}
	}
	w, err := NewWriter(io.Discard, NewID(), []Recipient{r})
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range [][]byte{nil, []byte("a\nb"), make([]byte, MaxRecord+1)} {
		if err := w.Append(rec); !errors.Is(err, ErrRecord) {
			t.Errorf("%d bytes: %v", len(rec), err)
		}
	}
	if err := w.Append(make([]byte, MaxRecord)); err != nil {
		t.Error(err)
	}
	broken := errors.New("no space")
	w, err = NewWriter(&failing{err: broken, after: 1}, NewID(), []Recipient{r})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Append([]byte("x")); err != nil {
		t.Fatal(err)
	}
	for _, call := range []func() error{w.Flush, w.Close, func() error { return w.Append([]byte("x")) }} {
		if err := call(); !errors.Is(err, broken) {
			t.Errorf("%v, want the error of what is under it", err)
		}
	}
}

type failing struct {
	err   error
	after int
}

func (f *failing) Write(b []byte) (int, error) {
	if f.after--; f.after < 0 {
		return 0, f.err
	}
	return len(b), nil
}

func TestReaderPassesErrorsOn(t *testing.T) {
	i := NewIdentity()
	blob := sealed(t, []Recipient{i.Recipient()}, true, "one")
	broken := errors.New("disk gone")
	r, err := NewReader(io.MultiReader(iotest.OneByteReader(bytes.NewReader(blob[:len(blob)-10])),
		iotest.ErrReader(broken)), i)
	if err != nil {
		t.Fatal(err)
	}
	if rec, err := r.Next(); err != nil || string(rec) != "one" {
		t.Fatalf("%q, %v", rec, err)
	}
	for range 2 {
		if _, err := r.Next(); !errors.Is(err, broken) || refused(err) {
			t.Errorf("%v, want the disk's error", err)
		}
	}
}

// hostile is an endless stream after a header.
type hostile struct{ head io.Reader }

func (h *hostile) Read(b []byte) (int, error) {
	if n, err := h.head.Read(b); err == nil {
		return n, nil
	}
	for i := range b {
		b[i] = 0xff
	}
	return len(b), nil
}

func TestHostileBlobsTakeLittleMemory(t *testing.T) {
	i := NewIdentity()
	blob := sealed(t, []Recipient{i.Recipient()}, true, "one")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, head := range [][]byte{nil, blob[:9], blob[:26], blob[:138], blob[:142]} {
		r, err := NewReader(&hostile{bytes.NewReader(head)}, i)
		if err == nil {
			_, err = r.Next()
		}
		if !refused(err) {
			t.Errorf("after %d bytes: %v", len(head), err)
		}
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 256<<10 {
		t.Errorf("%d bytes were allocated", got)
	}
}

// A recipient can make a blob whose record never ends.
func TestEndlessRecordIsRefused(t *testing.T) {
	i := NewIdentity()
	pr, pw := io.Pipe()
	go func() {
		w, err := NewWriter(pw, NewID(), []Recipient{i.Recipient()})
		for err == nil {
			err = w.add(make([]byte, maxChunk))
		}
	}()
	r, err := NewReader(pr, i)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(); !errors.Is(err, ErrTampered) {
		t.Errorf("%v, want ErrTampered", err)
	}
	pr.CloseWithError(io.ErrClosedPipe)
}

func TestKeysAreNotPrinted(t *testing.T) {
	i := NewIdentity()
	text, err := json.Marshal(i)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{fmt.Sprintf("%v %+v %#v %x %s %d", i, i, i, i, i, i), string(text)} {
		if !strings.Contains(s, "private key of "+i.Recipient().ID()) || strings.Contains(s, fmt.Sprintf("%x", i.secret)) {
			t.Errorf("printed as %s", s)
		}
	}
}

func TestRecipientText(t *testing.T) {
	r := NewIdentity().Recipient()
	if got, err := ParseRecipient(r.String()); err != nil || got != r {
		t.Errorf("%v, %v", got, err)
	}
	s := r.String()
	bad := []string{"", "rtrace1-", s + "A", s[:len(s)-1], s[1:], "\n" + s, s + "\n",
		base64url.Encoding.EncodeToString(r.public[:]),
		Recipient{}.String()}
	for i := len(recipientPrefix); i < len(s); i++ {
		c := byte('A')
		if s[i] == c {
			c = 'B'
		}
		bad = append(bad, s[:i]+string(c)+s[i+1:])
	}
	for _, b := range bad {
		if got, err := ParseRecipient(b); err == nil {
			t.Errorf("%q is %v", b, got)
		}
	}
}

func TestRecorder(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	clock := func() time.Time { now = now.Add(time.Millisecond); return now }
	var out bytes.Buffer
	i := NewIdentity()
	w, err := NewWriter(&out, NewID(), []Recipient{i.Recipient()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewRecorder(w, Begin{}, clock); !errors.Is(err, ErrConsent) {
		t.Errorf("%v, want ErrConsent", err)
	}
	b := Begin{Consent: Consent{By: "local", At: now, How: "--trace"}, Model: "demo",
		Prompt: json.RawMessage(`[{"role":"user"}]`)}
	r, err := NewRecorder(w, b, clock)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := records(out.Bytes(), i); len(got) != 1 {
		t.Fatalf("%d records are sealed when a run begins, want 1", len(got))
	}
	delta := func(s reasoning.Segment, text string) reasoning.Event {
		return reasoning.Event{Kind: reasoning.SegmentDelta, Segment: s, Text: text}
	}
	long := strings.Repeat("ü", 1500)
	for _, e := range []reasoning.Event{
		{Kind: reasoning.Started, Info: &reasoning.Info{Model: "demo", Visibility: reasoning.VisibilityFull}},
		{Kind: reasoning.SegmentStart, Segment: reasoning.Reasoning},
		delta(reasoning.Reasoning, "a"), delta(reasoning.Reasoning, "b"), delta(reasoning.Summary, "s"),
		delta(reasoning.Reasoning, "c"),
		delta(reasoning.Reasoning, long), delta(reasoning.Reasoning, long),
		{Kind: reasoning.SegmentEnd, Segment: reasoning.Reasoning},
		{Kind: reasoning.Done, Result: &reasoning.Result{Finish: reasoning.FinishStop}},
	} {
		if err := r.Event(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(r.End(End{Status: StatusDone}), w.Close()); err != nil {
		t.Fatal(err)
	}
	got, err := records(out.Bytes(), i)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	var kinds []reasoning.Kind
	for n, line := range got {
		var rec Record
		if err := json.Unmarshal([]byte(line), &rec); err != nil {
			t.Fatal(err)
		}
		switch {
		case n == 0:
			if rec.Begin == nil || rec.Begin.Consent != b.Consent || string(rec.Begin.Prompt) != string(b.Prompt) {
				t.Errorf("the first record is %s", line)
			}
		case n == len(got)-1:
			if rec.End == nil || rec.End.Status != StatusDone {
				t.Errorf("the last record is %s", line)
			}
		case rec.Event.Kind == reasoning.SegmentDelta:
			texts = append(texts, rec.Event.Text)
		default:
			kinds = append(kinds, rec.Event.Kind)
		}
	}
	if want := []string{"ab", "s", "c" + long, long}; !slices.Equal(texts, want) {
		t.Errorf("%d deltas, want %d", len(texts), len(want))
	}
	want := []reasoning.Kind{reasoning.Started, reasoning.SegmentStart, reasoning.SegmentEnd, reasoning.Done}
	if !slices.Equal(kinds, want) {
		t.Errorf("events %v", kinds)
	}
}

func FuzzReader(f *testing.F) {
	v := readVectors(f)
	for _, g := range v.Traces {
		f.Add([]byte(g.Blob))
	}
	for _, b := range v.Refused {
		f.Add([]byte(b.Blob))
	}
	identity := identityOf(f, v.Traces[0].Identities[0])
	whole := map[string]bool{}
	for _, g := range v.Traces {
		whole[string(g.Blob)] = true
	}
	for _, b := range v.Refused {
		if b.Code == "trace_not_recipient" {
			whole[string(b.Blob)] = true // to another identity than this one
		}
	}
	f.Fuzz(func(t *testing.T, blob []byte) {
		_, err := records(blob, identity)
		if err == nil && !whole[string(blob)] {
			t.Error("a blob that nobody sealed was opened")
		}
		if err != nil && !refused(err) {
			t.Errorf("%v is not one of the package's errors", err)
		}
	})
}

// FuzzPayload seals payloads that only a holder of the key can seal, and reads them.
func FuzzPayload(f *testing.F) {
	f.Add([]byte("one\ntwo\n"), true)
	f.Add([]byte("\n"), false)
	f.Add([]byte("half"), true)
	i := NewIdentity()
	f.Fuzz(func(t *testing.T, payload []byte, flush bool) {
		var out bytes.Buffer
		w, err := NewWriter(&out, ID{}, []Recipient{i.Recipient()})
		if err != nil {
			t.Fatal(err)
		}
		half := len(payload) / 2
		err = w.add(payload[:half])
		if flush {
			err = errors.Join(err, w.Flush())
		}
		if err := errors.Join(err, w.add(payload[half:]), w.Close()); err != nil {
			t.Fatal(err)
		}
		good := len(payload) == 0 || payload[0] != '\n' && payload[len(payload)-1] == '\n' &&
			!bytes.Contains(payload, []byte("\n\n"))
		got, err := records(out.Bytes(), i)
		if good != (err == nil) || !good && !errors.Is(err, ErrTampered) {
			t.Fatalf("%v", err)
		}
		if joined := strings.Join(got, "\n"); good && len(payload) > 0 && joined+"\n" != string(payload) {
			t.Fatalf("%q came back as %q", payload, joined)
		}
	})
}

func FuzzParseRecipient(f *testing.F) {
	f.Add(NewIdentity().Recipient().String())
	f.Fuzz(func(t *testing.T, s string) {
		if r, err := ParseRecipient(s); err == nil && r.String() != s {
			t.Errorf("%q is spelled %q", s, r)
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	w, err := NewWriter(io.Discard, NewID(), []Recipient{NewIdentity().Recipient()})
	if err != nil {
		b.Fatal(err)
	}
	rec := bytes.Repeat([]byte("x"), 120)
	b.SetBytes(int64(len(rec)))
	b.ReportAllocs()
	for b.Loop() {
		if err := w.Append(rec); err != nil {
			b.Fatal(err)
		}
	}
}
