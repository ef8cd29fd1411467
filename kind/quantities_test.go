package kind

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
)

// This file tests that quantities which take hours to compute with are refused before they are parsed.

// The second quantity, and a duplicate of a member, would be divided by a power of ten with two thousand million digits when they are
// parsed: without the check, this test does not end.
//
// Ledger: quantities.
func TestQuantitiesAreBounded(t *testing.T) {
	const pod = `{"spec":{"containers":[{"name":"c","resources":{"limits":{%s}}}]}}`
	long := strings.Repeat("9", 1001)
	for _, row := range []struct {
		name, text string
		into       any
		refused    bool
	}{
		{"a huge exponent", fmt.Sprintf(pod, `"cpu":"1e2147483647"`), new(corev1.Pod), true},
		{"a huge negative exponent", fmt.Sprintf(pod, `"cpu":"1e-2147483647"`), new(corev1.Pod), true},
		{"in a member that is repeated", fmt.Sprintf(pod, `"cpu":"1e-2147483647","cpu":"1"`), new(corev1.Pod), true},
		{"white space before it", fmt.Sprintf(pod, `"cpu":" 1E-2147483647"`), new(corev1.Pod), true},
		{"a zero with a huge exponent", fmt.Sprintf(pod, `"cpu":"e2147483647"`), new(corev1.Pod), true},
		{"a number", fmt.Sprintf(pod, `"cpu":1e2147483647`), new(corev1.Pod), true},
		{"many digits", fmt.Sprintf(pod, `"cpu":"`+long+`"`), new(corev1.Pod), true},
		{"in an embedded struct", `{"spec":{"volumes":[{"name":"v","emptyDir":{"sizeLimit":"1e5000"}}]}}`, new(corev1.Pod), true},
		{"in a list of structs", `{"spec":{"limits":[{"type":"Pod"},{"max":{"cpu":"1e5000"}}]}}`, new(corev1.LimitRange), true},
		{"the largest ones", fmt.Sprintf(pod, `"cpu":"1e1000","memory":"1e-1000","a.b/c":"`+long[1:]+`"`), new(corev1.Pod), false},
		{"a text that only looks like one", `{"metadata":{"annotations":{"a":"1e2147483647","b":"` + long + `"}}}`, new(corev1.Pod), false},
		{"a type without quantities", `{"data":{"a":"1e2147483647"}}`, new(corev1.ConfigMap), false},
	} {
		if _, err := UnmarshalStrict([]byte(row.text), row.into); errors.Is(err, errQuantity) != row.refused || !row.refused && err != nil {
			t.Errorf("%s: got %v, want that it is refused: %v", row.name, err, row.refused)
		}
		if err := UnmarshalStored([]byte(row.text), row.into); errors.Is(err, errQuantity) != row.refused {
			t.Errorf("%s, stored: got %v, want that it is refused: %v", row.name, err, row.refused)
		}
		if texts := StrictErrors([]byte(row.text), row.into); row.refused && texts != nil {
			t.Errorf("%s: got the warnings %q, want none", row.name, texts)
		}
	}
}

// TestObjectsAreBounded holds that a short text cannot become a Go value of a gigabyte.
//
// Ledger: json-objects.
func TestObjectsAreBounded(t *testing.T) {
	pod := func(n int) []byte {
		return []byte(`{"spec":{"containers":[{}` + strings.Repeat(",{}", n-1) + `]}}`)
	}
	if _, err := UnmarshalStrict(pod(900_000), new(corev1.Pod)); !errors.Is(err, errObjects) {
		t.Errorf("900,000 containers: got %v, want that they are refused", err)
	}
	nulls := `{"spec":{"containers":[null` + strings.Repeat(",null", 500_000) + `]}}`
	if _, err := UnmarshalStrict([]byte(nulls), new(corev1.Pod)); !errors.Is(err, errObjects) {
		t.Errorf("500,000 containers that are null: got %v, want that they are refused", err)
	}
	if _, err := UnmarshalStrict(pod(60_000), new(corev1.Pod)); err != nil {
		t.Errorf("60,000 containers: %v", err)
	}
	if _, err := UnmarshalStrict([]byte(`{"data":{"a":"`+strings.Repeat("{", 1<<20)+`"}}`), new(corev1.ConfigMap)); err != nil {
		t.Errorf("a text with braces: %v", err)
	}
}

