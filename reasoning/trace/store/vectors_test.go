//go:build unix

package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"runner/reasoning/internal/base64url"
	"runner/reasoning/trace"
)

// storeVectors were made by testdata/vectors.py, which shares only the description of the format with this package.
type storeVectors struct {
	Seed   hexBytes `json:"seed"`
	Public string   `json:"public"`
	Chain  []struct {
		Number    uint64   `json:"number"`
		Kind      State    `json:"kind"`
		Trace     trace.ID `json:"trace"`
		At        int64    `json:"at"`
		Began     int64    `json:"began"`
		Size      int64    `json:"size"`
		Digest    hexBytes `json:"digest"`
		Principal string   `json:"principal"`
		Model     string   `json:"model"`
		Previous  hexBytes `json:"previous"`
		Hash      hexBytes `json:"hash"`
		Signature hexBytes `json:"signature"`
		Head      string   `json:"head"`
	} `json:"chain"`
	Pieces []struct {
		Trace     trace.ID `json:"trace"`
		Number    int      `json:"number"`
		Data      hexBytes `json:"data"`
		Signature hexBytes `json:"signature"`
	} `json:"pieces"`
}

type hexBytes []byte

func (h *hexBytes) UnmarshalText(b []byte) (err error) {
	*h, err = hex.DecodeString(string(b))
	return err
}

// TestVectors stores the vectors unchanged and verifies them.
func TestVectors(t *testing.T) {
	data, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var v storeVectors
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Chain) < 5 || len(v.Pieces) < 4 {
		t.Fatalf("%d entries and %d pieces", len(v.Chain), len(v.Pieces))
	}
	dir := filepath.Join(t.TempDir(), "traces")
	s, err := Open(dir, Config{Recipients: []trace.Recipient{trace.NewIdentity().Recipient()}})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range v.Chain {
		if _, err := s.db.Exec("INSERT INTO chain VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
			e.Number, e.Kind, e.Trace[:], e.At, e.Began, e.Size, []byte(e.Digest), e.Principal, e.Model,
			[]byte(e.Previous), []byte(e.Hash), []byte(e.Signature)); err != nil {
			t.Fatal(err)
		}
	}
	first := v.Chain[0].Trace
	for _, p := range v.Pieces {
		if p.Trace == first {
			continue // it was erased
		}
		const insert = "INSERT INTO pieces (trace, number, padding, data, signature) VALUES (?, ?, zeroblob(1024), ?, ?)"
		if _, err := s.db.Exec(insert, p.Trace[:], p.Number, []byte(p.Data), []byte(p.Signature)); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := ParseHead(v.Chain[1].Head)
	if err != nil {
		t.Fatal(err)
	}
	if kept.Public.String() != v.Public {
		t.Errorf("the public key is %s, want %s", kept.Public, v.Public)
	}
	seed, err := json.Marshal(signFile{Version: format, Seed: base64url.Encoding.EncodeToString(v.Seed)})
	if err != nil {
		t.Fatal(err)
	}
	// A store that has the keys of the vectors.
	if err := errors.Join(s.Close(), os.WriteFile(filepath.Join(dir, signerName), seed, 0o600),
		os.WriteFile(filepath.Join(dir, publicName), []byte(v.Public), 0o600)); err != nil {
		t.Fatal(err)
	}
	r, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	report, err := r.Verify(background, &kept)
	if err != nil || len(report.Problems) > 0 || report.Head.String() != v.Chain[4].Head ||
		report.Traces != 1 || report.Erased != 1 || report.Unattested != 0 {
		t.Errorf("%+v, %v", report, err)
	}
	signer, err := loadSigner(filepath.Join(dir, signerName))
	if err != nil {
		t.Fatal(err)
	}
	// This package signs the same bytes as the vectors.
	var all []byte
	for _, p := range v.Pieces {
		if p.Number == 0 {
			all = nil
		}
		all = append(all, p.Data...)
		message := signedPiece(p.Trace, p.Number, int64(len(all)), sha256.Sum256(all))
		if !bytes.Equal(signer.sign(message), p.Signature) {
			t.Errorf("piece %d of %s is signed otherwise", p.Number, p.Trace)
		}
	}
	for _, want := range v.Chain {
		e := entry{
			number: want.Number, kind: want.Kind, id: want.Trace, at: want.At, began: want.Began,
			size: want.Size, digest: [32]byte(want.Digest),
			principal: want.Principal, model: want.Model, previous: [32]byte(want.Previous),
		}
		hash := e.sum()
		if !bytes.Equal(hash[:], want.Hash) || !bytes.Equal(signer.sign(signed(e.number, hash)), want.Signature) {
			t.Errorf("entry %d is signed otherwise", e.number)
		}
	}
}
