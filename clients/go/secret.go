// SPDX-License-Identifier: MIT

package hasp

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

var secretForm = regexp.MustCompile(`^hasp1\.([\w.-]{1,64})\.[\w-]{43}$`)

// readSecret reads a file with a user's secret. Only its owner may have access
// to it, since reading it is enough to act as the user.
func readSecret(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if mode := info.Mode(); mode.IsRegular() && mode.Perm()&0o077 != 0 {
		return nil, fmt.Errorf("'%s' has a secret that others can read (mode "+
			"%03o): chmod 0600 it", path, mode.Perm())
	}
	return io.ReadAll(io.LimitReader(file, 4096))
}

// authOf returns the AUTH words for the secret, a line hasp1.NAME.... as
// written by "hasp secret add".
func authOf(path string, text []byte) ([]string, error) {
	line, _, _ := strings.Cut(string(text), "\n")
	found := secretForm.FindStringSubmatch(strings.TrimSpace(line))
	if found == nil {
		return nil, fmt.Errorf("no secret in '%s': a line hasp1.NAME.... is "+
			"expected, as 'hasp secret add' writes it", path)
	}
	return []string{"AUTH", found[1], found[0]}, nil
}
