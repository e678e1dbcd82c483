package cli

import (
	"strings"
	"testing"

	"runner/cmd/runner/settings"
	"runner/models"
)

// TestFlagsForAddresses refuses flags without a model at an address, and gives each address its tokenizer.
func TestFlagsForAddresses(t *testing.T) {
	here := served{name: "here", placed: placed{Model: models.Model{Source: models.GGUF, Path: "/models/a.gguf"}}}
	one, two := "vllm+http://gpu-box:8000", "http://127.0.0.1:8080"
	big := served{name: "big", placed: placed{Model: models.Model{Source: models.Address, Path: one}}}
	small := served{name: "small", placed: placed{Model: models.Model{Source: models.Address, Path: two}}}
	for _, c := range []struct {
		name       string
		tokenizers []string
		typed      string // a flag on the command line
		list       []served
		refused    string
		want       map[string]string
	}{
		{name: "a key for a file", typed: "engine-key", list: []served{here}, refused: "--engine-key is for"},
		{name: "a tokenizer for the demo", tokenizers: []string{"x"}, typed: "tokenizer", list: []served{{}},
			refused: "--tokenizer is for"},
		{name: "settings for other commands", tokenizers: []string{"x"}, list: []served{here}},
		{name: "a key for one of two", typed: "engine-key", list: []served{here, big}, want: map[string]string{one: ""}},
		{name: "one for all", tokenizers: []string{"x"}, typed: "tokenizer", list: []served{big, small},
			want: map[string]string{one: "x", two: "x"}},
		{name: "one each", tokenizers: []string{"big=x", "small=y"}, list: []served{big, here, small},
			want: map[string]string{one: "x", two: "y"}},
		{name: "one for most", tokenizers: []string{"big=x", "z"}, list: []served{big, small},
			want: map[string]string{one: "x", two: "z"}},
		{name: "a file with an equals sign", tokenizers: []string{"a=b.gguf"}, list: []served{big},
			want: map[string]string{one: "a=b.gguf"}},
		{name: "two for all", tokenizers: []string{"x", "y"}, list: []served{big, small}, refused: "second"},
		{name: "one for a file", tokenizers: []string{"here=x"}, list: []served{here, big}, refused: "not at an address"},
	} {
		a := &App{origins: map[string]string{c.typed: settings.CommandLine}}
		a.UseRemote(RemoteFlags{tokenizers: c.tokenizers})
		err := a.address(c.list...)
		if (err != nil) != (c.refused != "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s: %v, want %q", c.name, err, c.refused)
		}
		for address, want := range c.want {
			if got := a.remoteAt(address).Tokenizer; got != want {
				t.Errorf("%s: the tokenizer at %s is %q, want %q", c.name, address, got, want)
			}
		}
	}
}
