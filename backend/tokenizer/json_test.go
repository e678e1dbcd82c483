package tokenizer_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"runner/backend"
	"runner/backend/tokenizer"
	"runner/hint"
)

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestJSONGolden compares with the output of Hugging Face's own library; see testdata/generate.py.
func TestJSONGolden(t *testing.T) {
	for _, name := range []string{"gpt-4o", "llama3", "qwen2", "gpt2", "starcoder"} {
		k, err := tokenizer.FromJSON(readFile(t, name+".json"), tokenizer.Ends{EOS: "<|endoftext|>"})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var cases [][2]json.RawMessage
		if err := json.Unmarshal(readFile(t, name+".golden.json"), &cases); err != nil {
			t.Fatal(err)
		}
		for _, c := range cases {
			var text string
			var want []backend.Token
			if err := errors.Join(json.Unmarshal(c[0], &text), json.Unmarshal(c[1], &want)); err != nil {
				t.Fatal(err)
			}
			got := encode(k, nil, text)
			if !slices.Equal(got, want) {
				t.Errorf("%s: %q: got %v, want %v", name, text, got, want)
			}
			if decode(k.Vocab(), got) != text {
				t.Errorf("%s: %q changed", name, text)
			}
		}
		end, ok := k.Vocab().Special("<|endoftext|>")
		if !ok || k.Vocab().EOS() != end || !k.Vocab().EndsGeneration(end) || k.Vocab().BOS() != backend.NoToken {
			t.Errorf("%s: EOS is %d, not %d", name, k.Vocab().EOS(), end)
		}
		if got := encode(k, nil, "<|endoftext|>"); slices.Contains(got, end) {
			t.Errorf("%s: plain text became a control token", name)
		}
	}
}

func TestJSONErrors(t *testing.T) {
	good := string(readFile(t, "gpt-4o.json"))
	for name, test := range map[string]struct {
		data string
		ends tokenizer.Ends
		want error
	}{
		"not JSON":  {data: "{", want: tokenizer.ErrVocabulary},
		"empty":     {data: "{}", want: tokenizer.ErrModel},
		"unigram":   {data: `{"model":{"type":"Unigram","vocab":[]}}`, want: tokenizer.ErrVocabulary},
		"WordPiece": {data: strings.Replace(good, `"type":"BPE"`, `"type":"WordPiece"`, 1), want: tokenizer.ErrModel},
		"byte fallback": {data: strings.Replace(good, `"byte_fallback":false`, `"byte_fallback":true`, 1),
			want: tokenizer.ErrModel},
		"normalizer": {data: strings.Replace(good, `"normalizer":null`, `"normalizer":{"type":"Lowercase"}`, 1),
			want: tokenizer.ErrModel},
		"no pre-tokenizer":  {data: strings.Replace(good, `"pre_tokenizer":`, `"other":`, 1), want: tokenizer.ErrModel},
		"unknown pattern":   {data: strings.Replace(good, `\\p{N}{1,3}`, `\\p{N}{1,4}`, 1), want: tokenizer.ErrPattern},
		"removed, not kept": {data: strings.Replace(good, `"Isolated"`, `"Removed"`, 1), want: tokenizer.ErrPattern},
		"prefix space": {data: strings.Replace(good, `"add_prefix_space":false`, `"add_prefix_space":true`, 1),
			want: tokenizer.ErrModel},
		"unknown merge": {data: strings.Replace(good, `"merges":[`, `"merges":[["x","nothing"],`, 1),
			want: tokenizer.ErrVocabulary},
		"odd merge": {data: strings.Replace(good, `"merges":[`, `"merges":["one",`, 1), want: tokenizer.ErrVocabulary},
		"huge id": {data: strings.Replace(good, `"vocab":{`, `"vocab":{"zzz":1000000000,`, 1),
			want: tokenizer.ErrVocabulary},
		"negative id": {data: strings.Replace(good, `"vocab":{`, `"vocab":{"zzz":-1,`, 1), want: tokenizer.ErrVocabulary},
		"unknown EOS": {data: good, ends: tokenizer.Ends{EOS: "<|nothing|>"}, want: tokenizer.ErrVocabulary},
	} {
		if _, err := tokenizer.FromJSON([]byte(test.data), test.ends); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
}

// FuzzJSON checks that no file causes a panic and that accepted tokenizers round-trip.
func FuzzJSON(f *testing.F) {
	f.Add(readFile(f, "gpt2.json"), "hello\xff  world")
	f.Add([]byte(`{"model":{"type":"BPE","vocab":{"a":0},"merges":["a a"]},"pre_tokenizer":{"type":"ByteLevel"}}`), "aea")
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		k, err := tokenizer.FromJSON(data, tokenizer.Ends{})
		if err != nil {
			var e *tokenizer.Error
			if !errors.As(err, &e) || hint.Of(err) == "" {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		v := k.Vocab()
		var known [256]bool // a byte without a token is left out
		for i := range v.Len() {
			if p := v.Piece(backend.Token(i)); len(p) == 1 {
				known[p[0]] = true
			}
		}
		var want []byte
		for i := range len(text) {
			if known[text[i]] {
				want = append(want, text[i])
			}
		}
		tokens, err := k.Encode(nil, text)
		switch got := decode(v, tokens); {
		case err != nil && (string(want) == text || utf8.ValidString(text)):
			t.Fatalf("%q: %v", text, err)
		case err == nil && got != string(want):
			t.Fatalf("%q became %q, want %q", text, got, want)
		}
	})
}

// encode is Encode for vocabularies in which every text has tokens.
func encode(k *tokenizer.Tokenizer, dst []backend.Token, text string) []backend.Token {
	dst, err := k.Encode(dst, text)
	if err != nil {
		panic(err)
	}
	return dst
}

// TestJSONWithoutBytes: a byte-level vocabulary may lack bytes, as SmolLM2's does. They are left out of a text.
func TestJSONWithoutBytes(t *testing.T) {
	data := strings.Replace(string(readFile(t, "gpt2.json")), `"\u0104":`, `"zzz":`, 1)
	k, err := tokenizer.FromJSON([]byte(data), tokenizer.Ends{})
	if err != nil {
		t.Fatal(err)
	}
	if got := decode(k.Vocab(), encode(k, nil, "a\x04 b")); got != "a b" {
		t.Errorf("%q", got)
	}
}
