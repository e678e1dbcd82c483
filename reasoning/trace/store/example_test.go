//go:build unix

package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"runner/reasoning"
	"runner/reasoning/trace"
	"runner/reasoning/trace/store"
)

// A run is recorded while it goes on, and read by the holder of the private key.
func Example() {
	reader := trace.NewIdentity() // kept elsewhere; the server has the public key
	dir, err := os.MkdirTemp("", "traces")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	s, err := store.Open(dir, store.Config{Recipients: []trace.Recipient{reader.Recipient()}})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	id, err := record(s, []reasoning.Event{
		{Kind: reasoning.SegmentStart, Segment: reasoning.Reasoning},
		{Kind: reasoning.SegmentDelta, Segment: reasoning.Reasoning, Text: "17 + 25 "},
		{Kind: reasoning.SegmentDelta, Segment: reasoning.Reasoning, Text: "makes 42."},
		{Kind: reasoning.SegmentEnd, Segment: reasoning.Reasoning},
	})
	if err != nil {
		log.Fatal(err)
	}

	blob, err := s.Blob(context.Background(), id)
	if err != nil {
		log.Fatal(err)
	}
	r, err := trace.NewReader(blob, reader)
	if err != nil {
		log.Fatal(err)
	}
	for {
		line, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			log.Fatal(err)
		}
		var rec trace.Record
		if err := json.Unmarshal(line, &rec); err != nil {
			log.Fatal(err)
		}
		switch {
		case rec.Begin != nil:
			fmt.Println("asked for by", rec.Begin.Consent.By, "with", rec.Begin.Consent.How)
		case rec.Event != nil && rec.Event.Kind == reasoning.SegmentDelta:
			fmt.Println(rec.Event.Segment, rec.Event.Text)
		case rec.End != nil:
			fmt.Println(rec.End.Status)
		}
	}
	// Output:
	// asked for by local with --trace
	// reasoning 17 + 25 makes 42.
	// done
}

// record stores a run. Its id may be passed on after Close has returned it.
func record(s *store.Store, run []reasoning.Event) (id trace.ID, err error) {
	w, err := s.Create(context.Background(), store.Info{Principal: "local", Model: "sha256:12"})
	if err != nil {
		return id, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Abandon())
		}
	}()
	begin := trace.Begin{
		Consent: trace.Consent{By: "local", At: time.Now(), How: "--trace"}, Principal: "local", Model: "demo",
		ModelDigest: "sha256:12",
		Prompt:      json.RawMessage(`[{"role":"user","content":"What is 17 + 25?"}]`),
	}
	r, err := trace.NewRecorder(w, begin, time.Now)
	if err != nil {
		return id, err
	}
	for _, e := range run {
		if err := r.Event(e); err != nil {
			return id, err
		}
	}
	if err := r.End(trace.End{Status: trace.StatusDone}); err != nil {
		return id, err
	}
	return w.Close()
}
