// Package hubtest is a stand-in for the Hugging Face hub on loopback. It answers what package hub and Python's
// huggingface_hub ask, from two servers with ports of their own: the hub and the storage host that it redirects to. It
// can be told to answer wrongly in many ways ([Fault]), and it records what was asked.
package hubtest

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Repo is a repository of models.
type Repo struct {
	// ID is ORG/NAME.
	ID string
	// Commit has 40 hexadecimal digits. It is main's. If it is "", Add makes one of the files.
	Commit  string
	License string
	// Gated demands a token and answers others as the hub does for a gated repository.
	Gated bool
	// Token is what a request must carry if it is not "".
	Token string
	Files []File
}

// File is a file of a repository.
type File struct {
	Path string
	// Content is the content, or nil for one that is read from At.
	Content []byte
	// At and Size are the content of a file that is not in memory, and SHA256 its hash.
	At     io.ReaderAt
	Size   int64
	SHA256 string
	// LFS files come from the storage host and have a SHA-256. The others have git's SHA-1.
	LFS bool
}

// Etag is the hash of the content.
func (f File) Etag() string {
	switch {
	case f.SHA256 != "":
		return f.SHA256
	case f.LFS:
		return fmt.Sprintf("%x", sha256.Sum256(f.Content))
	}
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", len(f.Content))
	h.Write(f.Content)
	return fmt.Sprintf("%x", h.Sum(nil))
}

func (f File) size() int64 {
	if f.At != nil {
		return f.Size
	}
	return int64(len(f.Content))
}

func (f File) reader() io.ReaderAt {
	if f.At != nil {
		return f.At
	}
	return bytes.NewReader(f.Content)
}

// Request is a request that arrived.
type Request struct {
	// Storage reports that the storage host was asked, and not the hub.
	Storage bool
	// Path is a path of the hub, or a file's path in its repository for a request for bytes.
	Path string
	// Bytes reports a request that would be answered with bytes of a file.
	Bytes bool
	// From and To are the bytes that were asked for, all of them if there was no Range.
	From, To int64
	// Range reports that there was one.
	Range bool
	// Number counts requests, from 1.
	Number int
	// Agent is the header User-Agent.
	Agent string
}

// Fault is what is wrong with an answer. The zero value is nothing.
type Fault struct {
	// Delay is a wait before the answer.
	Delay time.Duration
	// Abort closes the connection without an answer.
	Abort bool
	// Status is an answer without a body, with the headers.
	Status int
	Header http.Header
	// Redirect is where the answer leads.
	Redirect string
	// Whole is a 200 with the whole file to a request for a part.
	Whole bool
	// Cut closes the connection after so many bytes. Stall sends no more after so many. Both count from 1.
	Cut, Stall int64
	// Flip turns a bit of byte number Flip of the answer, counted from 1.
	Flip int64
	// Short is how many bytes fewer are announced and sent.
	Short int64
	// Unannounced sends no Content-Length.
	Unannounced bool
	// Shift says another beginning in Content-Range.
	Shift int64
	// Content is another file under the name. With Listed, the hub's headers still say what it listed.
	Content []byte
	Listed  bool
	// Slow is a wait before every 4 KB.
	Slow time.Duration
	// ETag is what the storage host calls the file.
	ETag string
}

// Hub is a stand-in that runs until its test ends.
type Hub struct {
	// URL is the endpoint, and Storage the address of the storage host.
	URL, Storage string
	// PageSize is how many files a page of a list has. 0 means 1000.
	PageSize int
	// Tree answers requests for lists of files in place of the hub, if it is not nil.
	Tree func(w http.ResponseWriter, r *http.Request)
	// Model changes the answer about a repository, if it is not nil.
	Model func(map[string]any)

	mu    sync.Mutex
	fault func(Request) Fault
	repos map[string]Repo
	asked []Request
	leaks []string
	sent  int64
	gone  chan struct{}
}

