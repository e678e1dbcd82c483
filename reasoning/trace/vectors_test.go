package trace

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"testing"
)

// The vectors were made by testdata/vectors.py, which shares only the description of the format with this package.
type vectors struct {
	Traces []struct {
		Name       string     `json:"name"`
		ID         ID         `json:"id"`
		Key        hexBytes   `json:"key"`
		Recipients []hexBytes `json:"recipients"`
		Boxes      []hexBytes `json:"boxes"`
		Identities []hexBytes `json:"identities"`
		Payloads   []hexBytes `json:"payloads"`
		Blob       hexBytes   `json:"blob"`
	} `json:"traces"`
	Refused []struct {
		Name     string   `json:"name"`
		Code     string   `json:"code"`
		Records  int      `json:"records"`
		Identity hexBytes `json:"identity"`
		Blob     hexBytes `json:"blob"`
	} `json:"refused"`
}

type hexBytes []byte

func (h *hexBytes) UnmarshalText(b []byte) (err error) {
	*h, err = hex.DecodeString(string(b))
	return err
}

func readVectors(t testing.TB) (v vectors) {
	t.Helper()
	data, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Traces) < 6 || len(v.Refused) < 35 {
		t.Fatalf("%d traces and %d refused", len(v.Traces), len(v.Refused))
	}
	return v
}

func identityOf(t testing.TB, secret []byte) *Identity {
	t.Helper()
	i, err := IdentityOf(secret)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// records returns the records of a blob for an identity, up to an error. io.EOF does not count as one.
func records(blob []byte, with ...*Identity) (all []string, err error) {
	r, err := NewReader(bytes.NewReader(blob), with...)
	if err != nil {
		return nil, err
	}
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return all, err
		}
		all = append(all, string(rec))
	}
}

func TestVectors(t *testing.T) {
	v := readVectors(t)
	for _, want := range v.Traces {
		t.Run(want.Name, func(t *testing.T) {
			var to []Recipient
			random := bytes.Clone(want.Key)
			for i, public := range want.Recipients {
				r, err := newRecipient(public)
				if err != nil {
					t.Fatal(err)
				}
				to = append(to, r)
				random = append(random, want.Boxes[i]...)
			}
			var blob bytes.Buffer
			w, err := newWriter(&blob, want.ID, to, bytes.NewReader(random))
			if err != nil {
				t.Fatal(err)
			}
			for i, p := range want.Payloads {
				if err := w.add(p); err != nil {
					t.Fatal(err)
				}
				if i < len(want.Payloads)-1 {
					if err := w.Flush(); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(blob.Bytes(), want.Blob) {
				t.Error("sealed otherwise")
			}
			for i, secret := range want.Identities {
				identity := identityOf(t, secret)
				if identity.Recipient() != to[i] {
					t.Errorf("identity %d has another public key", i)
				}
				got, err := records(want.Blob, NewIdentity(), identity)
				if err != nil {
					t.Fatal(err)
				}
				joined := ""
				for _, r := range got {
					joined += r + "\n"
				}
				if all := bytes.Join(toBytes(want.Payloads), nil); joined != string(all) {
					t.Errorf("opened as %d bytes, want %d", len(joined), len(all))
				}
			}
		})
	}
	for _, bad := range v.Refused {
		t.Run("refused "+bad.Name, func(t *testing.T) {
			got, err := records(bad.Blob, identityOf(t, bad.Identity))
			var e *Error
			if !errors.As(err, &e) || e.Code != bad.Code || len(got) != bad.Records {
				t.Errorf("%d records and %v, want %d and %s", len(got), err, bad.Records, bad.Code)
			}
		})
	}
}

func toBytes(list []hexBytes) (out [][]byte) {
	for _, b := range list {
		out = append(out, b)
	}
	return out
}
