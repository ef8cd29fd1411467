// Package datadir has the layout of a server's data directory, for the server and for the commands
// that look into a directory without a server.
//
// # Invariants
//
//   - Only [Lock] creates or changes a file.
//   - One process at a time holds the lock. It ends with the process.
package datadir

import "path/filepath"

// Names of the pairs of files in the folder of certificates and keys. The certificate of a pair has
// the suffix ".crt", the key ".key".
const (
	Authority = "ca"
	Serving   = "serving"
	Admin     = "admin"

	// Next is the suffix of a file with both parts of a pair that is being replaced. The next start
	// completes an interrupted replacement from it.
	Next = ".next"
)

// PKI returns the folder of certificates and keys in a data directory.
func PKI(dir string) string { return filepath.Join(dir, "pki") }

// Etcd returns the folder of the embedded etcd in a data directory.
func Etcd(dir string) string { return filepath.Join(dir, "etcd") }

// lockFile returns the file in a data directory that a running server holds locked.
func lockFile(dir string) string { return filepath.Join(dir, "lock") }
