package download

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"

	"runner/models/hub"
)

// stream is the bytes of the file from one place up to another, over as many requests as it takes.
type stream struct {
	*download
	ctx    context.Context
	at, to int64
	body   *hub.Body
	// failures is how many requests failed in a row. whole is how many of the last ones got the whole file, and moved how
	// many got another version. got is what came since the last failure.
	failures, whole, moved int
	got                    int64
}

// enough is how many bytes make a request count as good, even if it failed later.
const enough = 64 << 10

// insists is how many equal answers in a row are believed: that a server ignores ranges, and that it has another
// version of the file now.
const insists = 3

// fill reads until p is full. With an error it returns how many bytes came before.
func (s *stream) fill(p []byte) (n int64, err error) {
	for n < int64(len(p)) {
		m, err := s.read(p[n:])
		n += int64(m)
		if err != nil && (s.ctx.Err() != nil || !s.again(err)) {
			return n, s.end(err)
		}
		if err != nil {
			continue
		}
	}
	return n, nil
}

// end returns the context's cause if that is why a request failed.
func (s *stream) end(err error) error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	return err
}

// read reads some bytes, after a request if none is open.
func (s *stream) read(p []byte) (int, error) {
	if s.body == nil {
		if err := s.open(); err != nil {
			return 0, err
		}
	}
	n, err := s.body.Read(p)
	s.at += int64(n)
	if s.got += int64(n); s.got >= enough {
		s.failures = 0
	}
	s.download.got(int64(n))
	return n, err
}

// open sends a request for the rest.
func (s *stream) open() (err error) {
	from, to := s.at, s.to
	if !s.ranges {
		from, to = 0, s.file.Size
	}
	s.mu.Lock()
	etag := s.etag
	s.mu.Unlock()
	s.body, err = s.client.Open(s.ctx, s.repo.ID(), s.commit, s.file, from, to, etag)
	if err != nil {
		s.body = nil
		return err
	}
	s.mu.Lock()
	if s.etag == "" {
		s.etag = s.body.ETag
	}
	s.mu.Unlock()
	_, err = io.CopyN(io.Discard, s.body, s.at-from)
	return err
}

// again drops the connection and waits before the next request. It reports false if there should be none.
func (s *stream) again(err error) bool {
	s.close()
	s.got = 0
	s.failures++
	if s.whole++; !errors.Is(err, hub.ErrNoRanges) {
		s.whole = 0
	}
	if e := (*hub.Error)(nil); errors.As(err, &e) && e.Kind == hub.Changed {
		s.moved++
	} else {
		s.moved = 0
	}
	if s.moved == insists {
		s.mu.Lock()
		s.etag = ""
		s.mu.Unlock()
	}
	wait, ok := s.client.Retry().After(s.failures, err, rand.Float64())
	if !ok || s.whole == insists {
		return false
	}
	s.retry(err, wait)
	return hub.Sleep(s.ctx, wait) == nil
}

func (s *stream) close() {
	if s != nil && s.body != nil {
		_ = s.body.Close()
		s.body = nil
	}
}
