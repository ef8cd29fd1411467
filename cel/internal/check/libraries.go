package check

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"

	"github.com/keelson-io/keelson/cel/internal/lib"
	"github.com/keelson-io/keelson/cel/internal/val"
)

// This file defines the libraries that a Language may have.

// Library is the name of a library.
type Library string

// The libraries. The standard one is always included; Subset removes parts of it.
const (
	OptionalLibrary      Library = "optional"       // optional.of, x.?f, m[?k], optMap …
	BindingsLibrary      Library = "bindings"       // cel.bind(name, value, body)
	ComprehensionLibrary Library = "comprehensions" // all, exists … with two variables; transformList, transformMap …
	StringsLibrary       Library = "strings"        // charAt, indexOf, split, format, reverse …
	MathLibrary          Library = "math"           // math.greatest, math.bitAnd, math.sqrt …
	EncodersLibrary      Library = "encoders"       // base64.encode, base64.decode, json.encode
	SetsLibrary          Library = "sets"           // sets.contains, sets.intersects, sets.equivalent
	ListsLibrary         Library = "lists"          // slice, sort, flatten, distinct, lists.range …
	NetworkLibrary       Library = "network"        // ip, cidr and what is in them
	URLLibrary           Library = "url"            // url, isURL, getHost …
	FindLibrary          Library = "find"           // find and FindAll of regular expressions
	QuantityLibrary      Library = "quantity"       // quantities such as 1.5Gi
	SemverLibrary        Library = "semver"         // semantic versions
	FormatLibrary        Library = "format"         // named formats such as format.dns1123Label()
	AggregateLibrary     Library = "aggregate"      // sum, min, max, isSorted and indexOf of lists
	BlockLibrary         Library = "block"          // cel.block(…), in which optimizers write common parts
)

// NewestKubernetes is the newest version whose rules are supported.
const NewestKubernetes = "1.37"

// PreviousKubernetes is the version before, in which new expressions must be valid.
const PreviousKubernetes = "1.36"

// GeneralLibraries returns the libraries that are not Kubernetes' own: the default of a Language.
func GeneralLibraries() []Library {
	return []Library{OptionalLibrary, BindingsLibrary, ComprehensionLibrary, StringsLibrary, MathLibrary, EncodersLibrary,
		SetsLibrary, ListsLibrary, NetworkLibrary}
}

// AllLibraries returns all libraries except [BlockLibrary].
func AllLibraries() []Library {
	return append(GeneralLibraries(), URLLibrary, FindLibrary, QuantityLibrary, SemverLibrary, FormatLibrary, AggregateLibrary)
}

// options returns a library's declarations for cel-go.
func (l Library) options() ([]cel.EnvOption, error) {
	switch l {
	case OptionalLibrary:
		return []cel.EnvOption{cel.OptionalTypes()}, nil
	case BindingsLibrary:
		return []cel.EnvOption{ext.Bindings()}, nil
	case ComprehensionLibrary:
		return []cel.EnvOption{ext.TwoVarComprehensions()}, nil
	case StringsLibrary:
		return append([]cel.EnvOption{ext.Strings()}, searchOptions()...), nil
	case MathLibrary:
		return []cel.EnvOption{ext.Math()}, nil
	case EncodersLibrary:
		return []cel.EnvOption{ext.Encoders(), encodeOption()}, nil
	case SetsLibrary:
		return []cel.EnvOption{ext.Sets()}, nil
	case ListsLibrary:
		return []cel.EnvOption{ext.Lists()}, nil
	case NetworkLibrary:
		return append(lib.NetworkLibrary(), addressOption()), nil
	case URLLibrary:
		return lib.URLLibrary(), nil
	case FindLibrary:
		return lib.RegexLibrary(), nil
	case QuantityLibrary:
		return lib.QuantityLibrary(), nil
	case SemverLibrary:
		return lib.SemverLibrary(), nil
	case FormatLibrary:
		return lib.FormatLibrary(), nil
	case AggregateLibrary:
		return lib.ListLibrary(true), nil
	case BlockLibrary:
		return blockOptions(), nil
	}
	return nil, fmt.Errorf("library %q: not known, want one of %v", string(l), append(AllLibraries(), BlockLibrary))
}

// LanguageOptions returns the declarations of the libraries of a version of Kubernetes or, if that
// is "", of the named libraries.
func LanguageOptions(kubernetes string, names []Library) ([]cel.EnvOption, error) {
	if kubernetes != "" {
		if len(names) > 0 {
			return nil, fmt.Errorf("language: got Libraries and Kubernetes, want one of them")
		}
		minor, err := lib.MinorVersion(kubernetes)
		if err != nil {
			return nil, err
		}
		var options []cel.EnvOption
		for _, lib := range lib.Libraries() {
			if lib.From <= minor && (lib.Until == 0 || minor < lib.Until) {
				options = append(options, lib.Options...)
			}
		}
		return options, nil
	}
	options := []cel.EnvOption{
		cel.EagerlyValidateDeclarations(true), cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true), cel.EnableIdentifierEscapeSyntax(), durationOption(),
		cel.CostEstimatorOptions(checker.PresenceTestHasCost(false)),
	}
	if names == nil {
		names = GeneralLibraries()
	}
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		more, err := name.options()
		if err != nil {
			return nil, err
		}
		options = append(options, more...)
	}
	return options, nil
}

