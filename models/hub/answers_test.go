package hub_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"runner/models/catalog"
	"runner/models/hub"
	"runner/models/hub/hubtest"
)

// TestHostileNames lists names that no file may have. They are refused one by one, and the rest of the list is good.
func TestHostileNames(t *testing.T) {
	bad := []string{"", ".", "..", "../x", "a/../../x", "a/..", "/etc/passwd", "a//b", "a/", "./a", `a\b`, `..\x`, `C:x`,
		"C:/x", "a\x00b", "a\nb", "a\x1b[2Jb", "\u202egpj.exe", "a\x7f", strings.Repeat("x", 256),
		strings.Repeat("x/", 600) + "y",
		"bad\xffutf8"}
	good := []string{"model.gguf", "a/b/c.gguf", "..a", "a..", ".gitattributes", "é 漢字.gguf", "ab:c", "-rf", "con",
		"👩‍👧.txt"}
	h := hubtest.Start(t)
	m := model()
	m.Files = nil
	for _, name := range append(bad, good...) {
		m.Files = append(m.Files, hubtest.File{Path: name})
	}
	m = h.Add(m)
	l, err := client(t, h, "").Files(t.Context(), m.ID, m.Commit)
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Refused) != len(bad) || len(l.Files) != len(good) {
		t.Errorf("refused %+v, listed %+v", l.Refused, l.Files)
	}
	for _, r := range l.Refused {
		if r.Why == "" || strings.ContainsAny(r.Why, "\x1b\n\x00\u202e") {
			t.Errorf("%q is refused because %q", r.Path, r.Why)
		}
	}
}

func TestCheckDistinct(t *testing.T) {
	for _, c := range []struct {
		names []string
		ok    bool
	}{
		{[]string{"a", "b", "c/a", "d/a"}, true},
		{[]string{"README.md", "readme.md"}, false},
		{[]string{"straße", "STRASSE"}, true}, // no system folds these
		{[]string{"Kelvin", "\u212aelvin"}, false},
		{[]string{"a", "a/b"}, false},
		{[]string{"A/b", "a"}, false},
		{[]string{"A/b", "a/c"}, true},
	} {
		var files []catalog.File
		for _, n := range c.names {
			files = append(files, catalog.File{Path: n})
		}
		if err := hub.CheckDistinct(files); (err == nil) != c.ok {
			t.Errorf("%q: %v", c.names, err)
		}
	}
}

// TestAnswersHaveLimits gives answers that are too large or make no sense.
func TestAnswersHaveLimits(t *testing.T) {
	commit := strings.Repeat("c", 40)
	file := func(fields string) string { return `[{"type":"file","path":"f",` + fields + `}]` }
	oid := `"oid":"` + commit + `"`
	var page atomic.Int64
	for name, tree := range map[string]func(http.ResponseWriter, *http.Request){
		"not JSON":      write("<html>"),
		"not a list":    write(`{"error":"x"}`),
		"cut":           write(`[{"type":"file","pa`),
		"negative size": write(file(`"size":-1,` + oid)),
		"huge size":     write(file(`"size":9007199254740993000,` + oid)),
		"float size":    write(file(`"size":1.5,` + oid)),
		"text as size":  write(file(`"size":"1",` + oid)),
		"no hash":       write(file(`"size":1`)),
		"path as hash":  write(file(`"size":1,"oid":"../../../../../../../../x"`)),
		"upper hash":    write(file(`"size":1,"oid":"` + strings.Repeat("C", 40) + `"`)),
		"short LFS":     write(file(`"size":1,` + oid + `,"lfs":{"size":1,` + oid + `}`)),
		"twice":         write(strings.Replace(file(`"size":1,`+oid)+file(`"size":1,`+oid), "][", ",", 1)),
		"deep":          write(strings.Repeat("[", 1_000_000)),
		"too long": func(w http.ResponseWriter, _ *http.Request) {
			for space := strings.Repeat(" ", 1<<20); ; {
				if _, err := io.WriteString(w, space); err != nil {
					return
				}
			}
		},
		"same page": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", `<`+r.URL.String()+`>; rel="next"`)
			write("[]")(w, r)
		},
		"endless pages": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", fmt.Sprintf(`</x?cursor=%d>; rel="next"`, page.Add(1)))
			write("[]")(w, r)
		},
		"too many files": func(w http.ResponseWriter, r *http.Request) {
			n := page.Add(1)
			w.Header().Set("Link", fmt.Sprintf(`</x?cursor=%d>; rel="next"`, n))
			var files strings.Builder
			for i := range 20_000 {
				fmt.Fprintf(&files, `,{"type":"file","path":"%d-%d","oid":"%s"}`, n, i, commit)
			}
			write("["+files.String()[1:]+"]")(w, r)
		},
		"long header": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", strings.Repeat("x", 1<<20))
			write("[]")(w, r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := hubtest.Start(t)
			h.Tree = tree
			m := model()
			m.Commit = commit
			h.Add(m)
			_, err := client(t, h, "").Files(t.Context(), m.ID, commit)
			if e := (*hub.Error)(nil); !errors.As(err, &e) || e.Kind != hub.BadAnswer && e.Kind != hub.Unreachable ||
				len(err.Error()) > 1000 {
				t.Errorf("got %.300v", err)
			}
		})
	}
	for name, change := range map[string]func(map[string]any){
		"no commit":       func(m map[string]any) { delete(m, "sha") },
		"path as commit":  func(m map[string]any) { m["sha"] = "../x" },
		"path as name":    func(m map[string]any) { m["id"] = "../../x" },
		"number as name":  func(m map[string]any) { m["id"] = 7 },
		"another commit":  func(m map[string]any) { m["sha"] = strings.Repeat("d", 40) },
		"list as commit":  func(m map[string]any) { m["sha"] = []string{commit} },
		"dashes in names": func(m map[string]any) { m["id"] = "a--b/c" },
	} {
		t.Run(name, func(t *testing.T) {
			h := hubtest.Start(t)
			h.Model = change
			m := model()
			m.Commit = commit
			h.Add(m)
			_, err := client(t, h, "").Repository(t.Context(), m.ID, commit)
			if e := (*hub.Error)(nil); !errors.As(err, &e) || e.Kind != hub.BadAnswer {
				t.Errorf("got %v", err)
			}
		})
	}
}

