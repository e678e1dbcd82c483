package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"runner/models/catalog"
)

// Body is a part of a file on its way. It ends with io.EOF after the last byte that was asked for, and not before:
// a connection that ends early is an [*Error] of the kind [Unreachable].
type Body struct {
	// ETag is what the server that sends the bytes calls this version of the file, or "" if it does not say so.
	ETag string

	ctx     context.Context
	name    string
	answer  *answer
	missing int64
}

// Open asks for the bytes from from up to, but not including, to of a file of a commit. It sends one request and does
// not repeat it. etag is the ETag of an earlier body of this file, or "". A server that has another version now is an
// error. A server that sends the whole file instead of a part is an error that wraps [ErrNoRanges].
func (c *Client) Open(ctx context.Context, id, commit string, f catalog.File, from, to int64,
	etag string) (*Body, error) {
	org, repo, err := repoID(id)
	if err != nil {
		return nil, err
	}
	name := id + "/" + f.Path
	if f.Size > MaxHTTP {
		return nil, TooLargeError(id, f)
	}
	header := http.Header{}
	part := from != 0 || to != f.Size
	if part {
		header.Set("Range", fmt.Sprintf("bytes=%d-%d", from, to-1))
		if etag != "" {
			header.Set("If-Range", etag)
		}
	}
	parts := append([]string{org, repo, "resolve", commit}, strings.Split(f.Path, "/")...)
	a, err := c.get(ctx, name, c.address("", parts...), header)
	if err != nil {
		return nil, err
	}
	b := &Body{ctx: ctx, name: name, answer: a, missing: to - from}
	if err := b.check(c, id, commit, f, from, to, part, etag); err != nil {
		_ = a.Body.Close()
		return nil, err
	}
	return b, nil
}

// TooLargeError is the error about a file that is larger than [MaxHTTP].
func TooLargeError(repo string, f catalog.File) error {
	return &Error{Kind: TooLarge, Name: repo + "/" + f.Path,
		Detail: fmt.Sprintf("has %d GB, and the hub sends files over 50 GB by its own protocol Xet only, not over HTTP",
			f.Size/1e9),
		Advice: "choose a smaller quantization or a model that is split into parts, or get it with: hf download " + repo}
}

// check compares the answer with what was asked for and what the hub listed.
func (b *Body) check(c *Client, id, commit string, f catalog.File, from, to int64, part bool, etag string) error {
	a := b.answer
	if err := b.checkVersion(commit, f); err != nil {
		return err
	}
	b.ETag = strongETag(a.Header)
	// The storage host may be at fault for the rest, and the next request may go to another one.
	bad := func(format string, args ...any) error {
		e := badAnswer(b.name, fmt.Sprintf(format, args...), nil)
		e.Temporary = true
		return e
	}
	moved := etag != "" && b.ETag != "" && etag != b.ETag
	switch a.StatusCode {
	case http.StatusOK, http.StatusPartialContent:
		if moved {
			return &Error{Kind: Changed, Name: b.name, Detail: "the storage host has another version of the file now",
				Advice: "try again later", Temporary: true}
		}
	case http.StatusRequestedRangeNotSatisfiable:
		return bad("says that the file ends before byte %d of %d", from, f.Size)
	default:
		return c.refusal(id, b.name, a)
	}
	if coding := a.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return bad("is compressed with %.20q, which was not asked for", coding)
	}
	length := to - from
	if a.StatusCode == http.StatusOK {
		if part {
			e := badAnswer(b.name, "is the whole file and not the part that was asked for", ErrNoRanges)
			e.Temporary = true
			return e
		}
	} else {
		if !part {
			return bad("is a part of the file and not the whole file")
		}
		first, last, total, ok := contentRange(a.Header.Get("Content-Range"))
		if !ok || first != from || last != to-1 || total != f.Size {
			return bad("is %.80q and not bytes %d-%d/%d", a.Header.Get("Content-Range"), from, to-1, f.Size)
		}
	}
	if a.ContentLength >= 0 && a.ContentLength != length {
		return bad("has %d bytes and not %d", a.ContentLength, length)
	}
	return nil
}

// checkVersion compares what the endpoint says about the file with its list. Storage hosts are not asked.
func (b *Body) checkVersion(commit string, f catalog.File) error {
	own := b.answer.own
	etag := own.Get("X-Linked-Etag")
	if etag == "" && b.answer.home && b.answer.StatusCode < 300 {
		etag = own.Get("ETag")
	}
	etag = strings.Trim(strings.TrimPrefix(etag, "W/"), `"`)
	size := own.Get("X-Linked-Size")
	detail := ""
	switch {
	case own.Get("X-Repo-Commit") != "" && own.Get("X-Repo-Commit") != commit:
		detail = fmt.Sprintf("the hub answers for another commit than %s", commit)
	case etagForm.MatchString(etag) && etag != f.Etag:
		detail = fmt.Sprintf("the hub listed the hash %s and has %s now", f.Etag, etag)
	case size != "" && size != strconv.FormatInt(f.Size, 10):
		detail = fmt.Sprintf("the hub listed %d bytes and has %.20q now", f.Size, size)
	default:
		return nil
	}
	return &Error{Kind: Changed, Name: b.name, Detail: detail, Advice: "try again; if it stays, report it to the hub"}
}

// strongETag returns the ETag if it is one that If-Range may have.
func strongETag(h http.Header) string {
	etag := h.Get("ETag")
	if len(etag) < 2 || len(etag) > 256 || etag[0] != '"' || etag[len(etag)-1] != '"' {
		return ""
	}
	return etag
}

var rangeForm = regexp.MustCompile(`^bytes (\d{1,18})-(\d{1,18})/(\d{1,18})$`)

func contentRange(text string) (first, last, total int64, ok bool) {
	m := rangeForm.FindStringSubmatch(text)
	if m == nil {
		return 0, 0, 0, false
	}
	first, _ = strconv.ParseInt(m[1], 10, 64)
	last, _ = strconv.ParseInt(m[2], 10, 64)
	total, _ = strconv.ParseInt(m[3], 10, 64)
	return first, last, total, true
}

// Read reads the part that was asked for.
func (b *Body) Read(p []byte) (int, error) {
	if b.missing == 0 {
		return 0, io.EOF
	}
	n, err := b.answer.Body.Read(p[:min(int64(len(p)), b.missing)])
	b.missing -= int64(n)
	switch {
	case b.missing == 0:
		return n, nil
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
		fallthrough
	case err != nil:
		return n, unreachable(b.ctx, b.name, b.answer.Request.URL, err)
	}
	return n, nil
}

// Close ends the transfer.
func (b *Body) Close() error { return b.answer.Body.Close() }