// TestDecodedBytes holds that the memory of Go values is counted before a body or patch is decoded.
func TestDecodedBytes(t *testing.T) {
	typed := NewGoType(func() runtime.Object { return new(corev1.Pod) })
	v := &Version{Kind: &Kind{Behavior: Behavior{GoType: func(*Version) *GoType { return typed }}}}
	const items = 5000
	all := items * int(unsafe.Sizeof(corev1.Container{}))
	for _, item := range []string{"{}", "null"} {
		body := []byte(`{"spec":{"containers":[` + item + strings.Repeat(","+item, items-1) + `]}}`)
		if n := v.DecodedBytes(body); n < all || n > 2*all {
			t.Errorf("%s: got %d bytes, want some %d", item, n, all)
		}
		if n := v.PatchedBytes(body, false); n < all || n > 4*all {
			t.Errorf("%s in a patch: got %d bytes, want some %d", item, n, all)
		}
	}
	if n := v.PatchedBytes([]byte("spec:\n  containers:\n"+strings.Repeat("  -\n", items)), true); n < all || n > 4*all {
		t.Errorf("YAML: got %d bytes, want some %d", n, all)
	}
	custom := &Version{Kind: &Kind{}}
	few := []byte(`{"spec":{"containers":[{},{}]}}`)
	if n := v.DecodedBytes(few) + v.PatchedBytes(few, false) + custom.DecodedBytes(few); n != 0 {
		t.Errorf("few objects: got %d bytes, want none", n)
	}
}

// Texts that are too deep for any decoder are left to it.
func TestQuantitiesInDeepTexts(t *testing.T) {
	text := `{"spec":` + strings.Repeat("[", 3<<20) + `1e5000`
	if err := checkQuantities([]byte(text), new(corev1.Pod)); err != nil {
		t.Errorf("got %v, want none", err)
	}
}

func TestQuantitiesInProtobuf(t *testing.T) {
	for text, refused := range map[string]bool{"1e1000": false, "1e5000": true} {
		r := &corev1.LimitRange{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Max: corev1.ResourceList{"cpu": resource.MustParse(text)}}}}}
		message, err := r.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if err := checkMessage(message, messageOf(new(corev1.LimitRange))); errors.Is(err, errQuantity) != refused {
			t.Errorf("%s: got %v, want that it is refused: %v", text, err, refused)
		}
	}
	// A message that is cut off within the text has no quantity.
	if err := checkMessage(wrap(2, wrap(1, wrap(2, wrap(2, []byte{1<<3 | 2, 9, '1'})))), messageOf(new(corev1.LimitRange))); err == nil || errors.Is(err, errQuantity) {
		t.Errorf("got %v, want an unexpected end", err)
	}
}

// FuzzCheckQuantities compares the check with a plain one: the quantities of what the Go type was decoded to. The exponents are small
// enough to decode.
func FuzzCheckQuantities(f *testing.F) {
	f.Add(`{"spec":{"hard":{"cpu":"1e1001","pods":5}},"status":{"used":{"cpu":1e-1001}}}`)
	f.Add(`{"spec":{"hard":{"cpu":" 12345e2"}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 200 {
			return
		}
		for i := 0; i+5 < len(text); i++ { // five digits after an e
			if (text[i]|0x20 == 'e') && strings.Trim(strings.TrimLeft(text[i+1:min(len(text), i+7)], "+-"), "0123456789") == "" {
				return
			}
		}
		q := new(corev1.ResourceQuota)
		if checkQuantities([]byte(text), q) != nil || json.Unmarshal([]byte(text), q) != nil {
			return
		}
		for _, list := range []corev1.ResourceList{q.Spec.Hard, q.Status.Hard, q.Status.Used} {
			for name, amount := range list {
				if scale := amount.AsDec().Scale(); scale > 1000 || scale < -2000 {
					t.Errorf("%s: the scale of %s is %d", text, name, scale)
				}
			}
		}
	})
}
