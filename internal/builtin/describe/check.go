package describe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/keelson-io/keelson/internal/texts"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file has the checks that several kinds use.

// ReadAs decodes a member into a Go type. A member of another type gives the zero value: the schema
// has refused it.
func ReadAs[T any](v jsondoc.Value) *T {
	out := new(T)
	if v.Kind() != jsondoc.Object || kjson.UnmarshalCaseSensitivePreserveInts(v.AppendJSON(nil), out) != nil {
		return new(T)
	}
	return out
}

// ByKey returns the index of the first item of each key.
func ByKey[T any](all []T, key func(*T) string) map[string]int {
	out := make(map[string]int, len(all))
	for i := range all {
		k := key(&all[i])
		if _, ok := out[k]; !ok {
			out[k] = i
		}
	}
	return out
}

// Invalid returns an error for each message that a rule returned for a value.
func Invalid(path *field.Path, value any, msgs []string) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range msgs {
		errs = append(errs, field.Invalid(path, value, msg))
	}
	return errs
}

// CheckName checks a name that may be empty.
func CheckName(path *field.Path, name string, rule func(name string, prefix bool) []string) field.ErrorList {
	if name == "" {
		return nil
	}
	return Invalid(path, name, rule(name, false))
}

// NeedText returns an error for an empty text.
func NeedText(path *field.Path, text string) field.ErrorList {
	if text == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return nil
}

// AtLeast returns an error for a number below a bound. A missing number passes.
func AtLeast[T int32 | int64](path *field.Path, n *T, least T) field.ErrorList {
	if n == nil || *n >= least {
		return nil
	}
	msg := "must be greater than or equal to 0"
	if least == 1 {
		msg = "must be greater than 0"
	}
	return field.ErrorList{field.Invalid(path, *n, msg).WithOrigin("minimum")}
}

// NotNegative returns an error for a negative number.
func NotNegative[T int32 | int64](path *field.Path, n T) field.ErrorList { return AtLeast(path, &n, 0) }

// Among returns an error for a text that is not one of the given values. The empty text passes.
func Among[T ~string](path *field.Path, text T, of ...T) field.ErrorList {
	for _, other := range of {
		if text == "" || text == other {
			return nil
		}
	}
	return field.ErrorList{field.NotSupported(path, text, of)}
}

// CheckPortOrName checks a port, which is a number or a name.
func CheckPortOrName(path *field.Path, port intstr.IntOrString) field.ErrorList {
	if port.Type == intstr.String {
		return Invalid(path, port.StrVal, validation.IsValidPortName(port.StrVal))
	}
	return Invalid(path, port.IntVal, validation.IsValidPortNum(int(port.IntVal)))
}

// CheckShare checks a number that may be a percentage.
func CheckShare(path *field.Path, n *intstr.IntOrString) field.ErrorList {
	switch {
	case n == nil:
		return nil
	case n.Type == intstr.String:
		return Invalid(path, *n, validation.IsValidPercent(n.StrVal))
	case n.IntVal < 0:
		return NotNegative(path, int64(n.IntVal))
	}
	return nil
}

// CheckPart returns an error for more than 100 %.
func CheckPart(path *field.Path, n *intstr.IntOrString) field.ErrorList {
	if percent, ok := percentage(n); ok && percent > 100 {
		return field.ErrorList{field.Invalid(path, *n, "must not be greater than 100%")}
	}
	return nil
}

// percentage returns the number of a text such as 25%.
func percentage(n *intstr.IntOrString) (int, bool) {
	if n == nil || n.Type != intstr.String || len(validation.IsValidPercent(n.StrVal)) > 0 {
		return 0, false
	}
	percent := intstr.FromString(n.StrVal)
	all, err := intstr.GetScaledValueFromIntOrPercent(&percent, 100, false)
	return all, err == nil
}

// Amount returns the number of an integer or a percentage.
func Amount(n *intstr.IntOrString) int {
	if n == nil {
		return 0
	}
	if n.Type == intstr.Int {
		return int(n.IntVal)
	}
	percent, _ := percentage(n)
	return percent
}

// CheckDescending returns an error for a path that is absolute or has the element "..".
func CheckDescending(path *field.Path, p string) field.ErrorList {
	var errs field.ErrorList
	if strings.HasPrefix(p, "/") {
		errs = append(errs, field.Invalid(path, p, "must be a relative path"))
	}
	return append(errs, CheckNoBacksteps(path, p)...)
}

// CheckNoBacksteps returns an error for a path with the element "..".
func CheckNoBacksteps(path *field.Path, p string) field.ErrorList {
	for part := range strings.SplitSeq(p, "/") {
		if part == ".." {
			return field.ErrorList{field.Invalid(path, p, "must not contain '..'")}
		}
	}
	return nil
}

// CheckAddress checks an IP address.
func CheckAddress(path *field.Path, ip string) field.ErrorList {
	return validation.IsValidIPForLegacyField(path, ip, true, nil)
}

// Positive returns an error for a quantity of zero or less.
func Positive(path *field.Path, q resource.Quantity) field.ErrorList {
	if q.Sign() <= 0 {
		return field.ErrorList{field.Invalid(path, q.String(), "must be greater than zero")}
	}
	return nil
}

