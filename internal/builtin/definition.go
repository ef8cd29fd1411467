package builtin

import (
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/keelson-io/keelson/schema/structural"
)

// This file reads definitions and makes structural schemas of them.

//go:embed definitions/*.json
var files embed.FS

// library caches the definitions that were read, and the schemas made from them.
type library struct {
	mu    sync.Mutex
	files map[string]map[string]*definition // by package, by name in the package
	made  map[schemaKey]*structural.Schema
}

// schemaKey names a schema. Lists are told apart by their keys when objects are
// merged and not when they are checked: Kubernetes accepts, say, two variables
// of one name.
type schemaKey struct {
	name  string
	merge bool
}

// definition is a schema in the files.
type definition struct {
	Type       string
	Format     string
	Default    json.RawMessage
	Enum       []string
	Required   []string
	Properties map[string]*definition
	Items      *definition
	Values     *definition `json:"additionalProperties"`
	Ref        string      `json:"$ref"`
	AllOf      []*definition
	ListType   string   `json:"x-kubernetes-list-type"`
	MapKeys    []string `json:"x-kubernetes-list-map-keys"`
	MapType    string   `json:"x-kubernetes-map-type"`
}

const (
	refPrefix  = "#/components/schemas/"
	apiPrefix  = "io.k8s.api."
	metaPrefix = "io.k8s.apimachinery.pkg.apis.meta.v1."
)

// open reads the definitions of a package into v.
func open(pkg string, v any) error {
	text, err := files.ReadFile("definitions/" + pkg + ".json")
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return fmt.Errorf("definitions of %s: %w", pkg, err)
	}
	return nil
}

// cut takes the name of a definition apart.
func cut(name string) (pkg, base string) {
	at := strings.LastIndexByte(name, '.')
	return name[:at], name[at+1:]
}

// definition returns the definition of that name. The files, which are part of the program, have
// every name that the program asks for.
func (l *library) definition(name string) *definition {
	pkg, base := cut(name)
	if l.files[pkg] == nil {
		var all map[string]*definition
		if err := open(pkg, &all); err != nil {
			panic("BUG: " + err.Error())
		}
		if l.files == nil {
			l.files = map[string]map[string]*definition{}
		}
		l.files[pkg] = all
	}
	d := l.files[pkg][base]
	if d == nil {
		panic("BUG: no definition " + name)
	}
	return d
}

// object returns the schema of a kind, whose metadata every resource has.
func (l *library) object(name string, merge bool) *structural.Schema {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := *l.schema(name, merge)
	s.Properties = maps.Clone(s.Properties)
	for _, member := range []string{"apiVersion", "kind", "metadata"} {
		delete(s.Properties, member)
	}
	s.Names = slices.Sorted(maps.Keys(s.Properties))
	return &s
}

// schema returns the structural schema of a definition.
func (l *library) schema(name string, merge bool) *structural.Schema {
	switch name {
	case metaPrefix + "ObjectMeta":
		if merge {
			return structural.ObjectMeta()
		}
	case "io.k8s.apimachinery.pkg.api.resource.Quantity":
		return &structural.Schema{Type: "string", Format: "quantity"}
	case "io.k8s.apimachinery.pkg.util.intstr.IntOrString":
		return &structural.Schema{IntOrString: true}
	case "io.k8s.apimachinery.pkg.runtime.RawExtension":
		s := &structural.Schema{Type: "object", Preserve: true}
		if merge {
			s.MapType = "atomic"
		}
		return s
	case metaPrefix + "Time", metaPrefix + "MicroTime":
		return &structural.Schema{Type: "string", Format: "date-time", Nullable: true}
	}
	key := schemaKey{name, merge}
	if s := l.made[key]; s != nil {
		return s
	}
	d := l.definition(name)
	s := l.node(d, strings.TrimPrefix(name, apiPrefix), merge)
	if l.made == nil {
		l.made = map[schemaKey]*structural.Schema{}
	}
	l.made[key] = s
	return s
}

