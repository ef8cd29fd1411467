package apply

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/merge"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file follows creates, updates and patches.

const (
	maxUpdaters  = 10 // entries of updates beyond these are merged into ancientName's
	ancientName  = "ancient-changes"
	beforeName   = "before-first-apply"
	thisUpdate   = "current-operation" // not an identifier: identifiers are JSON
	kubectlName  = "kubectl"
	lastApplied  = "kubectl.kubernetes.io/last-applied-configuration"
	maxAnnotated = 256 * (1 << 10)
)

// Update sets metadata.managedFields of new, which is about to replace live;
// live is nil on create. An object that does not fit its schema is not tracked:
// it keeps live's managedFields, and the write goes on. So the error is about
// o, or about objects that take too long to track.
func (m *Manager) Update(live, new *jsondoc.Doc, o Options) error {
	if len(o.Manager) > maxName {
		return fmt.Errorf("manager name of %d bytes: want at most %d", len(o.Manager), maxName)
	}
	if kind := new.Root().Get("kind").Text(); live != nil && kind != "" && kind != m.gvk.Kind { // the kind decides the type of the fields
		keepManaged(live, new)
		return nil
	}
	if m.updateDirect(live, new, &o) {
		return nil
	}
	if err := m.checkWork(live, new); err != nil {
		return err
	}
	m.updatePlain(live, new, &o)
	return nil
}

// updatePlain is Update by way of SMD.
func (m *Manager) updatePlain(live, new *jsondoc.Doc, o *Options) {
	entries, err := m.update(live, new, o)
	if err == nil {
		err = writeManaged(new, entries)
	}
	if err != nil {
		keepManaged(live, new)
	}
}

// keepManaged gives new the managedFields of live.
func keepManaged(live, new *jsondoc.Doc) {
	if v := managedFieldsOf(live); v.Exists() {
		new.Set(new.Import(v), "metadata", "managedFields")
		return
	}
	new.Remove("metadata", "managedFields")
}

// update computes the entries of new.
func (m *Manager) update(live, new *jsondoc.Doc, o *Options) ([]metav1.ManagedFieldsEntry, error) {
	mf := liveOrNew(live, new, o.Subresource != "")
	new.Remove("metadata", "managedFields")
	if len(mf.sets) == 0 && uidOf(live) != "" {
		return nil, nil // nobody was tracked so far: that begins with the first apply
	}
	mf, err := m.track(m.liveValue(live), node{new.Root()}, mf, m.identify(o, metav1.ManagedFieldsOperationUpdate), o)
	if err != nil {
		return nil, err
	}
	mf.capUpdaters()
	return mf.entries()
}

// liveOrNew returns the managedFields that an update starts from: those that the
// client sent if it sent any that make sense, else those of the live object. A
// subresource's clients do not get to send them.
func liveOrNew(live, new *jsondoc.Doc, ofLive bool) *managed {
	if !ofLive {
		sent := managedFieldsOf(new)
		if isReset(sent) {
			return newManaged(1)
		}
		if mf, err := decodeManaged(sent); err == nil && len(mf.sets) > 0 {
			return mf
		}
	}
	if mf, err := decodeManaged(managedFieldsOf(live)); err == nil {
		return mf
	}
	return newManaged(1)
}

// uidOf returns the uid of an object, "" for none.
func uidOf(d *jsondoc.Doc) string {
	if d == nil {
		return ""
	}
	return d.Root().At("metadata", "uid").Text()
}

// liveValue returns the live object. Before an object is created, this is one with apiVersion and
// kind only.
func (m *Manager) liveValue(live *jsondoc.Doc) value.Value {
	if live != nil && live.Root().Kind() == jsondoc.Object {
		return node{live.Root()}
	}
	if m.empty != nil {
		return node{m.empty.Root()}
	}
	return value.NewValueInterface(map[string]any{"apiVersion": string(m.version), "kind": m.gvk.Kind})
}

