package seal

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"golang.org/x/crypto/nacl/secretbox"

	"runner/reasoning/internal/base64url"
	"runner/reasoning/internal/private"
)

// maxValue is the length of the longest value.
const maxValue = ((headerSize+secretbox.Overhead+maxClass)*8 + 5) / 6

var home = Scope{Principal: "ab", Model: Model{Digest: "sha256:e"}, Conversation: ConversationID("c", "d")}

func mustSeal(t testing.TB, r *Keyring, s Scope, text string) string {
	t.Helper()
	v, err := r.Seal(s, text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func mustOpen(t testing.TB, r *Keyring, s Scope, value, want string) {
	t.Helper()
	if text, err := r.Open(s, value); err != nil || text != want {
		t.Fatalf("opened as %d bytes, %v; want %d bytes", len(text), err, len(want))
	}
}

func mustRefuse(t testing.TB, r *Keyring, s Scope, value string, want error) {
	t.Helper()
	if text, err := r.Open(s, value); !errors.Is(err, want) || text != "" {
		t.Fatalf("opened as %d bytes, %v; want %v", len(text), err, want)
	}
}

func TestTextsComeBack(t *testing.T) {
	r := NewKeyring()
	for _, text := range []string{"", "a", "größer", "\xff\x00\xfe", "\x00\x00", strings.Repeat("x", minClass-textOffset),
		strings.Repeat("x", minClass-textOffset+1), strings.Repeat("long ", 1<<18), strings.Repeat("y", MaxText)} {
		v := mustSeal(t, r, home, text)
		mustOpen(t, r, home, v, text)
		if strings.ContainsAny(v, "+/=\r\n ") || len(v) > maxValue {
			t.Errorf("%d bytes are sealed as %d", len(text), len(v))
		}
		if again := mustSeal(t, r, home, text); again[:12] != v[:12] || again[12:44] == v[12:44] {
			t.Error("key id and version differ, or the nonce does not")
		}
	}
	if _, err := r.Seal(home, strings.Repeat("y", MaxText+1)); !errors.Is(err, ErrTooLong) {
		t.Errorf("a text that is too long: %v", err)
	}
	if v := mustSeal(t, r, home, strings.Repeat("y", MaxText)); len(v) != maxValue {
		t.Errorf("the longest value has %d bytes, not %d", len(v), maxValue)
	}
}

func TestLengthIsHidden(t *testing.T) {
	r := NewKeyring()
	sizes := map[int][2]int{} // length of the value: first and last length of text
	last := 0
	for n := range 5120 - textOffset + 1 {
		size := len(mustSeal(t, r, home, strings.Repeat("x", n)))
		span, seen := sizes[size]
		if !seen {
			if size < last {
				t.Fatalf("%d bytes take less than %d", n, n-1)
			}
			span[0] = n
		}
		span[1] = n
		sizes[size], last = span, size
	}
	// The classes up to 5120: 256, then four for each doubling up to 4096, and 5120.
	if len(sizes) != 1+4*4+1 {
		t.Errorf("%d sizes: %v", len(sizes), sizes)
	}
	for size, span := range sizes {
		plain := base64.RawURLEncoding.DecodedLen(size) - headerSize - secretbox.Overhead
		if span[1]+textOffset != plain {
			t.Errorf("a class of %d bytes ends at a text of %d", plain, span[1])
		}
	}
	long := Scope{Principal: strings.Repeat("p", 10000),
		Model:        Model{strings.Repeat("k", 10000), strings.Repeat("m", 10000)},
		Conversation: ConversationID("c", strings.Repeat("c", 10000))}
	if len(mustSeal(t, r, long, "x")) != len(mustSeal(t, r, home, "x")) {
		t.Error("the scope shows in the length")
	}
}

func TestClasses(t *testing.T) {
	want := []int{256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280}
	for i, size := range want {
		if classOf(size) != size {
			t.Errorf("%d is no class", size)
		}
		if i+1 < len(want) && classOf(size+1) != want[i+1] {
			t.Errorf("the class after %d is %d", size, classOf(size+1))
		}
	}
	if classOf(1) != minClass || classOf(MaxText+textOffset) != maxClass || classOf(maxClass) != maxClass {
		t.Error("the first or the last class is wrong")
	}
	for n := minClass + 1; n <= maxClass; n += 1 + n/1000 {
		if c := classOf(n); c < n || 5*(c-n) >= c {
			t.Errorf("%d bytes are padded to %d", n, c)
		}
	}
}

func TestAnotherScopeIsForeign(t *testing.T) {
	r := NewKeyring()
	v := mustSeal(t, r, home, "text")
	for name, change := range map[string]func(*Scope){
		"principal":           func(s *Scope) { s.Principal = "other" },
		"model":               func(s *Scope) { s.Model.Digest = "other" },
		"conversation":        func(s *Scope) { s.Conversation = ConversationID("c", "other") },
		"conversation's kind": func(s *Scope) { s.Conversation = ConversationID("other", "d") },
		"no conversation":     func(s *Scope) { s.Conversation = Conversation{} },
		"case":                func(s *Scope) { s.Principal = "AB" },
		"boundary":            func(s *Scope) { s.Conversation = ConversationID("cd", "") },
		"boundary, inner":     func(s *Scope) { s.Conversation = ConversationID("", "cd") },
		"exchange":            func(s *Scope) { s.Conversation = ConversationID("d", "c") },
		"exchange, outer":     func(s *Scope) { s.Principal, s.Model.Digest = s.Model.Digest, s.Principal },
		"exchange, model":     func(s *Scope) { s.Model = Model{Key: s.Model.Digest} },
	} {
		s := home
		change(&s)
		if _, err := r.Open(s, v); !errors.Is(err, ErrForeign) {
			t.Errorf("another %s: %v", name, err)
		}
		mustOpen(t, r, s, mustSeal(t, r, s, "text"), "text")
	}
	mustOpen(t, r, home, v, "text")
}

// A model is known by its files at first, and by what they hold as soon as that is known.
func TestModelIsItsContents(t *testing.T) {
	r := NewKeyring()
	for _, c := range []struct {
		name        string
		sealed, own Model
		opens       bool
	}{
		{"nothing known", Model{"file", ""}, Model{"file", ""}, true},
		{"sealed before", Model{"file", ""}, Model{"file", "weights"}, true},
		{"opened before, after a restart", Model{"file", "weights"}, Model{"file", ""}, true},
		{"both known", Model{"file", "weights"}, Model{"file", "weights"}, true},
		{"a copy", Model{"file", "weights"}, Model{"copy", "weights"}, true},
		{"a file without a key", Model{"", "weights"}, Model{"copy", "weights"}, true},
		{"other weights in the file", Model{"file", "weights"}, Model{"file", "others"}, false},
		{"another file, nothing known", Model{"file", ""}, Model{"copy", ""}, false},
		{"another file, sealed before", Model{"file", ""}, Model{"copy", "weights"}, false},
		{"another file, opened before", Model{"file", "weights"}, Model{"copy", ""}, false},
		{"no keys", Model{"", "weights"}, Model{"", "others"}, false},
		{"nothing in common", Model{"", "weights"}, Model{"file", ""}, false},
		{"a key is no digest", Model{"weights", ""}, Model{"", "weights"}, false},
	} {
		s, own := home, home
		s.Model, own.Model = c.sealed, c.own
		_, err := r.Open(own, mustSeal(t, r, s, "text"))
		if (err == nil) != c.opens || err != nil && !errors.Is(err, ErrForeign) {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.sealed.Same(c.own) != c.opens || c.own.Same(c.sealed) != c.opens {
			t.Errorf("%s: the same: %v", c.name, !c.opens)
		}
	}
}

func TestIncompleteScopeIsTheCallersMistake(t *testing.T) {
	r := NewKeyring()
	v := mustSeal(t, r, home, "text")
	for _, s := range []Scope{{Model: Model{Key: "m"}, Conversation: home.Conversation},
		{Principal: "p", Conversation: home.Conversation}} {
		if _, err := r.Seal(s, "text"); !errors.Is(err, ErrScope) {
			t.Errorf("%+v is sealed for: %v", s, err)
		}
		mustRefuse(t, r, s, v, ErrScope)
		mustRefuse(t, r, s, "", ErrScope)
	}
}

// refusal returns the error of Open for an altered value. It must be one of the errors that reveal nothing of the
// content.
func refusal(t *testing.T, r *Keyring, altered string) error {
	t.Helper()
	text, err := r.Open(home, altered)
	if text != "" || !errors.Is(err, ErrTampered) && !errors.Is(err, ErrUnknownKey) {
		t.Fatalf("an altered value is opened as %d bytes, %v", len(text), err)
	}
	return err
}

func TestEveryFlippedBitIsRefused(t *testing.T) {
	r := NewKeyring()
	r.Rotate(1) // so that there are two keys to confuse
	for _, text := range []string{"", "some reasoning", strings.Repeat("x", 200)} {
		v := mustSeal(t, r, home, text)
		raw, err := base64url.Encoding.DecodeString(v)
		if err != nil {
			t.Fatal(err)
		}
		for i := range raw {
			for bit := range 8 {
				raw[i] ^= 1 << bit
				want := ErrTampered
				if 1 <= i && i < 1+keyIDSize {
					want = ErrUnknownKey
				}
				if got := refusal(t, r, base64url.Encoding.EncodeToString(raw)); !errors.Is(got, want) {
					t.Errorf("bit %d of byte %d: %v", bit, i, got)
				}
				raw[i] ^= 1 << bit
			}
		}
		spelled := []byte(v)
		for i := range spelled {
			for bit := range 8 {
				spelled[i] ^= 1 << bit
				refusal(t, r, string(spelled))
				spelled[i] ^= 1 << bit
			}
		}
	}
}

func TestCutOrLengthenedIsTampered(t *testing.T) {
	r := NewKeyring()
	v := mustSeal(t, r, home, strings.Repeat("x", 600))
	for n := range len(v) {
		mustRefuse(t, r, home, v[:n], ErrTampered)
		if n > 0 {
			refusal(t, r, v[n:])
		}
		refusal(t, r, v[:n]+v[n+1:])
		for _, more := range []string{"A", "\n", "\r", "=", " ", "\r\n", "AA", "AAA", "AAAA", "\x00"} {
			refusal(t, r, v[:n]+more+v[n:])
			if altered := v[:n] + more + v[n+1:]; altered != v {
				refusal(t, r, altered)
			}
		}
	}
	raw, _ := base64url.Encoding.DecodeString(v)
	for n := range len(raw) { // some of these have the length of a smaller class
		mustRefuse(t, r, home, base64url.Encoding.EncodeToString(raw[:n]), ErrTampered)
	}
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_+/=\n") {
		if last := v[:len(v)-1] + string(c); last != v {
			mustRefuse(t, r, home, last, ErrTampered)
		}
	}
	mustRefuse(t, r, home, v+v, ErrTampered)
	mustRefuse(t, r, home, strings.Repeat("A", maxValue), ErrTampered)
	mustRefuse(t, r, home, strings.Repeat("A", maxValue+4), ErrTampered)
	mustOpen(t, r, home, v, strings.Repeat("x", 600))
}

func TestLineBreaksAreTampered(t *testing.T) {
	r := NewKeyring()
	for n := range 2000 / 60 {
		v := mustSeal(t, r, home, strings.Repeat("x", n*60))
		mustRefuse(t, r, home, v+"\n", ErrTampered)
		mustRefuse(t, r, home, "\r"+v, ErrTampered)
		// As many characters as the length of a larger class needs.
		for size := minClass; size <= 4096; size = classOf(size + 1) {
			if more := base64url.Encoding.EncodedLen(headerSize+secretbox.Overhead+size) - len(v); more > 0 {
				mustRefuse(t, r, home, v+strings.Repeat("\n", more), ErrTampered)
			}
		}
	}
}

func TestAuthenticTextOverTheLimitIsTampered(t *testing.T) {
	r := NewKeyring()
	sealed := func(n int) string {
		return sealWith(&r.held()[0], &[nonceSize]byte{}, home.appendTo(nil),
			&content{begun: 1, calls: NoCalls, text: strings.Repeat("x", n)})
	}
	mustOpen(t, r, home, sealed(MaxText), strings.Repeat("x", MaxText))
	mustRefuse(t, r, home, sealed(MaxText+1), ErrTampered)
	mustRefuse(t, r, home, sealed(maxClass), ErrTampered)
}

func TestPartsOfTwoValuesAreTampered(t *testing.T) {
	r := NewKeyring()
	older := mustSeal(t, r, home, "one")
	r.Rotate(1)
	one, two := mustSeal(t, r, home, "one"), mustSeal(t, r, home, "two")
	const headerChars, nonceChars = headerSize * 4 / 3, (1 + keyIDSize) * 4 / 3
	mustRefuse(t, r, home, one[:headerChars]+two[headerChars:], ErrTampered)
	mustRefuse(t, r, home, older[:nonceChars]+two[nonceChars:], ErrTampered)
	mustOpen(t, r, home, one[:nonceChars]+two[nonceChars:], "two") // the same key
}

func TestHostileValuesCostNothing(t *testing.T) {
	r := NewKeyring()
	for name, value := range map[string]string{
		"too long":       strings.Repeat("A", 64<<20),
		"a class more":   strings.Repeat("A", base64url.Encoding.EncodedLen(headerSize+secretbox.Overhead+maxClass+1<<20)),
		"between sizes":  strings.Repeat("A", maxValue-4),
		"wrong length":   "A",
		"nothing at all": "",
	} {
		if allocs := testing.AllocsPerRun(10, func() {
			if _, _, err := r.unbox(value); !errors.Is(err, ErrTampered) {
				t.Error(err)
			}
		}); allocs != 0 {
			t.Errorf("%s: %v allocations", name, allocs)
		}
	}
}

func TestErrors(t *testing.T) {
	for err, code := range map[error]string{
		ErrForeign: "sealed_foreign", ErrRepeated: "sealed_repeated", ErrTampered: "sealed_tampered",
		ErrUnknownKey: "sealed_unknown_key",
	} {
		var e *Error
		if !errors.As(err, &e) || e.Code != code || e.Hint() == "" || !strings.HasSuffix(e.Error(), e.Reason) ||
			e.Reason == "" {
			t.Errorf("%v is not %s", err, code)
		}
	}
	for _, err := range []error{ErrScope, ErrTooLong, ErrNoKey, private.ErrExposed} {
		var e *Error
		if errors.As(err, &e) {
			t.Errorf("%v is a client's error", err)
		}
	}
}

// A value that opens is the only spelling of its content.
func FuzzOpen(f *testing.F) {
	v := readVectors(f)
	at := v.Values[0].Place
	r := ringOf(f, v.Values[0].Key, v.Values[2].Key)
	for _, s := range v.Values {
		f.Add(s.Value)
	}
	for _, s := range v.Refused {
		f.Add(s.Value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		text, err := at.open(r, value)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || text != "" {
				t.Fatalf("%d bytes, %v", len(text), err)
			}
			return
		}
		if again(t, r, value, text) != value {
			t.Fatal("two values say the same")
		}
	})
}

// again seals the content of an opened value a second time.
func again(t testing.TB, r *Keyring, value, text string) string {
	t.Helper()
	k, plain, err := r.unbox(value)
	if err != nil {
		t.Fatal(err)
	}
	c := content{text: text}
	c.readPlace(plain)
	raw, err := base64url.Encoding.DecodeString(value)
	if err != nil {
		t.Fatal(err)
	}
	nonce := [nonceSize]byte(raw[headerSize-nonceSize : headerSize])
	return sealWith(k, &nonce, plain[1:1+scopeSize], &c)
}

// Somebody who knows a key can put anything into an authentic box. It is still refused or well formed.
func FuzzPlaintext(f *testing.F) {
	r := ringOf(f, strings.Repeat("5a", keySize))
	k := &r.held()[0]
	var nonce [nonceSize]byte
	for _, text := range []string{"", "text", strings.Repeat("x", 300)} {
		_, plain, _ := r.unbox(sealWith(k, &nonce, home.appendTo(nil), &content{begun: 7, calls: NoCalls, text: text}))
		f.Add(plain)
	}
	f.Fuzz(func(t *testing.T, plain []byte) {
		raw := append(append([]byte{version}, k.id[:]...), nonce[:]...)
		value := base64url.Encoding.EncodeToString(secretbox.Seal(raw, plain, &nonce, &k.secret))
		text, err := r.Open(home, value)
		switch {
		case err == nil && again(t, r, value, text) != value:
			t.Fatal("two values say the same")
		case err != nil && !errors.Is(err, ErrTampered) && !errors.Is(err, ErrForeign) && !errors.Is(err, ErrRepeated):
			t.Fatal(err)
		}
	})
}

func FuzzRoundTrip(f *testing.F) {
	f.Add("local", "c", "e", "m", "text", byte(1))
	f.Add("k", "", "größer", "\x00", "", byte(2))
	r := NewKeyring()
	f.Fuzz(func(t *testing.T, principal, conversation, asked, model, text string, flip byte) {
		s := Scope{Principal: principal, Model: Model{Digest: model}, Conversation: ConversationID("fuzz", conversation)}
		at := Place{Question: QuestionOf(asked)}
		open := func(at Place, value string) (string, error) {
			text, errs := r.History(s).Open(at, []Value{{Sealed: value}})
			return text, errs[0]
		}
		value, err := r.Begin(s, at.Question).Seal(text, NoCalls)
		var want error
		switch {
		case principal == "" || model == "":
			want = ErrScope
		case len(text) > MaxText:
			want = ErrTooLong
		}
		if !errors.Is(err, want) {
			t.Fatalf("%v, want %v", err, want)
		}
		if err != nil {
			return
		}
		if got, err := open(at, value); err != nil || got != text {
			t.Fatalf("opened as %d bytes, %v", len(got), err)
		}
		if _, err := open(Place{Question: QuestionOf(asked + string(flip))}, value); !errors.Is(err, ErrForeign) {
			t.Fatal(err)
		}
		if _, err := open(Place{Question: at.Question, Calls: []string{asked + "c"}}, value); !errors.Is(err, ErrForeign) {
			t.Fatal(err)
		}
		i := (int(flip) + len(text)) % len(value)
		altered := value[:i] + string(value[i]^(flip|1)) + value[i+1:]
		if text, err := open(at, altered); err == nil || errors.Is(err, ErrForeign) {
			t.Fatalf("altered at %d: %d bytes, %v", i, len(text), err)
		}
	})
}

func BenchmarkSeal(b *testing.B) {
	r, text := NewKeyring(), strings.Repeat("reasons ", 512)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Seal(home, text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	r, text := NewKeyring(), strings.Repeat("reasons ", 512)
	v := mustSeal(b, r, home, text)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Open(home, v); err != nil {
			b.Fatal(err)
		}
	}
}
