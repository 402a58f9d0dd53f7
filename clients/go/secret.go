// SPDX-License-Identifier: MIT

package hasp

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

var secretForm = regexp.MustCompile(`^hasp1\.([\w.-]{1,64})\.[\w-]{43}$`)

// greetingOf is how a connection greets: as the user whose secret stands in the
// file of Options or of $HASP_SECRET_FILE, a line hasp1.NAME.... as "hasp secret
// add" writes it, or without one. The file is read once.
func greetingOf(options Options) ([]string, error) {
	path := options.SecretFile
	if path == "" {
		path = os.Getenv("HASP_SECRET_FILE")
	}
	if path == "" {
		return []string{"HELLO", "3"}, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if mode := info.Mode(); mode.IsRegular() && mode.Perm()&0o077 != 0 {
		return nil, fmt.Errorf("'%s' has a secret that others can read (mode "+
			"%03o): chmod 0600 it", path, mode.Perm())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	found := secretForm.FindStringSubmatch(strings.TrimSpace(line))
	if found == nil {
		return nil, fmt.Errorf("no secret in '%s': a line hasp1.NAME.... is "+
			"expected, as 'hasp secret add' writes it", path)
	}
	return []string{"HELLO", "3", "AUTH", found[1], found[0]}, nil
}
