package kind

import (
	"encoding/json"

	kjson "sigs.k8s.io/json"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema"
)

// This file decodes objects through their Go types.

// UnmarshalStrict decodes src into the Go object into, and returns the errors about unknown and
// duplicate fields. Quantities that are too long are an error before they are parsed.
func UnmarshalStrict(src []byte, into any) (strict []error, err error) {
	if err := checkQuantities(src, into); err != nil {
		return nil, err
	}
	return kjson.UnmarshalStrict(src, into)
}

// UnmarshalStored is json.Unmarshal for an object of a built-in kind that is stored. Stored
// quantities may be too long, too, if another server wrote them.
func UnmarshalStored(text []byte, into any) error {
	if err := checkQuantities(text, into); err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// StrictErrors returns the unknown and duplicate fields in src, decoded into the Go object into. It
// returns nil if src cannot be decoded: Decode reports that.
func StrictErrors(src []byte, into any) []jsondoc.StrictError {
	strict, err := UnmarshalStrict(src, into)
	if err != nil {
		return nil
	}
	var out []jsondoc.StrictError
	for _, err := range strict {
		out = append(out, strictError(err))
	}
	return out
}

// strictError returns the value of an error of [kjson.UnmarshalStrict]. The library,
// sigs.k8s.io/json v0.0.0-20250730193827, exports the path of such an error. Only the error's text tells
// whether the field is unknown or duplicated: the type strictError with its ErrType is not exported.
func strictError(err error) jsondoc.StrictError {
	e := jsondoc.StrictError{Kind: jsondoc.DuplicateField, Path: err.(kjson.FieldError).FieldPath()}
	if err.Error() != e.Error() {
		e.Kind = jsondoc.UnknownField
	}
	return e
}

// DecodeTyped decodes obj, a Go object that was read from a body, into d. strict has the errors of
// strict decoding, of which only the presence is reported.
func DecodeTyped(v *Version, d *jsondoc.Doc, obj any, strict []error) (schema.Found, error) {
	text, err := json.Marshal(obj)
	if err != nil {
		return 0, err
	}
	if _, err := v.Schema.Decode(d, text); err != nil {
		return 0, err
	}
	if len(strict) > 0 {
		return schema.FoundUnknown, nil
	}
	return 0, nil
}
