package families

import (
	"fmt"

	"runner/chattemplate"
	"runner/chattemplate/channels"
	"runner/chattemplate/reader"
	"runner/chattemplate/tags"
)

// NewReader checks the configuration.
func NewReader(cfg reader.Config) (reader.Reader, error) {
	if cfg.Vocab == nil || cfg.Emit == nil {
		return nil, fmt.Errorf("a reader needs a vocabulary and a receiver of events")
	}
	switch cfg.Format.Family {
	case chattemplate.Harmony:
		return channels.NewReader(cfg)
	case chattemplate.Plain, chattemplate.ThinkTags:
		return tags.NewReader(cfg)
	default:
		return nil, fmt.Errorf("unknown model family %d", cfg.Format.Family)
	}
}
