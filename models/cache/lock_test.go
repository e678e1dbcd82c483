package cache

import (
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestLockWhileFoldersVanish: another program that removes the folder of the locks again and again fails no lock.
func TestLockWhileFoldersVanish(t *testing.T) {
	r, err := At(t.TempDir()).Repo("org/model")
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var removing, locking sync.WaitGroup
	removing.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = os.RemoveAll(r.Locks())
				time.Sleep(20 * time.Microsecond)
			}
		}
	})
	for range 4 { // one may make the folder while another is about to
		locking.Go(func() {
			for range 3000 {
				unlock, err := r.LockNow(strings.Repeat("a", 64))
				if err == nil {
					unlock()
				} else if !errors.Is(err, ErrBusy) {
					t.Error(err)
					break
				}
			}
		})
	}
	locking.Wait()
	close(stop)
	removing.Wait()
}
