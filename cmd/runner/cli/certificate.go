package cli

import (
	"crypto/tls"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"

	"runner/server/keys"
)

// certificate is the server's TLS certificate, which can be reloaded.
type certificate struct {
	chain, key string
	app        *App
	pair       atomic.Pointer[tls.Certificate]
}

// loadCertificate reads a certificate chain and its key.
func (a *App) loadCertificate(chain, key string) (*certificate, error) {
	c := &certificate{chain: chain, key: key, app: a}
	return c, c.reload()
}

// source makes the files be read again on demand alone: the two do not change at once.
func (c *certificate) source() keys.Source {
	return keys.Source{Name: "the certificates", Len: func() int { return len(c.pair.Load().Certificate) },
		Reread: func(unchanged bool) (changed bool, err error) {
			if unchanged {
				err = c.reload()
			}
			return unchanged && err == nil, err
		}}
}

// reload reads the files again. On an error the old certificate stays in use.
func (c *certificate) reload() error {
	warning, err := checkKeyFile(c.key)
	if err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(c.chain, c.key)
	if err != nil {
		return Input("the certificate and its key cannot be used: %v", err).From(err).
			Hint("give a PEM certificate chain and its key")
	}
	if warning != "" {
		c.app.Complain(warning)
	}
	c.pair.Store(&pair)
	return nil
}

// get implements [tls.Config]'s GetCertificate.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.pair.Load(), nil }

// checkKeyFile refuses a TLS key that other users can write, and warns of one that every user can read. Group members
// may read it, because some systems have a group for that.
func checkKeyFile(path string) (warning string, err error) {
	if runtime.GOOS == "windows" {
		return "", nil // Windows has no such permissions
	}
	info, _ := os.Stat(path)
	if info == nil {
		return "", nil // reading the file reports the error
	}
	switch mode := info.Mode().Perm(); {
	case mode&0o022 != 0:
		return "", Input("other users can write the TLS key %s", path).Hint("chmod 600 %s", path)
	case mode&0o004 != 0:
		return fmt.Sprintf("warning: every user of this machine can read the TLS key %s; chmod 600 %s", path, path), nil
	}
	return "", nil
}
