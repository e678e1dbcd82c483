package cli

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// hangUps handles the SIGHUP signals of a server. If the server was started from a terminal, the signal means that the
// terminal is gone, and the server drains. Otherwise, or under nohup, which ignores the signal, the server reads its
// files again, as is usual for services.
//
// When a terminal ends, two signals can come: one from the system and one from the shell. So a second SIGHUP, unlike a
// second interrupt, does not end the process at once.
type hangUps struct {
	signals chan os.Signal
	ctx     context.Context
	cancel  context.CancelFunc
	work    sync.WaitGroup
	drains  bool
	log     *slog.Logger
}

// hangUps starts to catch SIGHUP. The returned context ends when the server has to drain.
func (*App) hangUps(ctx context.Context, log *slog.Logger) (context.Context, *hangUps) {
	h := &hangUps{signals: make(chan os.Signal, 1), drains: !signal.Ignored(syscall.SIGHUP) && hasTerminal(), log: log}
	h.ctx, h.cancel = context.WithCancel(ctx)
	signal.Notify(h.signals, syscall.SIGHUP)
	return h.ctx, h
}

// follow handles the signals in the background until the server stops. It calls reload when the files have to be read
// again.
func (h *hangUps) follow(reload func()) {
	h.work.Go(func() {
		for {
			select {
			case <-h.signals:
				if h.drains {
					h.log.Info("the terminal is gone; stopping")
					h.cancel()
					return
				}
				reload()
			case <-h.ctx.Done():
				return
			}
		}
	})
}

// stop cancels the context. SIGHUP stays caught, so that it does not end a server that drains.
func (h *hangUps) stop() {
	h.cancel()
	h.work.Wait()
}

// hasTerminal reports whether the process has a controlling terminal.
func hasTerminal() bool {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	_ = f.Close() // nothing was written
	return true
}
