package child

import (
	"context"
	"errors"

	"runner/backend/child/protocol"
)

// Description is what an engine says of itself before it loads a model.
type Description struct {
	// Engine and Version name it.
	Engine, Version string
	protocol.About
}

// Describe starts an engine's program, asks it what it is, and ends it. version is that of this program. Set a limit to
// the time with ctx. The error says why the engine cannot be used.
func Describe(ctx context.Context, p Program, version string) (Description, error) {
	c, err := dial(ctx, p, version)
	if err != nil {
		return Description{}, err
	}
	defer c.close()
	d := Description{Engine: c.hello.Engine, Version: c.hello.Version, About: c.hello.About}
	if d.Problem != "" {
		return d, errors.New(d.Problem)
	}
	return d, nil
}
