package builtin

import (
	"bytes"
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/keelson-io/keelson/doc"
)

// This file holds the checks that those of several kinds are made of.

// readAs is a member as its Go type. What is of another type has been refused before, and is nothing here.
func readAs[T any](v doc.Value) *T {
	out := new(T)
	if v.Kind() != doc.Object || kjson.UnmarshalCaseSensitivePreserveInts(v.AppendJSON(nil), out) != nil {
		return new(T)
	}
	return out
}

// invalid is an error for each of the messages that a rule has about a value.
func invalid(path *field.Path, value any, msgs []string) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range msgs {
		errs = append(errs, field.Invalid(path, value, msg))
	}
	return errs
}

// checkName checks a name that may be empty.
func checkName(path *field.Path, name string, rule func(name string, prefix bool) []string) field.ErrorList {
	if name == "" {
		return nil
	}
	return invalid(path, name, rule(name, false))
}

// needText refuses an empty text.
func needText(path *field.Path, text string) field.ErrorList {
	if text == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return nil
}

// atLeast refuses numbers below a bound; one that is not there is none.
func atLeast[T int32 | int64](path *field.Path, n *T, least T) field.ErrorList {
	if n == nil || *n >= least {
		return nil
	}
	msg := "must be greater than or equal to 0"
	if least == 1 {
		msg = "must be greater than 0"
	}
	return field.ErrorList{field.Invalid(path, *n, msg).WithOrigin("minimum")}
}

func notNegative[T int32 | int64](path *field.Path, n T) field.ErrorList { return atLeast(path, &n, 0) }

// among refuses a text that is none of some; an empty one passes.
func among[T ~string](path *field.Path, text T, of ...T) field.ErrorList {
	for _, other := range of {
		if text == "" || text == other {
			return nil
		}
	}
	return field.ErrorList{field.NotSupported(path, text, of)}
}

// checkPortOrName checks a port that may be a name of one.
func checkPortOrName(path *field.Path, port intstr.IntOrString) field.ErrorList {
	if port.Type == intstr.String {
		return invalid(path, port.StrVal, validation.IsValidPortName(port.StrVal))
	}
	return invalid(path, port.IntVal, validation.IsValidPortNum(int(port.IntVal)))
}

// checkShare checks a number that may be a percentage.
func checkShare(path *field.Path, n *intstr.IntOrString) field.ErrorList {
	switch {
	case n == nil:
		return nil
	case n.Type == intstr.String:
		return invalid(path, *n, validation.IsValidPercent(n.StrVal))
	case n.IntVal < 0:
		return notNegative(path, int64(n.IntVal))
	}
	return nil
}

// checkPart refuses more than all of it.
func checkPart(path *field.Path, n *intstr.IntOrString) field.ErrorList {
	if percent, ok := percentage(n); ok && percent > 100 {
		return field.ErrorList{field.Invalid(path, *n, "must not be greater than 100%")}
	}
	return nil
}

func percentage(n *intstr.IntOrString) (int, bool) {
	if n == nil || n.Type != intstr.String || len(validation.IsValidPercent(n.StrVal)) > 0 {
		return 0, false
	}
	percent := intstr.FromString(n.StrVal)
	all, err := intstr.GetScaledValueFromIntOrPercent(&percent, 100, false)
	return all, err == nil
}

// amount is the number of a number or of a percentage.
func amount(n *intstr.IntOrString) int {
	if n == nil {
		return 0
	}
	if n.Type == intstr.Int {
		return int(n.IntVal)
	}
	percent, _ := percentage(n)
	return percent
}

// checkDescending refuses paths that do not lead downwards.
func checkDescending(path *field.Path, p string) field.ErrorList {
	var errs field.ErrorList
	if strings.HasPrefix(p, "/") {
		errs = append(errs, field.Invalid(path, p, "must be a relative path"))
	}
	return append(errs, checkNoBacksteps(path, p)...)
}

func checkNoBacksteps(path *field.Path, p string) field.ErrorList {
	for part := range strings.SplitSeq(p, "/") {
		if part == ".." {
			return field.ErrorList{field.Invalid(path, p, "must not contain '..'")}
		}
	}
	return nil
}

// checkAddress checks an IP address.
func checkAddress(path *field.Path, ip string) field.ErrorList {
	return validation.IsValidIPForLegacyField(path, ip, true, nil)
}

// positive refuses quantities that are none, or less.
func positive(path *field.Path, q resource.Quantity) field.ErrorList {
	if q.Sign() <= 0 {
		return field.ErrorList{field.Invalid(path, q.String(), "must be greater than zero")}
	}
	return nil
}

// checkTerms checks a selector of labels, which may be none.
func checkTerms(s *metav1.LabelSelector, path *field.Path) field.ErrorList {
	return metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{}, path)
}

// checkLabel checks a name that must be a DNS-1123 label.
func checkLabel(path *field.Path, name string) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return invalid(path, name, validation.IsDNS1123Label(name))
}

// sameJSON compares two Go values by what they are printed as.
func sameJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// dnsLabel is the rule for names that are a part of a DNS name.
func dnsLabel(name string, _ bool) []string { return validation.IsDNS1123Label(name) }
