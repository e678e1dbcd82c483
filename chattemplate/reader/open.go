package reader

import (
	"fmt"

	"runner/chattemplate"
)

// NewSplitter checks the configuration.
func NewSplitter(cfg Config) (Reader, error) {
	if cfg.Vocab == nil || cfg.Emit == nil {
		return nil, fmt.Errorf("splitter needs a vocabulary and a receiver of events")
	}
	switch cfg.Format.Family {
	case chattemplate.Harmony:
		return newHarmony(cfg)
	case chattemplate.Plain, chattemplate.ThinkTags:
		return newTags(cfg)
	default:
		return nil, fmt.Errorf("unknown model family %d", cfg.Format.Family)
	}
}
