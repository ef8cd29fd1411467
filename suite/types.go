package suite

import (
	"github.com/keelson-io/keelson/internal/coverage"
	"github.com/keelson-io/keelson/internal/witness"
)

// This file names the types that other packages define.

// A Recorder records which rules and schema limits the cases of suites reach. NewRecorder makes one.
type Recorder = coverage.Recorder

// NewRecorder returns an empty recorder.
func NewRecorder() *Recorder { return coverage.New() }

// A Change is a small change of a definition that a suite should notice.
type Change = coverage.Change

// InitOptions limit the search for the objects of a new suite. NewInitOptions returns the usual ones.
type InitOptions = witness.Options

// NewInitOptions returns the usual options.
func NewInitOptions() (InitOptions, error) { return witness.NewOptions() }
