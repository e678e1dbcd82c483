package cli

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

// hangUps are the SIGHUP signals that a server gets. Where it was started from a terminal the signal says that the
// terminal is gone, and the server drains. Elsewhere it asks the server to read its files again, as is usual for
// services; under nohup, which ignores the signal, too.
//
// A terminal's end can come as two signals, from the system and from the shell. So this signal, unlike an interrupt,
// never ends the process at once.
type hangUps struct {
	signals chan os.Signal
	ctx     context.Context
	cancel  context.CancelFunc
	drains  bool
	log     *slog.Logger
}

// hangUps catches the signals from now on. The context that it returns ends when the server is to drain.
func (*app) hangUps(ctx context.Context, log *slog.Logger) (context.Context, *hangUps) {
	h := &hangUps{signals: make(chan os.Signal, 1), drains: !signal.Ignored(syscall.SIGHUP) && hasTerminal(), log: log}
	h.ctx, h.cancel = context.WithCancel(ctx)
	signal.Notify(h.signals, syscall.SIGHUP)
	return h.ctx, h
}

// follow does what the signals ask for until the server stops.
func (h *hangUps) follow(reload func()) {
	for {
		select {
		case <-h.signals:
			if h.drains {
				h.log.Info("the terminal is gone")
				h.cancel()
				return
			}
			reload()
		case <-h.ctx.Done():
			return
		}
	}
}

// stop lets go of the context. The signals stay caught, so that none of them ends a server that drains.
func (h *hangUps) stop() { h.cancel() }

// hasTerminal reports whether the process has a controlling terminal.
func hasTerminal() bool {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	_ = f.Close() // nothing was written
	return true
}
