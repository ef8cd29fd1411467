package builtin

import (
	"bytes"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// This file is what both servers are asked about objects that say everything.

const yamlText = "application/yaml"

// full asks about objects of a kind in which every member is set.
func (r *run) full(s *subject, all shapes) {
	r.t.Helper()
	root := all.root(s)
	if root == nil {
		r.t.Errorf("%s: no schema", s.name)
		return
	}
	reach := map[string]bool{}
	all.reachable(root, s.Kind, reach)
	for name := range reach {
		r.reachable[name] = true
	}
	f := &filler{shapes: all, widest: 1}
	for f.turn = 0; f.turn < f.widest; f.turn++ {
		body := m{}
		for name, p := range root.Properties {
			body[name] = f.value(p, s.Kind+"."+name, 0)
		}
		fresh := false
		all.visit(root, body, func(name string) {
			fresh = fresh || !r.tried[name]
			r.tried[name] = true
		})
		if f.turn > 0 && !fresh {
			continue
		}
		r.turn(s, f, root, body)
	}
}

// turn asks about one such object.
func (r *run) turn(s *subject, f *filler, root *shape, body m) {
	r.t.Helper()
	x, ask, see := r.asker(s, f.turn)
	one := s.collection() + "/" + x
	status := body["status"]
	delete(body, "status")
	body = s.whole(x, body)
	if spec, ok := s.minimal["spec"].(m); ok && signed[s.name] {
		body["spec"] = clone(spec)
	}
	for at, v := range fixed[s.name] {
		set(body, at, v)
	}
	ok := r.settle(s.name, &request{method: "POST", path: s.collection() + "?dryRun=All"}, body)
	if !ok {
		return
	}
	f.visit(root, body, func(name string) { r.covered[name] = true })
	made := ask("create", "POST", s.collection(), body)
	if made[0].code >= 300 || made[1].code >= 300 {
		return
	}
	defer func() {
		r.peers[0].ask(&request{method: "PATCH", path: one, body: m{"metadata": m{"finalizers": nil}}, kind: mergePatch})
		r.peers[1].ask(&request{method: "PATCH", path: one, body: m{"metadata": m{"finalizers": nil}}, kind: mergePatch})
		ask("delete", "DELETE", one, m{"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
	}()
	r.reads(see, one)
	if f.turn == 0 {
		r.writes(s, f, root, body, ask, see)
	}
	if status != nil {
		r.statuses(s, f, root, status.(m), ask, see)
	}
}

// writes asks about all that can become of an object.
func (r *run) writes(s *subject, f *filler, root *shape, body m, ask asking, see seeing) {
	r.t.Helper()
	x := s.named(5)
	one := s.collection() + "/" + x
	if text, err := protobufOf(body); err != nil {
		r.t.Errorf("%s: as protobuf: %v", s.name, err)
	} else {
		delete(body["metadata"].(m), "name")
		ask("create by protobuf", "POST", s.collection()+"?dryRun=All", text, asProtobuf)
		body["metadata"].(m)["name"] = x
	}
	r.changes(s, f, root, body, ask)
	for _, patch := range f.directives(root, body) {
		ask("directive", "PATCH", one+"?dryRun=All", patch, strategic)
	}
	r.applies(s, f, root, body, ask, see)
}

// changes asks what becomes of changes of each member of a body.
func (r *run) changes(s *subject, f *filler, root *shape, body m, ask asking) {
	r.t.Helper()
	one := s.collection() + "/" + body["metadata"].(m)["name"].(string)
	ask("put again", "PUT", one, body)
	for _, at := range f.tops(root, s.Kind, body) {
		changed := clone(body)
		f.change(changed, at)
		ask("put "+at.pointer, "PUT", one+"?dryRun=All", changed)
		ask("take "+at.pointer, "PATCH", one+"?dryRun=All", []m{{"op": "remove", "path": at.pointer}}, jsonPatch)
	}
}

// top is a member of an object, or of its spec.
type top struct {
	pointer, member string
	*shape
}

// change gives a member of a body another value.
func (f *filler) change(body m, at top) {
	switch at.pointer {
	case "/template", "/spec/template": // too much in it depends on the rest
		set(body, at.pointer+"/spec/containers/0/image", "changed")
	case "/spec/jobTemplate":
		set(body, at.pointer+"/spec/template/spec/containers/0/image", "changed")
	default:
		set(body, at.pointer, f.value(at.shape, at.member, 1))
	}
}

// tops are the members of an object and of its spec, or of its status.
func (f *filler) tops(root *shape, kind string, body m) []top {
	var out []top
	for _, name := range slices.Sorted(maps.Keys(body)) {
		p := root.Properties[name]
		if name == "metadata" || p == nil || name == "apiVersion" || name == "kind" {
			continue
		}
		at, named := f.resolve(p)
		inner, ok := body[name].(m)
		if name != "spec" && name != "status" || !ok || at.Properties == nil {
			out = append(out, top{"/" + name, kind + "." + name, p})
			continue
		}
		for _, member := range slices.Sorted(maps.Keys(inner)) {
			if own := at.Properties[member]; own != nil {
				out = append(out, top{"/" + name + "/" + member, named + "." + member, own})
			}
		}
	}
	return out
}

// applies asks what two managers get who apply a body, and parts of it.
func (r *run) applies(s *subject, f *filler, root *shape, body m, ask asking, see seeing) {
	r.t.Helper()
	one := s.collection() + "/" + body["metadata"].(m)["name"].(string)
	ask("apply", "PATCH", one+"?fieldManager=a&force=true", body, applyPatch)
	half, other := clone(body), clone(body)
	for i, at := range f.tops(root, s.Kind, body) {
		if i%2 == 0 {
			set(half, at.pointer, nil)
			f.change(other, at)
		}
	}
	other["metadata"] = m{"labels": m{"a": "c"}}
	ask("apply conflict", "PATCH", one+"?fieldManager=b", other, applyPatch)
	if got := ask("apply by another", "PATCH", one+"?fieldManager=b&force=true", other, applyPatch); got[0].code != got[1].code {
		return
	}
	ask("apply half", "PATCH", one+"?fieldManager=a&force=true&dryRun=All", half, applyPatch)
	ask("apply back", "PATCH", one+"?fieldManager=a&force=true", body, applyPatch)
	ask("apply nothing", "PATCH", one+"?fieldManager=b&force=true", m{"apiVersion": body["apiVersion"], "kind": s.Kind}, applyPatch)
	see("get applied", one, "")
}

// statuses asks about the status of an object in which every member is set.
func (r *run) statuses(s *subject, f *filler, root *shape, status m, ask asking, see seeing) {
	r.t.Helper()
	if !slices.ContainsFunc(s.resources, func(res metav1.APIResource) bool { return res.Name == s.Name()+"/status" }) {
		return
	}
	x := s.named(5)
	one := s.collection() + "/" + x
	var live m
	r.read(0, one, &live)
	delete(live, "metadata")
	body := s.whole(x, live)
	body["status"] = clone(status)
	part := m{"status": body["status"]}
	if !r.settle(s.name+" status", &request{method: "PATCH", path: one + "/status?dryRun=All", kind: mergePatch}, part) {
		return
	}
	f.visit(root, body, func(name string) { r.covered[name] = true })
	body["metadata"] = m{"name": x}
	if got := ask("put status", "PUT", one+"/status", body); got[0].code >= 300 { // without a version
		ask("merge status", "PATCH", one+"/status", part, mergePatch)
	}
	r.reads(see, one)
	if f.turn > 0 {
		return
	}
	for _, at := range f.tops(root, s.Kind, part) {
		changed := clone(body)
		f.change(changed, at)
		ask("put "+at.pointer, "PUT", one+"/status?dryRun=All", changed)
		ask("take "+at.pointer, "PATCH", one+"/status?dryRun=All", []m{{"op": "remove", "path": at.pointer}}, jsonPatch)
	}
	for _, patch := range f.directives(root, part) {
		ask("status directive", "PATCH", one+"/status?dryRun=All", patch, strategic)
	}
	own := m{"apiVersion": body["apiVersion"], "kind": s.Kind, "status": body["status"]}
	ask("apply status", "PATCH", one+"/status?fieldManager=a&force=true", own, applyPatch)
	ask("apply status by another", "PATCH", one+"/status?fieldManager=b", own, applyPatch)
	ask("apply status no more", "PATCH", one+"/status?fieldManager=a", m{"apiVersion": body["apiVersion"], "kind": s.Kind}, applyPatch)
	ask("put whole with status", "PUT", one+"?dryRun=All", body)
}

// How both servers are asked, and what they have.
type (
	asking func(step, method, path string, body any, types ...string) [2]*answer
	seeing func(step, path, accept string)
)

// asker returns the name of the object of a turn, and the functions that send requests about it to both servers.
func (r *run) asker(s *subject, turn int) (name string, ask asking, see seeing) {
	prefix := "full "
	name = s.named(5)
	ask = func(step, method, path string, body any, types ...string) [2]*answer {
		r.t.Helper()
		q := &request{method: method, path: path, body: body}
		if len(types) > 0 {
			q.kind = types[0]
		}
		return r.ask(s.name, prefix+step, q)
	}
	see = func(step, path, accept string) {
		r.t.Helper()
		r.ask(s.name, prefix+step, &request{method: "GET", path: path, accept: accept})
	}
	return name, ask, see
}

// whole is an object of a name.
func (s *subject) whole(name string, body m) m {
	o := clone(body)
	o["apiVersion"], o["kind"] = s.GroupVersion.String(), s.Kind
	o["metadata"] = m{"name": name, "labels": m{"a": "b"}, "annotations": m{"c": "d"}}
	return o
}

// reads asks for an object in all forms.
func (r *run) reads(see seeing, path string) {
	r.t.Helper()
	see("get", path, "")
	see("get as yaml", path, yamlText)
	see("get as protobuf", path, asProtobuf)
	see("get as table", path, asTable)
	see("get as partial", path, asPartial)
}

// protobufOf is an object as protobuf.
func protobufOf(body m) ([]byte, error) {
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(print(body)), nil, nil)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = protobufs.Encode(obj, &b)
	return b.Bytes(), err
}