// Start runs a hub for a test.
func Start(t testing.TB) *Hub {
	h := &Hub{repos: make(map[string]Repo), gone: make(chan struct{})}
	hub := httptest.NewServer(http.HandlerFunc(h.serveHub))
	storage := httptest.NewServer(http.HandlerFunc(h.serveStorage))
	h.URL, h.Storage = hub.URL, storage.URL
	t.Cleanup(func() {
		close(h.gone)
		hub.CloseClientConnections()
		storage.CloseClientConnections()
		hub.Close()
		storage.Close()
	})
	return h
}

// Add adds a repository or replaces the one of the same name. It returns it with its commit.
func (h *Hub) Add(r Repo) Repo {
	if r.Commit == "" {
		all := sha1.New()
		for _, f := range r.Files {
			fmt.Fprintln(all, f.Path, f.Etag())
		}
		r.Commit = fmt.Sprintf("%x", all.Sum(nil))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.repos[strings.ToLower(r.ID)] = r
	return r
}

// Fail sets what chooses what is wrong with the answer to each request. It is called from many goroutines. nil means
// that nothing is wrong.
func (h *Hub) Fail(fault func(Request) Fault) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fault = fault
}

// Asked returns the requests so far.
func (h *Hub) Asked() []Request {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.asked)
}

// Sent returns how many bytes of files were sent.
func (h *Hub) Sent() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sent
}

// Leaks lists what the storage host got that only the hub should get.
func (h *Hub) Leaks() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.leaks)
}

// record notes a request and returns what is wrong with the answer.
func (h *Hub) record(r Request) Fault {
	h.mu.Lock()
	r.Number = len(h.asked) + 1
	h.asked = append(h.asked, r)
	fault := h.fault
	h.mu.Unlock()
	if fault == nil {
		return Fault{}
	}
	return fault(r)
}

// begin does what a fault does before the body. It reports whether the answer is over.
func (h *Hub) begin(w http.ResponseWriter, r *http.Request, f Fault) bool {
	if f.Delay > 0 {
		h.wait(r, f.Delay)
	}
	for k, v := range f.Header {
		w.Header()[k] = v
	}
	switch {
	case f.Abort:
		panic(http.ErrAbortHandler)
	case f.Redirect != "":
		w.Header().Set("Location", f.Redirect)
		w.WriteHeader(http.StatusFound)
	case f.Status != 0:
		w.WriteHeader(f.Status)
	default:
		return false
	}
	return true
}

func (h *Hub) wait(r *http.Request, d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.Context().Done():
	case <-h.gone:
	}
}

func (h *Hub) serveHub(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/")
	api := strings.HasPrefix(path, "api/models/")
	parts := strings.SplitN(strings.TrimPrefix(path, "api/models/"), "/", 5)
	if len(parts) < 2 {
		http.NotFound(w, r)
		return
	}
	id := parts[0] + "/" + parts[1]
	h.mu.Lock()
	repo, ok := h.repos[strings.ToLower(id)]
	h.mu.Unlock()
	var file File
	isFile := false
	if !api && len(parts) == 5 {
		i := slices.IndexFunc(repo.Files, func(f File) bool { return f.Path == parts[4] })
		if isFile = i >= 0; isFile {
			file = repo.Files[i]
		}
	}
	asked := Request{Path: path, Agent: r.UserAgent()}
	if isFile {
		asked.Path, asked.Bytes, asked.To = file.Path, !file.LFS && r.Method == http.MethodGet, file.size()
		asked.From, asked.To, asked.Range = rangeOf(r, file.size())
	}
	fault := h.record(asked)
	if h.begin(w, r, fault) {
		return
	}
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case !ok && token == "":
		refuse(w, http.StatusUnauthorized, "RepoNotFound", "Repository not found")
	case !ok:
		refuse(w, http.StatusNotFound, "RepoNotFound", "Repository not found")
	case repo.Gated && token != repo.Token && !api:
		refuse(w, http.StatusForbidden, "GatedRepo", "Access to model "+repo.ID+" is restricted.")
	case repo.Token != "" && token != repo.Token && token != "" && !repo.Gated:
		refuse(w, http.StatusUnauthorized, "", "Invalid credentials in Authorization header")
	case repo.Token != "" && token != repo.Token && !repo.Gated:
		refuse(w, http.StatusUnauthorized, "RepoNotFound", "Repository not found")
	case id != repo.ID:
		w.Header().Set("Location", strings.Replace(r.URL.EscapedPath(), id, repo.ID, 1))
		w.WriteHeader(http.StatusTemporaryRedirect)
	case len(parts) > 3 && parts[3] != "main" && parts[3] != repo.Commit:
		refuse(w, http.StatusNotFound, "RevisionNotFound", "Invalid rev id")
	case api && (len(parts) == 2 || parts[2] == "revision"):
		h.model(w, repo)
	case api && parts[2] == "tree":
		if h.Tree != nil {
			h.Tree(w, r)
			return
		}
		h.tree(w, r, repo)
	case isFile:
		h.resolve(w, r, repo, file, fault)
	default:
		w.Header().Set("X-Repo-Commit", repo.Commit)
		refuse(w, http.StatusNotFound, "EntryNotFound", "Entry not found")
	}
}

