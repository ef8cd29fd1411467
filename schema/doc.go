// Package schema compiles a structural schema into a [Program] that decodes,
// normalises and validates documents.
//
// # Model
//
// A [Program] is a tree of schema nodes. It is compiled once for each version of a kind and then
// immutable; versions with the same schema share it. [Program.Decode] decodes bytes in one pass: it
// drops undeclared fields, drops nulls that the schema does not allow or replaces them by defaults,
// and fills in defaults. Declared objects become shaped objects of package jsondoc.
// [Program.Validate] then visits the document once.
//
// # Terms
//
//   - To prune is to drop the fields that the schema does not declare.
//   - A resource is an object with apiVersion, kind and metadata: the root of a custom resource, or
//     an embedded resource below it.
//   - A junctor is one of the keywords allOf, anyOf, oneOf and not.
//   - A rule is an entry of x-kubernetes-validations, an expression of package cel.
//   - To ratchet is to accept an error in a part that an update does not change (KEP-4008).
//
// # Two paths
//
// The fast path answers only whether the whole object is valid, and allocates nothing. If it does
// not confirm that, the plain path visits the document again and builds the list of errors, with
// upstream's texts and order. Where upstream's order is that of a Go map, the order here is that of
// the names.
//
// # Invariants
//
//   - A document from Decode prints as upstream would store it.
//   - The fast path confirms an object if and only if the plain path finds no error. It may need
//     fewer steps.
//   - A Program is safe for concurrent use. Rules are compiled at their first use.
package schema

import (
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/cel"
)

// Options are the parameters of Compile besides the schema.
type Options struct {
	// Resource: the root is a resource. apiVersion, kind and metadata are added to the schema.
	Resource bool
	// Env is the environment that compiles rules. It must be set if the schema has rules.
	Env *cel.Env
	// PreserveUnknown: undeclared fields and nulls are kept, as for definitions with
	// spec.preserveUnknownFields.
	PreserveUnknown bool
	// AnyFormat: unknown formats influence the check of types, as upstream's check of default
	// values does.
	AnyFormat bool
	// NoRatcheting: updates must be valid as a whole, as in releases of Kubernetes before 1.30.
	NoRatcheting bool
	// Codes shares the compiled schemas of Lazy programs, unless it is nil.
	Codes *Codes
	// Metrics observes rules and ratcheting, unless it is nil.
	Metrics *Metrics
}

// Found says what Decode dropped or merged. Strict lists it.
type Found uint8

// The things that Decode reports.
const (
	FoundUnknown   Found = 1 << iota // an undeclared field was dropped
	FoundDuplicate                   // duplicate fields were merged
)

// Scope is the part of an object that an update may change.
type Scope uint8

// The scopes. Only built-in kinds have those after Status: their hooks distinguish them, and this
// package validates them like Whole.
const (
	Whole               Scope = iota // create, or update of the object itself or of its scale
	Status                           // update of the status subresource
	Finalize                         // update of a namespace's finalize subresource
	EphemeralContainers              // update of a pod's ephemeralcontainers subresource
	Resize                           // update of a pod's resize subresource
	Approval                         // update of a CertificateSigningRequest's approval subresource
)

// Result is the result of Validate. The object is valid if there are no errors.
type Result struct {
	Errors   field.ErrorList
	Warnings []string
	// UnusedMessages are the messageExpressions without a usable result, at most maxUnusedMessages.
	// Their errors and warnings have the message of the rule, or the rule itself.
	UnusedMessages []UnusedMessage
	Compared       time.Duration // the time of comparing old and new values, for ratcheting
	// KnownValid: the whole object was validated without ratcheting, and every string parses as its
	// declared format. An update need not validate the parts that it keeps: see [Kept].
	KnownValid bool
	Spent      uint64 // the greatest cost of the rules of a KnownValid object, in cost units
}

// UnusedMessage is a messageExpression whose result was not used.
type UnusedMessage struct {
	Field      string // the path of the error
	Expression string
	Reason     string // why, in upstream's words
}

// Reason explains why a rule refused a value.
type Reason struct {
	Field string `json:"field"` // the path of the value
	// Explanation is the rule with the values of its parts, on the values of this object.
	Explanation cel.Part `json:"explanation"`
}
