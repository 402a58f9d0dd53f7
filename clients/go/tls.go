// SPDX-License-Identifier: MIT

package hasp

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// TLSConfig reads a folder of certificates, as Options.TLS does: ca.crt and, if
// the program has a certificate, client.crt and client.key. It authenticates a
// node by the hasp name in its certificate, not by its host name. The files are
// read once: renewed certificates need another configuration, unlike those of
// Options.TLS, which are read again before each connection.
func TLSConfig(folder string) (*tls.Config, error) {
	read, err := readFolder(folder)
	if err != nil {
		return nil, err
	}
	config, _, err := configOf(folder, read)
	return config, err
}

// configOf also returns the user that the client's certificate names, or "".
func configOf(folder string, read files) (*tls.Config, string, error) {
	roots, clusters, err := authoritiesOf(filepath.Join(folder, "ca.crt"), read.ca)
	if err != nil {
		return nil, "", err
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS13,
		// Host names are not compared; everything else is, below.
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			return checkNode(state.PeerCertificates, roots, clusters)
		},
	}
	if len(read.certificate) == 0 && len(read.key) == 0 {
		return config, "", nil
	}
	path := filepath.Join(folder, "client.crt")
	own, err := tls.X509KeyPair(read.certificate, read.key)
	if err != nil && strings.Contains(err.Error(), "does not match public key") {
		return nil, "", fmt.Errorf("the key '%s' does not match the certificate '%s'",
			filepath.Join(folder, "client.key"), path)
	}
	if err != nil {
		return nil, "", fmt.Errorf("'%s' or its key: %w", path, err)
	}
	user, err := checkOwn(own.Certificate, roots)
	if err != nil {
		return nil, "", fmt.Errorf("the certificate '%s': %w", path, err)
	}
	config.Certificates = []tls.Certificate{own}
	return config, user, nil
}

// authoritiesOf returns the CAs of a file, and the clusters that they name.
func authoritiesOf(path string, text []byte) (*x509.CertPool, []string, error) {
	roots, clusters, count := x509.NewCertPool(), []string{}, 0
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		ca, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, nil, fmt.Errorf("'%s': %w", path, err)
		}
		roots.AddCert(ca)
		clusters = append(clusters, haspNames(ca)...)
		count++
	}
	if count == 0 || count != bytes.Count(text, []byte("-----BEGIN")) {
		return nil, nil, fmt.Errorf(
			"'%s' has no CA certificate or is truncated: copy the file again",
			path)
	}
	return roots, clusters, nil
}

// checkOwn checks that a node with the same CAs would accept it. It returns the
// user.
func checkOwn(chain [][]byte, roots *x509.CertPool) (string, error) {
	own, err := x509.ParseCertificate(chain[0])
	if err != nil {
		return "", err
	}
	between := x509.NewCertPool()
	for _, one := range chain[1:] {
		if more, err := x509.ParseCertificate(one); err == nil {
			between.AddCert(more)
		}
	}
	_, err = own.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return strings.Join(haspNames(own), " "), err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// checkMode checks that only its owner may read the key.
func checkMode(key string, mode os.FileMode) error {
	if mode.Perm()&0o027 != 0 {
		return fmt.Errorf("key file '%s' is mode %04o: chmod 0600 (Kubernetes: "+
			"defaultMode 0400)", key, mode.Perm())
	}
	return nil
}

// haspNames are the URIs of hasp in a certificate.
func haspNames(certificate *x509.Certificate) []string {
	var names []string
	for _, uri := range certificate.URIs {
		if strings.HasPrefix(uri.String(), "hasp:") {
			names = append(names, uri.String())
		}
	}
	return names
}

var nodeName = regexp.MustCompile(`^(hasp://[^/]+)/node/[1-9][0-9]*$`)

func checkNode(chain []*x509.Certificate, roots *x509.CertPool,
	clusters []string) error {
	if len(chain) == 0 {
		return errors.New("the node shows no certificate")
	}
	between := x509.NewCertPool()
	for _, one := range chain[1:] {
		between.AddCert(one)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: roots,
		Intermediates: between,
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	if err != nil {
		return fmt.Errorf("the node's certificate: %w", err)
	}
	names := haspNames(chain[0])
	if len(names) != 1 || !nodeName.MatchString(names[0]) {
		return fmt.Errorf("this is not a node's certificate: %s",
			strings.Join(names, ", "))
	}
	cluster := nodeName.FindStringSubmatch(names[0])[1]
	for _, one := range clusters {
		if one == cluster {
			return nil
		}
	}
	if len(clusters) == 0 {
		return nil
	}
	return fmt.Errorf("the node's certificate is for '%s'", cluster)
}

// Part of a message of crypto/tls, and its meaning for a client of hasp. If the
// node refused the handshake, the log of the node has the details.
var sentences = [][2]string{
	{"signed by unknown authority", "the node's certificate was made by " +
		"another CA than that in ca.crt: take the cluster's"},
	{"tls: unknown certificate authority", "the node does not know the CA of " +
		"this client's certificate: take one made by hasp cert user"},
	{"tls: expired certificate", "this client's certificate has expired: " +
		"hasp cert renew"},
	{"remote error: tls:", "the node refuses this client's certificate; its " +
		"log says why"},
	{"does not look like a TLS handshake", "the node does not use TLS: set " +
		"tls.client there, or give no certificates"},
}

// explained is err with a message for people, if there is one.
func explained(err error) error {
	for _, one := range sentences {
		if err != nil && strings.Contains(err.Error(), one[0]) {
			return errors.New(one[1])
		}
	}
	return err
}
