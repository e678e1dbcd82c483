package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"runner/models/cache"
	"runner/models/catalog"
)

// Limits of the API's answers.
const (
	maxAnswer = 32 << 20
	maxPages  = 1000
	maxFiles  = 100_000
	maxSize   = 1 << 50
)

// Repository is a repository of models at one commit.
type Repository struct {
	// ID is ORG/NAME in the hub's spelling. It can differ from what was asked for if the repository was renamed.
	ID string
	// Commit has 40 hexadecimal digits.
	Commit string
	// License is what the owner wrote, for instance "apache-2.0", or "" if nothing.
	License string
	// Gated reports that the owner wants terms accepted before files are downloaded.
	Gated bool
}

// Refused is a file of the hub's list that cannot be kept here.
type Refused struct {
	// Path is as the hub gave it: it may have any characters. Print it with %q.
	Path string
	// Why is one line.
	Why string
}

// Listing is all files of a commit, sorted by path.
type Listing struct {
	// Files have paths that [CheckPath] allows, and hashes.
	Files []catalog.File
	// Refused are files whose names [CheckPath] does not allow.
	Refused []Refused
}

var (
	commitID = regexp.MustCompile(`^[0-9a-f]{40}$`)
	etagForm = regexp.MustCompile(`^(?:[0-9a-f]{40}|[0-9a-f]{64})$`)
)

// IsCommit reports whether a revision is a whole commit and not a branch, tag or the beginning of a commit.
func IsCommit(revision string) bool { return commitID.MatchString(revision) }

// repoID returns the parts of a repository's name. It allows the names that the cache can keep.
func repoID(id string) (org, name string, err error) {
	if _, err := cache.At("").Repo(id); err != nil {
		return "", "", &Error{Kind: NotFound, Name: fmt.Sprintf("%q", id), Detail: "not the name of a repository",
			Advice: "name one as ORG/REPO", Err: err}
	}
	org, name, _ = strings.Cut(id, "/")
	return org, name, nil
}

// Repository finds a repository, whose name may be in any case, at a revision: a branch, a tag, or a commit.
func (c *Client) Repository(ctx context.Context, id, revision string) (Repository, error) {
	org, name, err := repoID(id)
	if err != nil {
		return Repository{}, err
	}
	what := id
	if revision != "main" {
		what = fmt.Sprintf("%s at %q", id, revision)
	}
	body, _, err := c.fetch(ctx, id, what, c.address("", "api", "models", org, name, "revision", revision))
	if err != nil {
		return Repository{}, err
	}
	r, err := parseRepository(body)
	if err == nil && IsCommit(revision) && r.Commit != revision {
		err = errors.New("is about another commit")
	}
	if err != nil {
		return Repository{}, badAnswer(what, err.Error(), err)
	}
	return r, nil
}

// parseRepository reads the API's answer about a repository. Errors continue the words "the hub's answer".
func parseRepository(body []byte) (Repository, error) {
	var in struct {
		ID    string   `json:"id"`
		SHA   string   `json:"sha"`
		Gated any      `json:"gated"` // false, "auto" or "manual"
		Tags  []string `json:"tags"`
		Card  struct {
			License any `json:"license"` // a text or a list of texts
			Name    any `json:"license_name"`
		} `json:"cardData"`
	}
	// A model card is written by hand, so a field of it may have any type. That is no reason to refuse the repository.
	var wrong *json.UnmarshalTypeError
	err := json.Unmarshal(body, &in)
	if err != nil && (!errors.As(err, &wrong) || !strings.HasPrefix(wrong.Field, "cardData")) {
		return Repository{}, fmt.Errorf("is not the JSON of a repository: %w", err)
	}
	if _, _, err := repoID(in.ID); err != nil {
		return Repository{}, fmt.Errorf("has the name %q", in.ID)
	}
	if !IsCommit(in.SHA) {
		return Repository{}, fmt.Errorf("has the commit %q", in.SHA)
	}
	r := Repository{ID: in.ID, Commit: in.SHA}
	switch gated := in.Gated.(type) {
	case string:
		r.Gated = gated != ""
	case bool:
		r.Gated = gated
	}
	r.License = license(in.Card.License)
	if name := license(in.Card.Name); r.License == "other" && name != "" {
		r.License = name
	}
	for _, tag := range in.Tags {
		if l, ok := strings.CutPrefix(tag, "license:"); ok && r.License == "" {
			r.License = message(l)
		}
	}
	return r, nil
}

func license(field any) string {
	if list, ok := field.([]any); ok && len(list) > 0 {
		field = list[0]
	}
	text, _ := field.(string)
	return message(text)
}

