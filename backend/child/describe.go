package child

import (
	"context"
	"errors"

	"runner/backend/child/protocol"
)

// Description is what an engine says of itself before it loads a model.
type Description = protocol.Hello

// Describe starts an engine's program, asks it what it is, and ends it. version is that of this program. Set a limit to
// the time with ctx. The error says why the engine cannot be used.
func Describe(ctx context.Context, p Program, version string) (Description, error) {
	c, err := dial(ctx, &Engine{Program: p, Version: version, times: usualTimes})
	if err != nil {
		return Description{}, err
	}
	defer c.close()
	if c.hello.Problem != "" {
		err = errors.New(c.hello.Problem)
	}
	return c.hello, err
}
