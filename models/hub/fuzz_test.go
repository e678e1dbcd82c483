package hub

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
)

// FuzzAnswers reads any text as each kind of answer. What comes out is within the limits.
func FuzzAnswers(f *testing.F) {
	hash := strings.Repeat("a", 40)
	f.Add([]byte(`[{"type":"file","path":"a/b","size":3,"oid":"`+hash+`","lfs":{"oid":"`+hash+hash[:24]+`","size":7}}]`),
		`<https://x/y?cursor=1>; rel="next"`)
	f.Add([]byte(`{"id":"a/b","sha":"`+hash+`","gated":"auto","cardData":{"license":["mit"]},"tags":["license:mit"]}`),
		`bytes 0-1/2`)
	f.Add([]byte(`[{"type":"file","path":"..\\x","size":1e3}]`), `"api";r=0;t=55`)
	f.Fuzz(func(t *testing.T, body []byte, header string) {
		var l Listing
		if err := l.parse(body); err == nil {
			for _, file := range l.Files {
				if !filepath.IsLocal(file.Path) || strings.ContainsAny(file.Path, "\\\x00") || len(file.Path) > maxPath {
					t.Errorf("the name %q", file.Path)
				}
				if file.Size < 0 || file.Size > maxSize || !etagForm.MatchString(file.Etag) {
					t.Errorf("the file %+v", file)
				}
			}
		}
		if r, err := parseRepository(body); err == nil {
			if _, _, err := repoID(r.ID); err != nil || !IsCommit(r.Commit) ||
				strings.ContainsFunc(r.License, unicode.IsControl) {
				t.Errorf("the repository %+v", r)
			}
		}
		h := http.Header{"Link": {header}, "Retry-After": {header}, "Ratelimit": {header}, "Etag": {header}}
		_ = nextQuery(h)
		if d := retryAfter(h, time.Now()); d < 0 || d > 24*time.Hour {
			t.Errorf("the wait %v", d)
		}
		delete(h, "Retry-After")
		if d := retryAfter(h, time.Now()); d < 0 || d > 24*time.Hour {
			t.Errorf("the wait %v", d)
		}
		if first, last, total, ok := contentRange(header); ok && (first < 0 || last < 0 || total < 0) {
			t.Errorf("the range %d-%d/%d", first, last, total)
		}
		if m := message(header); strings.ContainsFunc(m, unicode.IsControl) || len([]rune(m)) > 201 {
			t.Errorf("the message %q", m)
		}
		_ = strongETag(h)
	})
}
