package coverage

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/internal/manifest"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file collects what the objects of cases reach.

// Recorder collects what the cases of suites reach. It is not safe for concurrent use.
type Recorder struct {
	all     []*definition
	current map[kschema.GroupKind]*definition // of the suite that runs
	sent    *jsondoc.Doc                      // the object of the case that runs
}

// New returns a Recorder.
func New() *Recorder {
	return &Recorder{current: map[kschema.GroupKind]*definition{}}
}

// definition is a CustomResourceDefinition.
type definition struct {
	doc      manifest.Document
	name     string
	versions []*version
}

// version is a served version of a definition.
type version struct {
	name    string
	base    string // the path of the schema in the definition
	index   int    // in spec.versions; -1 if all versions share the schema
	objects int
	cover   *schema.Coverage // nil if no case uses the version
	err     error            // why nothing can be recorded
}

// head has the fields of a definition that the Recorder needs.
type head struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		Group    string
		Names    struct{ Kind string }
		Version  string
		Versions []struct {
			Name   string
			Served bool
			Schema *struct{}
		}
	}
}

// Define says which definitions the objects of the following cases are of. Other documents are
// ignored.
func (r *Recorder) Define(docs []manifest.Document) {
	clear(r.current)
	for _, d := range docs {
		var h head
		if d.Err != nil || json.Unmarshal(d.JSON, &h) != nil || h.Kind != "CustomResourceDefinition" {
			continue
		}
		gk := kschema.GroupKind{Group: h.Spec.Group, Kind: h.Spec.Names.Kind}
		known := slices.IndexFunc(r.all, func(o *definition) bool {
			return o.doc.File == d.File && o.doc.Line == d.Line && o.name == h.Metadata.Name && string(o.doc.JSON) == string(d.JSON)
		})
		if known >= 0 {
			r.current[gk] = r.all[known]
			continue
		}
		def := &definition{doc: d, name: h.Metadata.Name}
		const shared = "spec.validation.openAPIV3Schema" // of v1beta1
		if len(h.Spec.Versions) == 0 {
			def.versions = append(def.versions, &version{name: h.Spec.Version, base: shared, index: -1})
		}
		for i, v := range h.Spec.Versions {
			base, index := shared, -1
			if v.Schema != nil {
				index = i
				base = fmt.Sprintf("spec.versions[%d].schema.openAPIV3Schema", i)
			}
			if v.Served {
				def.versions = append(def.versions, &version{name: v.Name, base: base, index: index})
			}
		}
		r.all = append(r.all, def)
		r.current[gk] = def
	}
}

// Begin says that a case begins. object is what the client sends, as JSON; nil if it sends nothing.
// It tells which defaults are filled in.
func (r *Recorder) Begin(object []byte) {
	r.sent = nil
	if object == nil {
		return
	}
	if d := new(jsondoc.Doc); jsondoc.Parse(d, object) == nil {
		r.sent = d
	}
}

// Validated collects what an object reaches that a server validated. Objects of other kinds than the
// definitions' are ignored.
func (r *Recorder) Validated(ctx context.Context, v *kind.Version, o schema.Validated) {
	def := r.current[v.Kind.GroupKind()]
	if def == nil {
		return
	}
	i := slices.IndexFunc(def.versions, func(w *version) bool { return w.name == v.Name })
	if i < 0 {
		return
	}
	w := def.versions[i]
	if w.cover == nil && w.err == nil {
		w.cover, w.err = v.Schema.NewCoverage()
	}
	if w.err != nil {
		return
	}
	w.objects++
	o.Sent = r.sent
	w.cover.Add(ctx, o)
}
