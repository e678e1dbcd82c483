package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/rivo/uniseg"

	"runner/cmd/runner/render"
	"runner/server/wire"
)

// requestRows is a log on a terminal. It writes the line of a request so that it fits one row: the time, the method,
// the path, the status, the code of an error, how long it took, the tokens of the prompt and of the reply, the
// beginning of the id, and the key where there are keys. The other lines go to the handler in it.
type requestRows struct {
	slog.Handler
	to io.Writer
	// width returns the width of the terminal, in columns.
	width func() int
}

// idColumns is how much of the id of a request a row shows.
const idColumns = len("req_") + 8

// Handle writes a line.
func (h *requestRows) Handle(ctx context.Context, r slog.Record) error {
	if r.Message != "request" {
		return h.Handler.Handle(ctx, r)
	}
	values := map[string]slog.Value{}
	r.Attrs(func(a slog.Attr) bool {
		values[a.Key] = a.Value
		return true
	})
	_, err := fmt.Fprintln(h.to, requestRow(r.Time, values, h.width()))
	return err
}

// WithAttrs returns a handler that adds attributes to the lines that are not of requests.
func (h *requestRows) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &requestRows{Handler: h.Handler.WithAttrs(attrs), to: h.to, width: h.width}
}

// WithGroup returns a handler that puts the attributes of these lines into a group.
func (h *requestRows) WithGroup(name string) slog.Handler {
	return &requestRows{Handler: h.Handler.WithGroup(name), to: h.to, width: h.width}
}

// requestRow returns the row of a request. A path that is too long for the width is shortened.
func requestRow(at time.Time, values map[string]slog.Value, width int) string {
	what := values["route"].String()
	if path, unknown := values["path"]; unknown {
		what = values["method"].String() + " " + path.String()
	}
	status := values["status"].String()
	if code, failed := values["code"]; failed {
		status += " " + code.String()
	}
	ms, _ := values["ms"].Any().(float64)
	rest := []string{"", status, brief(time.Duration(ms * float64(time.Millisecond)))}
	if values["runs"].String() != "0" {
		rest = append(rest, values["prompt_tokens"].String()+"+"+values["completion_tokens"].String()+" tokens")
	}
	id := values["id"].String()
	rest = append(rest, id[:min(len(id), idColumns)])
	if key := values["key"].String(); key != wire.Local {
		rest = append(rest, key)
	}
	begin, end := at.Format(time.TimeOnly)+" ", strings.Join(rest, " ")
	return begin + render.Clipped(what, max(width-len(begin)-uniseg.StringWidth(end), 20)) + end
}

// brief returns a duration with as many digits as matter.
func brief(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
