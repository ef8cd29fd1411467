package server

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"time"
)

// This file is what programs are told to know servers by, where several servers share a store and each may have an authority of its own.

// maxAuthorities bounds the authorities of a bundle.
const maxAuthorities = 64

// bundle is what kube-root-ca.crt and the secrets of service accounts shall say, given what they say. A server that shares its store adds its
// authority to those of the others: would each put its own in their place, they would overwrite one another for ever. What has expired, and
// what is no authority's certificate, goes.
func (id *identity) bundle(have string) string {
	own := id.caPEM()
	if len(id.config.EtcdServers) == 0 {
		return string(own)
	}
	var all [][]byte
	known := false
	now := time.Now()
	for rest := []byte(have); len(all) < maxAuthorities; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if block.Type != "CERTIFICATE" || err != nil || !cert.IsCA || now.After(cert.NotAfter) {
			continue
		}
		text := pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})
		known = known || bytes.Contains(own, text)
		all = append(all, text)
	}
	if !known {
		all = append(all[:min(len(all), maxAuthorities-1)], own)
	}
	return string(bytes.Join(all, nil))
}
