package match

import (
	"sync"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/cel"
)

// This file presents attributes to match conditions as the variable request.

// view holds attributes in the form of the variable request. It is kept as the attributes' Memo, so
// that all webhooks of a chain share it.
type view struct {
	vars                cel.Vars
	request             cel.Record
	groups              cel.Items
	extra               cel.Record
	values              []cel.Items // of extra
	attributes          cel.Record  // resourceAttributes or nonResourceAttributes
	hasFields, hasLabel bool        // whether the selectors have been filled in
}

var views = sync.Pool{New: func() any { return &view{vars: cel.Vars{}} }}

// The names of members, built once.
var (
	nameUser         = cel.StringValue("user")
	nameUID          = cel.StringValue("uid")
	nameGroups       = cel.StringValue("groups")
	nameExtra        = cel.StringValue("extra")
	nameResource     = cel.StringValue("resourceAttributes")
	nameNonResource  = cel.StringValue("nonResourceAttributes")
	namePath         = cel.StringValue("path")
	nameVerb         = cel.StringValue("verb")
	nameNamespace    = cel.StringValue("namespace")
	nameGroup        = cel.StringValue("group")
	nameVersion      = cel.StringValue("version")
	namePlural       = cel.StringValue("resource")
	nameSubresource  = cel.StringValue("subresource")
	nameName         = cel.StringValue("name")
	nameFields       = cel.StringValue("fieldSelector")
	nameLabels       = cel.StringValue("labelSelector")
	nameRequirements = cel.StringValue("requirements")
	nameKey          = cel.StringValue("key")
	nameOperator     = cel.StringValue("operator")
	nameValues       = cel.StringValue("values")
)

// of returns the view of attributes, with the selectors if fields or labels ask for them.
func of(a *authz.Attributes, fields, labels bool) *view {
	v, ok := a.Memo.(*view)
	if !ok {
		v = views.Get().(*view)
		v.show(a)
		a.Memo = v
	}
	if fields && !v.hasFields {
		v.hasFields = true
		v.showFields(a)
	}
	if labels && !v.hasLabel {
		v.hasLabel = true
		v.showLabels(a)
	}
	return v
}

// Release implements authz.Memo: it returns the view to its pool.
func (v *view) Release() {
	v.hasFields, v.hasLabel = false, false
	views.Put(v)
}

// show fills in everything but the selectors.
func (v *view) show(a *authz.Attributes) {
	v.request.Reset()
	v.groups.Reset()
	v.extra.Reset()
	v.attributes.Reset()
	for _, g := range a.User.Groups {
		v.groups.Add(cel.StringValue(g))
	}
	v.showExtra(a.User.Extra)
	v.request.Put(nameUser, cel.StringValue(a.User.Name))
	v.request.Put(nameGroups, v.groups.Value())
	v.request.Put(nameExtra, v.extra.Value())
	v.request.Put(nameUID, cel.StringValue(a.User.UID))
	at := &v.attributes
	if a.ResourceRequest {
		at.Put(nameNamespace, cel.StringValue(a.Namespace))
		at.Put(nameVerb, cel.StringValue(a.Verb))
		at.Put(nameGroup, cel.StringValue(a.Group))
		at.Put(nameVersion, cel.StringValue(a.Version))
		at.Put(namePlural, cel.StringValue(a.Resource))
		at.Put(nameSubresource, cel.StringValue(a.Subresource))
		at.Put(nameName, cel.StringValue(a.Name))
		v.request.Put(nameResource, at.Value())
	} else {
		at.Put(namePath, cel.StringValue(a.Path))
		at.Put(nameVerb, cel.StringValue(a.Verb))
		v.request.Put(nameNonResource, at.Value())
	}
	v.vars[cel.RequestVariable] = v.request.Value()
}

// showExtra fills in extra, with sorted keys.
func (v *view) showExtra(extra map[string][]string) {
	if len(extra) > len(v.values) {
		v.values = make([]cel.Items, len(extra))
	}
	i := 0
	for key, values := range extra {
		list := &v.values[i]
		i++
		list.Reset()
		for _, s := range values {
			list.Add(cel.StringValue(s))
		}
		v.extra.Put(cel.StringValue(key), list.Value())
	}
}

// showFields fills in the field selector, if a review can express it.
func (v *view) showFields(a *authz.Attributes) {
	if !a.ResourceRequest {
		return
	}
	list, _ := a.FieldRequirements()
	var all cel.Items
	for i := range list {
		all.Add(requirement(list[i].Key, string(list[i].Operator), list[i].Values))
	}
	v.showSelector(nameFields, &all)
}

// showLabels fills in the label selector, if a review can express it.
func (v *view) showLabels(a *authz.Attributes) {
	if !a.ResourceRequest {
		return
	}
	list, _ := a.LabelRequirements()
	var all cel.Items
	for i := range list {
		all.Add(requirement(list[i].Key, string(list[i].Operator), list[i].Values))
	}
	v.showSelector(nameLabels, &all)
}

// showSelector fills in a parsed selector under a name.
func (v *view) showSelector(name cel.Value, requirements *cel.Items) {
	if requirements.Len() == 0 {
		return
	}
	var selector cel.Record
	selector.Put(nameRequirements, requirements.Value())
	v.attributes.Put(name, selector.Value())
}

// requirement returns one requirement of a selector as a CEL record.
func requirement(key, operator string, values []string) cel.Value {
	var list cel.Items
	for _, s := range values {
		list.Add(cel.StringValue(s))
	}
	var r cel.Record
	r.Put(nameKey, cel.StringValue(key))
	r.Put(nameOperator, cel.StringValue(operator))
	r.Put(nameValues, list.Value())
	return r.Value()
}
