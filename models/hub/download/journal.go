package download

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
)

// Limits of what a journal may say.
const (
	maxChunks  = 1 << 17
	maxChunk   = 64 << 20
	maxJournal = 64 << 20
	maxLine    = 256
)

// plan says how a file is cut into chunks. It is the first line of the journal.
type plan struct {
	etag        string
	size, chunk int64
}

// newPlan cuts a file into chunks of about the given size.
func newPlan(etag string, size, chunk int64) plan {
	return plan{etag, size, min(maxChunk, max(chunk, (size+maxChunks-1)/maxChunks))}
}

func (p plan) line() string {
	return fmt.Sprintf("runner-partial 1 %s %d %d\n", p.etag, p.size, p.chunk)
}

// chunks is the number of chunks.
func (p plan) chunks() int { return int((p.size + p.chunk - 1) / p.chunk) }

// span returns where chunk i begins and how long it is.
func (p plan) span(i int) (at, length int64) {
	at = int64(i) * p.chunk
	return at, min(p.chunk, p.size-at)
}

// record says that a chunk, or its beginning, was written.
type record struct {
	length int64
	sum    [sha256.Size]byte
}

func recordOf(data []byte) record { return record{int64(len(data)), sha256.Sum256(data)} }

func (r record) line(i int) string { return fmt.Sprintf("%d %d %x\n", i, r.length, r.sum) }

var errForeign = errors.New("not the journal of this file")

// readJournal reads a journal that may have any content. The records are possible for the plan, and no more: what they
// say about the bytes on disk has yet to be compared. The error is errForeign, or one of reading.
func readJournal(in io.Reader, etag string, size int64) (plan, map[int]record, error) {
	lines := bufio.NewReaderSize(io.LimitReader(in, maxJournal), maxLine)
	head, err := readLine(lines)
	if err != nil && !errors.Is(err, io.EOF) {
		return plan{}, nil, err
	}
	field := strings.Split(head, " ")
	if len(field) != 5 {
		return plan{}, nil, errForeign
	}
	chunk, err := strconv.ParseInt(field[4], 10, 64)
	if err != nil || chunk <= 0 || chunk > maxChunk || (size-1)/chunk >= maxChunks {
		return plan{}, nil, errForeign
	}
	p := plan{etag, size, chunk}
	if head+"\n" != p.line() {
		return plan{}, nil, errForeign
	}
	records := make(map[int]record)
	for {
		line, err := readLine(lines)
		if i, r, ok := p.parse(line); ok {
			records[i] = r
		}
		if errors.Is(err, io.EOF) {
			return p, records, nil
		}
		if err != nil {
			return plan{}, nil, err
		}
	}
}

// readLine reads a line without its newline. Of a line that is too long it returns the end.
func readLine(in *bufio.Reader) (string, error) {
	text, err := in.ReadSlice('\n')
	for errors.Is(err, bufio.ErrBufferFull) {
		text, err = in.ReadSlice('\n')
	}
	return strings.TrimSuffix(string(text), "\n"), err
}

// parse reads a line about a chunk.
func (p plan) parse(line string) (i int, r record, ok bool) {
	field := strings.Split(line, " ")
	if len(field) != 3 || len(field[2]) != 2*sha256.Size {
		return 0, record{}, false
	}
	i, err := strconv.Atoi(field[0])
	if err != nil || i < 0 || i >= p.chunks() {
		return 0, record{}, false
	}
	r.length, err = strconv.ParseInt(field[1], 10, 64)
	if _, most := p.span(i); err != nil || r.length <= 0 || r.length > most {
		return 0, record{}, false
	}
	if _, err := hex.Decode(r.sum[:], []byte(field[2])); err != nil {
		return 0, record{}, false
	}
	return i, r, true
}

// journal is the open journal of a partial file. It is safe for concurrent use.
type journal struct {
	plan
	file *os.File

	mu      sync.Mutex
	records map[int]record
}

// openJournal reads the journal in an open file, or begins it anew if it is another file's.
func openJournal(f *os.File, wanted plan) (*journal, error) {
	j := &journal{file: f}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	var err error
	j.plan, j.records, err = readJournal(f, wanted.etag, wanted.size)
	if errors.Is(err, errForeign) {
		j.plan, j.records = wanted, make(map[int]record)
		if err := f.Truncate(0); err != nil {
			return nil, err
		}
		_, err = f.WriteString(wanted.line())
		return j, err
	}
	if err != nil {
		return nil, err
	}
	// The last line may be torn, and then it is none. What follows must begin a line of its own.
	_, err = f.WriteString("\n")
	return j, err
}

// get returns what the journal says about a chunk.
func (j *journal) get(i int) (record, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r, ok := j.records[i]
	return r, ok
}

// add writes that a chunk or its beginning was written.
func (j *journal) add(i int, r record) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := j.file.WriteString(r.line(i)); err != nil {
		return err
	}
	j.records[i] = r
	return nil
}

// claimed returns how many bytes the journal says are there.
func (j *journal) claimed() (n int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return total(j.records)
}

func total(records map[int]record) (n int64) {
	for _, r := range records {
		n += r.length
	}
	return n
}
