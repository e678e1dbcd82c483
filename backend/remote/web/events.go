package web

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
)

// maxLine is the longest line of a stream, in bytes. Lines with many alternatives for a token are long.
const maxLine = 16 << 20

// Events reads the data of server-sent events. It is used by one goroutine at a time.
type Events struct {
	ctx  context.Context
	body io.ReadCloser
	in   *bufio.Reader
	long []byte
}

func newEvents(ctx context.Context, body io.ReadCloser) *Events {
	return &Events{ctx: ctx, body: body, in: bufio.NewReader(body)}
}

var dataField = []byte("data:")

// Next returns the data of the next event. It is valid until the next call. The error is io.EOF at the end of the
// stream. Each event has one line of data; other fields and comments are skipped.
func (e *Events) Next() ([]byte, error) {
	for {
		line, err := e.line()
		if err != nil {
			return nil, err
		}
		if data, ok := bytes.CutPrefix(line, dataField); ok {
			return bytes.TrimSpace(data), nil
		}
	}
}

// line returns the next line without its end.
func (e *Events) line() ([]byte, error) {
	line, err := e.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		e.long = append(e.long[:0], line...)
		for errors.Is(err, bufio.ErrBufferFull) && len(e.long) <= maxLine {
			line, err = e.in.ReadSlice('\n')
			e.long = append(e.long, line...)
		}
		line = e.long
		if len(line) > maxLine {
			return nil, &Error{Kind: Malformed, Detail: "a line of the stream is too long"}
		}
	}
	switch {
	case errors.Is(err, io.EOF) && len(line) == 0:
		return nil, io.EOF
	case errors.Is(err, io.EOF):
		return nil, &Error{Kind: Broken, Detail: "the stream ends in a line"}
	case err != nil:
		return nil, failure(e.ctx, err, Broken)
	}
	return line, nil
}

// Close drops the connection, unless the stream has ended.
func (e *Events) Close() { e.body.Close() }
