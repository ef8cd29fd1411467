package kind

import (
	"encoding/json"

	kjson "sigs.k8s.io/json"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema"
)

// This file reads objects by way of their Go types.

// StrictTexts says which fields of an object, JSON, its Go type does not know, or are there twice; nil if it is no such object.
func StrictTexts(src []byte, into any) []string {
	strict, err := kjson.UnmarshalStrict(src, into)
	if err != nil {
		return nil
	}
	var texts []string
	for _, e := range strict {
		texts = append(texts, e.Error())
	}
	return texts
}

// DecodeTyped reads what a Go type made of an object; strict is what it found wrong with it.
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
