package room

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"runner/models/hub/hubtest"
	"runner/server/wiretest"
	"runner/testenv"
)

// TestFullDiskPull has clients pull over HTTP to a disk that is too small, that fills up meanwhile, and that has no
// room for folders. Each time they learn that it is the server's disk, and what is here is kept.
func TestFullDiskPull(t *testing.T) {
	if !testenv.Mounts(t) {
		return
	}
	s := startPulls(t)
	url := s.as(t, wiretest.Anyone())
	disk := func(options string, flags uintptr) {
		t.Helper()
		if err := syscall.Mount("tmpfs", s.cache, "tmpfs", flags, options); err != nil {
			t.Fatal(err)
		}
	}
	// full wants disk_full as the answer, or as the last line of a stream that begins before the disk is full.
	full := func(what string, begun bool) {
		t.Helper()
		for _, stream := range []bool{false, true} {
			status, _, answer := wiretest.Send(t, "POST", url+"/api/pull",
				fmt.Sprintf(`{"model":"org/tiny","stream":%v}`, stream), nil)
			lines := strings.Split(strings.TrimSpace(answer), "\n")
			if last := lines[len(lines)-1]; !strings.HasPrefix(last, `{"error":"the server's disk has no room`) ||
				!strings.Contains(last, `"code":"disk_full"`) || strings.Contains(answer, s.cache) {
				t.Errorf("%s: %d %s", what, status, answer)
			}
			if begins := stream && begun; begins != (status == http.StatusOK) || !begins &&
				status != http.StatusServiceUnavailable {
				t.Errorf("%s: status %d", what, status)
			}
		}
	}
	disk("size=1m", 0)
	defer func() { _ = syscall.Unmount(s.cache, syscall.MNT_DETACH) }()
	full("a small disk", true)
	if sent := s.hub.Sent(); sent != 0 {
		t.Errorf("%d bytes were sent to a disk that has no room for all", sent)
	}
	disk("size=8m,nr_inodes=3", syscall.MS_REMOUNT)
	full("a disk with no room for folders", true)

	disk("size=8m,nr_inodes=1000", syscall.MS_REMOUNT)
	filler := filepath.Join(s.cache, "filler")
	var once sync.Once
	s.hub.Fail(func(r hubtest.Request) hubtest.Fault {
		if r.Storage {
			once.Do(func() { // the plan was made while there was room
				if err := os.WriteFile(filler, make([]byte, 16<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
					t.Errorf("the disk does not fill: %v", err)
				}
			})
		}
		return hubtest.Fault{}
	})
	full("a disk that fills up", true)
	if log := s.log.String(); !strings.Contains(log, "the disk is full") {
		t.Errorf("the log does not say it: %s", log)
	}
	s.hub.Fail(nil)
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if status, _, answer := wiretest.Send(t, "POST", url+"/api/pull", `{"model":"org/tiny","stream":false}`,
		nil); status != http.StatusOK || !strings.Contains(answer, `"status":"success"`) {
		t.Errorf("with room again: %d %s", status, answer)
	}
}
