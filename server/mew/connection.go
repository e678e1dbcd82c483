package mew

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/coder/websocket"

	"runner/server/mew/envelope"
	"runner/server/mew/participant"
	"runner/server/mew/space"
	"runner/server/wire"
)

// take serves a connection until it ends. who is nil if the connection has not sent its token yet.
func (a *API) take(ctx context.Context, ws *websocket.Conn, who *space.Identity) {
	defer func() { _ = ws.CloseNow() }()
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
	if a.cfg.Tokens.check(*who) != nil { // the tokens were read again meanwhile
		a.space.Expel(a.check)
	}
	var writer sync.WaitGroup
	writer.Go(func() { write(ctx, ws, m) })
	m.CloseFor(a.read(ctx, ws, m, who.ID))
	writer.Wait()
}

// read passes on what a member sends until its connection ends, and returns why it ended. A member that sends too much
// is read slowly, so that it waits at its socket.
func (a *API) read(ctx context.Context, ws *websocket.Conn, m *space.Member, id string) error {
	for {
		kind, frame, err := ws.Read(ctx)
		switch {
		case err != nil:
			return space.ErrLeft
		case kind != websocket.MessageText:
			return space.ErrBinary
		}
		if err := a.work(ctx, id, len(frame), func() error { return m.Send(ctx, frame) }); err != nil {
			return err
		}
		if wait := m.Pause(); wait > 0 {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return space.ErrLeft
			}
		}
	}
}

// longFrame is the length from which reading a message is work that takes a slot.
const longFrame = 16 << 10

// work runs f, in a slot of the participant if a message is long.
func (a *API) work(ctx context.Context, id string, length int, f func() error) error {
	if length >= longFrame {
		slot, err := a.cfg.Slots.Take(ctx, principal+" "+id)
		if err != nil {
			return space.ErrLeft
		}
		defer slot.Give()
	}
	return f()
}

// errSpace: the connection asked for another space.
var errSpace = errors.New("unknown_space")

// join waits for the token of a connection and returns its participant. The error is the reason to close with.
func (a *API) join(ctx context.Context, ws *websocket.Conn) (*space.Identity, error) {
	// If the context of a read ends, the connection breaks off. A close frame also ends the read, and says why.
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

// write passes on what a member receives until its connection ends, and closes it with the reason.
func write(ctx context.Context, ws *websocket.Conn, m *space.Member) {
	ctx, stop := context.WithCancel(ctx)
	var pings sync.WaitGroup
	defer pings.Wait()
	defer stop()
	pings.Go(func() { participant.Ping(ctx, ws, pingEvery) })
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

// closeWith closes a connection with a reason. Only the first call has an effect.
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
