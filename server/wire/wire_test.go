package wire

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"runner/backend"
	"runner/generation"
	"runner/reasoning"
	"runner/testenv"
)

func FuzzQuote(f *testing.F) {
	for _, s := range []string{"", "plain", "\"\\\n\r\t\x00\x1f\x7f", "ä€𐍈\u2028\u2029", "a\xffb\xc3", "</script>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		out := Quote(s)
		var back string
		if err := json.Unmarshal([]byte(out), &back); err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		if want := strings.ToValidUTF8(s, "\ufffd"); utf8.ValidString(s) && back != want {
			t.Fatalf("%q became %q", s, back)
		}
		if !utf8.ValidString(out) || strings.ContainsAny(out, "\n\r\u2028\u2029") {
			t.Fatalf("%q is not one line of UTF-8", out)
		}
	})
}

// A frame takes no memory, whatever the stream.
func TestFramesTakeNoMemory(t *testing.T) {
	for kind, open := range map[string]func(http.ResponseWriter) *Stream{"events": NewEvents, "lines": NewLines} {
		s := open(discarded{})
		v := &struct{ Text string }{"two\n\"and\" two ä"}
		_ = s.Send("a", v) // package json learns the type once
		if n := testenv.Allocs(func() { _ = s.Send("a", v) }); n != 0 {
			t.Errorf("%s: %v allocations", kind, n)
		}
		s.End()
	}
}

// discarded is a writer for nobody.
type discarded struct{}

func (discarded) Header() http.Header         { return http.Header{} }
func (discarded) WriteHeader(int)             {}
func (discarded) Write(b []byte) (int, error) { return len(b), nil }
func (discarded) Flush()                      {}

// A value that JSON cannot represent leaves the stream whole.
func TestUnrepresentableValuesAreNotSent(t *testing.T) {
	f := newFrames()
	s := NewEvents(f)
	defer s.End()
	if err := s.Send("a", math.NaN()); err == nil {
		t.Error("no error")
	}
	if err := s.Send("a", 1); err != nil || f.flushed[1] != "event: a\ndata: 1\n\n" {
		t.Errorf("%v, %q", err, f.flushed)
	}
}

// frames is a writer that records what each flush sends.
type frames struct {
	httptest.ResponseRecorder
	fail error

	mu      sync.Mutex
	flushed []string
}

func (f *frames) Write(b []byte) (int, error) {
	if f.fail != nil {
		return 0, f.fail
	}
	return f.ResponseRecorder.Write(b)
}

func (f *frames) Flush() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.flushed = append(f.flushed, f.Body.String())
	f.Body.Reset()
}

// seen returns what the flushes have sent so far.
func (f *frames) seen() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.flushed)
}

func newFrames() *frames { return &frames{ResponseRecorder: *httptest.NewRecorder()} }

func TestEveryFrameLeavesAtOnce(t *testing.T) {
	f := newFrames()
	s := NewEvents(f)
	_ = s.SendLine("", []byte(`{"a":1}`))
	_ = s.SendLine("done", []byte(`{}`))
	s.End()
	if s.SendLine("", []byte("late")); len(f.flushed) != 3 {
		t.Fatalf("%d flushes: %q", len(f.flushed), f.flushed)
	}
	if got := strings.Join(f.flushed, "|"); got != "|data: {\"a\":1}\n\n|event: done\ndata: {}\n\n" {
		t.Errorf("%q", got)
	}
	f = newFrames()
	lines := NewLines(f)
	_ = lines.SendLine("ignored", []byte(`{"a":1}`))
	if got := f.flushed[1]; got != "{\"a\":1}\n" {
		t.Errorf("%q", got)
	}
}

func TestSilentStreamIsKeptAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFrames()
		s := NewEvents(f)
		time.Sleep(keepAlive / 2)
		_ = s.SendLine("", []byte("1"))
		time.Sleep(keepAlive - time.Second)
		synctest.Wait()
		if len(f.seen()) != 2 {
			t.Fatalf("a comment too early: %q", f.seen())
		}
		time.Sleep(keepAlive + 2*time.Second)
		synctest.Wait()
		s.End()
		time.Sleep(10 * keepAlive)
		if len(f.seen()) != 4 || !strings.HasPrefix(f.seen()[3], ": ") {
			t.Errorf("%q", f.seen())
		}
	})
}