// track makes manager id the owner of the fields that changed between live and new, and removes
// them from the others.
func (m *Manager) track(live, new value.Value, mf *managed, id string, o *Options) (*managed, error) {
	newTyped, err := m.typed(new, typed.AllowDuplicates)
	if err != nil {
		return nil, fmt.Errorf("failed to convert new object (%s) to smd typed: %v", m.describe(new), err)
	}
	liveTyped, err := m.typed(live, typed.AllowDuplicates)
	if err != nil {
		return nil, fmt.Errorf("failed to convert live object (%s) to smd typed: %v", m.describe(live), err)
	}
	if err := m.checkVersions(mf); err != nil {
		return nil, err
	}
	u := m.updater(o.Subresource)
	_, sets, err := u.Update(liveTyped, newTyped, m.version, mf.sets, thisUpdate)
	if err != nil {
		return nil, err
	}
	mf.sets = sets
	strip(mf.sets, thisUpdate)
	mf.assign(id, o.now())
	return mf, nil
}

// assign adds the fields of the current update to those of manager id.
func (mf *managed) assign(id string, now time.Time) {
	vs, ok := mf.sets[thisUpdate]
	if !ok {
		return
	}
	delete(mf.sets, thisUpdate)
	if before, ok := mf.sets[id]; ok {
		vs = fieldpath.NewVersionedSet(vs.Set().Union(before.Set()), vs.APIVersion(), vs.Applied())
	}
	mf.sets[id] = vs
	mf.times[id] = &metav1.Time{Time: now}
}

// typed is v with the type of the Manager's version.
func (m *Manager) typed(v value.Value, o ...typed.ValidationOptions) (*typed.TypedValue, error) {
	return typed.AsTyped(v, m.own.smd(), m.own.ref, o...)
}

// updater is SMD's updater for an endpoint.
func (m *Manager) updater(subresource string) *merge.Updater {
	b := merge.UpdaterBuilder{Converter: converter{m}, IgnoreFilter: m.ignore[subresource]}
	return b.BuildUpdater()
}

// converter turns objects into other versions, for the entries that were
// written in those. Versions differ only in apiVersion unless there is
// a converter.
type converter struct{ m *Manager }

// errNoVersion is a version that the kind does not have.
var errNoVersion = errors.New("no such version")

// IsMissingVersionError reports whether entries of the version that could not be converted to are dropped.
func (c converter) IsMissingVersionError(err error) bool { return errors.Is(err, errNoVersion) }

// checkVersions returns an error if a manager wrote in a version that the kind no longer has, unless
// such entries are dropped.
// SMD would find that itself, but for any of several versions.
func (m *Manager) checkVersions(mf *managed) error {
	if m.dropLost {
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(mf.sets)) {
		gv, err := schema.ParseGroupVersion(string(mf.sets[id].APIVersion()))
		if err != nil {
			return err
		}
		if m.types[fieldpath.APIVersion(gv.String())] == nil {
			return fmt.Errorf("request to convert CR to an invalid group/version: %s", gv)
		}
	}
	return nil
}

// Convert implements merge.Converter.
func (c converter) Convert(v *typed.TypedValue, version fieldpath.APIVersion) (*typed.TypedValue, error) {
	gv, err := schema.ParseGroupVersion(string(version))
	if err != nil {
		return v, err
	}
	version = fieldpath.APIVersion(gv.String()) // which may have been written as /v1
	if apiVersionOf(v.AsValue()) == string(version) {
		return v, nil
	}
	t, ok := c.m.types[version]
	if !ok {
		return v, fmt.Errorf("version %q: %w", version, errNoVersion)
	}
	object, ok := v.AsValue().Unstructured().(map[string]any)
	if !ok {
		return v, fmt.Errorf("object is no JSON object but %T", v.AsValue().Unstructured())
	}
	if c.m.convert != nil {
		return c.ask(object, version, t)
	}
	converted := make(map[string]any, len(object))
	for name, member := range object {
		converted[name] = member
	}
	converted["apiVersion"] = string(version)
	return typed.AsTyped(value.NewValueInterface(converted), t.smd(), t.ref)
}

