package mew

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/coder/websocket"

	"runner/server/mew/envelope"
	"runner/server/mew/space"
	"runner/server/wire"
)

// take serves a connection until it ends. who is nil where it has not said who it is.
func (a *API) take(ctx context.Context, ws *websocket.Conn, who *space.Identity) {
	defer func() { _ = ws.CloseNow() }() // whatever is left of it
	if who == nil {
		var reason string
		who, reason = a.join(ctx, ws)
		<-a.joining
		if who == nil {
			_ = ws.Close(websocket.StatusPolicyViolation, reason)
			return
		}
		if !a.hold(who.ID) {
			_ = ws.Close(websocket.StatusTryAgainLater, wire.CodeConnections)
			return
		}
		defer a.letGo(who.ID)
	}
	m, err := a.space.Join(*who)
	if err != nil {
		_ = ws.Close(websocket.StatusTryAgainLater, err.Error())
		return
	}
	if a.cfg.Tokens.check(*who) != nil { // they were read again meanwhile
		a.space.Expel(a.check)
	}
	var writer sync.WaitGroup
	writer.Go(func() { write(ctx, ws, m) })
	for {
		kind, frame, err := ws.Read(ctx)
		if err != nil || kind != websocket.MessageText || m.Send(ctx, frame) != nil {
			break
		}
	}
	_ = m.Close()
	writer.Wait()
}

// join waits for a connection to say who it is, and returns nobody and why where it does not.
func (a *API) join(ctx context.Context, ws *websocket.Conn) (who *space.Identity, reason string) {
	unauthorized := space.ErrUnauthorized.Error()
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	defer context.AfterFunc(a.closing, cancel)()
	_, frame, err := ws.Read(ctx)
	if err != nil {
		return nil, unauthorized
	}
	_, join, err := envelope.ParseFrame(frame)
	switch {
	case err != nil, join == nil:
		return nil, unauthorized
	case !a.inSpace(join.Space):
		return nil, "unknown_space"
	}
	who = a.cfg.Tokens.Find(join.Token)
	if who == nil || join.ParticipantID != "" && join.ParticipantID != who.ID {
		return nil, unauthorized
	}
	return who, ""
}

// write passes on what a member receives until its connection ends, and says why that did.
func write(ctx context.Context, ws *websocket.Conn, m *space.Member) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go ping(ctx, ws)
	for {
		line, err := m.Receive(ctx)
		if err != nil {
			closeWith(ws, err)
			return
		}
		one, cancel := context.WithTimeout(ctx, writeTimeout)
		err = ws.Write(one, websocket.MessageText, line)
		cancel()
		if err != nil {
			_ = m.Close()
			_ = ws.CloseNow()
			return
		}
	}
}

func closeWith(ws *websocket.Conn, err error) {
	status := websocket.StatusPolicyViolation
	switch {
	case errors.Is(err, space.ErrLeft):
		status = websocket.StatusNormalClosure
	case errors.Is(err, space.ErrClosed):
		status = websocket.StatusGoingAway
	}
	_ = ws.Close(status, err.Error())
}

// ping finds out when the other side is gone without a word.
func ping(ctx context.Context, ws *websocket.Conn) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		one, cancel := context.WithTimeout(ctx, pingEvery)
		err := ws.Ping(one)
		cancel()
		if err != nil {
			_ = ws.CloseNow() // the reader sees it
			return
		}
	}
}
