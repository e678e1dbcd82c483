package envelope

import "encoding/json"

// Join is the frame with which a participant enters a space whose connection did not bring its token. Only the
// token is believed: it says who joins and what it may send; ParticipantID is what the participant takes itself
// for.
type Join struct {
	Space, Token, ParticipantID string
}

// ParseFrame reads what a participant sends: an envelope, or the frame {type: "join", space, token, participantId},
// of which join is then not nil. The same as the payload of a kind system/join is taken too. Capabilities that a
// join claims are not read.
func ParseFrame(data []byte) (e Envelope, join *Join, err error) {
	fields, err := object(data)
	if err != nil {
		return Envelope{}, nil, err
	}
	var kind string
	_ = json.Unmarshal(fields["type"], &kind) // whatever else stands there is not join
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

// Append adds the JSON of a join frame to dst.
func (j *Join) Append(dst []byte) ([]byte, error) {
	body, err := Pack(struct {
		Type          string `json:"type"`
		Space         string `json:"space"`
		Token         string `json:"token"`
		ParticipantID string `json:"participantId,omitempty"`
	}{"join", j.Space, j.Token, j.ParticipantID})
	return append(dst, body...), err
}
