package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"runner/backend"
	"runner/cmd/runner/render"
	"runner/generation"
	"runner/reasoning"
)

// generate runs one request and renders its events. It returns the reply, even if the run ended early.
func generate(ctx context.Context, gen generator, req generation.Request, o generation.Observer, to render.Renderer,
	spinner *render.Spinner) (generation.Reply, error) {
	defer spinner.Stop()
	var run generation.Collector
	var failed error
	req.MaySee = reasoning.VisibilityFull // the caller's own machine
	spinner.Set("reading the prompt")
	for e, err := range gen.Generate(ctx, req, o) {
		if err == nil {
			run.Push(e)
			if e.Kind == reasoning.Started {
				spinner.Set("thinking")
			}
			err = to.Render(e)
		}
		if err != nil {
			failed = err
			break
		}
	}
	if err := to.Close(); failed == nil {
		failed = err
	}
	if failed != nil && ctx.Err() != nil {
		failed = ErrInterrupted
	}
	return run.Reply(), failed
}

// writeTimings prints how long the parts of a run took, and the settings that were in effect.
func writeTimings(w io.Writer, loaded time.Duration, model backend.Info, info reasoning.Info, r *reasoning.Result) {
	if r == nil {
		return
	}
	u, t := r.Usage, r.Timing
	tab := Table(w)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(tab, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	line("load", "%s", seconds(loaded))
	line("first token", "%s", seconds(t.FirstToken))
	if t.FirstAnswer > 0 {
		line("first answer", "%s", seconds(t.FirstAnswer))
	}
	line("prompt", "%d tokens, %d from the cache", u.Prompt, u.Cached)
	line("prefill", "%s, %s", seconds(t.Prefill), rate(u.Prompt-u.Cached, t.Prefill))
	line("decode", "%s, %s", seconds(t.Decode), rate(u.Completion-1, t.Decode))
	line("generated", "%d tokens: %d reasoning, %d answer", u.Completion, u.Reasoning, u.Answer)
	if t.Drafted > 0 {
		line("drafts", "%d guesses of next tokens, %d tokens came of them", t.Drafted, t.Accepted)
	}
	if u.Summary > 0 {
		line("summary", "%d tokens", u.Summary)
	}
	finish := string(r.Finish)
	if r.Detail != "" {
		finish += ", " + r.Detail
	}
	line("finish", "%s", finish)
	line("in effect", "effort %s, strategy %s, seed %d", effortName(info.Effort), info.Strategy, info.Seed)
	line("engine", "%s, %s, %s on a GPU, context of %d tokens", model.Device, Count(model.Threads, "thread", "threads"),
		Count(model.GPULayers, "layer", "layers"), model.ContextSize)
	if model.ContextReason != "" {
		line("context", "%s", contextLine(model))
	}
	tab.Flush()
}

// contextLine describes the size of a model's context and the reason for it.
func contextLine(info backend.Info) string {
	return fmt.Sprintf("%d of %d tokens, %s; cache for %d tokens",
		info.ContextSize, info.TrainedContext, info.ContextReason, info.CacheTokens)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f s", d.Seconds()) }

func rate(tokens int, d time.Duration) string {
	if tokens <= 0 || d <= 0 {
		return "too short to measure"
	}
	return fmt.Sprintf("%.1f tokens/s", float64(tokens)/d.Seconds())
}

func effortName(e reasoning.Effort) string {
	if e == reasoning.EffortDefault {
		return "default"
	}
	return string(e)
}
