package hub

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Kind says what is wrong.
type Kind int

// The kinds of errors.
const (
	// NotFound: no such repository, revision or file, or a private one.
	NotFound Kind = iota + 1
	// Gated: the repository's owner wants its terms accepted first. Error.Page is where.
	Gated
	// Unauthorized: the hub does not accept the token, or the token may not read this.
	Unauthorized
	// RateLimited: too many requests. Error.RetryAfter is how long the hub wants us to wait, if it said so.
	RateLimited
	// Offline: HF_HUB_OFFLINE is set.
	Offline
	// TooLarge: the file is larger than [MaxHTTP].
	TooLarge
	// Unreachable: no connection, or the hub or a storage host is failing.
	Unreachable
	// BadAnswer: an answer does not follow the API, or is over a limit of this package.
	BadAnswer
	// Changed: the hub has other content under the name of a file than it listed.
	Changed
)

// Error is an error about the hub.
type Error struct {
	Kind Kind
	// Name is what was asked for: ORG/REPO, or ORG/REPO/FILE.
	Name string
	// Detail is one line without the name.
	Detail string
	// Advice is one line that tells the user what to do.
	Advice string
	// Page is the page to visit in a browser, of a gated repository.
	Page string
	// RetryAfter is how long the server wants us to wait, 0 if it did not say.
	RetryAfter time.Duration
	// Temporary reports that the same request may succeed later.
	Temporary bool
	// Err is the cause. It may be nil.
	Err error
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Name, e.Detail) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Hint tells the user what to do next.
func (e *Error) Hint() string { return e.Advice }

// ErrNoRanges is wrapped by the error of [Client.Open] if a server sent the whole file when asked for a part.
var ErrNoRanges = errors.New("the server sends whole files only")

// errStalled is the cause of a request that was given up because nothing came.
var errStalled = errors.New("the connection delivered next to nothing")

// Retry says how often and how soon a request is repeated that failed for a temporary reason.
type Retry struct {
	// Tries is how many requests may fail in a row. 0 means 6.
	Tries int
	// First is the wait after the first failure, doubled after each further one. 0 means a second.
	First time.Duration
	// Most is the longest wait that this package chooses. 0 means 30 seconds.
	Most time.Duration
	// Patience is the longest wait that a server may choose by Retry-After. 0 means 5 minutes.
	Patience time.Duration
}

func (r Retry) orDefaults() Retry {
	if r.Tries == 0 {
		r.Tries = 6
	}
	if r.First == 0 {
		r.First = time.Second
	}
	if r.Most == 0 {
		r.Most = 30 * time.Second
	}
	if r.Patience == 0 {
		r.Patience = 5 * time.Minute
	}
	return r
}

// After says how long to wait after failures requests have failed in a row, the last with err, and whether to try
// again at all. Waits are spread by random, a number from 0 up to 1, so that many connections do not return at once.
func (r Retry) After(failures int, err error, random float64) (time.Duration, bool) {
	r = r.orDefaults()
	var e *Error
	if !errors.As(err, &e) || !e.Temporary || failures >= r.Tries || e.RetryAfter > r.Patience {
		return 0, false
	}
	wait := r.Most
	if failures < 30 {
		wait = min(r.Most, r.First<<max(failures-1, 0))
	}
	wait = wait/2 + time.Duration(random*float64(wait/2))
	return max(wait, e.RetryAfter), true
}

// Sleep waits for d, or until ctx ends and then returns its cause.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
