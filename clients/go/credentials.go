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

// credentials are what a connection shows and believes: certificates and a user's
// secret, from files that are read again before each connection is made. What is in
// the files may be half written, or of another user: then what was good before is
// kept. What the program gives in memory is kept as it is.
type credentials struct {
	given  *tls.Config // Of the program; nil: that of the folder.
	folder string      // "": none.
	path   string      // Of the secret; "": none.

	mu      sync.Mutex
	files   files
	shown   shown
	isKnown bool   // A node has done what was asked.
	refused string // Why the files are not taken, as was told.
}

// files are what was read.
type files struct{ ca, certificate, key, secret []byte }

func (f files) equal(other files) bool {
	return bytes.Equal(f.ca, other.ca) && bytes.Equal(f.key, other.key) &&
		bytes.Equal(f.certificate, other.certificate) &&
		bytes.Equal(f.secret, other.secret)
}

// shown is what a connection is made with.
type shown struct {
	secure *tls.Config // nil: plain.
	auth   []string    // The request that shows the secret; nil: none.
	who    string      // The users that it comes as.
}

// known are those of files, by where these are: once a session of the process was
// opened with them, they may be half written when another one is.
var known = struct {
	mu sync.Mutex
	of map[string]*credentials
}{of: map[string]*credentials{}}

// credentialsOf gives the same for what makes the same connections, and what tells
// them from others.
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

// mayAskAgain, by another connection, although a node does not know who asks.
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

// renew reads the files again: whether they were taken into use because they are
// others, and, once for each reason, why they were not.
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
		err = errors.New("they are of another user, who has no part in this session")
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

// make checks what was read.
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

// readFolder reads all files in one directory: where Kubernetes mounts a secret
// "..data" is a link to that, which is swapped for a new one.
func readFolder(folder string) (files, error) {
	var read files
	at, err := os.Open(filepath.Join(folder, "..data"))
	if err == nil && !exists(filepath.Join(inside(at, folder), "ca.crt")) {
		at.Close() // The certificates are not among what is swapped.
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

// inside is a path into the directory that is open, wherever its name leads by now;
// else the name.
func inside(at *os.File, name string) string {
	path := fmt.Sprintf("/proc/self/fd/%d", at.Fd())
	if exists(path) {
		return path
	}
	return name
}

// readIn reads a file of a directory; of one that is not there nothing.
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

// isTrust: one end does not take the other's certificate.
func isTrust(err error) bool {
	text := err.Error()
	return strings.Contains(text, "tls:") || strings.Contains(text, "certificate") ||
		strings.Contains(text, "x509:")
}