func TestFailedStreamStaysFailed(t *testing.T) {
	f := newFrames()
	s := NewEvents(f)
	f.fail = io.ErrClosedPipe
	if err := s.SendLine("", []byte("1")); !errors.Is(err, io.ErrClosedPipe) {
		t.Fatal(err)
	}
	f.fail = nil
	if err := s.SendLine("", []byte("2")); !errors.Is(err, io.ErrClosedPipe) || len(f.flushed) != 1 {
		t.Errorf("%v, %q", err, f.flushed)
	}
}

func TestClientReceivesFramesAsTheyAreSent(t *testing.T) {
	next := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s := NewEvents(w)
		defer s.End()
		for i := range 3 {
			_ = s.Send("", i)
			<-next
		}
	}))
	defer srv.Close()
	res, err := http.Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for i := range 3 {
		if !lines.Scan() || lines.Text() != fmt.Sprintf("data: %d", i) || !lines.Scan() {
			t.Fatalf("%d: %q", i, lines.Text())
		}
		next <- struct{}{} // the server continues only now
	}
}

func TestReadJSON(t *testing.T) {
	var v struct {
		N    int `json:"n"`
		List []struct {
			S string `json:"s"`
		} `json:"list"`
	}
	for body, want := range map[string]string{
		`{"n":1,"unknown":{}}`:   "",
		`{"n":"x"}`:              "n: a string cannot stand here; it takes a whole number",
		`{"n":1.5}`:              "n: a number 1.5 cannot stand here; it takes a whole number",
		`{"list":[{"s":false}]}`: "list.s: true or false cannot stand here; it takes a string",
		`{"n":1`:                 "the body is not valid JSON at byte 6",
		``:                       "the body is not valid JSON",
		`[]`:                     "the body has to be a JSON object",
		`{"n":1} {}`:             "the body is not valid JSON at byte 9",
		`{"n":1,"x":` + strings.Repeat("[", DefaultDepth-1) + strings.Repeat("]", DefaultDepth-1) + `}`: "",
		`{"n":1,"x":` + strings.Repeat("[", DefaultDepth) + strings.Repeat("]",
			DefaultDepth) + `}`: "the body is nested deeper than the 256 levels that are allowed (--max-nesting)",
		`{"n":1,"x":"` + strings.Repeat(`[\"`, 10_000) + `" x}`: "the body is not valid JSON at byte 30015",
		"{\"n\":1,\"s\":\"\xff\"}":                              "the body is not UTF-8 text",
		`{"n":` + strings.Repeat("9", 1000) + `}`: "n: a number " + strings.Repeat("9", 33) +
			"... cannot stand here; it takes a whole number",
	} {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		err := ReadJSON(r, &v)
		if (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"n":1234567890}`))
	r.Body = http.MaxBytesReader(nil, r.Body, 8)
	var e *Error
	if err := ReadJSON(r, &v); !errors.As(err, &e) || e.Status != http.StatusRequestEntityTooLarge {
		t.Errorf("too long: %v", err)
	}
}

func TestErrorsHaveTheirStatus(t *testing.T) {
	params := map[string]string{"Budget": "reasoning_budget", "Visibility": "reasoning", "Model": "model"}
	for _, c := range []struct {
		err    error
		status int
		code   string
		param  string
	}{
		{&generation.RequestError{Field: "Budget", Err: errors.New("-1 is negative")}, 400, CodeInvalid, "reasoning_budget"},
		{fmt.Errorf("wrapped: %w", &generation.PromptTooLongError{Tokens: 9, Context: 8}), 400, CodeContextLength, ""},
		{reasoning.VisibilityFull.Cap(reasoning.VisibilitySummary), 403, CodeForbidden, "reasoning"},
		{generation.ErrQueueFull, 429, CodeQueue, ""},
		{fmt.Errorf("%w", ErrTimeout), 503, CodeTimeout, ""},
		{ErrDraining, 503, CodeDraining, ""},
		{generation.ErrClosed, 503, CodeDraining, ""},
		{context.Canceled, StatusClientClosed, CodeClientCancelled, ""},
		{fmt.Errorf("%w", generation.ErrBadLogits), 503, CodeModelUnusable, ""},
		{fmt.Errorf("%w: %w", backend.ErrBroken, generation.ErrBadLogits), 503, CodeModelUnusable, ""},
		{fmt.Errorf("%w: %w", backend.ErrBroken, generation.ErrChanged), 503, CodeModelChanged, "model"},
		{backend.ErrBroken, 500, CodeInternal, ""},
		{fmt.Errorf("%w: %w", backend.ErrUnavailable, backend.ErrOtherModel), 503, CodeModelChanged, "model"},
		{fmt.Errorf("%w: %w", backend.ErrBroken, backend.ErrUnavailable), 503, CodeUnavailable, ""},
		{errors.New("secret detail"), 500, CodeInternal, ""},
		{Invalid("n", "too many"), 400, CodeInvalid, "n"},
	} {
		e := FromError(c.err, params)
		if e.Status != c.status || e.Code != c.code || e.Param != c.param || e.Message == "" ||
			strings.Contains(e.Message, "secret") {
			t.Errorf("%v: %+v", c.err, e)
		}
		if !errors.Is(e, c.err) && !errors.Is(c.err, e) {
			t.Errorf("%v: the cause is lost", c.err)
		}
	}
}

// An engine's wish for when to try again is passed on within limits.
func TestRetryAfterOfAnEngine(t *testing.T) {
	for after, want := range map[time.Duration]time.Duration{0: 2 * time.Second, -5: 2 * time.Second,
		time.Millisecond: time.Second, 7 * time.Second: 7 * time.Second, time.Hour: 10 * time.Minute} {
		err := &backend.InputError{Err: &backend.UnavailableError{After: after, Err: errors.New("busy")}}
		e := FromError(fmt.Errorf("wrapped: %w", err), nil)
		if e.Status != http.StatusServiceUnavailable || e.RetryAfter != want {
			t.Errorf("after %v: %+v", after, e)
		}
	}
	if e := FromError(backend.ErrUnavailable, nil); e.RetryAfter != 2*time.Second {
		t.Errorf("without a wish: %v", e.RetryAfter)
	}
	if e := FromError(backend.ErrOtherModel, nil); e.RetryAfter <= 0 {
		t.Error("another model is not to be tried again")
	}
}

func TestNobodyHasNoPermissions(t *testing.T) {
	p := PrincipalOf(t.Context())
	for _, s := range Scopes(nil) {
		if p.May(s) {
			t.Errorf("nobody may %s", s)
		}
	}
	if p.MayUse("demo") || p.Reasoning != reasoning.VisibilityNone {
		t.Error("nobody may use a model or see reasoning")
	}
	q := &Principal{ID: "k", Scopes: []Scope{ScopeGenerate}}
	if got := PrincipalOf(WithPrincipal(t.Context(), q)); got != q || !got.MayUse("any") || got.May(ScopeEmbed) {
		t.Errorf("%+v", got)
	}
}

func TestRawPromptsTakeAllReasoning(t *testing.T) {
	for most, want := range map[reasoning.Visibility]bool{reasoning.VisibilityNone: false,
		reasoning.VisibilitySummary: false, reasoning.VisibilityFull: true} {
		err := (&Principal{ID: "k", Reasoning: most}).MayPromptRaw("prompt")
		if (err == nil) != want {
			t.Errorf("%v: %v", most, err)
		}
		var e *Error
		if !want && (!errors.As(err, &e) || e.Status != http.StatusForbidden || e.Param != "prompt" ||
			!strings.Contains(e.Message, "reasoning:full")) {
			t.Errorf("%v: %+v", most, e)
		}
	}
}

func TestWrongTypesAreNamed(t *testing.T) {
	type Shared struct {
		N    *int  `json:"n"`
		Nest []int `json:"nest"`
	}
	var v struct {
		Shared
		Inner struct{ Shared } `json:"inner"`
	}
	for body, want := range map[string]string{
		`{"n":1.5}`:            "n: a number 1.5 cannot stand here; it takes a whole number",
		`{"n":true}`:           "n: true or false cannot stand here; it takes a whole number",
		`{"nest":{}}`:          "nest: an object cannot stand here; it takes a list",
		`{"inner":{"n":[]}}`:   "inner.n: a list cannot stand here; it takes a whole number",
		`{"inner":{"nest":3}}`: "inner.nest: a number cannot stand here; it takes a list",
		`[]`:                   "the body has to be a JSON object",
	} {
		if err := Unmarshal([]byte(body), &v); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}

// An error names a field as the client knows it, even a field of an embedded struct.
func TestErrorsNameFieldsOfEmbeddedStructs(t *testing.T) {
	type Embedded struct {
		Effort *string `json:"effort"`
	}
	var v struct {
		Outer struct{ Embedded } `json:"outer"`
	}
	var e *Error
	if err := Unmarshal([]byte(`{"outer":{"effort":3}}`), &v); !errors.As(err, &e) || e.Param != "outer.effort" {
		t.Errorf("%v names %q", err, e.Param)
	}
}

// timedWriter records how much is written at once, and whether a deadline was set for it.
type timedWriter struct {
	httptest.ResponseRecorder
	limited bool
	parts   []int
}

func (w *timedWriter) SetWriteDeadline(t time.Time) error {
	w.limited = time.Until(t) > 0 && time.Until(t) <= writeTimeout
	return nil
}

func (w *timedWriter) Write(b []byte) (int, error) {
	if !w.limited {
		return 0, errors.New("no time was set")
	}
	w.limited = false
	w.parts = append(w.parts, len(b))
	return w.ResponseRecorder.Write(b)
}

func TestEveryPartOfAnAnswerHasATimeLimit(t *testing.T) {
	w := &timedWriter{ResponseRecorder: *httptest.NewRecorder()}
	long := strings.Repeat("x", 5*writePart/2)
	WriteJSON(w, http.StatusOK, long)
	var got string
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got != long || len(w.parts) != 3 {
		t.Errorf("%d bytes in %v, %v", w.Body.Len(), w.parts, err)
	}
}

func TestBodiesOfManyValuesAreRefused(t *testing.T) {
	for _, c := range []struct {
		body string
		want int
	}{
		{`{"a":[` + strings.Repeat("1,", DefaultValues) + `1]}`, http.StatusRequestEntityTooLarge},
		{`{"a":["` + strings.Repeat(`,\"`, DefaultValues) + `"]}`, 0},
	} {
		var v struct{}
		err := ReadJSON(httptest.NewRequest(http.MethodPost, "/", strings.NewReader(c.body)), &v)
		var e *Error
		if errors.As(err, &e); (e == nil) != (c.want == 0) || e != nil && e.Status != c.want {
			t.Errorf("%.20s: %v", c.body, err)
		}
	}
	if s := look([]byte(`{"a":[1,2,{"b\",":null}]}`), nil); s.values != 7 || s.depth != 3 {
		t.Errorf("%d values, %d levels", s.values, s.depth)
	}
}

// worker is a budget, and a writer, that knows whether the request has work.
type worker struct {
	*httptest.ResponseRecorder
	works bool
	t     *testing.T
}

func (b *worker) Work(context.Context) error     { b.works = true; return nil }
func (b *worker) Rest()                          { b.works = false }
func (b *worker) Reserve(int64) error            { return nil }
func (b *worker) Shape() (values, depth int)     { return 0, 0 }
func (b *worker) Read([]byte) (n int, err error) { return 0, io.EOF }
func (b *worker) Close() error                   { return nil }
func (b *worker) Write(p []byte) (n int, err error) {
	if b.works {
		b.t.Error("it has work while the client reads")
	}
	return b.ResponseRecorder.Write(p)
}

func TestListIsWrittenAsItIsMade(t *testing.T) {
	for _, n := range []int{0, 1, 50_000} {
		w := &worker{ResponseRecorder: httptest.NewRecorder(), t: t}
		r := httptest.NewRequest(http.MethodPost, "/", w)
		WriteList(w, r, "list", n, func(i int) any {
			if !w.works {
				t.Fatal("it is made without work")
			}
			return i
		})
		var got struct{ List []int }
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || len(got.List) != n || n > 0 && got.List[n-1] != n-1 {
			t.Errorf("%d: %d, %v", n, len(got.List), err)
		}
	}
}
