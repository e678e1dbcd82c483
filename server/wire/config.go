package wire

import (
	"io"
	"log/slog"
	"time"

	"runner/generation"
	"runner/reasoning/seal"
)

// Config is what the formats have in common of their configuration. The zero value is usable.
type Config struct {
	// Defaults holds the defaults of requests: sampling, effort, budget, strategy and visibility. Its messages, tools and
	// forms are not used.
	Defaults generation.Request
	// Seal holds the keys of sealed values; nil means a new key that lives as long as the format.
	Seal *seal.Keyring
	// StrictSeal refuses requests with sealed values that do not open. Otherwise the values are left out with a warning.
	StrictSeal bool
	// Traces keeps the traces that clients ask for; nil refuses them.
	Traces Traces
	// Clock gives the time of answers; nil means time.Now. It may be called by several goroutines at once.
	Clock func() time.Time
	// Logger receives ids, counts and codes, never text; nil is silent.
	Logger *slog.Logger
	// Random gives the ids of answers, and the seeds of requests without one; nil means crypto/rand. It may be read by
	// several goroutines at once.
	Random io.Reader
}

// Fill sets what nil stands for. Formats call it once.
func (c *Config) Fill() {
	if c.Seal == nil {
		c.Seal = seal.NewKeyring()
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

// Request returns the defaults of a principal's requests. It shows no more than the principal may see.
func (c *Config) Request(p *Principal) generation.Request {
	req := c.Defaults
	req.Visibility = p.Default(req.Visibility)
	return req
}

// NewID returns a random id with a prefix.
func (c *Config) NewID(prefix string) string { return NewID(c.Random, prefix) }
