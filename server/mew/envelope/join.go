package envelope

import "encoding/json"

// Join is the frame with which a participant joins a space if its connection has not sent the token. Only the token
// counts: it says who joins and what it may send. ParticipantID is the id that the participant believes it has.
type Join struct {
	Space, Token, ParticipantID string
}

// ParseFrame reads a frame of a participant. It is an envelope, or {type: "join", space, token, participantId}; then
// join is not nil. An envelope of kind system/join with these fields as its payload is also a join. Capabilities in a
// join are ignored.
func ParseFrame(data []byte) (e Envelope, join *Join, err error) {
	fields, err := object(data)
	if err != nil {
		return Envelope{}, nil, err
	}
	var kind string
	_ = json.Unmarshal(fields["type"], &kind) // any other value does not make it a join
	if kind != "join" {
		if e, err = fromFields(fields); err != nil || e.Kind != "system/join" {
			return e, nil, err
		}
		if fields, err = object(e.Payload); err != nil {
			return Envelope{ID: e.ID}, nil, err
		}
	}
	join = &Join{}
	for name, to := range map[string]*string{"space": &join.Space, "token": &join.Token,
		"participantId": &join.ParticipantID} {
		if err := text(fields, name, to); err != nil {
			return Envelope{}, nil, err
		}
	}
	return Envelope{}, join, nil
}

// Append appends the JSON of a join frame to dst.
func (j *Join) Append(dst []byte) ([]byte, error) {
	body, err := Pack(struct {
		Type          string `json:"type"`
		Space         string `json:"space"`
		Token         string `json:"token"`
		ParticipantID string `json:"participantId,omitempty"`
	}{"join", j.Space, j.Token, j.ParticipantID})
	return append(dst, body...), err
}
