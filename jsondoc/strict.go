package jsondoc

import (
	"errors"
	"strings"

	kjson "sigs.k8s.io/json"
)

// This file finds what Kubernetes' strict decoding objects to in a patch. The
// fast pass answers only "nothing"; otherwise Kubernetes' decoder says it.

// MergePatchStrict is what strict decoding objects to in a merge patch
// (`duplicate field "spec.x"`), or the error of decoding it.
func MergePatchStrict(patch []byte) ([]string, error) {
	d := Get()
	defer d.Release()
	if root, ok := d.parseOnce(patch); ok && (root.Kind() == Object || root.Kind() == Null) {
		return nil, nil
	}
	var v map[string]any
	errs, err := kjson.UnmarshalStrict(patch, &v)
	return words("", errs), err
}

// jsonPatchOp is an operation as strict decoding sees it; error texts name the
// type and its fields.
type jsonPatchOp struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	From  string `json:"from"`
	Value any    `json:"value"`
}

// JSONPatchStrict is what strict decoding objects to in a JSON patch
// (`json patch unknown field "[0].x"`), or the error of decoding it.
func JSONPatchStrict(patch []byte) ([]string, error) {
	d := Get()
	defer d.Release()
	if root, ok := d.parseOnce(patch); ok && plainOps(Value{d, root}) {
		return nil, nil
	}
	var ops []jsonPatchOp
	errs, err := kjson.UnmarshalStrict(patch, &ops)
	if err != nil {
		err = errors.New(strings.ReplaceAll(err.Error(), "jsondoc.jsonPatchOp", "handlers.jsonPatchOp"))
	}
	return words("json patch ", errs), err
}

// parseOnce is Parse for a text without duplicate keys; ok is false if it has
// some or is wrong.
func (d *Doc) parseOnce(src []byte) (root Node, ok bool) {
	d.Reset(nil)
	s := d.Scan(src)
	root, err := s.Value()
	return root, err == nil && s.End() == nil && !s.Duplicates()
}

// plainOps reports whether v is a list of operations with nothing but the
// known members.
func plainOps(v Value) bool {
	if v.Kind() != Array {
		return false
	}
	for _, op := range v.Items() {
		if op.Kind() != Object {
			return false
		}
		for name, member := range op.Members() {
			switch name {
			case "op", "path", "from":
				if member.Kind() != String {
					return false
				}
			case "value":
			default:
				return false
			}
		}
	}
	return true
}

func words(prefix string, errs []error) []string {
	var texts []string
	for _, err := range errs {
		texts = append(texts, prefix+err.Error())
	}
	return texts
}
