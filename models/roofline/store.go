package roofline

import (
	"encoding/json"
	"math"
	"os"
	"time"

	"runner/wholefile"
)

// goodFor is how long a stored measurement is used.
const goodFor = 7 * 24 * time.Hour

// Store keeps the measured bandwidth of this machine in a file, so that it is measured once a week.
type Store struct {
	// Path is the file. Its folder is made when it is needed.
	Path string
	// Machine is what the measurement is for, as [Machine] says.
	Machine string
	// Measure measures.
	Measure func() (bytesPerSecond float64, ok bool)
	// Now is the time. nil means time.Now.
	Now func() time.Time
}

// record is the content of the file.
type record struct {
	Machine        string    `json:"machine"`
	BytesPerSecond float64   `json:"bytes_per_second"`
	Measured       time.Time `json:"measured"`
}

// Bandwidth returns the stored bandwidth, or measures and stores it if there is none of this machine or it is old. It
// reports false if it cannot be measured. A file that cannot be written is not an error, because it only saves time.
func (s *Store) Bandwidth() (bytesPerSecond float64, ok bool) {
	if rate := s.stored(); rate > 0 {
		return rate, true
	}
	return s.Refresh()
}

// Refresh measures and stores the bandwidth. A higher one that is stored stays, because other programs can only lower
// what is measured.
func (s *Store) Refresh() (bytesPerSecond float64, ok bool) {
	rate, ok := s.Measure()
	if old := s.stored(); old > 0 && (!ok || old >= rate) {
		return old, true
	}
	if !ok {
		return 0, false
	}
	if text, err := json.Marshal(record{s.Machine, rate, s.now()}); err == nil {
		_ = wholefile.Write(s.Path, append(text, '\n'), 0o644)
	}
	return rate, true
}

// stored returns the bandwidth in the file, or 0 if it has none of this machine or an old one.
func (s *Store) stored() float64 {
	var r record
	text, err := os.ReadFile(s.Path)
	if err != nil || json.Unmarshal(text, &r) != nil || r.Machine != s.Machine || r.BytesPerSecond <= 0 ||
		math.IsInf(r.BytesPerSecond, 0) || s.now().Sub(r.Measured).Abs() >= goodFor {
		return 0
	}
	return r.BytesPerSecond
}

func (s *Store) now() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return time.Now()
}
