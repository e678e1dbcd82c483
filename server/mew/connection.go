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
		var why error
		who, why = a.join(ctx, ws)
		<-a.joining
		if why != nil {
			closeWith(ws, why)
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
	m.CloseFor(read(ctx, ws, m))
	writer.Wait()
}

// read passes on what a member sends until its connection ends, and returns why that did.
func read(ctx context.Context, ws *websocket.Conn, m *space.Member) error {
	for {
		kind, frame, err := ws.Read(ctx)
		switch {
		case err != nil:
			return space.ErrLeft
		case kind != websocket.MessageText:
			return space.ErrBinary
		}
		if err := m.Send(ctx, frame); err != nil {
			return err
		}
	}
}

// errSpace: the connection asked for another space.
var errSpace = errors.New("unknown_space")

// join waits for a connection to say who it is. The error is why that is nobody.
func (a *API) join(ctx context.Context, ws *websocket.Conn) (*space.Identity, error) {
	// A read whose context ends breaks the connection off. A closing frame tells the client why, and ends the read too.
	late := time.AfterFunc(a.cfg.JoinTimeout, func() { closeWith(ws, space.ErrLate) })
	defer late.Stop()
	defer context.AfterFunc(a.closing, func() { closeWith(ws, space.ErrClosed) })()
	kind, frame, err := ws.Read(ctx)
	switch {
	case err != nil:
		return nil, space.ErrUnauthorized
	case kind != websocket.MessageText:
		return nil, space.ErrBinary
	}
	_, join, err := envelope.ParseFrame(frame)
	switch {
	case err != nil, join == nil:
		return nil, space.ErrUnauthorized
	case !a.inSpace(join.Space):
		return nil, errSpace
	}
	who := a.cfg.Tokens.Find(join.Token)
	if who == nil || join.ParticipantID != "" && join.ParticipantID != who.ID {
		return nil, space.ErrUnauthorized
	}
	return who, nil
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

// closeWith closes a connection with a reason. Only the first one counts.
func closeWith(ws *websocket.Conn, err error) {
	status := websocket.StatusPolicyViolation
	switch {
	case errors.Is(err, space.ErrLeft):
		status = websocket.StatusNormalClosure
	case errors.Is(err, space.ErrClosed):
		status = websocket.StatusGoingAway
	case errors.Is(err, space.ErrBinary):
		status = websocket.StatusUnsupportedData
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
