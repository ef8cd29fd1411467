package server

import (
	"crypto/x509"
	"encoding/pem"
	"slices"
	"strings"
	"time"
)

// This file is what programs are told to know servers by, where several servers share a store and each may have an authority of its own.

// maxAuthorities bounds the certificates of a bundle. One that is fuller is begun anew.
const maxAuthorities = 256

// bundle is what kube-root-ca.crt and the secrets of service accounts shall say, given what they say. A server that shares its store adds its
// certificates to those of the others: would each put its own in their place, they would overwrite one another for ever. So that it ends, no
// server takes away what another one adds: what goes, because it has expired or is no certificate, nobody adds.
func (id *identity) bundle(have string) string {
	own := string(id.caPEM())
	if len(id.config.EtcdServers) == 0 {
		return own
	}
	all := certificates(have + "\n" + own)
	if len(all) == 0 || len(all) > maxAuthorities {
		return own
	}
	return strings.Join(all, "")
}

// certificates are those of a text that have not expired, each once, in PEM.
func certificates(text string) []string {
	var all []string
	now := time.Now()
	for block, rest := pem.Decode([]byte(text)); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if block.Type != "CERTIFICATE" || err != nil || now.After(cert.NotAfter) {
			continue
		}
		if one := string(pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})); !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	return all
}
