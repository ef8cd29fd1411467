package cel

import (
	"github.com/google/cel-go/common/types/ref"

	"github.com/keelson-io/keelson/cel/internal/check"
	"github.com/keelson-io/keelson/cel/internal/fast"
	"github.com/keelson-io/keelson/cel/internal/lib"
	"github.com/keelson-io/keelson/cel/internal/val"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file names what the packages below it define for callers: types of schemas, values,
// errors, what is evaluated, and what is declared.

// Types of schema nodes, which rules are checked against and read documents by. [Type.SetSizes]
// sets the figures that estimates are made from; [Type.Reads] reports whether a text has a format.
type (
	Type     = val.Type
	TypeKind = val.TypeKind
	Field    = val.Field    // a member of an Object
	ListType = val.ListType // x-kubernetes-list-type where it is set or map
)

// The kinds of Type. Dyn, the zero value, is checked at run time.
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

// ListTypeOf is the ListType that a schema calls "atomic" (or not at all), "set" or "map", with
// its x-kubernetes-list-map-keys.
func ListTypeOf(name string, keys []string) *ListType { return val.ListTypeOf(name, keys) }

// TypeOfSchema is the type of the documents that a JSON schema describes, for [Variable]. It
// understands what definitions of custom resources may hold: type, format, nullable, properties,
// additionalProperties, items, required, enum, default, the greatest lengths, and Kubernetes'
// extensions. resource says that the document is a resource, whose apiVersion, kind and metadata
// need not be declared.
func TypeOfSchema(text []byte, resource bool) (*Type, error) {
	return check.TypeOfSchema(text, resource)
}

// Value is a value of the language, an error or an unknown. Values are copied freely; one that
// comes from a document borrows the document's memory. Kind says what it is; Bool, Int, Uint,
// Float, Str, Time and Duration read one of that kind; Go, JSON and JSONWithin make plain data of
// any; Unknown says what an unknown one depends on; TypeName and String are for messages. Its
// fields belong to the evaluator.
type (
	Value   = val.Value
	Kind    = val.Kind
	Unknown = val.Unknown // what an unknown result depends on: paths, sorted
	Record  = val.Record  // an object whose members the host sets before an evaluation
	Items   = val.Items
)

// The kinds of Value. KindNone is no value at all. A KindOpaque is a value of a
// library type: a quantity, an IP address and so on.
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

// FromGo is a Go value in the language: nil, booleans, integers, floats, strings, []byte,
// time.Time, time.Duration, slices, arrays, maps with keys that the language knows, jsondoc.Value,
// pointers to these, and Value itself. Structs have no meaning in it: marshal them to JSON and
// use [FromJSON].
func FromGo(v any) (Value, error) { return val.FromGo(v) }

// FromJSON is a JSON document in the language. A number without fraction and exponent that fits
// is an int, any other a double.
func FromJSON(text []byte) (Value, error) { return val.FromJSON(text) }

// FromDoc is a part of a document in the language. With a Type, members are read by it when an
// expression asks for them, and the document must stay as it is; without one, the value is
// copied: objects are maps, arrays are lists.
func FromDoc(v jsondoc.Value, t *Type) Value { return val.FromDoc(v, t) }

// StringValue is a string in the language.
func StringValue(s string) Value { return val.StringValue(s) }

// ToRef is a value in cel-go's representation, for callers that want to hand it to cel-go.
func ToRef(v Value) ref.Val { return val.ToRef(v) }

// JSONPatch is an operation of a patch that an expression made: what [Value.Go] returns for one.
type JSONPatch = val.JSONPatch

// CheckObject checks that the objects inside of one that an expression made have the types of
// their places: Object.spec below spec, and so on.
func CheckObject(v Value) error { return val.CheckObject(v) }

// Escape is the name under which rules see a member; false if none exists.
func Escape(name string) (string, bool) { return val.Escape(name) }

// Unescape is the member that a name in a rule means; false if it means none.
func Unescape(name string) (string, bool) { return val.Unescape(name) }

// Authorizer answers what expressions ask about what a user may do; AccessCheck is a question.
type (
	Authorizer  = lib.Authorizer
	AccessCheck = lib.AccessCheck
)

// AuthorizerValue is the value of the variable authorizer.
func AuthorizerValue(a Authorizer) Value { return val.AuthorizerValue(a) }

// ResourceAuthorizerValue is the value of the variable authorizer.requestResource: a check for
// the resource of the request, which check names.
func ResourceAuthorizerValue(a Authorizer, check AccessCheck) Value {
	return val.ResourceAuthorizerValue(a, check)
}

// Errors that end an evaluation (errors.Is), and one of [Value.JSONWithin] for a text that is
// too long.
var (
	ErrCostLimit   = val.ErrCostLimit
	ErrInterrupted = val.ErrInterrupted
	ErrTooLarge    = val.ErrTooLarge
)

// Errors that expressions evaluate to: a call whose arguments a function does not take, and a
// variable that has no value (errors.As).
type (
	OverloadError         = val.OverloadError
	MissingAttributeError = val.MissingAttributeError
)

// Activation is the input of a [Program] and the memory it works in. The zero value is ready;
// reuse one for many evaluations. It holds on to what the last one worked on until Reset. Settle
// begins a new account of work that its cost does not pay for, Overdrawn reports that too much was
// done. It is not safe for concurrent use.
type Activation = fast.Activation

// Pattern says which part of a variable is unknown in a partial evaluation ([Language.Pattern]).
type Pattern = val.Pattern

// CompileOptions says what [TypeSet.Compile] needs to know beyond the types.
type (
	CompileOptions = check.CompileOptions
	ResultKind     = check.ResultKind // the type that an expression must have
)

// The types an expression may be required to have. AnyResult requires nothing.
const (
	BoolResult   = check.BoolResult
	StringResult = check.StringResult
	AnyResult    = check.AnyResult
)

// Subset says exactly which functions and macros a [Language] has. What a later version adds to a
// library is not there until it is listed.
type Subset = check.Subset

// Library is a set of functions and macros. The standard library is always there; [Subset] takes
// parts of it away.
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

// GeneralLibraries are the libraries that are not Kubernetes' own: what a Language has unless it
// is told otherwise.
func GeneralLibraries() []Library { return check.GeneralLibraries() }

// AllLibraries are all there is, except for BlockLibrary.
func AllLibraries() []Library { return check.AllLibraries() }

// NewestKubernetes is the newest version of Kubernetes whose rules are known here,
// PreviousKubernetes the one before: what new expressions must be valid in.
const (
	NewestKubernetes   = check.NewestKubernetes
	PreviousKubernetes = check.PreviousKubernetes
)
