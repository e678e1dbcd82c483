package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"runner/backend/remote/standin"
)

// authority is a certificate authority.
type authority struct {
	// file has its certificate.
	file string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newAuthority makes an authority.
func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{cert: &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: t.Name()},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}}
	a.file, _, a.key = a.sign(t, a.cert)
	data, err := os.ReadFile(a.file)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(data)
	if a.cert, err = x509.ParseCertificate(block.Bytes); err != nil {
		t.Fatal(err)
	}
	return a
}

// pool returns a pool that trusts the authority.
func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// sign makes a certificate and returns its files. An authority without a key signs its own.
func (a *authority) sign(t *testing.T, template *x509.Certificate) (cert, key string, private *ecdsa.PrivateKey) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer := a.key
	if signer == nil {
		signer = private
	}
	der, err := x509.CreateCertificate(crand.Reader, template, a.cert, &private.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der},
		key: {Type: "PRIVATE KEY", Bytes: pkcs8}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key, private
}

// leaf is a certificate for a server at an address, or for a client.
func leaf(use x509.ExtKeyUsage, addresses ...string) *x509.Certificate {
	c := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{use}}
	for _, a := range addresses {
		c.IPAddresses = append(c.IPAddresses, net.ParseIP(a))
	}
	return c
}

// secure serves an engine with a certificate of an authority. It takes only clients with a certificate of the same one.
func secure(t *testing.T, a *authority, h http.Handler, most uint16, addresses ...string) string {
	t.Helper()
	cert, key, _ := a.sign(t, leaf(x509.ExtKeyUsageServerAuth, addresses...))
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // it would say which clients were refused
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert,
		ClientCAs: a.pool(), MaxVersion: most}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

// An engine with TLS is reached with the right certificates only, and the error says what is wrong.
func TestTLSOfAnEngine(t *testing.T) {
	dir := byteModel(t)
	right, wrong := newAuthority(t), newAuthority(t)
	own, ownKey, _ := right.sign(t, leaf(x509.ExtKeyUsageClientAuth))
	foreign, foreignKey, _ := wrong.sign(t, leaf(x509.ExtKeyUsageClientAuth))
	const trust, show = "name the certificate to trust with --engine-ca", "--engine-cert"
	ours := []string{"--engine-cert", own, "--engine-cert-key", ownKey}
	with := func(ca string, more ...string) []string { return append([]string{"--engine-ca", ca}, more...) }
	engine := byteEngine(t, dir, standin.Config{Kind: "vllm", Name: "big"})
	elsewhere := secure(t, right, engine, 0, "127.0.0.2")
	for most, missing := range map[uint16][]string{
		tls.VersionTLS12: {"there is no agreement about TLS, or it wants a certificate of ours"},
		tls.VersionTLS13: {"the engine rejects the certificate of this program: it wants a certificate of ours", show},
	} {
		url := secure(t, right, engine, most, "127.0.0.1")
		for _, c := range []struct {
			name, url string
			flags     []string
			want      []string
		}{
			{"all right", url, with(right.file, ours...), nil},
			{"no authority", url, ours, []string{"its certificate cannot be verified", trust}},
			{"another authority", url, with(wrong.file, ours...), []string{"its certificate cannot be verified", trust}},
			{"another name", elsewhere, with(right.file, ours...), []string{"its certificate is for another name"}},
			{"no certificate of ours", url, with(right.file), missing},
			{"one of another authority", url, with(right.file, "--engine-cert", foreign, "--engine-cert-key", foreignKey),
				[]string{"it does not take our certificate", show}},
			{"half of one", url, with(right.file, "--engine-cert", own), []string{"--engine-cert-key belong together"}},
			{"a file without a certificate", url, with(ownKey, ours...), []string{"has no certificate"}},
			{"a key of another certificate", url, with(right.file, "--engine-cert", own, "--engine-cert-key", foreignKey),
				[]string{"private key does not match"}},
			{"no TLS", strings.Replace(listening(t, engine), "http:", "https:", 1), with(right.file, ours...),
				[]string{"it does not speak TLS"}},
		} {
			args := append([]string{"run", c.url, "--tokenizer", dir, "Hi"}, c.flags...)
			out, err := exec.Command("runner", args...).CombinedOutput()
			if c.want == nil && (err != nil || !strings.Contains(string(out), "It is 42.")) {
				t.Errorf("%s, TLS %x: %v: %s", c.name, most, err, out)
			}
			for _, want := range c.want {
				if err == nil || !strings.Contains(unwrapped(string(out)), want) {
					t.Errorf("%s, TLS %x: %v, want %q: %s", c.name, most, err, want, out)
				}
			}
		}
		s := serve(t, append(with(right.file, ours...), "--tokenizer", dir, "--verbose", "big=vllm+"+url)...)
		s.healthy()
		status, reply := send(t, http.MethodPost, s.url+"/v1/chat/completions", "",
			`{"messages": [{"role": "user", "content": "Hi"}]}`)
		if status != http.StatusOK || !strings.Contains(reply, "It is 42.") {
			t.Errorf("served, TLS %x: status %d: %s", most, status, reply)
		}
		if host := strings.TrimPrefix(url, "https://"); strings.Contains(s.logged(), host) {
			t.Errorf("the log has the engine's address:\n%s", s.logged())
		}
	}
}

