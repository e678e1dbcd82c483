package grammar

import (
	"container/list"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"runner/grammar/expr"
	"runner/hint"
)

// CompileTimeout is the maximum time of one Compile.
const CompileTimeout = 5 * time.Second

// ErrUnsatisfiable says that no text has the form.
var ErrUnsatisfiable = errors.New("no text has this form")

// CompileError says why a source cannot be used. It wraps the error of the front end, which has the reason and the
// place.
type CompileError struct {
	// Form names the kind of source.
	Form string
	Err  error
}

func (e *CompileError) Error() string { return fmt.Sprintf("%s: %v", e.Form, e.Err) }

// Unwrap returns the cause.
func (e *CompileError) Unwrap() error { return e.Err }

// Hint tells the user what to do next.
func (e *CompileError) Hint() string {
	advice := hint.Of(e.Err)
	switch {
	case advice != "":
		return advice
	case errors.Is(e.Err, context.DeadlineExceeded):
		return "simplify it: compiling it took too long"
	}
	return "correct it and try again"
}

// Compile checks a source and prepares it for generation with a vocabulary. Errors are *CompileError, or the context's
// error if the context ends first.
func Compile(ctx context.Context, src Source, v *Vocabulary) (*Grammar, error) {
	f, a, err := src.prepare(ctx)
	if err != nil {
		return nil, err
	}
	a.set.SetHorizon(v.longest)
	return &Grammar{vocab: v, build: f.build, static: f.bytes, current: a}, nil
}

// prepare compiles a source within its time limit and checks that at least one text has the form.
func (s Source) prepare(ctx context.Context) (front, *arena, error) {
	limited, cancel := context.WithTimeout(ctx, CompileTimeout)
	defer cancel()
	f, err := s.compile(limited)
	if err == nil {
		err = limited.Err()
	}
	if err != nil {
		if ctx.Err() != nil {
			return f, nil, ctx.Err()
		}
		return f, nil, &CompileError{Form: s.String(), Err: err}
	}
	a := newArena(f.build)
	if a.root == expr.Empty {
		return f, nil, &CompileError{Form: s.String(), Err: ErrUnsatisfiable}
	}
	return f, a, nil
}

// Cache keeps the compiled grammars of one vocabulary, by content. They are for generation, so their integers are
// plain, see [Source.Plain]. Use [NewCache]; the zero value is not usable. Several goroutines may use a cache at
// once.
type Cache struct {
	vocab *Vocabulary
	limit int

	mu      sync.Mutex
	asked   int // how often Compile was called
	entries map[[sha256.Size]byte]*list.Element
	order   *list.List // of *entry, the most recently used first

	// validators holds the most recently used ones, by schema. text is the total size of their schemas in bytes.
	validators map[string]*list.Element
	checked    *list.List // of *validated, the most recently used first
	text       int
}

// validated is a schema with its validator.
type validated struct {
	schema    string
	validator *Validator
}

// maxValidated limits the total size of the schemas whose validators are kept, in bytes. A validator takes about 50
// times as much.
const maxValidated = 1 << 20

// shrinkEvery is the number of calls of Compile after which the sizes are added up again, even if nothing new was
// compiled. Grammars grow while they are used.
const shrinkEvery = 16

type entry struct {
	key [sha256.Size]byte
	// done is closed once g and err are set.
	done chan struct{}
	g    *Grammar
	err  error
}

func (e *entry) isDone() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// NewCache returns a cache that keeps about limit bytes of grammars. 0 means 64 MiB.
func NewCache(v *Vocabulary, limit int) *Cache {
	if limit <= 0 {
		limit = 64 << 20
	}
	return &Cache{
		vocab: v, limit: limit, entries: map[[sha256.Size]byte]*list.Element{}, order: list.New(),
		validators: map[string]*list.Element{}, checked: list.New(),
	}
}

// Compile returns the grammar of src from the cache, or compiles it. Callers that ask for the same source at once share
// one compilation, which runs under the context of the first. A caller whose own context ends stops waiting. Errors are
// not cached.
func (c *Cache) Compile(ctx context.Context, src Source) (*Grammar, error) {
	return c.compile(ctx, src.Plain())
}

func (c *Cache) compile(ctx context.Context, src Source) (*Grammar, error) {
	key := src.digest()
	c.mu.Lock()
	el, ok := c.entries[key]
	if !ok {
		el = c.order.PushFront(&entry{key: key, done: make(chan struct{})})
		c.entries[key] = el
	}
	c.order.MoveToFront(el)
	e := el.Value.(*entry)
	c.mu.Unlock()
	if !ok {
		func() {
			defer close(e.done)
			e.g, e.err = Compile(ctx, src, c.vocab)
		}()
	}
	select {
	case <-e.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	c.mu.Lock()
	c.asked++
	due := !ok || c.asked%shrinkEvery == 0
	if e.err != nil && c.entries[key] == el {
		delete(c.entries, key)
		c.order.Remove(el)
	}
	c.mu.Unlock()
	var own *CompileError
	if e.err != nil && !errors.As(e.err, &own) && ctx.Err() == nil {
		return c.compile(ctx, src) // the caller that compiled it gave up
	}
	if due {
		c.shrink()
	}
	return e.g, e.err
}

// shrink drops the least recently used grammars until the rest is small enough. It keeps the newest.
func (c *Cache) shrink() {
	c.mu.Lock()
	defer c.mu.Unlock()
	total := 0
	for el := c.order.Front(); el != nil; {
		next := el.Next()
		if e := el.Value.(*entry); e.isDone() {
			if total += e.g.Bytes(); total > c.limit && el != c.order.Front() {
				c.order.Remove(el)
				delete(c.entries, e.key)
			}
		}
		el = next
	}
}

// Validator returns the validator of a schema from the cache, or makes it. Errors are not cached.
func (c *Cache) Validator(schema []byte) (*Validator, error) {
	c.mu.Lock()
	el, ok := c.validators[string(schema)]
	if ok {
		c.checked.MoveToFront(el)
	}
	c.mu.Unlock()
	if ok {
		return el.Value.(*validated).validator, nil
	}
	v, err := NewValidator(schema)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if el, ok := c.validators[string(schema)]; ok {
		return el.Value.(*validated).validator, nil // another caller was faster
	}
	c.validators[string(schema)] = c.checked.PushFront(&validated{string(schema), v})
	for c.text += len(schema); c.text > maxValidated && c.checked.Len() > 1; {
		last := c.checked.Remove(c.checked.Back()).(*validated)
		delete(c.validators, last.schema)
		c.text -= len(last.schema)
	}
	return v, nil
}

// Len returns the number of cached grammars.
func (c *Cache) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.order.Len()
}
