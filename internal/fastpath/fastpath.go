// Package fastpath says which fast paths are used. A fast path does what its plain twin does,
// sooner; docs/fastpaths.md lists them.
//
// The environment variable KEELSON_FASTPATHS switches them off, for tests and for diagnosis: "off"
// all of them, or some by their names ("off:diagrams,direct"). The command keelson reads it before
// anything else, and so do tests by importing internal/testfastpath. Other programs that use
// Keelson's packages do not read it: all fast paths are on. A switch costs a comparison with a word
// in memory.
package fastpath

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// Path is a fast path.
type Path uint8

// The fast paths.
const (
	Diagrams      Path = iota // rules as decision diagrams
	Checker                   // a parser and a checker beside cel-go's
	Closures                  // closures for usual forms of expressions
	PatchMetadata             // merge patches of nothing but metadata
	Direct                    // applies that need no general merge
	PlainJSON                 // applies in JSON that says the same as YAML
	Schemas                   // the schemas of definitions that were read last
	SchemaReader              // a reader of the schemas of definitions beside encoding/json
	BlockYAML                 // YAML as most manifests are written, without the library
	Processor                 // one goroutine more runs at a time
	paths
)

var names = [paths]string{
	Diagrams: "diagrams", Checker: "checker", Closures: "closures", PatchMetadata: "patchmetadata", Direct: "direct",
	PlainJSON: "plainjson", Schemas: "schemas", SchemaReader: "schemareader",
	BlockYAML: "blockyaml", Processor: "processor",
}

// String returns the name by which the environment variable knows the path.
func (p Path) String() string { return names[p] }

// Variable is the environment variable.
const Variable = "KEELSON_FASTPATHS"

// off has a bit for each path that is switched off. Only FromEnvironment changes it.
var off uint32

// On reports whether the path is used.
func (p Path) On() bool { return off&(1<<p) == 0 }

// FromEnvironment switches off the fast paths that the environment variable names. It returns an
// error, and changes nothing, if the value is malformed. Call it when the program starts, before
// there is another goroutine: On reads without a lock.
func FromEnvironment() error {
	bits, err := parse(os.Getenv(Variable))
	if err == nil {
		off = bits
	}
	return err
}

// parse returns a bit for each path that a value of the environment variable switches off.
func parse(text string) (bits uint32, err error) {
	switch text {
	case "", "on":
		return 0, nil
	case "off":
		return 1<<paths - 1, nil
	}
	list, ok := strings.CutPrefix(text, "off:")
	if !ok {
		return 0, fmt.Errorf("%s: got %q, want on, off, or off: with names", Variable, text)
	}
	for name := range strings.SplitSeq(list, ",") {
		at := slices.Index(names[:], name)
		if at < 0 {
			return 0, fmt.Errorf("%s: got %q, want one of %s", Variable, name, strings.Join(names[:], ", "))
		}
		bits |= 1 << at
	}
	return bits, nil
}

// Need skips a test of a fast path that is switched off.
func (p Path) Need(t interface {
	Helper()
	Skipf(format string, args ...any)
}) {
	t.Helper()
	if !p.On() {
		t.Skipf("%s switches the fast path %s off", Variable, p)
	}
}
