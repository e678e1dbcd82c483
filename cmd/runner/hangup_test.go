//go:build unix

package main

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// TestHangUpReloadsTheKeys sends SIGHUP to a server without a terminal. The server reads its files again, even if
// they look unchanged, and cuts off no answer.
func TestHangUpReloadsTheKeys(t *testing.T) {
	dir := t.TempDir()
	file, other := filepath.Join(dir, "keys.json"), filepath.Join(dir, "other.json")
	first, second := newKey(t, file, "one", "--permission", "metrics"), newKey(t, other, "one", "--permission", "metrics")
	for name, change := range map[string]func(*testing.T, *exec.Cmd){
		"without a terminal": func(*testing.T, *exec.Cmd) {},
		"under nohup": func(t *testing.T, c *exec.Cmd) {
			c.Args = append([]string{"nohup"}, c.Args...)
			path, err := exec.LookPath("nohup")
			if err != nil {
				t.Skip("the program nohup is missing: ", err)
			}
			c.Args[1], c.Path = c.Path, path
		},
	} {
		t.Run(name, func(t *testing.T) {
			now := filepath.Join(t.TempDir(), "keys.json")
			info := copyFile(t, file, now, nil)
			s := serveAs(t, func(c *exec.Cmd) {
				change(t, c)
				c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			}, "--api-keys", now)
			asks := func(key string) int {
				req, err := http.NewRequest(http.MethodGet, s.url+"/metrics", nil)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("X-Api-Key", key)
				res, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				res.Body.Close()
				return res.StatusCode
			}
			if got := asks(first); got != http.StatusOK {
				t.Fatalf("the key is answered with %d", got)
			}
			copyFile(t, other, now, info)
			time.Sleep(2500 * time.Millisecond) // until the server has checked the file
			if got := asks(second); got != http.StatusUnauthorized {
				t.Fatalf("a file that looks unchanged was read again: %d", got)
			}
			if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
			for deadline := time.Now().Add(20 * time.Second); asks(second) != http.StatusOK; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("the keys were not read again:\n%s", s.logged())
				}
			}
			if got := asks(first); got != http.StatusUnauthorized {
				t.Errorf("the old key is answered with %d", got)
			}
		})
	}
}

// TestHangUpReloadsTheCertificate sends SIGHUP after the certificate has changed. If the new one cannot be read,
// the old one stays in use.
func TestHangUpReloadsTheCertificate(t *testing.T) {
	dir := t.TempDir()
	cert, tlsKey, _ := certificate(t, dir)
	s := serveAs(t, func(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }, "--tls-cert", cert,
		"--tls-key", tlsKey)
	before := http.Client{Transport: &http.Transport{TLSClientConfig: trusting(t, cert), DisableKeepAlives: true}}
	if err := visit(&before, s.url+"/health"); err != nil {
		t.Fatal(err)
	}
	certificate(t, dir)
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	after := http.Client{Transport: &http.Transport{TLSClientConfig: trusting(t, cert), DisableKeepAlives: true}}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		err := visit(&after, s.url+"/health")
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v\n%s", err, s.logged())
		}
	}
	if err := os.WriteFile(cert, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	s.logs("cannot be read again")
	if err := visit(&after, s.url+"/health"); err != nil {
		t.Errorf("the old certificate is not in use: %v", err)
	}
}

// visit requests a URL and returns an error if there is no answer.
func visit(c *http.Client, url string) error {
	res, err := c.Get(url)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// TestHangUpOfTheTerminalDrains closes the terminal of a server. The running answers are completed, and the server
// exits without an error.
func TestHangUpOfTheTerminalDrains(t *testing.T) {
	terminal, tty, err := pty.Open()
	if err != nil {
		t.Skip("the system has no pseudo-terminals: ", err)
	}
	s := serveAs(t, func(c *exec.Cmd) {
		c.Stdin = tty
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	})
	s.ends = true
	tty.Close()
	answers := make(chan answer, 6)
	for range cap(answers) {
		go func() { answers <- s.ask(context.Background(), http.DefaultClient, "Sort 93 12 55 41 8 77.", 0) }()
	}
	deadline := time.Now().Add(20 * time.Second)
	for ; s.metric("runner_requests_in_flight") < 2; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nothing is in flight")
		}
	}
	terminal.Close()                         // the system sends SIGHUP
	_ = s.cmd.Process.Signal(syscall.SIGHUP) // the shell may send it, too
	whole := 0
	for range cap(answers) {
		switch a := <-answers; {
		case a.err == nil:
			whole++
		case strings.Contains(a.err.Error(), "status 503"), strings.Contains(a.err.Error(), "refused"): // it came too late
		default:
			t.Errorf("an answer was cut: %v", a.err)
		}
	}
	if whole == 0 {
		t.Error("no answer is whole")
	}
}

// copyFile copies a file over another one and returns the new info. If info is not nil, the copy gets its time.
func copyFile(t *testing.T, from, to string, info os.FileInfo) os.FileInfo {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o600)
	}
	if err == nil && info != nil {
		err = os.Chtimes(to, info.ModTime(), info.ModTime())
	}
	if err != nil {
		t.Fatal(err)
	}
	now, err := os.Stat(to)
	if err != nil {
		t.Fatal(err)
	}
	if info != nil && now.Size() != info.Size() {
		t.Fatalf("the files have %d and %d bytes", info.Size(), now.Size())
	}
	return now
}

// TestTLSKeyPermissions: the server refuses a key that other users can write, and warns about one that everybody
// can read.
func TestTLSKeyPermissions(t *testing.T) {
	cert, key, _ := certificate(t, t.TempDir())
	for _, c := range []struct {
		mode   os.FileMode
		warns  bool
		starts bool
	}{{0o600, false, true}, {0o640, false, true}, {0o644, true, true}, {0o620, false, false}, {0o666, false, false}} {
		if err := os.Chmod(key, c.mode); err != nil {
			t.Fatal(err)
		}
		if !c.starts {
			out, err := exec.Command("runner", "serve", "--port", "0", "--tls-cert", cert, "--tls-key", key).CombinedOutput()
			if err == nil || !strings.Contains(string(out), "other users can write the TLS key") ||
				!strings.Contains(string(out), "chmod 600") {
				t.Errorf("%o: %v: %s", c.mode, err, out)
			}
			continue
		}
		s := serve(t, "--tls-cert", cert, "--tls-key", key)
		if got := strings.Contains(s.logged(), "can read the TLS key"); got != c.warns {
			t.Errorf("%o: warned %v:\n%s", c.mode, got, s.logged())
		}
	}
}
