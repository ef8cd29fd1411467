package kind

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// wrap puts a message into a field of another one.
func wrap(number int, inner []byte) []byte {
	b := binary.AppendUvarint(nil, uint64(number)<<3|2)
	b = binary.AppendUvarint(b, uint64(len(inner)))
	return append(b, inner...)
}

// wrapped is a leaf in n messages, each in fields of the one around it, the innermost field first. It takes time linear in n.
func wrapped(n int, leaf []byte, numbers ...int) []byte {
	var reversed []byte // as the lengths are known from inside to outside
	for i := len(leaf) - 1; i >= 0; i-- {
		reversed = append(reversed, leaf[i])
	}
	for range n {
		for _, number := range numbers {
			head := binary.AppendUvarint(nil, uint64(number)<<3|2)
			head = binary.AppendUvarint(head, uint64(len(reversed)))
			for i := len(head) - 1; i >= 0; i-- {
				reversed = append(reversed, head[i])
			}
		}
	}
	for i, j := 0, len(reversed)-1; i < j; i, j = i+1, j-1 {
		reversed[i], reversed[j] = reversed[j], reversed[i]
	}
	return reversed
}

// Fields of a definition, from the outside: spec, versions, schema, openAPIV3Schema; below it those that hold schemas.
const (
	fieldItems, fieldAllOf, fieldNot, fieldProperties = 24, 25, 28, 29
)

// definitionMessage is a definition with a schema, as a message.
func definitionMessage(schema []byte) []byte {
	return wrap(2, wrap(7, wrap(4, wrap(1, schema))))
}

// overlapping is a message whose n entries of a map have values that go on to the end of the message.
func overlapping(field, n, size int) []byte {
	var reversed []byte
	for range size {
		reversed = append(reversed, 0)
	}
	tag := binary.AppendUvarint(nil, uint64(field)<<3|2)
	for range n {
		length := binary.AppendUvarint(nil, uint64(len(reversed)))
		entry := append([]byte{2<<3 | 2}, length...)
		head := append(append(append([]byte{}, tag...), byte(len(entry))), entry...)
		for i := len(head) - 1; i >= 0; i-- {
			reversed = append(reversed, head[i])
		}
	}
	for i, j := 0, len(reversed)-1; i < j; i, j = i+1, j-1 {
		reversed[i], reversed[j] = reversed[j], reversed[i]
	}
	return reversed
}

func TestCheckMessage(t *testing.T) {
	const deep, large, again = "messages in one another", "bytes of memory", "counted once for each such level"
	for name, c := range map[string]struct {
		into fromProto
		text []byte
		want string // "" if it is decoded
	}{
		"990 schemas below items":            {new(apiextv1.CustomResourceDefinition), definitionMessage(wrapped(990, nil, 1, fieldItems)), ""},
		"500,000 schemas":                    {new(apiextv1.CustomResourceDefinition), definitionMessage(wrapped(500_000, nil, fieldNot)), deep},
		"500,000 schemas of v1beta1":         {new(v1beta1.CustomResourceDefinition), wrap(2, wrap(5, wrap(1, wrapped(500_000, nil, fieldNot)))), deep},
		"500,000 schemas of allOf":           {new(apiextv1.CustomResourceDefinition), definitionMessage(wrapped(500_000, nil, fieldAllOf)), deep},
		"500,000 schemas of properties":      {new(apiextv1.CustomResourceDefinition), definitionMessage(wrapped(500_000, nil, 2, fieldProperties)), deep},
		"500,000 groups in an unknown field": {new(apiextv1.CustomResourceDefinition), append(bytes.Repeat([]byte{99<<3&0x7f | 3 | 0x80, 6}, 500_000), bytes.Repeat([]byte{99<<3&0x7f | 4 | 0x80, 6}, 500_000)...), ""},
		"a long text below 500 items": {new(apiextv1.CustomResourceDefinition),
			definitionMessage(wrapped(500, wrap(4, make([]byte, 1<<20)), 1, fieldItems)), again},
		"a million empty containers":    {new(corev1.Pod), wrap(2, bytes.Repeat([]byte{2<<3 | 2, 0}, 1_000_000)), large},
		"labels beyond their entries":   {new(corev1.ConfigMap), overlapping(2, 10_000, 1_000_000), "unexpected EOF"},
		"the same in a template":        {new(appsv1.Deployment), wrap(2, wrap(3, wrap(1, overlapping(11, 100, 1000)))), "unexpected EOF"},
		"properties beyond theirs":      {new(apiextv1.CustomResourceDefinition), definitionMessage(overlapping(fieldProperties, 40, 0)), "unexpected EOF"},
		"a spec that is a number":       {new(corev1.Pod), []byte{2 << 3, 1}, "proto: wrong wireType = 0 for field Spec"},
		"a number that is too long":     {new(corev1.Pod), bytes.Repeat([]byte{0xff}, 11), "proto: integer overflow"},
		"the end of no group":           {new(corev1.Pod), []byte{9<<3 | 4}, "proto: Pod: wiretype end group for non-group"},
		"field 0":                       {new(corev1.Pod), []byte{2, 0}, "proto: Pod: illegal tag 0 (wire type 2)"},
		"a message that is cut off":     {new(corev1.Pod), []byte{2<<3 | 2, 5, 0}, "unexpected EOF"},
		"what delete options have none": {new(metav1.DeleteOptions), nil, ""},
	} {
		err := checkMessage(c.text, messageOf(c.into))
		if c.want == "" {
			if err == nil {
				err = c.into.Unmarshal(c.text)
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q in it", name, err, c.want)
		}
	}
}

// FuzzCheckMessage checks that what is let through decodes into an object of bounded depth, and that no message is refused that the Go
// types themselves write.
func FuzzCheckMessage(f *testing.F) {
	type object interface {
		runtime.Object
		fromProto
		toProto
	}
	kinds := []func() object{
		func() object { return new(apiextv1.CustomResourceDefinition) },
		func() object { return new(corev1.Pod) },
		func() object { return new(corev1.ConfigMap) },
	}
	f.Add(byte(0), definitionMessage(wrapped(20, nil, 1, fieldItems)))
	f.Add(byte(0), definitionMessage(wrapped(3000, nil, fieldNot)))
	f.Add(byte(0), definitionMessage(overlapping(fieldProperties, 4, 0)))
	f.Add(byte(1), wrap(2, wrap(2, nil)))
	f.Add(byte(2), overlapping(2, 4, 8))
	f.Fuzz(func(t *testing.T, kind byte, text []byte) {
		obj := kinds[int(kind)%len(kinds)]()
		if len(text) > 4096 || checkMessage(text, messageOf(obj)) != nil || obj.Unmarshal(text) != nil {
			return
		}
		again, err := obj.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if err := checkMessage(again, messageOf(obj)); err != nil && len(again) < 1<<20 {
			t.Errorf("what %T writes is refused: %v", obj, err)
		}
		out, err := json.Marshal(obj)
		if err == nil && depthOf(out) > 2*maxMessages+20 {
			t.Errorf("%d levels", depthOf(out))
		}
	})
}

// depthOf is how deep JSON nests.
func depthOf(text []byte) int {
	depth, most := 0, 0
	d := json.NewDecoder(bytes.NewReader(text))
	for {
		switch token, err := d.Token(); {
		case err != nil:
			return most
		case token == json.Delim('{') || token == json.Delim('['):
			depth++
			most = max(most, depth)
		case token == json.Delim('}') || token == json.Delim(']'):
			depth--
		}
	}
}