// durationOption makes getMilliseconds() of a duration return the milliseconds within its second,
// as the language defines it. Kubernetes' rules return all milliseconds.
func durationOption() cel.EnvOption {
	return lib.Method("getMilliseconds", "duration_to_milliseconds", types.DurationType, types.IntType, func(d types.Duration) ref.Val {
		return types.Int(d.Milliseconds() % 1000)
	})
}

// searchOptions makes an offset beyond the end of a string an error of indexOf() and lastIndexOf(),
// as the language defines it.
func searchOptions() []cel.EnvOption {
	return []cel.EnvOption{
		searchFrom("indexOf", "string_index_of_string_int", val.Index),
		searchFrom("lastIndexOf", "string_last_index_of_string_int", val.LastIndex),
	}
}

// searchFrom declares one of these functions.
func searchFrom(name, id string, find func(s, part string, from int) int) cel.EnvOption {
	params := []*types.Type{types.StringType, types.StringType, types.IntType}
	return cel.Function(name, cel.MemberOverload(id, params, types.IntType, cel.FunctionBinding(func(args ...ref.Val) ref.Val {
		s, ok1 := args[0].(types.String)
		part, ok2 := args[1].(types.String)
		from, ok3 := args[2].(types.Int)
		if !ok1 || !ok2 || !ok3 {
			return types.NewErr("no such overload: %s", name)
		}
		text := val.ValidText(string(s))
		at, within := val.OffsetIn(text, int64(from))
		if !within && int64(from) != int64(utf8.RuneCountInString(text)) {
			return types.NewErr("index out of range: %d", from)
		}
		if !within {
			at = len(text)
		}
		return types.Int(find(text, val.ValidText(string(part)), at))
	})))
}

// encodeOption makes json.encode() print any value as [Value.JSON] does.
func encodeOption() cel.EnvOption {
	return cel.Function("json.encode", cel.Overload("json_encode_dyn", []*types.Type{types.DynType}, types.StringType,
		cel.UnaryBinding(func(v ref.Val) ref.Val {
			text, err := val.FromRef(v).JSONWithin(val.MaxText)
			if err != nil {
				return types.WrapErr(err)
			}
			return types.String(text)
		})))
}

// addressOption makes ip() accept an IPv4 address that is written as IPv6 without dots, as the
// language defines it. Kubernetes' rules refuse it.
func addressOption() cel.EnvOption {
	return lib.FromString("ip", "string_to_ip", lib.IPType, func(s types.String) ref.Val {
		if a, err := netip.ParseAddr(string(s)); err == nil && a.Is4In6() && a.Zone() == "" && !strings.Contains(string(s), ".") {
			return lib.NewAddress(a.Unmap())
		}
		a, err := lib.ParseAddress(string(s))
		if err != nil {
			return types.WrapErr(err)
		}
		return lib.NewAddress(a)
	})
}

// Blocks: cel.block([a, b, …], body) evaluates each part at most once. The parts and the body refer
// to them as cel.index(0), cel.index(1) and so on.
const (
	BlockFunction = "cel.@block"
	maxBlock      = 64 // parts of a block
)

// blockOptions returns the declarations of blocks.
func blockOptions() []cel.EnvOption {
	var vars []cel.EnvOption
	for i := range maxBlock {
		vars = append(vars, cel.Variable("@index"+strconv.Itoa(i), cel.DynType))
	}
	inCel := func(target ast.Expr) bool { return target.Kind() == ast.IdentKind && target.AsIdent() == "cel" }
	number := func(e ast.Expr) (string, bool) {
		if e.Kind() != ast.LiteralKind {
			return "", false
		}
		i, ok := e.AsLiteral().(types.Int)
		return strconv.FormatInt(int64(i), 10), ok && i >= 0
	}
	name := func(function, prefix string, args int) cel.Macro {
		return cel.ReceiverMacro(function, args, func(f cel.MacroExprFactory, target ast.Expr, args []ast.Expr) (ast.Expr, *cel.Error) {
			if !inCel(target) {
				return nil, nil
			}
			out := prefix
			for i, arg := range args {
				n, ok := number(arg)
				if !ok {
					return nil, f.NewError(arg.ID(), "cel."+function+"() wants literal numbers")
				}
				if i > 0 || len(args) > 1 {
					out += ":"
				}
				out += n
			}
			return f.NewIdent(out), nil
		})
	}
	block := cel.ReceiverMacro("block", 2, func(f cel.MacroExprFactory, target ast.Expr, args []ast.Expr) (ast.Expr, *cel.Error) {
		switch {
		case !inCel(target):
			return nil, nil
		case args[0].Kind() != ast.ListKind || args[0].AsList().Size() > maxBlock:
			return nil, f.NewError(args[0].ID(), "cel.block() wants a list literal of at most "+strconv.Itoa(maxBlock)+" parts")
		}
		return f.NewCall(BlockFunction, args...), nil
	})
	return append(vars, cel.Macros(block, name("index", "@index", 1), name("iterVar", "@it", 2), name("accuVar", "@ac", 2)))
}