// CheckTerms checks a label selector, which may be nil.
func CheckTerms(s *metav1.LabelSelector, path *field.Path) field.ErrorList {
	return texts.Selector(s, metav1validation.LabelSelectorValidationOptions{}, path)
}

// CheckLabel checks a name that must be a DNS-1123 label.
func CheckLabel(path *field.Path, name string) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return Invalid(path, name, validation.IsDNS1123Label(name))
}

// SameJSON reports whether two Go values have the same JSON.
func SameJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// DNSLabel returns the rule for names that are a part of a DNS name.
func DNSLabel(name string, _ bool) []string { return validation.IsDNS1123Label(name) }

// leadingZeros finds zeros before the digits of a part of an address.
var leadingZeros = regexp.MustCompile(`(^|[:.])0+([0-9])`)

// ParseSloppy parses an address, of which octets may have leading zeros.
func ParseSloppy(ip string) (netip.Addr, error) {
	a, err := netip.ParseAddr(ip)
	if err != nil {
		a, err = netip.ParseAddr(leadingZeros.ReplaceAllString(ip, "$1$2"))
	}
	if a.Zone() != "" {
		err = errors.New("got a zone")
	}
	return a.Unmap(), err
}

// CheckReachable refuses addresses that lead nowhere else.
func CheckReachable(path *field.Path, ip string) field.ErrorList {
	a, err := ParseSloppy(ip)
	switch {
	case err != nil:
		return field.ErrorList{field.Invalid(path, ip, "must be a valid IP address")}
	case a.IsUnspecified():
		return field.ErrorList{field.Invalid(path, ip, fmt.Sprintf("may not be unspecified (%s)", ip))}
	case a.IsLoopback():
		return field.ErrorList{field.Invalid(path, ip, "may not be in the loopback range (127.0.0.0/8, ::1/128)")}
	case a.IsLinkLocalUnicast():
		return field.ErrorList{field.Invalid(path, ip, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")}
	case a.IsLinkLocalMulticast():
		return field.ErrorList{field.Invalid(path, ip, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")}
	}
	return nil
}

// Subdomain is the rule for most names: a DNS subdomain.
var Subdomain = apivalidation.NameIsDNSSubdomain

// UnlessStatus returns a check that does not run for writes of the status.
func UnlessStatus(check func(new, old *jsondoc.Doc) field.ErrorList) Checker {
	return func(_ *kind.Version, new, old *jsondoc.Doc, scope schema.Scope) field.ErrorList {
		if scope == schema.Status {
			return nil
		}
		return check(new, old)
	}
}

// OrNothing returns the value of a pointer, the zero value for nil.
func OrNothing[T any](v *T) T {
	if v == nil {
		v = new(T)
	}
	return *v
}

// Texts returns copies of the texts in a list.
func Texts(list jsondoc.Value) []string {
	var out []string
	for _, item := range list.Items() {
		out = append(out, strings.Clone(item.Text()))
	}
	return out
}

// Segment returns the rule for names of roles and bindings: they must be usable as a segment of a
// URL's path.
func Segment(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}

// CheckSigner checks the name of a signer: a domain, and a path in it.
func CheckSigner(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	domain, rest, ok := strings.Cut(name, "/")
	if !ok || strings.Contains(rest, "/") {
		return field.ErrorList{field.Invalid(path, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")}
	}
	const most = validation.DNS1123SubdomainMaxLength
	var errs field.ErrorList
	if len(domain) > most {
		errs = append(errs, field.TooLong(path, "" /*unused*/, most))
	}
	labels := strings.Split(domain, ".")
	for _, label := range labels {
		for _, msg := range validation.IsDNS1123Label(label) {
			errs = append(errs, field.Invalid(path, domain, fmt.Sprintf("validating label %q: %s", label, msg)))
		}
	}
	if len(labels) < 2 {
		errs = append(errs, field.Invalid(path, domain, "should be a domain with at least two segments separated by dots"))
	}
	for label := range strings.SplitSeq(rest, ".") {
		for _, msg := range validation.IsDNS1123Subdomain(label) {
			errs = append(errs, field.Invalid(path, rest, fmt.Sprintf("validating label %q: %s", label, msg)))
		}
	}
	if longest := most + most + validation.DNS1123LabelMaxLength + 2; len(name) > longest {
		errs = append(errs, field.TooLong(path, "" /*unused*/, longest))
	}
	return errs
}

// CheckFinalizers returns an error for names of finalizers without a domain, as upstream does for
// built-in kinds.
func CheckFinalizers(d *jsondoc.Doc) field.ErrorList {
	var errs field.ErrorList
	for i, f := range texts.Until(&errs, d.Root().At("metadata", "finalizers").Items()) {
		switch name := f.Text(); {
		case strings.Contains(name, "/"):
		case name == string(corev1.FinalizerKubernetes) || name == metav1.FinalizerOrphanDependents || name == metav1.FinalizerDeleteDependents:
		default:
			errs = append(errs, field.Invalid(field.NewPath("metadata", "finalizers").Index(i), strings.Clone(name), "name is neither a standard finalizer name nor is it fully qualified"))
		}
	}
	return errs
}
