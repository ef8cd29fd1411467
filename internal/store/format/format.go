// Package format records which format data has, so that a release can distinguish data that it must
// not touch from data that it has to upgrade.
//
// A [Record] is a small JSON document. One lies in the data directory (File) and describes its
// files; one lies in the store (Key) and describes the stored values, so that it travels with
// snapshots and is shared by all servers of a cluster. Data without a record has format 1, which
// releases before the record wrote.
//
// A record has two numbers: the format of the data, and the oldest format that a release must know
// to use it. A release that changes a format compatibly raises only the first. Readers ignore
// unknown members, so that a later release can add some.
//
// The functions to call: [Record.Check] before anything is used, [Dir.Upgrade] when the store is
// open, and [Agree] for the record in a store.
package format

// This file has the record and its checks.

import (
	"encoding/json"
	"errors"
	"fmt"
)

// First is the format of data without a record.
const First = 1

// maxRecord is the largest record in bytes that is read.
const maxRecord = 64 << 10

// Record is the record of the format that data has.
type Record struct {
	Format int `json:"format"`
	// Minimum is the oldest format that a release must know to use the data; 0 means Format.
	Minimum int `json:"minimum,omitempty"`
	// Release is the version of the program that wrote the record, for messages.
	Release string `json:"release,omitempty"`
}

// Parse reads a record. It ignores unknown members.
func Parse(text []byte) (Record, error) {
	if len(text) > maxRecord {
		return Record{}, fmt.Errorf("format record: got %d bytes, want at most %d", len(text), maxRecord)
	}
	if len(text) == 0 {
		return Record{}, errors.New("format record: got an empty one")
	}
	var r Record
	if err := json.Unmarshal(text, &r); err != nil {
		return Record{}, fmt.Errorf("format record: %w", err)
	}
	if r.Format < First || r.Minimum < 0 || r.Minimum > r.Format {
		return Record{}, fmt.Errorf("format record: got format %d and minimum %d, want a format of at least %d and a minimum up to it", r.Format, r.Minimum, First)
	}
	return r, nil
}

// bytes returns the text of the record.
func (r Record) bytes() []byte {
	text, err := json.Marshal(r)
	if err != nil {
		panic("BUG: a format record without JSON: " + err.Error())
	}
	return append(text, '\n')
}

// minimum returns the oldest format that a release must know.
func (r Record) minimum() int {
	if r.Minimum > 0 {
		return r.Minimum
	}
	return r.Format
}

// Check returns a *NewerError if a release that knows the formats up to own must not use the data.
func (r Record) Check(what string, own int) error {
	if r.minimum() <= own {
		return nil
	}
	return &NewerError{What: what, Record: r, Own: own}
}

// NewerError is the error for data that a newer release has upgraded.
type NewerError struct {
	What   string // names the data
	Record Record
	Own    int // the newest format that this release knows
}

// Error implements error.
func (e *NewerError) Error() string {
	by := "a newer release"
	if e.Record.Release != "" {
		by = "keelson " + e.Record.Release
	}
	return fmt.Sprintf("%s: got format %d, written by %s, want at most format %d: use that release or a newer one", e.What, e.Record.minimum(), by, e.Own)
}
