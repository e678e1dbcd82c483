package cli

import (
	"runner/server"
)

// mountFormats adds the wire formats to a server.
func mountFormats(_ *server.Server, _ *serveOptions) error {
	return nil
}