func refuse(w http.ResponseWriter, status int, code, text string) {
	w.Header().Set("X-Error-Code", code)
	w.Header().Set("X-Error-Message", text)
	w.WriteHeader(status)
}

func (h *Hub) model(w http.ResponseWriter, r Repo) {
	answer := map[string]any{"id": r.ID, "modelId": r.ID, "sha": r.Commit, "private": false, "disabled": false,
		"gated": false, "tags": []string{"gguf"}, "siblings": []any{}, "downloads": 1, "likes": 1}
	if r.Gated {
		answer["gated"] = "manual"
	}
	if r.License != "" {
		answer["cardData"] = map[string]any{"license": r.License}
	}
	if h.Model != nil {
		h.Model(answer)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

func (h *Hub) tree(w http.ResponseWriter, r *http.Request, repo Repo) {
	page := h.PageSize
	if page == 0 {
		page = 1000
	}
	from, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
	answer := []map[string]any{}
	if from == 0 {
		answer = append(answer, map[string]any{"type": "directory", "path": "folder", "oid": repo.Commit, "size": 0})
	}
	to := min(from+page, len(repo.Files))
	for _, f := range repo.Files[min(from, to):to] {
		e := map[string]any{"type": "file", "path": f.Path, "size": f.size(), "oid": f.Etag()}
		if f.LFS {
			e["oid"] = fmt.Sprintf("%x", sha1.Sum([]byte(f.Etag())))
			e["lfs"] = map[string]any{"oid": f.Etag(), "size": f.size(), "pointerSize": 134}
		}
		answer = append(answer, e)
	}
	if to < len(repo.Files) {
		next := url.Values{"recursive": {"true"}, "cursor": {strconv.Itoa(to)}}
		// The link leads to the hub's usual host, as it does behind a mirror.
		w.Header().Set("Link", fmt.Sprintf(`<https://hub.invalid%s?%s>; rel="next"`, r.URL.Path, next.Encode()))
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

func (h *Hub) resolve(w http.ResponseWriter, r *http.Request, repo Repo, f File, fault Fault) {
	listed := f
	if fault.Content != nil {
		f.Content, f.At, f.SHA256 = fault.Content, nil, ""
	}
	if !fault.Listed {
		listed = f
	}
	w.Header().Set("X-Repo-Commit", repo.Commit)
	w.Header().Set("Accept-Ranges", "bytes")
	if !f.LFS {
		w.Header().Set("ETag", `"`+listed.Etag()+`"`)
		h.bytes(w, r, f, fault)
		return
	}
	w.Header().Set("X-Linked-Etag", `"`+listed.Etag()+`"`)
	w.Header().Set("X-Linked-Size", strconv.FormatInt(listed.size(), 10))
	w.Header().Set("ETag", `"`+listed.Etag()+`"`)
	w.Header().Set("Location", h.Storage+"/"+url.PathEscape(repo.ID)+"/"+url.PathEscape(f.Path)+"?signature=hidden")
	w.WriteHeader(http.StatusFound)
}

func (h *Hub) serveStorage(w http.ResponseWriter, r *http.Request) {
	for name := range r.Header {
		if strings.Contains(strings.ToLower(name), "auth") || name == "Cookie" {
			h.mu.Lock()
			h.leaks = append(h.leaks, name)
			h.mu.Unlock()
		}
	}
	id, path, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	id, _ = url.PathUnescape(id)
	path, _ = url.PathUnescape(path)
	h.mu.Lock()
	repo := h.repos[strings.ToLower(id)]
	h.mu.Unlock()
	i := slices.IndexFunc(repo.Files, func(f File) bool { return f.Path == path })
	if i < 0 || r.URL.Query().Get("signature") != "hidden" {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	f := repo.Files[i]
	asked := Request{Storage: true, Agent: r.UserAgent(), Path: f.Path, Bytes: r.Method == http.MethodGet}
	asked.From, asked.To, asked.Range = rangeOf(r, f.size())
	fault := h.record(asked)
	if h.begin(w, r, fault) {
		return
	}
	if fault.Content != nil {
		f.Content, f.At, f.SHA256 = fault.Content, nil, ""
	}
	etag := fault.ETag
	if etag == "" {
		etag = f.Etag()
	}
	w.Header().Set("ETag", `"`+etag+`"`)
	h.bytes(w, r, f, fault)
}

// rangeOf returns the bytes that a request asks for.
func rangeOf(r *http.Request, size int64) (from, to int64, some bool) {
	var last int64
	switch n, _ := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &from, &last); n {
	case 2:
		return from, min(last+1, size), true
	case 1:
		return from, size, true
	}
	return 0, size, false
}

// bytes sends the body.
func (h *Hub) bytes(w http.ResponseWriter, r *http.Request, f File, fault Fault) {
	size := f.size()
	from, to, some := rangeOf(r, size)
	if cond := r.Header.Get("If-Range"); cond != "" && cond != w.Header().Get("ETag") {
		some = false
	}
	if fault.Whole {
		some = false
	}
	if !some {
		from, to = 0, size
	}
	if from > to || some && from >= size {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", size))
		w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
		return
	}
	length := max(0, to-from-fault.Short)
	if !fault.Unannounced {
		w.Header().Set("Content-Length", strconv.FormatInt(length, 10))
	}
	if some {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from+fault.Shift, to-1, size))
		w.WriteHeader(http.StatusPartialContent)
	} else {
		w.WriteHeader(http.StatusOK)
	}
	if r.Method == http.MethodHead {
		return
	}
	h.send(w, r, io.NewSectionReader(f.reader(), from, length), fault)
}

func (h *Hub) send(w http.ResponseWriter, r *http.Request, body io.Reader, fault Fault) {
	step := 256 << 10
	if fault.Slow > 0 {
		step = 4 << 10
	}
	buf := make([]byte, step)
	flush := http.NewResponseController(w).Flush
	var done int64
	for {
		n, err := body.Read(buf)
		p := buf[:n]
		if at := fault.Flip - 1 - done; fault.Flip > 0 && at >= 0 && at < int64(n) {
			p[at] ^= 1
		}
		stop := int64(-1)
		for _, limit := range []int64{fault.Cut, fault.Stall} {
			if limit > 0 && limit <= done+int64(n) {
				stop = max(0, limit-done)
			}
		}
		if stop >= 0 {
			p = p[:stop]
		}
		_, broken := w.Write(p)
		h.mu.Lock()
		h.sent += int64(len(p))
		h.mu.Unlock()
		done += int64(len(p))
		switch {
		case stop >= 0 && fault.Stall > 0:
			_ = flush()
			h.wait(r, time.Minute)
			panic(http.ErrAbortHandler)
		case stop >= 0:
			_ = flush()
			panic(http.ErrAbortHandler)
		case err != nil || broken != nil:
			return
		case fault.Slow > 0:
			_ = flush()
			h.wait(r, fault.Slow)
		}
	}
}
