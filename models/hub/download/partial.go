package download

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"runner/models/cache"
	"runner/models/hub"
	"runner/wholefile"
)

const suffix = ".partial"

// nameFile has the path of the file in its repository.
const nameFile = "name"

// partial is a file that is being fetched, in a folder that this download owns.
type partial struct {
	*journal
	dir  string
	data *os.File
}

// owner is the middle of the folder's name.
type owner struct{ machine, boot, random string }

// Parts of an owner's name.
const (
	// nobody is the machine of an owner that let go.
	nobody = "free"
	// unknown is a machine or boot that has no name.
	unknown = "unknown"
)

func (o owner) String() string { return o.machine + "-" + o.boot + "-" + o.random }

// newOwner returns an owner that nobody else has.
func newOwner() owner {
	machine, boot := host()
	short := func(text string) string {
		if text == "" {
			return unknown
		}
		return fmt.Sprintf("%x", sha256.Sum256([]byte(text)))[:12]
	}
	return owner{short(machine), short(boot), rand.Text()[:16]}
}

// found is a folder of a partial file.
type found struct {
	dir, etag string
	owner     owner
	// journal is the length of the journal in bytes.
	journal int64
}

// find lists the folders of partial files in a folder of blobs, those with most in their journals first. With an etag
// it lists only those of that file.
func find(blobs, etag string) []found {
	entries, _ := os.ReadDir(blobs)
	var all []found
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), suffix)
		of, who, _ := strings.Cut(name, ".")
		part := strings.Split(who, "-")
		if !ok || !e.IsDir() || etag != "" && of != etag || len(part) != 3 {
			continue
		}
		f := found{dir: filepath.Join(blobs, e.Name()), etag: of, owner: owner{part[0], part[1], part[2]}}
		if info, err := os.Lstat(filepath.Join(f.dir, "journal")); err == nil && info.Mode().IsRegular() {
			f.journal = info.Size()
			all = append(all, f)
		}
	}
	slices.SortFunc(all, func(a, b found) int {
		return cmp.Or(cmp.Compare(b.journal, a.journal), cmp.Compare(a.dir, b.dir))
	})
	return all
}

// tryLock is replaced by tests of locks that lie.
var tryLock = cache.TryLock

// errOwned says that the owner of a folder may still be there.
var errOwned = errors.New("another download has the file")

// take makes me the owner of a folder if its owner is surely gone. It returns the folder's new path and the open
// journal, which is locked where locks work.
func take(f found, me owner) (dir string, journal *os.File, err error) {
	path := filepath.Join(f.dir, "journal")
	journal, err = os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return "", nil, err
	}
	locked := tryLock(journal)
	var gone bool
	switch o := f.owner; {
	case o.machine == nobody:
		// A process that is being forked has copies of all open files for a moment, that of the last owner too.
		for wait := time.Millisecond; errors.Is(locked, cache.ErrBusy) && wait < time.Second; wait *= 2 {
			time.Sleep(wait)
			locked = tryLock(journal)
		}
		gone = true
	case o.boot == unknown || me.boot == unknown:
	case o.boot == me.boot:
		gone = locked == nil && secondIsRefused(path)
	default:
		gone = o.machine == me.machine && o.machine != unknown
	}
	if !gone || errors.Is(locked, cache.ErrBusy) {
		_ = journal.Close()
		return "", nil, errOwned
	}
	dir = filepath.Join(filepath.Dir(f.dir), f.etag+"."+me.String()+suffix)
	if err := os.Rename(f.dir, dir); err != nil {
		_ = journal.Close()
		return "", nil, err
	}
	return dir, journal, nil
}

// secondIsRefused reports that a file which is locked cannot be locked through another descriptor: locks work here.
func secondIsRefused(path string) bool {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(tryLock(f), cache.ErrBusy)
}

// obtain takes over a partial file or makes a new one, and notes the path that the file has in its repository.
func obtain(blobs string, wanted plan, path string) (*partial, error) {
	p, err := takeOrMake(blobs, wanted)
	if err == nil {
		_ = os.WriteFile(filepath.Join(p.dir, nameFile), []byte(path), 0o666) // only people read it
	}
	return p, err
}

func takeOrMake(blobs string, wanted plan) (*partial, error) {
	me := newOwner()
	for _, f := range find(blobs, wanted.etag) {
		dir, journal, err := take(f, me)
		if err != nil {
			continue // it is somebody's, or not to be read: then it helps nobody here
		}
		return open(dir, journal, wanted)
	}
	dir := filepath.Join(blobs, wanted.etag+"."+me.String()+suffix)
	if err := os.Mkdir(dir, 0o777); err != nil {
		return nil, err
	}
	journal, err := os.OpenFile(filepath.Join(dir, "journal"), os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, err
	}
	_ = tryLock(journal) // where locks do not work, nobody relies on this one
	return open(dir, journal, wanted)
}

