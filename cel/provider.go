package cel

import (
	"maps"
	"strconv"
	"sync"

	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// This file shows a schema's types to cel-go's checker. An object type has a
// name that no rule can spell, so that rules cannot depend on it; two objects
// at different places are different types even if they look alike.

type provider struct {
	types.Provider
	keywords bool

	mu      sync.RWMutex
	cel     map[*Type]*types.Type
	objects map[string]*Type
	named   map[string]map[string]*types.Type // members of the objects that a host declared; not changed
	patches bool                              // there are literals of patches
}

func newProvider(e *Env) *provider {
	return &provider{Provider: e.base.CELTypeProvider(), keywords: e.keywords, cel: map[*Type]*types.Type{}, objects: map[string]*Type{}}
}

// inherit makes known what p's predecessor knows.
func (p *provider) inherit(from *provider) {
	if from == nil {
		return
	}
	from.mu.RLock()
	defer from.mu.RUnlock()
	maps.Copy(p.cel, from.cel)
	maps.Copy(p.objects, from.objects)
}

// forget makes room: the types that are needed again are added again.
func (p *provider) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.cel)
	clear(p.objects)
}

func newVariable(name string, t *types.Type) *decls.VariableDecl { return decls.NewVariable(name, t) }

// add makes t and the types below it known.
func (p *provider) add(t *Type) *types.Type {
	if t == nil {
		return nil
	}
	if known, ok := p.cel[t]; ok {
		return known
	}
	var out *types.Type
	switch t.Kind {
	case Bool:
		out = types.BoolType
	case Int:
		out = types.IntType
	case Double:
		out = types.DoubleType
	case String:
		out = types.StringType
	case Bytes:
		out = types.BytesType
	case Timestamp:
		out = types.TimestampType
	case Duration:
		out = types.DurationType
	case List:
		out = types.NewListType(p.add(t.Elem))
	case Map:
		out = types.NewMapType(types.StringType, p.add(t.Elem))
	case Object:
		name := "object " + strconv.Itoa(len(p.objects)+1)
		out = types.NewObjectType(name)
		p.objects[name] = t
		p.cel[t] = out
		for i := range t.Fields {
			p.add(t.Fields[i].Type)
		}
	default:
		out = types.DynType
	}
	p.cel[t] = out
	return out
}

// celType is the checker's type of t, which may be outside the tree that the
// set was made of.
func (p *provider) celType(t *Type) *types.Type {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.add(t)
}

func (p *provider) FindStructType(name string) (*types.Type, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if t, ok := p.objects[name]; ok {
		return types.NewTypeTypeWithParam(p.cel[t]), true
	}
	if _, ok := p.named[name]; ok || p.patches && isPatchType(name) {
		return types.NewTypeTypeWithParam(types.NewObjectType(name)), true
	}
	return p.Provider.FindStructType(name)
}

func (p *provider) FindStructFieldType(object, field string) (*types.FieldType, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if fields, ok := p.named[object]; ok {
		if t, ok := fields[field]; ok {
			return &types.FieldType{Type: t}, true
		}
		return nil, false
	}
	if p.patches && isPatchType(object) {
		if t, ok := patchField(object, field); ok {
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
	f := t.field(name)
	if f == nil || f.Type == nil {
		return nil, false
	}
	return &types.FieldType{Type: p.cel[f.Type]}, true
}

// memberName is the member that a rule calls field. Only one spelling is
// valid, except that a reserved word may stand for itself.
func (p *provider) memberName(field string) (string, bool) {
	if reserved[field] {
		return field, p.keywords
	}
	name, ok := Unescape(field)
	if !ok {
		return "", false
	}
	escaped, ok := Escape(name)
	return name, ok && escaped == field
}

func (p *provider) FindStructFieldNames(string) ([]string, bool) { return []string{}, false }

func (p *provider) NewValue(name string, fields map[string]ref.Val) ref.Val {
	return p.Provider.NewValue(name, fields)
}
