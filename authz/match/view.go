package match

import (
	"sync"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/cel"
)

// This file shows attributes to conditions.

// view is attributes as the variable request. It is kept with the attributes
// until they are decided about.
type view struct {
	vars                cel.Vars
	request             cel.Record
	groups              cel.Items
	extra               cel.Record
	values              []cel.Items // of extra
	attributes          cel.Record  // resourceAttributes or nonResourceAttributes
	hasFields, hasLabel bool        // the selectors are in it
}

var views = sync.Pool{New: func() any { return &view{vars: cel.Vars{}} }}

// The names of members.
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

// of is the view of attributes, with the selectors asked for.
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

// Release gives the view back.
func (v *view) Release() {
	v.hasFields, v.hasLabel = false, false
	views.Put(v)
}

// show fills in everything but selectors.
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

// showFields adds the field selector, if there is one that a review can say.
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

// showLabels adds the label selector, if there is one that a review can say.
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

func (v *view) showSelector(name cel.Value, requirements *cel.Items) {
	if requirements.Len() == 0 {
		return
	}
	var selector cel.Record
	selector.Put(nameRequirements, requirements.Value())
	v.attributes.Put(name, selector.Value())
}

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
