package dialect

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"runner/backend/remote/web"
)

// hanging returns an engine whose server answers no request, and how many were open at a time.
func hanging(t *testing.T) (e *Engine, most *atomic.Int64) {
	t.Helper()
	var open atomic.Int64
	most = new(atomic.Int64)
	h := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		n := open.Add(1)
		defer open.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		_, _ = io.Copy(io.Discard, r.Body) // else the server does not see that the client leaves
		<-r.Context().Done()
	}))
	t.Cleanup(h.Close)
	c, err := web.New(web.Config{Base: h.URL})
	if err != nil {
		t.Fatal(err)
	}
	return New(c, nil, Dialect{Abort: func(names []string) any { return names }}), most
}

// TestAbortsThatHang ends many generations at a server that hangs. Their connections are dropped in time, few aborts
// are under way at a time, and Close does not wait for them.
func TestAbortsThatHang(t *testing.T) {
	e, most := hanging(t)
	began := time.Now()
	var dropped sync.WaitGroup
	const n = 3 * mostAborts
	dropped.Add(n)
	for range n {
		e.end("/abort", []string{"a"}, sync.OnceFunc(dropped.Done))
	}
	dropped.Wait()
	if took := time.Since(began); took < dropTime || took > dropTime+3*time.Second {
		t.Errorf("the connections were dropped after %v", took)
	}
	e.Close()
	if took := time.Since(began); took > 2*dropTime+3*time.Second {
		t.Errorf("Close took until %v", took)
	}
	// The server may see the end of one abort after the beginning of the next.
	if got := most.Load(); got < mostAborts || got >= 2*mostAborts {
		t.Errorf("%d aborts at a time, want %d", got, mostAborts)
	}
}
