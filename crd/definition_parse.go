package crd

import (
	"encoding/json"
	"fmt"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	kjson "sigs.k8s.io/json"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file decodes definitions, from the bodies of requests and from stored bytes.

// FromDoc returns the definition in a document as a Go value. The schemas of its versions must not
// be changed, because other definitions may share them.
func FromDoc(d *jsondoc.Doc) (*apiextv1.CustomResourceDefinition, error) {
	return (*Compiler)(nil).fromDoc(d)
}

// fromDoc is FromDoc with c's cache of schemas.
func (c *Compiler) fromDoc(d *jsondoc.Doc) (*apiextv1.CustomResourceDefinition, error) {
	return separateDoc(d.Root()).whole(c)
}

// Parse is FromDoc for stored bytes.
func Parse(raw []byte) (*apiextv1.CustomResourceDefinition, error) {
	return (*Compiler)(nil).parseRaw(raw)
}

// parseRaw is Parse with c's cache of schemas.
func (c *Compiler) parseRaw(raw []byte) (*apiextv1.CustomResourceDefinition, error) {
	if p, ok := separate(raw); ok {
		return p.whole(c)
	}
	d := jsondoc.Get()
	defer d.Release()
	if err := jsondoc.Parse(d, raw); err != nil {
		return nil, fmt.Errorf("stored CustomResourceDefinition: %w", err)
	}
	return c.fromDoc(d)
}

// whole returns the definition with its schemas, which are decoded or come from c's cache.
func (p *parts) whole(c *Compiler) (*apiextv1.CustomResourceDefinition, error) {
	crd, err := p.definition()
	if err != nil {
		return nil, err
	}
	read := make([]*apiextv1.JSONSchemaProps, len(p.schemas))
	for i, text := range p.schemas {
		if read[i], err = c.readSchema(text); err != nil {
			return nil, fmt.Errorf("stored CustomResourceDefinition: spec: %w", err)
		}
	}
	p.attach(crd, read)
	return crd, nil
}

// decodeDefinition is the kind's Decode hook. checkNesting must come first: the decoders are
// recursive.
func (c *Compiler) decodeDefinition(v *kind.Version, d *jsondoc.Doc, src []byte) (schema.Found, error) {
	if err := checkNesting(src); err != nil {
		return 0, err
	}
	if isBeta(v) {
		return decodeBeta(v, d, src)
	}
	if c.decodeParts(v, d, src) {
		return c.unknownTo(src)
	}
	found, err := c.decodeWhole(v, d, src)
	if err == nil && found == 0 {
		found, err = c.unknownTo(src)
	}
	return found, err
}

// decodeWhole decodes any body in v1. It is the plain path of decodeParts.
func (c *Compiler) decodeWhole(v *kind.Version, d *jsondoc.Doc, src []byte) (schema.Found, error) {
	var crd apiextv1.CustomResourceDefinition
	strict, err := kjson.UnmarshalStrict(src, &crd)
	if err != nil {
		return 0, err
	}
	Default(&crd)
	found, err := kind.DecodeTyped(v, d, &crd, strict)
	if err == nil {
		c.rememberAll(d, &crd, nil)
	}
	return found, err
}

// decodeParts is a fast path for bodies in the form in which definitions are printed. It returns
// false if the body may have unknown fields or errors; the caller then uses the plain path.
func (c *Compiler) decodeParts(v *kind.Version, d *jsondoc.Doc, src []byte) bool {
	p, ok := separate(src)
	if !ok {
		return false
	}
	var crd apiextv1.CustomResourceDefinition
	if strict, err := kjson.UnmarshalStrict(p.rest, &crd); err != nil || len(strict) > 0 {
		return false
	}
	// exact has the schemas that are printed with the digits of the body (see recentSchema).
	exact := map[*apiextv1.JSONSchemaProps]bool{}
	read := make([]*apiextv1.JSONSchemaProps, len(p.schemas))
	for i, text := range p.schemas {
		if known := c.remembered(text); known != nil && known.exact {
			read[i], exact[known.wire] = known.wire, true
			continue
		}
		s, same, ok := readSchema(text)
		if !ok {
			return false
		}
		read[i], exact[s] = s, same
	}
	Default(&crd)
	text, err := json.Marshal(&crd)
	if err == nil {
		text, err = p.join(text)
	}
	if err == nil {
		_, err = v.Schema.Decode(d, text)
	}
	if err != nil {
		return false
	}
	p.attach(&crd, read)
	c.rememberAll(d, &crd, exact)
	return true
}

// rememberAll adds the schemas of a definition to c's cache, under the texts with which d prints
// them.
func (c *Compiler) rememberAll(d *jsondoc.Doc, crd *apiextv1.CustomResourceDefinition, exact map[*apiextv1.JSONSchemaProps]bool) {
	done := map[*apiextv1.JSONSchemaProps]bool{}
	for i, v := range d.Root().At("spec", "versions").Items() {
		s := openAPI(crd.Spec.Versions[i].Schema)
		if s == nil || done[s] {
			continue
		}
		done[s] = true
		// A schema that is used by several versions is remembered once.
		text, _ := printed(func(out []byte) ([]byte, error) { // which cannot fail
			return v.At("schema", "openAPIV3Schema").AppendJSON(out), nil
		})
		c.remember(text, s, exact[s])
	}
}
