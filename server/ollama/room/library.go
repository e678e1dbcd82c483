package room

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"runner/cmd/runner/cli"
	"runner/models/cache"
	"runner/models/catalog"
	"runner/models/hub"
	"runner/models/hub/download"
	"runner/models/installed"
	"runner/models/library"
	"runner/models/names"
	"runner/server/ollama"
	"runner/server/wire"
)

// servedLibrary lets clients of a server change the models in the Hugging Face cache. It is an [ollama.Library].
type servedLibrary struct {
	models *library.Library
	log    *slog.Logger
	// known are the cards of models, by their paths. They are made from headers, which are read again after a change.
	known sync.Map
}

// namesFile is the file in the data folder with the names that clients of servers gave to models.
const namesFile = "model-names.json"

// newLibrary returns the library of a server.
func newLibrary(h *cli.Host) (*servedLibrary, error) {
	data, err := cli.DataFolder()
	if err != nil {
		return nil, err
	}
	log := h.Logger
	cfg := library.Config{Cache: cache.Default(), Names: filepath.Join(data, namesFile), Log: log, Served: h.Files,
		Memory: h.App.FreeMemory, Client: func() (*hub.Client, error) {
			return h.App.HubClient(func(err error, wait time.Duration) {
				log.Warn("the hub is asked again", "error", err, "wait_seconds", wait.Seconds())
			})
		}}
	return &servedLibrary{models: library.New(cfg), log: log}, nil
}

// List implements [ollama.Library].
func (s *servedLibrary) List() (cards []wire.Card) {
	for _, m := range s.models.List() {
		c := cardOf(m)
		if known, ok := s.known.Load(m.At()); ok && known.(wire.Card).Modified.Equal(c.Modified) {
			c = known.(wire.Card)
		} else {
			installed.Describe(&m)
			c = cardOf(m)
			s.known.Store(m.At(), c)
		}
		c.Name = m.Name // the shortest
		cards = append(cards, c)
	}
	return cards
}

func cardOf(m catalog.Entry) wire.Card {
	return wire.Card{Name: m.Spelled(), Size: m.Bytes(), Modified: installed.Modified(&m), Digest: m.Claimed(),
		Family: m.Architecture, Parameters: m.Parameters, Quantization: m.Quant}
}

// Find implements [ollama.Library]. It reads the header of the model's file.
func (s *servedLibrary) Find(name string) (wire.Card, error) {
	m, err := s.models.Find(name)
	if err != nil {
		return wire.Card{}, s.wireError(err)
	}
	installed.Describe(&m)
	return cardOf(m), nil
}

// Has implements [ollama.Library].
func (s *servedLibrary) Has(name string) bool { return s.models.Has(name) }

// Remove implements [ollama.Library].
func (s *servedLibrary) Remove(name string) error {
	return s.wireError(s.models.Remove(name))
}

// Name implements [ollama.Library].
func (s *servedLibrary) Name(name, model string) error {
	return s.wireError(s.models.Name(name, model))
}

// Names implements [ollama.Library].
func (s *servedLibrary) Names() (map[string]string, error) {
	all, err := s.models.Names()
	return all, s.wireError(err)
}

// Named implements [ollama.Library]. What cannot be read has no names.
func (s *servedLibrary) Named(name string) (model string, ok bool) {
	model, ok, err := s.models.Named(name)
	if err != nil {
		s.log.Error("the names that clients gave to models cannot be read", "error", err)
	}
	return model, ok
}

// Close implements [ollama.Library].
func (s *servedLibrary) Close() { s.models.Close(wire.ErrDraining) }

// Pull implements [ollama.Library].
func (s *servedLibrary) Pull(ctx context.Context, name string, report func(ollama.Pulled) error) (string, error) {
	pulled, err := s.models.Pull(ctx, name, func(p library.Progress) error {
		switch p.Stage {
		case library.Asking:
			return report(ollama.Pulled{Status: "pulling manifest"})
		case library.Checking:
			return report(ollama.Pulled{Status: "verifying sha256 digest"})
		case library.Linking:
			return report(ollama.Pulled{Status: "writing manifest"})
		}
		kind := "git-sha1:"
		if len(p.Etag) == 64 {
			kind = "sha256:"
		}
		return report(ollama.Pulled{Status: "pulling " + p.Etag[:min(len(p.Etag), 12)], Digest: kind + p.Etag, Done: p.Done,
			Total: p.Total})
	})
	return pulled, s.wireError(err)
}

// wireError returns what clients are told of an error. Paths and errors of the system are for the log.
func (s *servedLibrary) wireError(err error) error {
	if err == nil {
		return nil
	}
	name, file, asked, fetched := (*names.Error)(nil), (*catalog.Error)(nil), (*hub.Error)(nil), (*download.Error)(nil)
	answer := func(code, format string, args ...any) *wire.Error {
		e := wire.Errorf(code, format, args...).Because(err)
		if e.Status < http.StatusInternalServerError { // else the request is not to blame
			e.Param = "model"
		}
		return e
	}
	switch {
	case errors.As(err, &name):
		return answer(wire.CodeInvalid, "it %s; %s", name.Detail, name.Advice)
	case errors.As(err, &file):
		return answer(wire.CodeNotFound, "%v; %s", err, file.Advice)
	case errors.As(err, &asked):
		return hubError(answer, asked)
	case errors.Is(err, library.ErrUnknown), errors.Is(err, library.ErrNotFound):
		return answer(wire.CodeModel, "%v", err)
	case errors.Is(err, library.ErrSeveral):
		return answer(wire.CodeInvalid, "%v; name one", err)
	case errors.Is(err, library.ErrInUse), errors.Is(err, library.ErrTaken):
		return answer(wire.CodeModelInUse, "%v", err)
	case errors.Is(err, library.ErrFull):
		return answer(wire.CodeModelInUse, "%v; delete some", err)
	case errors.Is(err, library.ErrBusy):
		e := answer(wire.CodeQueue, "%v", err)
		e.RetryAfter = time.Minute
		return e
	case errors.Is(err, wire.ErrDraining), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return wire.FromError(err, nil)
	}
	s.log.Error("a model could not be pulled, named or deleted", "error", err)
	switch {
	case errors.Is(err, download.ErrNoSpace), errors.Is(err, syscall.ENOSPC):
		e := answer(wire.CodeDiskFull,
			"the server's disk has no room for the model; its operator has to make some, and what is here is kept")
		e.Final = true
		return e
	case errors.As(err, &fetched):
		return answer(wire.CodeHub, "%s; %s", fetched.Detail, fetched.Advice)
	}
	return answer(wire.CodeInternal,
		"the server's files could not be read or written; its log says why")
}

// hubError returns the answer for an error of the hub.
func hubError(answer func(code, format string, args ...any) *wire.Error, err *hub.Error) *wire.Error {
	text := fmt.Sprintf("%v; %s", err, err.Advice)
	switch err.Kind {
	case hub.NotFound:
		return answer(wire.CodeModel, "%s", text)
	case hub.Gated, hub.Unauthorized:
		return answer(wire.CodeGated, "%s", text)
	case hub.TooLarge:
		return answer(wire.CodeUnsupported, "%s", text)
	}
	e := answer(wire.CodeHub, "%s", text)
	e.RetryAfter, e.Final = err.RetryAfter, !err.Temporary
	return e
}