// The key of an engine comes from the environment or a flag, goes to the engine, and is in no log and no output.
func TestKeyOfAnEngine(t *testing.T) {
	dir := byteModel(t)
	const right, wrong = "the-engines-own-key", "another-key-by-mistake"
	engine := byteEngine(t, dir, standin.Config{Kind: "vllm", Name: "big", Key: right})
	var with, without atomic.Int64
	url := listening(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer "+right {
			with.Add(1)
		} else {
			without.Add(1)
		}
		engine.ServeHTTP(w, r)
	}))
	for _, c := range []struct {
		name, variable string
		flags          []string
		takes          bool
	}{
		{"a variable", right, nil, true},
		{"a flag", "", []string{"--engine-key", right}, true},
		{"a flag before the variable", wrong, []string{"--engine-key", right}, true},
		{"neither", "", nil, false},
		{"a wrong variable", wrong, nil, false},
		{"a wrong flag", right, []string{"--engine-key", wrong}, false},
	} {
		for _, command := range [][]string{{"run", url, "Hi"}, {"doctor", url}} {
			with.Store(0)
			without.Store(0)
			cmd := exec.Command("runner", append(append(command, "--tokenizer", dir), c.flags...)...)
			cmd.Env = append(os.Environ(), "RUNNER_ENGINE_KEY="+c.variable)
			out, err := cmd.CombinedOutput()
			text := unwrapped(string(out))
			if (err == nil) != c.takes || (with.Load() > 0) != c.takes || (without.Load() > 0) == c.takes ||
				!c.takes && !strings.Contains(text, "refuses the key") {
				t.Errorf("%s, %s: %v, %d requests with the key and %d without: %s", command[0], c.name, err, with.Load(),
					without.Load(), out)
			}
			if strings.Contains(text, right) || strings.Contains(text, wrong) {
				t.Errorf("%s, %s: a key is in the output: %s", command[0], c.name, out)
			}
		}
	}
	t.Setenv("RUNNER_ENGINE_KEY", right)
	s := serve(t, "--verbose", "--tokenizer", dir, "big=vllm+"+url)
	s.healthy()
	ask := func() (int, string) {
		return send(t, http.MethodPost, s.url+"/v1/chat/completions", "", `{"messages": [{"role": "user", "content": "Hi"}]}`)
	}
	if status, reply := ask(); status != http.StatusOK || !strings.Contains(reply, "It is 42.") {
		t.Errorf("status %d: %s", status, reply)
	}
	engine.Fail(func(int) standin.Fault { return standin.Fault{Status: http.StatusUnauthorized} })
	if status, reply := ask(); status == http.StatusOK || strings.Contains(reply, right) {
		t.Errorf("an engine that takes the key no longer: status %d: %s", status, reply)
	}
	for _, private := range []string{right, strings.TrimPrefix(url, "http://"), "Bearer"} {
		if strings.Contains(s.logged(), private) {
			t.Errorf("the log has %q:\n%s", private, s.logged())
		}
	}
}