// node returns the structural form of d, which is the definition named at, or what is
// below it.
func (l *library) node(d *definition, at string, merge bool) *structural.Schema {
	if ref := d.reference(); ref != "" {
		s := l.schema(ref, merge)
		c := *s
		if d.Default != nil {
			c.Default = d.Default
		}
		if d.MapType != "" { // what is said beside a reference counts more than what it refers to
			c.MapType = d.MapType
		}
		if string(c.Default) == string(s.Default) && c.MapType == s.MapType {
			return s
		}
		return &c
	}
	s := &structural.Schema{Type: d.Type, Format: d.Format, Default: d.Default, MapType: d.MapType}
	if !merge && d.Format == "byte" {
		s.Format = "" // the Go type has decoded it, and bytes may be empty, which the format refuses
	}
	if merge {
		s.ListType, s.ListMapKeys = d.ListType, d.MapKeys
	}
	if d.Items != nil {
		s.Items = l.node(d.Items, at, merge)
	}
	if d.Values != nil {
		s.Additional = l.node(d.Values, at, merge)
		if !merge && d.Values.Format == "byte" { // null stands for empty bytes, and keeps its key, as a null string does
			c := *s.Additional
			c.Default = []byte(`""`)
			s.Additional = &c
		}
	}
	if d.Type == "object" && d.Properties == nil && d.Values == nil {
		s.Preserve = true // of any shape, such as an embedded object
	}
	if len(d.Enum) > 0 && string(d.Default) != `""` && !merge && !enumsByHand[at] {
		s.Values = &structural.Values{}
		for _, e := range d.Enum {
			s.Values.Enum = append(s.Values.Enum, quote(e))
		}
	}
	if d.Properties == nil {
		return s
	}
	s.Properties = make(map[string]*structural.Schema, len(d.Properties))
	for name, p := range d.Properties {
		s.Properties[name] = l.member(d, p, at+"."+name, name, merge)
	}
	s.Names = slices.Sorted(maps.Keys(s.Properties))
	return s
}

// member returns the schema of a member of an object. One that is required in the
// published schema is one that is always printed: a list that is not there is
// printed as null.
func (l *library) member(in, d *definition, at, name string, merge bool) *structural.Schema {
	s := l.node(d, at, merge)
	if string(s.Default) == `""` && !slices.Contains(in.Required, name) && !printed[at] && !merge { // which is not printed
		c := *s
		c.Default = nil
		s = &c
	}
	if text, ok := defaults[at]; ok {
		c := *s
		if c.Default = []byte(text); text == "" {
			c.Default = nil
		}
		return &c
	}
	if (slices.Contains(in.Required, name) || printed[at]) && d.Default == nil && !s.Nullable {
		c := *s
		c.Nullable = true
		return &c
	}
	return s
}

// printed are members that are always printed although the published schema does not say so.
var printed = map[string]bool{
	"autoscaling.v2.HorizontalPodAutoscalerStatus.currentMetrics": true,
	"core.v1.GRPCAction.service":                                  true,
	"core.v1.ProjectedVolumeSource.sources":                       true,
	"core.v1.TypedLocalObjectReference.apiGroup":                  true,
	"core.v1.TypedObjectReference.apiGroup":                       true,
	"discovery.v1.EndpointSlice.endpoints":                        true,
	"discovery.v1.EndpointSlice.ports":                            true,
	"rbac.v1.ClusterRole.rules":                                   true,
	"rbac.v1.Role.rules":                                          true,
	"resource.v1.CapacityRequestPolicy.default":                   true,
	"resource.v1.DeviceClaim.requests":                            true,
	"storage.v1.CSINodeDriver.topologyKeys":                       true,
}

// reference returns the name of the definition that d refers to, "" if it is one
// itself.
func (d *definition) reference() string {
	ref := d.Ref
	if ref == "" && len(d.AllOf) == 1 {
		ref = d.AllOf[0].Ref
	}
	return strings.TrimPrefix(ref, refPrefix)
}

func quote(s string) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		panic("BUG: " + err.Error()) // a string
	}
	return text
}
