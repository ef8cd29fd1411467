package cel

import (
	"github.com/google/cel-go/common/types/ref"

	"github.com/keelson-io/keelson/cel/internal/check"
	"github.com/keelson-io/keelson/cel/internal/fast"
	"github.com/keelson-io/keelson/cel/internal/lib"
	"github.com/keelson-io/keelson/cel/internal/val"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file re-exports what the packages below define for callers: types of schemas, values,
// errors, activations, and declarations.

// Types of schema nodes, by which rules are checked and read documents. [Type.SetSizes] sets the
// sizes for cost estimates. [Type.Reads] reports whether a string parses as the type's format.
type (
	Type     = val.Type
	TypeKind = val.TypeKind
	Field    = val.Field    // a member of an Object
	ListType = val.ListType // x-kubernetes-list-type where it is set or map
)

// The kinds of Type. Dyn, the zero value, means that types are checked at run time.
const (
	Dyn       = val.Dyn
	Bool      = val.Bool
	Int       = val.Int
	Double    = val.Double
	String    = val.String
	Bytes     = val.Bytes
	Timestamp = val.Timestamp
	Duration  = val.Duration
	List      = val.List
	Map       = val.Map
	Object    = val.Object
)

// ListTypeOf returns the ListType for a schema's x-kubernetes-list-type, which may be "", and
// x-kubernetes-list-map-keys.
func ListTypeOf(name string, keys []string) *ListType { return val.ListTypeOf(name, keys) }

// TypeOfSchema returns the type of the documents that a JSON schema describes, for [Variable]. It
// supports the keywords of custom resource definitions: type, format, nullable, properties,
// additionalProperties, items, required, enum, default, the greatest lengths, and Kubernetes'
// extensions. resource says that the document is a resource, whose apiVersion, kind and metadata
// need not be declared.
func TypeOfSchema(text []byte, resource bool) (*Type, error) {
	return check.TypeOfSchema(text, resource)
}

// Value is a value of the language, an error or an unknown. Values may be copied. A value of a
// document refers to the document's memory. Kind returns its kind. Bool, Int, Uint, Float, Str,
// Time and Duration read a value of that kind. Go, JSON and JSONWithin convert any value to plain
// data. Unknown returns the paths on which an unknown depends. TypeName and String are for
// messages. The fields belong to the evaluator.
type (
	Value   = val.Value
	Kind    = val.Kind
	Unknown = val.Unknown // the sorted paths on which an unknown result depends
	Record  = val.Record  // an object whose members the caller sets before an evaluation
	Items   = val.Items
)

// The kinds of Value. KindNone is the absence of a value. A KindOpaque is a value of a library
// type, such as a quantity or an IP address.
const (
	KindNone      = val.KindNone
	KindNull      = val.KindNull
	KindBool      = val.KindBool
	KindInt       = val.KindInt
	KindUint      = val.KindUint
	KindDouble    = val.KindDouble
	KindString    = val.KindString
	KindBytes     = val.KindBytes
	KindTimestamp = val.KindTimestamp
	KindDuration  = val.KindDuration
	KindList      = val.KindList
	KindMap       = val.KindMap
	KindType      = val.KindType
	KindOptional  = val.KindOptional
	KindOpaque    = val.KindOpaque
	KindUnknown   = val.KindUnknown
	KindError     = val.KindError
)

// FromGo converts a Go value: nil, booleans, integers, floats, strings, []byte, time.Time,
// time.Duration, slices, arrays, maps with keys of a CEL key type, jsondoc.Value, pointers to
// these, and Value. Structs are errors: marshal them to JSON and use [FromJSON].
func FromGo(v any) (Value, error) { return val.FromGo(v) }

// FromJSON converts a JSON document. A number without fraction and exponent is an int if it fits,
// otherwise a double.
func FromJSON(text []byte) (Value, error) { return val.FromJSON(text) }

// FromDoc converts a value of a document. With a Type, members are converted when an expression
// reads them, and the document must not change. Without one, the value is copied: objects become
// maps, arrays become lists.
func FromDoc(v jsondoc.Value, t *Type) Value { return val.FromDoc(v, t) }

// StringValue converts a string.
func StringValue(s string) Value { return val.StringValue(s) }

// ToRef converts a value to cel-go's representation, for callers that pass it to cel-go.
func ToRef(v Value) ref.Val { return val.ToRef(v) }

// JSONPatch is an operation of a JSON patch: the result of [Value.Go] for a value of that type.
type JSONPatch = val.JSONPatch

// CheckObject checks an object that an expression constructed: nested objects must have the types
// of their places, such as Object.spec for the member spec.
func CheckObject(v Value) error { return val.CheckObject(v) }

// Escape returns the name by which rules refer to a member, false if there is none.
func Escape(name string) (string, bool) { return val.Escape(name) }

// Unescape returns the member to which a name in a rule refers, false if there is none.
func Unescape(name string) (string, bool) { return val.Unescape(name) }

// Authorizer decides the authorization checks in expressions. AccessCheck is such a check.
type (
	Authorizer  = lib.Authorizer
	AccessCheck = lib.AccessCheck
)

// AuthorizerValue returns the value of the variable authorizer.
func AuthorizerValue(a Authorizer) Value { return val.AuthorizerValue(a) }

// ResourceAuthorizerValue returns the value of the variable authorizer.requestResource. check names
// the resource of the request.
func ResourceAuthorizerValue(a Authorizer, check AccessCheck) Value {
	return val.ResourceAuthorizerValue(a, check)
}

// ErrCostLimit and ErrInterrupted end an evaluation; ErrTooLarge is the error of
// [Value.JSONWithin]. Test for them with errors.Is.
var (
	ErrCostLimit   = val.ErrCostLimit
	ErrInterrupted = val.ErrInterrupted
	ErrTooLarge    = val.ErrTooLarge
)

// These are results of expressions, to test for with errors.As: the error of a call whose arguments
// match no overload, and of a variable without a value.
type (
	OverloadError         = val.OverloadError
	MissingAttributeError = val.MissingAttributeError
)

// Activation is the input of a [Program], with the memory for its evaluation. The zero value is
// ready. Use one for many evaluations. It refers to the last input until Reset. ResetWork restarts
// the account of the work that cost units do not cover; Overdrawn reports that it exceeds the
// bound. An Activation is not safe for concurrent use.
type Activation = fast.Activation

// Pattern names a part of a variable that is unknown in a partial evaluation ([Language.Pattern]).
type Pattern = val.Pattern

// CompileOptions are the options of [TypeSet.Compile].
type (
	CompileOptions = check.CompileOptions
	ResultKind     = check.ResultKind // the type that an expression must have
)

// The required types of an expression. AnyResult allows all types.
const (
	BoolResult   = check.BoolResult
	StringResult = check.StringResult
	AnyResult    = check.AnyResult
)

// Subset lists the functions and macros of a [Language]. Functions that a later version of a
// library adds are not available until they are listed.
type Subset = check.Subset

// Library is a set of functions and macros. The standard library is always included; [Subset]
// removes parts of it.
type Library = check.Library

// The libraries.
const (
	OptionalLibrary      = check.OptionalLibrary      // optional.of, x.?f, m[?k], optMap …
	BindingsLibrary      = check.BindingsLibrary      // cel.bind(name, value, body)
	ComprehensionLibrary = check.ComprehensionLibrary // all, exists … with two variables; transformList, transformMap …
	StringsLibrary       = check.StringsLibrary       // charAt, indexOf, split, format, reverse …
	MathLibrary          = check.MathLibrary          // math.greatest, math.bitAnd, math.sqrt …
	EncodersLibrary      = check.EncodersLibrary      // base64.encode, base64.decode, json.encode
	SetsLibrary          = check.SetsLibrary          // sets.contains, sets.intersects, sets.equivalent
	ListsLibrary         = check.ListsLibrary         // slice, sort, flatten, distinct, lists.range …
	NetworkLibrary       = check.NetworkLibrary       // ip, cidr and what is in them
	URLLibrary           = check.URLLibrary           // url, isURL, getHost …
	FindLibrary          = check.FindLibrary          // find and findAll of regular expressions
	QuantityLibrary      = check.QuantityLibrary      // quantities such as 1.5Gi
	SemverLibrary        = check.SemverLibrary        // semantic versions
	FormatLibrary        = check.FormatLibrary        // named formats such as format.dns1123Label()
	AggregateLibrary     = check.AggregateLibrary     // sum, min, max, isSorted and indexOf of lists
	BlockLibrary         = check.BlockLibrary         // cel.block(…), in which optimizers write common parts
)

// GeneralLibraries returns the libraries that are not Kubernetes' own: the default of a Language.
func GeneralLibraries() []Library { return check.GeneralLibraries() }

// AllLibraries returns all libraries except BlockLibrary.
func AllLibraries() []Library { return check.AllLibraries() }

// NewestKubernetes is the newest version of Kubernetes whose rules are supported.
// PreviousKubernetes is the version before it, in which new expressions must be valid.
const (
	NewestKubernetes   = check.NewestKubernetes
	PreviousKubernetes = check.PreviousKubernetes
)
