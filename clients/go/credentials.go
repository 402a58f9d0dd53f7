// SPDX-License-Identifier: MIT

package hasp

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// credentials authenticate a connection and its peer: certificates and a user's
// secret, from files that are read again before each connection. If the files
// are half written, or belong to another user, the last good credentials stay
// in use. A configuration that the program passed in memory is never replaced.
type credentials struct {
	given  *tls.Config // From the program; nil: use the folder.
	folder string      // "": none.
	path   string      // The secret file; "" if there is none.

	mu      sync.Mutex
	files   files
	shown   shown
	isKnown bool   // A node has done a request.
	refused string // Why the files cannot be used, as last reported.
}

// files are the contents that were read.
type files struct{ ca, certificate, key, secret []byte }

func (f files) equal(other files) bool {
	return bytes.Equal(f.ca, other.ca) && bytes.Equal(f.key, other.key) &&
		bytes.Equal(f.certificate, other.certificate) &&
		bytes.Equal(f.secret, other.secret)
}

// shown has the parameters of a connection.
type shown struct {
	secure *tls.Config // nil: not encrypted.
	auth   []string    // The request that presents the secret; nil: none.
	who    string      // The users that it authenticates as.
}

// known has the credentials of files, by path: while a session of the process
// uses the files, they can be half written when another one is opened.
var known = struct {
	mu sync.Mutex
	of map[string]*credentials
}{of: map[string]*credentials{}}

// credentialsOf returns the same object for the same connections, and a key
// that differs for others.
func credentialsOf(options Options) (*credentials, string, error) {
	made := &credentials{given: options.TLSConfig, folder: options.TLS,
		path: options.SecretFile}
	if made.given != nil {
		made.folder = ""
	} else if made.folder == "" {
		made.folder = os.Getenv("HASP_TLS")
	}
	if made.path == "" {
		made.path = os.Getenv("HASP_SECRET_FILE")
	}
	read, err := made.read()
	if err == nil {
		made.files = read
		made.shown, err = made.make(read)
	}
	key := fmt.Sprintf("%q %q", made.folder, made.path)
	if made.given != nil {
		return made, fmt.Sprintf("%s %q %p", key, made.shown.who, made.given), err
	}
	known.mu.Lock()
	defer known.mu.Unlock()
	before := known.of[key]
	if before != nil && (err == nil && before.who() == made.shown.who ||
		err != nil && before.wasLetIn()) {
		made = before
	} else if err != nil {
		return nil, "", err
	}
	known.of[key] = made
	return made, fmt.Sprintf("%s %p", key, made), nil
}

func (c *credentials) who() string { return c.now().who }

func (c *credentials) now() shown {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shown
}

func (c *credentials) wasLetIn() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.isKnown
}

// mayAskAgain, on another connection, although a node refused the credentials.
func (c *credentials) mayAskAgain() bool {
	if c.wasLetIn() {
		return true
	}
	hasChanged, _ := c.renew()
	return hasChanged
}

func (c *credentials) letIn() {
	c.mu.Lock()
	c.isKnown = true
	c.mu.Unlock()
}

// renew reads the files again. It reports whether changed files came into use
// and, once for each reason, why the files cannot be used.
func (c *credentials) renew() (hasChanged bool, notice string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	read, err := c.read()
	if err == nil && read.equal(c.files) {
		c.refused = ""
		return false, ""
	}
	var next shown
	if err == nil {
		next, err = c.make(read)
	}
	if err == nil && next.who != c.shown.who {
		err = errors.New("they belong to another user, which has no rights to this session")
	}
	if err != nil {
		notice = fmt.Sprintf("the new certificates or secret are not taken: %v", err)
		if notice == c.refused {
			return false, ""
		}
		c.refused = notice
		return false, notice
	}
	c.files, c.shown, c.refused = read, next, ""
	return true, ""
}

// make checks the files that were read.
func (c *credentials) make(read files) (shown, error) {
	made := shown{secure: c.given}
	user, secretUser := "", ""
	var err error
	if c.folder != "" {
		made.secure, user, err = configOf(c.folder, read)
	}
	if err == nil && c.path != "" {
		made.auth, err = authOf(c.path, read.secret)
		if err == nil {
			secretUser = made.auth[1]
		}
	}
	made.who = user + " " + secretUser
	return made, err
}

func (c *credentials) read() (files, error) {
	var read files
	var err error
	if c.folder != "" {
		read, err = readFolder(c.folder)
	}
	if err == nil && c.path != "" {
		read.secret, err = readSecret(c.path)
	}
	return read, err
}

// readFolder reads all files from one directory: Kubernetes mounts a secret
// with "..data" as a link to it, and replaces the link at each update.
func readFolder(folder string) (files, error) {
	var read files
	at, err := os.Open(filepath.Join(folder, "..data"))
	if err == nil && !exists(filepath.Join(inside(at, folder), "ca.crt")) {
		at.Close() // The certificates are not below the link.
		err = os.ErrNotExist
	}
	if err != nil {
		at, err = os.Open(folder)
	}
	if err != nil {
		return read, err
	}
	defer at.Close()
	for _, one := range []struct {
		name  string
		to    *[]byte
		check func(string, os.FileMode) error
	}{{"ca.crt", &read.ca, nil}, {"client.crt", &read.certificate, nil},
		{"client.key", &read.key, checkMode}} {
		*one.to, err = readIn(inside(at, folder), folder, one.name, one.check)
		if err != nil {
			return read, err
		}
	}
	if len(read.ca) == 0 {
		return read, fmt.Errorf("'%s' is missing or empty; create it with: "+
			"hasp cert user", filepath.Join(folder, "ca.crt"))
	}
	return read, nil
}

// inside returns a path into the open directory, which stays valid when the
// link is replaced, or the name.
func inside(at *os.File, name string) string {
	path := fmt.Sprintf("/proc/self/fd/%d", at.Fd())
	if exists(path) {
		return path
	}
	return name
}

// readIn reads a file of a directory; a missing file is empty.
func readIn(at, folder, name string, check func(string, os.FileMode) error) ([]byte,
	error) {
	file, err := os.Open(filepath.Join(at, name))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read '%s': %w", filepath.Join(folder, name), err)
	}
	defer file.Close()
	if check != nil {
		info, err := file.Stat()
		if err == nil {
			err = check(filepath.Join(folder, name), info.Mode())
		}
		if err != nil {
			return nil, err
		}
	}
	return io.ReadAll(file)
}

// isTrust reports whether one end rejected the other's certificate.
func isTrust(err error) bool {
	text := err.Error()
	return strings.Contains(text, "tls:") || strings.Contains(text, "certificate") ||
		strings.Contains(text, "x509:")
}
