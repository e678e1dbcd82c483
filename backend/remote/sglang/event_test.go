package sglang

import (
	"fmt"
	"strings"
	"testing"

	"runner/backend"
	"runner/backend/remote"
)

// repeating returns an event that repeats n tokens, which are 1 to n.
func repeating(n int) []byte {
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprint(i+1))
	}
	return fmt.Appendf(nil, `{"text":%q,"output_ids":[%s],"meta_info":{"id":"a","finish_reason":null,`+
		`"completion_tokens":%d,"cached_tokens":1}}`, strings.Repeat(` "output_ids":[7] `, n), strings.Join(ids, ","), n)
}

// TestLongEvents reads events that repeat all tokens, of which some, most and all are new.
func TestLongEvents(t *testing.T) {
	for _, steps := range [][]int{{1, 2, 300, 301, 302}, {recent, 2 * recent, 3*recent + 1, 1000}, {1000, 1064, 1130}} {
		read := events(t.Context(), &remote.Request{Sampling: backend.Sampling{TopLogprobs: -1}})
		come := 0
		for _, n := range steps {
			e, err := read(repeating(n))
			if err != nil || len(e.Samples) != n-come {
				t.Fatalf("%v: %d of %d tokens, %v", steps, len(e.Samples), n-come, err)
			}
			for _, x := range e.Samples {
				if come++; int(x.Token) != come {
					t.Fatalf("%v: token %d is %d", steps, come, x.Token)
				}
			}
		}
	}
	if long := end(repeating(4000)); len(long) > 1000 {
		t.Errorf("%d bytes of a long event are read", len(long))
	}
}

// BenchmarkRepeating reads the next event of a server that repeats all tokens.
func BenchmarkRepeating(b *testing.B) {
	for _, n := range []int{100, 4000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			data := repeating(n)
			read := events(b.Context(), &remote.Request{Sampling: backend.Sampling{TopLogprobs: -1}})
			for b.Loop() {
				if _, err := read(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
