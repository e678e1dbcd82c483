package participant

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"

	"runner/chattemplate"
	"runner/reasoning"
	"runner/server/mew/encoder"
	"runner/server/mew/envelope"
)

// The limits of what others offer and answer.
const (
	maxTools       = 128
	maxDescription = 2 << 10
	maxSchema      = 32 << 10
	maxResult      = 64 << 10
	// maxRPCID is the maximum length of the id of a request that is answered.
	maxRPCID = 1 << 10
	// maxPending is the maximum number of requests that wait for answers.
	maxPending = 1024
)

// functionName matches the function names that models' formats accept.
var functionName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// offer is a function that a participant offers.
type offer struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"inputSchema"`
}

// route is where a call goes: the participant, and the function's name there.
type route struct{ participant, name string }

// pending is a request that waits for an answer.
type pending struct {
	// to are the participants that may answer; empty means everyone.
	to []string
	// proposal says that another participant must make the request first.
	proposal bool
	// done gets the answer, once.
	done chan outcome
	// offers is the participant that was asked for its functions; empty for calls.
	offers string
}

// outcome is the answer to a request, and the id of the message with the answer.
type outcome struct{ text, by string }

// discover asks a participant for its functions, if it can answer.
func (s *session) discover(id string) {
	s.mu.Lock()
	can := !s.p.cfg.NoTools && s.others[id].AllowKind(envelope.MCPResponse)
	e := &envelope.Envelope{
		ID: s.p.cfg.NewID(), Time: s.p.cfg.Clock(), From: s.id, To: []string{id}, Kind: envelope.MCPRequest,
		Payload: json.RawMessage(`{"jsonrpc":"2.0","id":"tools","method":"tools/list","params":{}}`),
	}
	if can = can && s.capabilities.Allow(e); can {
		s.pending[e.ID] = &pending{to: e.To, offers: id}
	}
	s.mu.Unlock()
	if can {
		if err := s.send(e); err != nil {
			s.stop(errLost)
		}
	}
}

// expect registers a call before it is sent.
func (s *session) expect(e *envelope.Envelope) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending[e.ID] = &pending{to: e.To, proposal: e.Kind == envelope.MCPProposal, done: make(chan outcome, 1)}
}

// forget forgets the calls of a finished answer.
func (s *session) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.pending, func(_ string, p *pending) bool { return p.offers == "" })
}

// functions returns the functions that the model may call, and where the calls go.
func (s *session) functions() ([]chattemplate.Tool, map[string]route) {
	s.mu.Lock()
	defer s.mu.Unlock()
	call := &envelope.Envelope{Kind: envelope.MCPRequest, Payload: json.RawMessage(`{"method":"tools/call"}`)}
	proposal := &envelope.Envelope{Kind: envelope.MCPProposal, Payload: call.Payload}
	none := s.p.cfg.NoTools || !s.capabilities.AllowKind(call.Kind) && !s.capabilities.AllowKind(proposal.Kind)
	if none {
		return nil, nil
	}
	routes := map[string]route{}
	var tools []chattemplate.Tool
	for _, id := range slices.Sorted(maps.Keys(s.offers)) {
		for _, o := range s.offers[id] {
			name := o.Name
			if _, taken := routes[name]; (taken || name == reasoning.ReportReasoningName) && s.p.cfg.Tools == nil {
				name = plainName(id) + "_" + o.Name
			}
			if _, taken := routes[name]; taken || !functionName.MatchString(name) || len(tools) == maxTools {
				continue
			}
			routes[name] = route{id, o.Name}
			tools = append(tools, chattemplate.Tool{Name: name, Description: o.Description, Parameters: o.Schema})
		}
	}
	if s.p.cfg.Tools != nil {
		return s.p.cfg.Tools, routes
	}
	return tools, routes
}

// plainName returns a participant's id with only the characters that function names may have.
func plainName(id string) string {
	return strings.Map(func(r rune) rune {
		if functionName.MatchString(string(r)) {
			return r
		}
		return '_'
	}, id)
}

// responded handles the answer to a request.
func (s *session) responded(e *envelope.Envelope) {
	var rpc envelope.RPC
	if !e.Read(&rpc) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range e.Correlation {
		p := s.pending[id]
		if p == nil || p.proposal || len(p.to) > 0 && !slices.Contains(p.to, e.From) {
			continue
		}
		if p.offers != "" {
			delete(s.pending, id)
			s.offers[p.offers] = readOffers(rpc.Result)
			continue
		}
		p.finish(resultText(&rpc), e.ID)
	}
}

// finish delivers an answer, unless there was one before.
func (p *pending) finish(text, by string) {
	select {
	case p.done <- outcome{text, by}:
	default:
	}
}

// readOffers reads the result of tools/list. It skips functions that cannot be offered to a model.
func readOffers(result json.RawMessage) []offer {
	var list struct {
		Tools []json.RawMessage `json:"tools"`
	}
	if json.Unmarshal(result, &list) != nil {
		return nil
	}
	var offers []offer
	for _, raw := range list.Tools {
		var o offer
		if json.Unmarshal(raw, &o) != nil || !functionName.MatchString(o.Name) || len(o.Schema) > maxSchema ||
			len(offers) == maxTools {
			continue
		}
		if len(o.Schema) > 0 && o.Schema[0] != '{' {
			continue
		}
		if len(o.Description) > maxDescription {
			o.Description = strings.ToValidUTF8(o.Description[:maxDescription], "")
		}
		offers = append(offers, o)
	}
	return offers
}

// resultText returns the text that the model gets for the answer to its call.
func resultText(rpc *envelope.RPC) string {
	if rpc.Error != nil {
		return clip("error: " + rpc.Error.Message)
	}
	var result struct {
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
		Structured json.RawMessage `json:"structuredContent"`
		IsError    bool            `json:"isError"`
	}
	if json.Unmarshal(rpc.Result, &result) != nil || result.Content == nil && result.Structured == nil {
		return clip(string(rpc.Result))
	}
	var parts []string
	for _, c := range result.Content {
		if c.Type == "text" {
			parts = append(parts, c.Text)
		} else {
			parts = append(parts, "["+c.Type+", which cannot be read]")
		}
	}
	text := strings.Join(parts, "\n")
	if text == "" {
		text = string(result.Structured)
	}
	if result.IsError {
		text = "error: " + text
	}
	return clip(text)
}

func clip(text string) string {
	if len(text) <= maxResult {
		return text
	}
	return strings.ToValidUTF8(text[:maxResult], "") + " [cut]"
}

// requested handles a request. It may fulfil a proposal, or be for this participant, which offers no functions.
func (s *session) requested(e *envelope.Envelope, named bool) {
	s.mu.Lock()
	for _, id := range e.Correlation {
		if p := s.pending[id]; p != nil && p.proposal && len(s.pending) < maxPending {
			s.pending[e.ID] = &pending{to: e.To, done: p.done}
		}
	}
	s.mu.Unlock()
	var rpc envelope.RPC
	if !named || !e.Read(&rpc) || len(rpc.ID) == 0 || len(rpc.ID) > maxRPCID ||
		strings.HasPrefix(rpc.Method, "notifications/") {
		return
	}
	answer := envelope.RPC{Version: "2.0", ID: rpc.ID}
	switch rpc.Method {
	case "initialize":
		answer.Result = json.RawMessage(
			`{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"runner","version":"1"}}`)
	case "ping":
		answer.Result = json.RawMessage(`{}`)
	case "tools/list":
		answer.Result = json.RawMessage(`{"tools":[]}`)
	default:
		answer.Error = &envelope.RPCError{Code: -32601, Message: "this participant has no such method"}
	}
	s.reply(envelope.MCPResponse, []string{e.From}, []string{e.ID}, e.Context, answer)
}

// rejected handles the rejection of a proposal.
func (s *session) rejected(e *envelope.Envelope) {
	var r envelope.Reason
	if !e.Read(&r) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range e.Correlation {
		if p := s.pending[id]; p != nil && p.proposal && (len(p.to) == 0 || slices.Contains(p.to, e.From)) {
			p.finish(clip("error: the call was rejected: "+r.Reason), e.ID)
		}
	}
}

// failed handles an error of the space about a request.
func (s *session) failed(e *envelope.Envelope) {
	var f envelope.Fault
	if !e.Read(&f) {
		return
	}
	s.p.cfg.Logger.Warn("the space refused a message", "error", f.Error, "kind", f.AttemptedKind, "dropped", f.Dropped)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range e.Correlation {
		if p := s.pending[id]; p != nil && p.offers == "" {
			p.finish(clip("error: the call did not get through: "+f.Error), e.ID)
		}
	}
}

// left ends the requests that only a participant that has left could answer.
func (s *session) left(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, p := range s.pending {
		switch {
		case p.offers == id:
			delete(s.pending, key)
		case p.offers == "" && len(p.to) == 1 && p.to[0] == id:
			p.finish("error: "+id+" has left", "")
		}
	}
}

// results waits for the answers to the calls of a turn.
func (s *session) results(ctx context.Context, enc *encoder.Encoder) ([]chattemplate.Message, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.p.cfg.ToolTimeout, errLate)
	defer cancel()
	var out []chattemplate.Message
	for _, c := range enc.Calls() {
		o, err := s.result(ctx, &c)
		if err != nil {
			return nil, err
		}
		if o.by != "" {
			enc.Refer(o.by)
		}
		out = append(out, chattemplate.Message{Role: chattemplate.ToolRole, ToolCallID: c.ID, ToolName: c.Name,
			Content: o.text})
	}
	return out, nil
}

// errLate is the cause if the answers to calls do not arrive in time.
var errLate = errors.New("no answer in time")

// result waits for the answer to a call.
func (s *session) result(ctx context.Context, c *encoder.Call) (outcome, error) {
	s.mu.Lock()
	p := s.pending[c.Request]
	s.mu.Unlock()
	switch {
	case c.Malformed:
		return outcome{text: "error: the arguments are not a JSON object"}, nil
	case p == nil:
		return outcome{text: "error: calls are not allowed here"}, nil
	}
	select {
	case o := <-p.done: // even if the time is over
		return o, nil
	default:
	}
	select {
	case o := <-p.done:
		return o, nil
	case <-ctx.Done():
		if err := context.Cause(ctx); !errors.Is(err, errLate) {
			return outcome{}, err
		}
		return outcome{text: "error: " + errLate.Error()}, nil
	}
}
