// Package schema compiles a structural schema into a [Program] that decodes,
// normalises and validates documents.
//
// # Model
//
// A [Program] is a tree of schema nodes, compiled once for each version of a kind
// and immutable afterwards; versions with the same schema share it. [Program.Decode] reads bytes by it in one pass:
// what the schema does not declare is dropped, nulls that it does not allow are
// dropped or replaced, defaults are filled in, declared objects become shaped
// objects of package jsondoc. [Program.Validate] then walks the document once.
//
// # Terms
//
//   - To prune is to drop what the schema does not declare.
//   - A resource is an object with apiVersion, kind and metadata: the root of a
//     custom resource, or an embedded resource below it.
//   - A rule is an x-kubernetes-validations entry, an expression of package cel.
//   - To ratchet is to forgive an error in a part that an update leaves as it
//     was.
//
// # Two paths
//
// The fast path answers only whether everything is valid and allocates
// nothing. Whenever it is not valid, or the fast path cannot tell, a second and
// plain path walks the document again and builds the list of errors with
// upstream's texts and order. Where upstream's order is that of a Go map, ours
// is that of the names.
//
// # Invariants
//
//   - A document that Decode made prints as upstream would store it.
//   - The fast path says "valid" if and only if the plain path finds nothing;
//     it may find so in fewer steps.
//   - A Program is safe for concurrent use. Rules compile on first use.
package schema

import (
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/cel"
)

// Options say what Compile cannot see in the schema.
type Options struct {
	// Resource says that the root is a resource: apiVersion, kind and metadata
	// are added to the schema.
	Resource bool
	// Env is what rules are compiled with. A schema with rules needs one.
	Env *cel.Env
	// PreserveUnknown keeps whatever the schema does not declare, as custom
	// resources with spec.preserveUnknownFields do. Nulls stay, too.
	PreserveUnknown bool
	// AnyFormat makes formats that mean nothing count when types are checked,
	// as upstream does for default values and nothing else.
	AnyFormat bool
	// Codes, if not nil, has the compiled schemas that a Lazy program shares.
	Codes *Codes
	// Metrics, if not nil, observes rules and ratcheting.
	Metrics *Metrics
}

// Found says what Decode noticed and dropped or merged. Strict puts it in words.
type Found uint8

// What Decode can notice.
const (
	FoundUnknown   Found = 1 << iota // a field that the schema does not declare
	FoundDuplicate                   // a field that is there more than once
)

// Scope is the part of an object that an update may change.
type Scope uint8

// The scopes.
const (
	Whole  Scope = iota // create, or update of the object itself
	Status              // update of the status subresource
)

// Result is what Validate found. A Result without errors is valid.
type Result struct {
	Errors   field.ErrorList
	Warnings []string
	Compared time.Duration // what it took to compare old values with new ones, to ratchet
	// KnownValid: the whole object was validated, without ratcheting, and every string parses as
	// its declared format. An update need not validate again what it keeps of it: see [Kept].
	KnownValid bool
	Spent      uint64 // what the rules of a KnownValid object cost at most, in units of CEL cost
}