// Files lists the files of a commit, whatever their number of pages.
func (c *Client) Files(ctx context.Context, id, commit string) (Listing, error) {
	org, name, err := repoID(id)
	if err != nil {
		return Listing{}, err
	}
	var l Listing
	query := "recursive=true"
	for seen := []string{}; query != ""; {
		if slices.Contains(seen, query) || len(seen) == maxPages {
			return Listing{}, badAnswer(id, "is a list without an end", nil)
		}
		seen = append(seen, query)
		body, own, err := c.fetch(ctx, id, id, c.address(query, "api", "models", org, name, "tree", commit))
		if err != nil {
			return Listing{}, err
		}
		if err := l.parse(body); err != nil {
			return Listing{}, badAnswer(id, err.Error(), err)
		}
		query = nextQuery(own)
	}
	slices.SortFunc(l.Files, func(a, b catalog.File) int { return strings.Compare(a.Path, b.Path) })
	for i := 1; i < len(l.Files); i++ {
		if l.Files[i].Path == l.Files[i-1].Path {
			return Listing{}, badAnswer(id, fmt.Sprintf("lists %q twice", l.Files[i].Path), nil)
		}
	}
	return l, nil
}

// parse adds a page of the list. Errors continue the words "the hub's answer".
func (l *Listing) parse(page []byte) error {
	var entries []struct {
		Type string `json:"type"`
		Path string `json:"path"`
		Size int64  `json:"size"`
		OID  string `json:"oid"`
		LFS  *struct {
			OID  string `json:"oid"`
			Size int64  `json:"size"`
		} `json:"lfs"`
	}
	if err := json.Unmarshal(page, &entries); err != nil {
		return fmt.Errorf("is not the JSON of a list of files: %w", err)
	}
	for _, e := range entries {
		if e.Type != "file" {
			continue
		}
		if len(l.Files)+len(l.Refused) == maxFiles {
			return fmt.Errorf("lists more than %d files", maxFiles)
		}
		f := catalog.File{Path: e.Path, Size: e.Size, Etag: e.OID}
		if e.LFS != nil {
			f.Size, f.Etag = e.LFS.Size, e.LFS.OID
		}
		if err := CheckPath(f.Path); err != nil {
			l.Refused = append(l.Refused, Refused{Path: f.Path, Why: err.Error()})
			continue
		}
		if !etagForm.MatchString(f.Etag) || len(f.Etag) == 40 && e.LFS != nil {
			return fmt.Errorf("has the hash %q for %q", f.Etag, f.Path)
		}
		if f.Size < 0 || f.Size > maxSize {
			return fmt.Errorf("has the size %d for %q", f.Size, f.Path)
		}
		l.Files = append(l.Files, f)
	}
	return nil
}

// nextQuery returns the query of the next page, from the header Link, or "". Only the query is taken: a page is always
// asked of the endpoint, also if it is a mirror whose links lead to the hub.
func nextQuery(h http.Header) string {
	for link := range strings.SplitSeq(h.Get("Link"), ",") {
		address, rest, ok := strings.Cut(link, ">")
		address, opened := strings.CutPrefix(strings.TrimSpace(address), "<")
		if !ok || !opened || !strings.Contains(rest, `rel="next"`) {
			continue
		}
		if u, err := url.Parse(address); err == nil {
			return u.RawQuery
		}
	}
	return ""
}

// fetch gets a JSON answer of the API and the endpoint's header. It repeats the request after temporary failures.
func (c *Client) fetch(ctx context.Context, repo, name string, u *url.URL) ([]byte, http.Header, error) {
	for failures := 1; ; failures++ {
		body, own, err := c.fetchOnce(ctx, repo, name, u)
		if err == nil {
			return body, own, nil
		}
		if err := c.again(ctx, failures, err); err != nil {
			return nil, nil, err
		}
	}
}

func (c *Client) fetchOnce(ctx context.Context, repo, name string, u *url.URL) ([]byte, http.Header, error) {
	a, err := c.get(ctx, name, u, http.Header{"Accept": {"application/json"}})
	if err != nil {
		return nil, nil, err
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		return nil, nil, c.refusal(repo, name, a)
	}
	if !a.home {
		return nil, nil, badAnswer(name, "comes from another host, "+a.Request.URL.Host, nil)
	}
	body, err := io.ReadAll(io.LimitReader(a.Body, maxAnswer+1))
	if err != nil {
		return nil, nil, unreachable(ctx, name, u, err)
	}
	if len(body) > maxAnswer {
		return nil, nil, badAnswer(name, fmt.Sprintf("has more than %d MB", maxAnswer>>20), nil)
	}
	return body, a.own, nil
}
