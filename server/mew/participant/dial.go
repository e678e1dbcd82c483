package participant

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"runner/server/mew/envelope"
	"runner/server/mew/space"
)

// Address is the address of a space on another server. URL and Token are required.
type Address struct {
	// URL is the URL of the server, with the scheme ws, wss, http or https. The default path is /ws.
	URL string
	// Token says who the participant is.
	Token string
	// Space is the name of the space; empty means the server's default.
	Space string
	// ID is the participant's id, for servers that do not know it from the token. It may be empty.
	ID string
}

// RejectedError says that a space does not let the participant in, so that it is useless to try again.
type RejectedError struct{ Reason string }

func (e *RejectedError) Error() string { return "the space refuses this participant: " + e.Reason }

// Hint tells the user what to do next.
func (e *RejectedError) Hint() string { return "check --url, --token and --space" }

// The times of a connection.
const (
	dialTimeout  = 15 * time.Second
	pingEvery    = 20 * time.Second
	firstBackoff = 500 * time.Millisecond
	lastBackoff  = 30 * time.Second
)

// endpoint returns the address of the WebSocket.
func (a *Address) endpoint() (string, error) {
	u, err := url.Parse(a.URL)
	if err != nil || u.Host == "" {
		return "", errors.New("the URL has no host")
	}
	switch u.Scheme {
	case "http":
		u.Scheme = "ws"
	case "https":
		u.Scheme = "wss"
	case "ws", "wss":
	default:
		return "", fmt.Errorf("the URL's scheme is %q; use ws, wss, http or https", u.Scheme)
	}
	if u.User != nil {
		return "", errors.New("the URL has a user; give the token separately")
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/ws"
	}
	q := u.Query()
	if a.Space != "" {
		q.Set("space", a.Space)
	}
	u.RawQuery, u.Fragment = q.Encode(), ""
	return u.String(), nil
}

// Check returns an error if the address is not valid.
func (a *Address) Check() error {
	_, err := a.endpoint()
	return err
}

// Dial connects to a space. It sends the token both as a bearer token and in a join frame. The error is a
// *RejectedError if the space refuses.
func Dial(ctx context.Context, a Address) (Conn, error) {
	endpoint, err := a.endpoint()
	if err != nil {
		return nil, &RejectedError{err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	ws, resp, err := websocket.Dial(ctx, endpoint,
		&websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + a.Token}}})
	if resp != nil && resp.Body != nil {
		_ = resp.Body.Close() // the library has read it
	}
	if resp != nil && resp.StatusCode >= 400 && resp.StatusCode < 500 && resp.StatusCode != http.StatusTooManyRequests {
		return nil, &RejectedError{"it answers with " + resp.Status}
	}
	if err != nil {
		return nil, errors.New("the space cannot be reached")
	}
	ws.SetReadLimit(envelope.MaxSize)
	c := newWebSocket(ws)
	join := envelope.Join{Space: a.Space, Token: a.Token, ParticipantID: a.ID}
	frame, err := join.Append(nil)
	if err == nil {
		err = c.Send(ctx, frame)
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// webSocket is a connection to a space on another server.
type webSocket struct {
	ws *websocket.Conn
	// stop ends work, which reads and pings.
	stop context.CancelFunc
	work sync.WaitGroup
	// in gets the frames that were read. It is closed when the connection ends, after ended is set.
	in    chan []byte
	ended error
}

func newWebSocket(ws *websocket.Conn) *webSocket {
	ctx, stop := context.WithCancel(context.Background())
	c := &webSocket{ws: ws, stop: stop, in: make(chan []byte)}
	c.work.Go(func() { Ping(ctx, ws, pingEvery) })
	c.work.Go(func() { c.read(ctx) })
	return c
}

// read reads until the connection ends. It has a goroutine of its own, because the library closes a connection when a
// read is cancelled, and there may still be messages to send.
func (c *webSocket) read(ctx context.Context) {
	defer close(c.in)
	for {
		kind, data, err := c.ws.Read(ctx)
		if err != nil {
			c.ended = readError(err)
			return
		}
		if kind != websocket.MessageText {
			continue // data of streams, which this participant does not use
		}
		select {
		case c.in <- data:
		case <-ctx.Done():
			c.ended = errLost
			return
		}
	}
}

// Ping detects that the other side is gone without closing the connection, until ctx ends. It closes the connection
// then, which its reader sees.
func Ping(ctx context.Context, ws *websocket.Conn, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		one, cancel := context.WithTimeout(ctx, every)
		err := ws.Ping(one)
		cancel()
		if err != nil {
			_ = ws.CloseNow()
			return
		}
	}
}

// Receive implements [Conn].
func (c *webSocket) Receive(ctx context.Context) ([]byte, error) {
	select {
	case data, ok := <-c.in:
		if !ok {
			return nil, c.ended
		}
		return data, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// readError returns why the space ended the connection.
func readError(err error) error {
	var closed websocket.CloseError
	if !errors.As(err, &closed) {
		return errLost
	}
	for _, final := range []error{space.ErrReplaced, space.ErrUnauthorized} {
		if closed.Reason == final.Error() {
			return &RejectedError{closed.Reason}
		}
	}
	return fmt.Errorf("the space closed the connection: %w", errLost)
}

// Send implements [Conn].
func (c *webSocket) Send(ctx context.Context, frame []byte) error {
	if err := c.ws.Write(ctx, websocket.MessageText, frame); err != nil {
		return errLost
	}
	return nil
}

// Close implements [Conn].
func (c *webSocket) Close() error {
	defer c.work.Wait()
	defer c.stop()
	return c.ws.Close(websocket.StatusNormalClosure, "")
}

// once takes part in a space through one connection.
func (p *Participant) once(ctx context.Context, dial func(context.Context) (Conn, error)) (welcomed bool, err error) {
	conn, err := dial(ctx)
	if err != nil {
		return false, err
	}
	return p.Serve(ctx, conn)
}

// Run takes part in a space until ctx ends. When a connection is lost it dials again, after a pause that grows from
// half a second to half a minute. The error is a *RejectedError.
func (p *Participant) Run(ctx context.Context, dial func(context.Context) (Conn, error)) error {
	pause := firstBackoff
	for {
		welcomed, err := p.once(ctx, dial)
		if welcomed {
			pause = firstBackoff
		}
		var final *RejectedError
		if errors.As(err, &final) {
			return err
		}
		wait := pause/2 + rand.N(pause/2) // so that participants do not all reconnect at once
		if ctx.Err() == nil {
			p.cfg.Logger.Warn("not connected", "error", err, "again_in", wait.Round(time.Millisecond))
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		}
		pause = min(2*pause, lastBackoff)
	}
}