func open(dir string, f *os.File, wanted plan) (*partial, error) {
	j, err := openJournal(f, wanted)
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	data, err := os.OpenFile(filepath.Join(dir, "data"), os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &partial{j, dir, data}, nil
}

// verified reads chunk i into buf and returns how many bytes at its beginning are there and have the hash that the
// journal says.
func (p *partial) verified(i int, buf []byte) int64 {
	r, ok := p.get(i)
	if !ok || r.length > int64(len(buf)) {
		return 0
	}
	at, _ := p.span(i)
	if n, _ := p.data.ReadAt(buf[:r.length], at); int64(n) != r.length || recordOf(buf[:n]) != r {
		return 0
	}
	return r.length
}

// write writes chunk i or a beginning of it, of which have bytes are there already, and then its line in the journal.
func (p *partial) write(i int, data []byte, have int64) error {
	if int64(len(data)) == have {
		return nil
	}
	at, _ := p.span(i)
	if _, err := p.data.WriteAt(data[have:], at+have); err != nil {
		return err
	}
	return p.add(i, recordOf(data))
}

// publish moves the data to the path of the blob, and removes the folder.
func (p *partial) publish(blob string) error {
	// A data file of an earlier program may go on after the last byte.
	if err := errors.Join(p.data.Truncate(p.size), p.data.Sync(), p.data.Close()); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(p.dir, "data"), blob); err != nil {
		return err
	}
	if err := wholefile.Sync(filepath.Dir(blob)); err != nil {
		return err
	}
	p.remove()
	return nil
}

// remove removes the folder and what is in it.
func (p *partial) remove() {
	_ = os.RemoveAll(p.dir)
	p.close()
}

func (p *partial) close() {
	_ = p.data.Close()
	_ = p.file.Close()
}

// release lets go of the folder, so that any program can take it over at once. An empty one is removed.
func (p *partial) release() {
	if p.claimed() == 0 {
		p.remove()
		return
	}
	o := owner{nobody, "0", rand.Text()[:16]}
	_ = os.Rename(p.dir, filepath.Join(filepath.Dir(p.dir), p.etag+"."+o.String()+suffix))
	p.close()
}

// Unfinished is a file that is half here.
type Unfinished struct {
	Etag string
	// At is where its bytes gather. Path is the file's path in the repository, or "" if that is not known.
	At, Path string
	// Size is the file's size, or 0 if that is not known. Have is how much of it is here, as the journal says. Both are in
	// bytes.
	Size, Have int64
	// Active reports that a program is at work on it.
	Active bool
}

// Find lists the unfinished files of a repository. It writes nothing.
func Find(repo cache.Repo) []Unfinished {
	var all []Unfinished
	for _, f := range find(repo.Blobs(), "") {
		u := Unfinished{Etag: f.etag, Active: f.owner.machine != nobody && repo.Locked(f.etag)}
		if err := u.read(filepath.Join(f.dir, "journal")); err == nil {
			u.At, u.Path = f.dir, nameIn(f.dir)
			all = append(all, u)
		}
	}
	return all
}

// nameIn returns the path that a folder of a partial file notes, or "" if it notes none that a repository may have.
func nameIn(dir string) string {
	f, err := os.Open(filepath.Join(dir, nameFile))
	if err != nil {
		return ""
	}
	defer f.Close()
	const most = 4 << 10
	text, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil || hub.CheckPath(string(text)) != nil {
		return ""
	}
	return string(text)
}

// read reads the size of the file and how much is here.
func (u *Unfinished) read(path string) error {
	journal, err := os.Open(path)
	if err != nil {
		return err
	}
	defer journal.Close()
	head := make([]byte, maxLine)
	n, _ := journal.ReadAt(head, 0)
	line, _, _ := strings.Cut(string(head[:n]), "\n")
	if field := strings.Split(line, " "); len(field) == 5 {
		u.Size, err = strconv.ParseInt(field[3], 10, 64)
	}
	if err != nil || u.Size <= 0 {
		return errForeign
	}
	_, records, err := readJournal(journal, u.Etag, u.Size)
	u.Have = total(records)
	return err
}

// Discard removes what is here of an unfinished file. It leaves what a download may be at work on, and reports whether
// it did.
func Discard(repo cache.Repo, etag string) (left bool, err error) {
	unlock, err := repo.LockNow(etag)
	if errors.Is(err, cache.ErrBusy) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer unlock()
	return discard(repo.Blobs(), etag)
}

// discard removes the folders of partial files whose owners are gone, and reports whether others are left.
func discard(blobs, etag string) (left bool, err error) {
	for _, f := range find(blobs, etag) {
		dir, journal, taken := take(f, newOwner())
		if taken != nil {
			left = left || !errors.Is(taken, fs.ErrNotExist)
			continue
		}
		err = errors.Join(err, os.RemoveAll(dir))
		_ = journal.Close()
	}
	return left, err
}