func write(text string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}

func TestLicenses(t *testing.T) {
	for want, card := range map[string]any{
		"mit":         map[string]any{"license": "mit"},
		"llama3.2":    map[string]any{"license": "other", "license_name": "llama3.2"},
		"apache-2.0":  map[string]any{"license": []string{"apache-2.0", "mit"}},
		"gemma":       map[string]any{"license": "\x1b]0;gemma"[4:]},
		"from-a-tag":  nil,
		"from-a-tag ": "a card that is a text",
	} {
		h := hubtest.Start(t)
		h.Model = func(m map[string]any) {
			m["cardData"], m["tags"] = card, []string{"x", "license:from-a-tag"}
		}
		m := h.Add(model())
		r, err := client(t, h, "").Repository(t.Context(), m.ID, "main")
		if err != nil || r.License != strings.TrimSpace(want) {
			t.Errorf("%v: got %q, %v", card, r.License, err)
		}
	}
}

// TestOpenChecksTheAnswer gives wrong answers to requests for bytes.
func TestOpenChecksTheAnswer(t *testing.T) {
	for _, c := range []struct {
		name    string
		small   bool // the file that the hub sends itself
		storage hubtest.Fault
		own     hubtest.Fault
		etag    string
		kind    hub.Kind
		ranges  bool // the error says that ranges are ignored
	}{
		{name: "whole file", storage: hubtest.Fault{Whole: true}, kind: hub.BadAnswer, ranges: true},
		{name: "another part", storage: hubtest.Fault{Shift: 1}, kind: hub.BadAnswer},
		{name: "short", storage: hubtest.Fault{Short: 1}, kind: hub.BadAnswer},
		{name: "short and unannounced", storage: hubtest.Fault{Short: 1, Unannounced: true}, kind: hub.Unreachable},
		{name: "cut", storage: hubtest.Fault{Cut: 3}, kind: hub.Unreachable},
		{name: "stalled", storage: hubtest.Fault{Stall: 3}, kind: hub.Unreachable},
		{name: "trickling", storage: hubtest.Fault{Slow: 100 * time.Millisecond}, kind: hub.Unreachable},
		{name: "expired", storage: hubtest.Fault{Status: 403}, kind: hub.Unreachable},
		{name: "failing", storage: hubtest.Fault{Status: 500}, kind: hub.Unreachable},
		{name: "compressed", storage: hubtest.Fault{Header: http.Header{"Content-Encoding": {"gzip"}}}, kind: hub.BadAnswer},
		{name: "loop", storage: hubtest.Fault{Redirect: "?signature=hidden"}, kind: hub.BadAnswer},
		{name: "moved", storage: hubtest.Fault{ETag: "new"}, etag: `"old"`, kind: hub.Changed},
		{name: "a shorter version", storage: hubtest.Fault{Content: []byte("short")}, kind: hub.BadAnswer},
		{name: "changed", own: hubtest.Fault{Content: []byte("new")}, kind: hub.Changed},
		{name: "changed small file", small: true, own: hubtest.Fault{Content: []byte("world, world")}, kind: hub.Changed},
		{name: "gone", own: hubtest.Fault{Status: 404, Header: http.Header{"X-Error-Code": {"EntryNotFound"}}},
			kind: hub.NotFound},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := hubtest.Start(t)
			m := h.Add(model())
			h.Fail(func(r hubtest.Request) hubtest.Fault {
				switch {
				case r.Storage:
					return c.storage
				case strings.HasPrefix(r.Path, "api/"):
					return hubtest.Fault{}
				}
				return c.own
			})
			cl := client(t, h, secret)
			l, err := cl.Files(t.Context(), m.ID, m.Commit)
			if err != nil {
				t.Fatal(err)
			}
			f, from, to := find(t, l, "model Q4.gguf"), int64(10), int64(100_000)
			if c.small {
				f, from, to = find(t, l, "README.md"), 1, 3
			}
			b, err := cl.Open(t.Context(), m.ID, m.Commit, f, from, to, c.etag)
			if err == nil {
				_, err = io.Copy(io.Discard, b)
				_ = b.Close()
			}
			e := (*hub.Error)(nil)
			if !errors.As(err, &e) || e.Kind != c.kind || errors.Is(err, hub.ErrNoRanges) != c.ranges || e.Hint() == "" {
				t.Errorf("got %v (%+v)", err, e)
			}
			if strings.Contains(fmt.Sprint(err), "hidden") {
				t.Errorf("the error has the key of the address: %v", err)
			}
			if leaks := h.Leaks(); len(leaks) > 0 {
				t.Errorf("the storage host got %v", leaks)
			}
		})
	}
	c, err := hub.New(hub.Config{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Open(t.Context(), "a/b", "c", catalog.File{Path: "f", Size: hub.MaxHTTP + 1}, 0, 1, "")
	if e := (*hub.Error)(nil); !errors.As(err, &e) || e.Kind != hub.TooLarge || !strings.Contains(e.Detail, "Xet") {
		t.Errorf("got %v", err)
	}
}