// ask lets the kind's converter convert an object. Objects that have nothing
// but their type are what SMD begins with; nobody is asked about those.
func (c converter) ask(object map[string]any, version fieldpath.APIVersion, t *objectType) (*typed.TypedValue, error) {
	if len(object) <= 2 {
		return typed.AsTyped(value.NewValueInterface(map[string]any{"apiVersion": string(version), "kind": object["kind"]}), t.smd(), t.ref)
	}
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	gv, err := schema.ParseGroupVersion(string(version))
	if err != nil {
		return nil, err
	}
	if text, err = c.m.convert(text, gv.Version); err != nil {
		return nil, err
	}
	d := new(jsondoc.Doc) // the value goes on to live in it
	if err := jsondoc.Parse(d, text); err != nil {
		return nil, err
	}
	return typed.AsTyped(node{d.Root()}, t.smd(), t.ref)
}

// apiVersionOf returns the apiVersion of an object, "" for none.
func apiVersionOf(v value.Value) string {
	if v == nil || !v.IsMap() {
		return ""
	}
	if s, ok := v.AsMap().Get("apiVersion"); ok && s.IsString() {
		return s.AsString()
	}
	return ""
}

// strip removes the fields that nobody owns from those of manager id: the part of metadata that the
// server sets, and the fields that identify the object.
func strip(sets fieldpath.ManagedFields, id string) {
	vs, ok := sets[id]
	if !ok {
		return
	}
	rest := vs.Set().Difference(unowned)
	if rest.Empty() {
		delete(sets, id)
		return
	}
	sets[id] = fieldpath.NewVersionedSet(rest, vs.APIVersion(), vs.Applied())
}

// unownedMetadata are the members of metadata that nobody owns.
var unownedMetadata = []string{
	"clusterName", "creationTimestamp", "generation", "managedFields", "name", "namespace",
	"resourceVersion", "selfLink", "uid",
}

var unowned = func() *fieldpath.Set {
	s := fieldpath.NewSet(
		fieldpath.MakePathOrDie("apiVersion"),
		fieldpath.MakePathOrDie("kind"),
		fieldpath.MakePathOrDie("metadata"),
	)
	for _, name := range unownedMetadata {
		s.Insert(fieldpath.MakePathOrDie("metadata", name))
	}
	return s
}()

// capUpdaters merges the oldest entries of updates into one entry for each
// version until there are at most maxUpdaters.
func (mf *managed) capUpdaters() {
	var updaters []string
	for id, vs := range mf.sets {
		if !vs.Applied() {
			updaters = append(updaters, id)
		}
	}
	n := len(updaters)
	if n <= maxUpdaters {
		return
	}
	slices.SortFunc(updaters, func(a, b string) int {
		return cmp.Or(cmp.Compare(seconds(mf.times[a]), seconds(mf.times[b])), cmp.Compare(a, b))
	})
	first := make(map[fieldpath.APIVersion]string)
	for _, id := range updaters {
		if n <= maxUpdaters {
			return
		}
		vs := mf.sets[id]
		oldest, seen := first[vs.APIVersion()]
		if !seen {
			first[vs.APIVersion()] = id
			continue
		}
		mf.merge(id, oldest)
		n--
	}
}

// merge moves the fields of updater id into the entry of ancient changes, which
// begins as what updater oldest has.
func (mf *managed) merge(id, oldest string) {
	vs := mf.sets[id]
	bucket := identifier(&metav1.ManagedFieldsEntry{
		Manager: ancientName, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: string(vs.APIVersion()),
	})
	if _, ok := mf.sets[bucket]; !ok {
		mf.sets[bucket] = mf.sets[oldest]
		delete(mf.sets, oldest)
	}
	mf.sets[bucket] = fieldpath.NewVersionedSet(vs.Set().Union(mf.sets[bucket].Set()), vs.APIVersion(), vs.Applied())
	delete(mf.sets, id)
	mf.times[bucket] = mf.times[id] // the younger of the two
}
