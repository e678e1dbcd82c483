// Package rooms lists the rooms of the program. Each line adds one; without it, and without the folder above the
// package that it names, the program has all but what that room did.
package rooms

import (
	_ "runner/backend/mlx/room"
	_ "runner/backend/remote/llamaserver/room"
	_ "runner/backend/remote/sglang/room"
	_ "runner/backend/remote/vllm/room"
	_ "runner/bench/room"
	_ "runner/runner/delegate/room"
	_ "runner/server/agui/room"
	_ "runner/server/anthropic/room"
	_ "runner/server/mew/room"
	_ "runner/server/ollama/room"
	_ "runner/server/openai/room"
	_ "runner/server/traces/room"
	_ "runner/server/web/room"
)
