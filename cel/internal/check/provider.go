package check

import (
	"maps"
	"strconv"
	"sync"

	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/keelson-io/keelson/cel/internal/val"
)

// This file gives cel-go's checker the types of schemas. Two objects at different places have
// different types, even if their members are equal. The types of rules have names that rules cannot
// write, so that they cannot depend on them. Errors show upstream's names instead: the type of the
// root, and the path within it.

// Provider gives cel-go the types of schemas. It is safe for concurrent use.
type Provider struct {
	types.Provider
	keywords bool

	mu  sync.RWMutex
	cel map[*val.Type]*types.Type
	// objects has the object types by their generated names.
	objects map[string]*val.Type
	Named   map[string]map[string]*types.Type // members of the objects that a host declared; not changed
	Patches bool                              // literals of patches are permitted
}

// NewProvider returns a Provider with the types of the declarations only.
func NewProvider(e *Declarations) *Provider {
	return &Provider{Provider: e.Base.CELTypeProvider(), keywords: e.keywords, cel: map[*val.Type]*types.Type{}, objects: map[string]*val.Type{}}
}

// Inherit adds the types that from has.
func (p *Provider) Inherit(from *Provider) {
	if from == nil {
		return
	}
	from.mu.RLock()
	defer from.mu.RUnlock()
	maps.Copy(p.cel, from.cel)
	maps.Copy(p.objects, from.objects)
}

// forget removes the types of schemas, which are added again if needed.
func (p *Provider) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.cel)
	clear(p.objects)
}

// NewVariable declares a variable.
func NewVariable(name string, t *types.Type) *decls.VariableDecl { return decls.NewVariable(name, t) }

// add adds t and the types below, and returns the checker's type. An object without a name gets a
// number.
func (p *Provider) add(t *val.Type, name string) *types.Type {
	if t == nil {
		return nil
	}
	if known, ok := p.cel[t]; ok {
		return known
	}
	var out *types.Type
	switch t.Kind {
	case val.Bool:
		out = types.BoolType
	case val.Int:
		out = types.IntType
	case val.Double:
		out = types.DoubleType
	case val.String:
		out = types.StringType
	case val.Bytes:
		out = types.BytesType
	case val.Timestamp:
		out = types.TimestampType
	case val.Duration:
		out = types.DurationType
	case val.List:
		out = types.NewListType(p.add(t.Elem, within(name, "@idx")))
	case val.Map:
		out = types.NewMapType(types.StringType, p.add(t.Elem, within(name, "@elem")))
	case val.Object:
		named := name != ""
		if !named {
			name = "object " + strconv.Itoa(len(p.objects)+1)
		}
		out = types.NewObjectType(name)
		p.objects[name] = t
		// Set before the members are added, because a member may refer to the object.
		p.cel[t] = out
		for i := range t.Fields {
			member := ""
			if named {
				member, _ = val.Escape(t.Fields[i].Name)
				member = within(name, member)
			}
			p.add(t.Fields[i].Type, member)
		}
	default:
		out = types.DynType
	}
	p.cel[t] = out
	return out
}

// within returns the name of a type within the type with that name, "" if that has none.
func within(name, member string) string {
	if name == "" {
		return ""
	}
	return name + "." + member
}

// CelType returns the checker's type of t, whose object types have names that rules cannot write.
func (p *Provider) CelType(t *val.Type) *types.Type {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.add(t, "")
}

// NamedType is CelType with upstream's names: the root is called prefix and a number, in place of
// which upstream has the time, and an object within it is called by its path. A type that was added
// before keeps its names.
func (p *Provider) NamedType(t *val.Type, prefix string) *types.Type {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := prefix + "1"
	for n := 2; p.objects[name] != nil; n++ {
		name = prefix + strconv.Itoa(n)
	}
	return p.add(t, name)
}

// FindStructType finds an object type by its name.
func (p *Provider) FindStructType(name string) (*types.Type, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if t, ok := p.objects[name]; ok {
		return types.NewTypeTypeWithParam(p.cel[t]), true
	}
	if _, ok := p.Named[name]; ok || p.Patches && val.IsPatchType(name) {
		return types.NewTypeTypeWithParam(types.NewObjectType(name)), true
	}
	return p.Provider.FindStructType(name)
}

// FindStructFieldType finds the type of a member.
func (p *Provider) FindStructFieldType(object, field string) (*types.FieldType, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if fields, ok := p.Named[object]; ok {
		if t, ok := fields[field]; ok {
			return &types.FieldType{Type: t}, true
		}
		return nil, false
	}
	if p.Patches && val.IsPatchType(object) {
		if t, ok := val.PatchField(object, field); ok {
			return &types.FieldType{Type: t}, true
		}
		return nil, false
	}
	t, ok := p.objects[object]
	if !ok {
		return p.Provider.FindStructFieldType(object, field)
	}
	name, ok := p.memberName(field)
	if !ok {
		return nil, false
	}
	f := t.Field(name)
	if f == nil || f.Type == nil {
		return nil, false
	}
	return &types.FieldType{Type: p.cel[f.Type]}, true
}

// memberName returns the member to which a rule refers by field. Only one spelling of a name is
// valid, except that a reserved word may be written without escaping.
func (p *Provider) memberName(field string) (string, bool) {
	if val.Reserved[field] {
		return field, p.keywords
	}
	name, ok := val.Unescape(field)
	if !ok {
		return "", false
	}
	escaped, ok := val.Escape(name)
	return name, ok && escaped == field
}

// FindStructFieldNames returns nothing: members are looked up one by one.
func (p *Provider) FindStructFieldNames(string) ([]string, bool) { return []string{}, false }

// NewValue fails for objects of schemas: the evaluator makes objects itself.
func (p *Provider) NewValue(name string, fields map[string]ref.Val) ref.Val {
	return p.Provider.NewValue(name, fields)
}
