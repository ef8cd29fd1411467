package kind

import (
	"crypto/sha256"
	"fmt"
	"sync"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	kjson "sigs.k8s.io/json"

	"github.com/keelson-io/keelson/doc"
)

// This file reads definitions. The spec of a large one takes ten milliseconds
// to read, and the same one is read several times in a row: to validate it, to
// serve it, and again for every change of its status. So the last few are
// remembered.

// Definition is the typed form of a definition's document. Its spec must not be
// changed below the first level: others may have it, too.
func Definition(d *doc.Doc) (*apiextv1.CustomResourceDefinition, error) {
	root := d.Root()
	if root.Get("apiVersion").Text() == betaVersion {
		return ParseDefinition(root.AppendJSON(nil))
	}
	crd := new(apiextv1.CustomResourceDefinition)
	text := specText(root)
	spec := recent.get(text)
	if spec == nil {
		spec = new(apiextv1.CustomResourceDefinitionSpec)
		if err := kjson.UnmarshalCaseSensitivePreserveInts(text, spec); err != nil {
			return nil, fmt.Errorf("stored CustomResourceDefinition: spec: %w", err)
		}
		recent.put(text, spec)
	}
	rest := []byte{'{'}
	for name, value := range root.Members() {
		if name == "spec" {
			continue
		}
		if len(rest) > 1 {
			rest = append(rest, ',')
		}
		rest = append(doc.AppendQuoted(rest, name), ':')
		rest = value.AppendJSON(rest)
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(append(rest, '}'), crd); err != nil {
		return nil, fmt.Errorf("stored CustomResourceDefinition: %w", err)
	}
	crd.Spec = *spec
	return crd, nil
}

// ParseDefinition is Definition for a definition as it is stored.
func ParseDefinition(raw []byte) (*apiextv1.CustomResourceDefinition, error) {
	raw, err := fromBeta(raw)
	if err != nil {
		return nil, err
	}
	d := doc.Get()
	defer d.Release()
	if err := doc.Parse(d, raw); err != nil {
		return nil, fmt.Errorf("stored CustomResourceDefinition: %w", err)
	}
	return Definition(d)
}

// specText is the spec of a definition as text; the same spec has the same text.
func specText(root doc.Value) []byte {
	spec := root.Get("spec")
	if !spec.Exists() {
		return []byte("{}")
	}
	return spec.AppendJSON(nil)
}

// recentSpecs are the last specs that were read. Nobody can see from outside
// whether a spec was remembered or read.
type recentSpecs struct {
	mu   sync.Mutex
	all  [8]recentSpec
	next int
}

type recentSpec struct {
	sum  [sha256.Size]byte
	spec *apiextv1.CustomResourceDefinitionSpec
}

var recent recentSpecs

func (r *recentSpecs) get(text []byte) *apiextv1.CustomResourceDefinitionSpec {
	sum := sha256.Sum256(text)
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.all {
		if r.all[i].spec != nil && r.all[i].sum == sum {
			return r.all[i].spec
		}
	}
	return nil
}

// put remembers a copy of spec, which text is the text of.
func (r *recentSpecs) put(text []byte, spec *apiextv1.CustomResourceDefinitionSpec) {
	sum, kept := sha256.Sum256(text), *spec
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[r.next] = recentSpec{sum, &kept}
	r.next = (r.next + 1) % len(r.all)
}
