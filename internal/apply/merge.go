package apply

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/keelson-io/keelson/internal/fastpath"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/merge"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file merges apply patches.

// Apply merges an apply patch into live, which is nil if the object does not exist, and returns the
// JSON of the merged object with its managedFields. The object is not yet pruned, defaulted or
// validated. After that, [IgnoreTimestamps] reports whether anything changed. The errors have the
// messages that clients see.
func (m *Manager) Apply(live *jsondoc.Doc, patch []byte, o Options) ([]byte, error) {
	config, merged := jsondoc.Get(), jsondoc.Get()
	defer config.Release()
	defer merged.Release()
	if err := jsondoc.Parse(config, patch); err != nil {
		return nil, status.BadRequest("error decoding patch: %v", err)
	}
	out, err := m.ApplyDoc(live, config, merged, o)
	if err == nil && merged.Root().Exists() {
		out = merged.Root().AppendJSON(out[:0])
	}
	return out, err
}

// ApplyDoc is Apply for a patch that is parsed already, and is not changed. If the fast way was
// possible, the empty document merged becomes the whole object, and the returned JSON lacks its
// managedFields: they are often more than the rest of the object, and the caller need not print and
// parse them.
func (m *Manager) ApplyDoc(live, config, merged *jsondoc.Doc, o Options) ([]byte, error) {
	out, err := m.apply(live, config, merged, &o)
	var conflicts merge.Conflicts
	if errors.As(err, &conflicts) {
		err = conflictError(conflicts)
	}
	if err != nil {
		return nil, status.From(err)
	}
	return out, nil
}

// apply is Apply with a parsed patch. merged is the document for the result.
func (m *Manager) apply(live, config, merged *jsondoc.Doc, o *Options) ([]byte, error) {
	if err := m.checkConfig(config.Root()); err != nil {
		return nil, err
	}
	if fastpath.Direct.On() {
		if out, ok := m.applyDirect(live, config, merged, o); ok {
			return out, nil
		}
	}
	merged.Reset(nil)
	if err := m.checkWork(live, config); err != nil {
		return nil, err
	}
	return m.applyPlain(live, config, o)
}

// applyPlain is apply by way of SMD.
func (m *Manager) applyPlain(live, config *jsondoc.Doc, o *Options) ([]byte, error) {
	liveFields, err := decodeManaged(managedFieldsOf(live))
	if err != nil {
		return nil, fmt.Errorf("failed to decode managed fields: %v", err)
	}
	merged, mf, err := m.applyTracked(m.liveValue(live), config, liveFields, o)
	if err != nil {
		return nil, err
	}
	entries, err := mf.entries()
	if err != nil {
		return nil, fmt.Errorf("failed to encode managed fields: %v", err)
	}
	out := printer{entries: entries}
	if o.Manager == kubectlName && hasLastApplied(merged) {
		out.annotation = nextLastApplied(config.Root())
	}
	return out.print(merged)
}

// checkConfig checks the apiVersion and the kind of an apply patch.
func (m *Manager) checkConfig(v jsondoc.Value) error {
	gvk := schema.FromAPIVersionAndKind(v.Get("apiVersion").Text(), v.Get("kind").Text())
	if gvk != m.gvk {
		return apierrors.NewBadRequest(fmt.Sprintf("invalid object type: %v", gvk))
	}
	if v.At("metadata", "managedFields").Kind() == jsondoc.Array {
		return apierrors.NewBadRequest("metadata.managedFields must be nil")
	}
	return nil
}

// applyTracked merges and, for kubectl alone, lets fields change hands that it
// owned through client-side apply until now.
func (m *Manager) applyTracked(live value.Value, config *jsondoc.Doc, mf *managed, o *Options) (value.Value, *managed, error) {
	merged, out, err := m.applyOnce(live, config, mf.copy(), o)
	var conflicts merge.Conflicts
	if o.Manager != kubectlName || !errors.As(err, &conflicts) {
		return merged, out, err
	}
	left, ok := m.conflictsBeyondLastApplied(live, conflicts)
	if !ok {
		return nil, nil, err
	}
	if len(left) > 0 {
		return nil, nil, left
	}
	forced := *o
	forced.Force = true
	return m.applyOnce(live, config, mf.copy(), &forced)
}

// copy returns a copy whose entries may be replaced; sets are never changed in place.
func (mf *managed) copy() *managed {
	out := newManaged(len(mf.sets))
	for id, vs := range mf.sets {
		out.sets[id] = vs
		out.times[id] = mf.times[id]
	}
	return out
}

// applyOnce merges the patch with structured-merge-diff and returns the new object and its
// managedFields.
func (m *Manager) applyOnce(live value.Value, config *jsondoc.Doc, mf *managed, o *Options) (value.Value, *managed, error) {
	if len(mf.sets) == 0 {
		var err error
		if mf, err = m.beforeFirst(live, mf, o); err != nil {
			return nil, nil, fmt.Errorf("failed to create manager for existing fields: %v", err)
		}
	}
	configTyped, err := m.typed(node{config.Root()})
	if err != nil {
		return nil, nil, fmt.Errorf("failed to create typed patch object (%v): %v", m.describe(node{config.Root()}), err)
	}
	bare := withoutManaged(live)
	liveTyped, err := m.typed(bare, typed.AllowDuplicates)
	if err != nil {
		return nil, nil, fmt.Errorf("failed to create typed live object (%v): %v", m.describe(live), err)
	}
	if err := m.checkVersions(mf); err != nil {
		return nil, nil, err
	}
	id := m.identify(o, metav1.ManagedFieldsOperationApply)
	merged, sets, err := m.updater(o.Subresource).Apply(liveTyped, configTyped, m.version, mf.sets, id, o.Force)
	if err != nil {
		return nil, nil, err
	}
	mf.sets = sets
	strip(mf.sets, id)
	if merged == nil {
		return bare, mf, nil // nothing changed, and no time either
	}
	mf.times[id] = &metav1.Time{Time: o.now()}
	return merged.AsValue(), mf, nil
}

// beforeFirst gives what there is before anything is tracked to a manager of
// its own.
func (m *Manager) beforeFirst(live value.Value, mf *managed, o *Options) (*managed, error) {
	nothing := m.liveValue(nil)
	id := identifier(&metav1.ManagedFieldsEntry{
		Manager: beforeName, Operation: metav1.ManagedFieldsOperationUpdate,
		APIVersion: string(m.version), Subresource: o.Subresource,
	})
	mf, err := m.track(nothing, live, mf, id, o)
	if err != nil {
		return nil, err
	}
	mf.capUpdaters()
	return mf, nil
}

// withoutManaged returns an object without its managedFields.
func withoutManaged(v value.Value) value.Value {
	n, ok := v.(node)
	if !ok || !n.At("metadata", "managedFields").Exists() {
		return v
	}
	d := new(jsondoc.Doc)
	d.Reset(n.Doc.Shapes())
	d.SetRoot(d.Import(n.Value))
	d.Remove("metadata", "managedFields")
	return node{d.Root()}
}

// describe names an object in errors.
func (m *Manager) describe(v value.Value) string {
	return fmt.Sprintf("%v/%v; %v", memberText(v, "metadata", "namespace"), memberText(v, "metadata", "name"), m.gvk)
}

// maxConflictText is how many bytes of managers and paths of conflicts are listed. Every conflict is listed twice, as a cause and
// in the message, which end up in the client's terminal and in the audit log.
const maxConflictText = 256 << 10

// conflictError returns what clients see of conflicts.
func conflictError(conflicts merge.Conflicts) error {
	sortConflicts(conflicts)
	paths := make([]string, 0, min(len(conflicts), 64))
	causes := make([]metav1.StatusCause, 0, min(len(conflicts), 64))
	manager, size := "", 0
	for i, c := range conflicts {
		if i == 0 || c.Manager != conflicts[i-1].Manager {
			manager = "conflict with " + printManager(c.Manager)
		}
		path := c.Path.String()
		if size += len(manager) + len(path); i > 0 && size > maxConflictText {
			break
		}
		paths = append(paths, path)
		causes = append(causes, metav1.StatusCause{Type: metav1.CauseTypeFieldManagerConflict, Message: manager, Field: path})
	}
	return apierrors.NewApplyConflict(causes, conflictMessage(conflicts, paths))
}

// conflictMessage returns the message about conflicts, of which the first are listed with their paths.
func conflictMessage(conflicts merge.Conflicts, paths []string) string {
	if len(conflicts) == 1 {
		return fmt.Sprintf("Apply failed with 1 conflict: conflict with %s: %s", printManager(conflicts[0].Manager), paths[0])
	}
	text := fmt.Appendf(nil, "Apply failed with %d conflicts: ", len(conflicts))
	for i, path := range paths {
		if c := conflicts[i]; i == 0 || c.Manager != conflicts[i-1].Manager {
			if i > 0 {
				text = append(text, '\n')
			}
			text = fmt.Appendf(text, "conflicts with %s:", printManager(c.Manager))
		}
		text = fmt.Appendf(text, "\n- %s", path)
	}
	if more := len(conflicts) - len(paths); more > 0 {
		text = fmt.Appendf(text, "\nand %d more", more)
	}
	return string(text)
}

// printManager returns the description of a manager in messages, from its identifier.
func printManager(id string) string {
	var e metav1.ManagedFieldsEntry
	if json.Unmarshal([]byte(id), &e) != nil {
		return fmt.Sprintf("%q", id)
	}
	text := fmt.Sprintf("%q", e.Manager)
	if e.Subresource != "" {
		text = fmt.Sprintf("%s with subresource %q", text, e.Subresource)
	}
	if e.Operation != metav1.ManagedFieldsOperationUpdate {
		return text
	}
	if e.Time == nil {
		return fmt.Sprintf("%s using %v", text, e.APIVersion)
	}
	return fmt.Sprintf("%s using %v at %v", text, e.APIVersion, e.Time.UTC().Format(time.RFC3339))
}

// conflictsBeyondLastApplied returns the conflicts about fields that client-side apply did not set last, or that have other values
// by now. It reports false if the last-applied annotation of live says nothing about this version.
func (m *Manager) conflictsBeyondLastApplied(live value.Value, conflicts merge.Conflicts) (merge.Conflicts, bool) {
	n, ok := live.(node)
	if !ok {
		return nil, false
	}
	text := n.At("metadata", "annotations", lastApplied).Text()
	last := jsondoc.Get()
	defer last.Release() // not before the set of its fields has been used: paths borrow its strings
	if text == "" || jsondoc.Parse(last, []byte(text)) != nil || m.checkWork(nil, last) != nil {
		return nil, false
	}
	unchanged, ok := m.unchangedSince(last, live)
	if !ok {
		return nil, false
	}
	var left merge.Conflicts
	for _, c := range conflicts {
		if !unchanged.Has(c.Path) {
			left = append(left, c)
		}
	}
	return left, true
}

// unchangedSince returns the fields of last that have the same values in live. The set borrows from last: it is valid until last is
// released. It reports false if last is of another version or does not fit its schema.
func (m *Manager) unchangedSince(last *jsondoc.Doc, live value.Value) (*fieldpath.Set, bool) {
	if last.Root().Get("apiVersion").Text() != string(m.version) {
		return nil, false
	}
	lastTyped, err := m.typed(node{last.Root()})
	if err != nil {
		return nil, false
	}
	liveTyped, err := m.typed(live)
	if err != nil {
		return nil, false
	}
	set, err := lastTyped.ToFieldSet()
	if err != nil {
		return nil, false
	}
	diff, err := lastTyped.Compare(liveTyped)
	if err != nil {
		return nil, false
	}
	return set.Difference(diff.Modified).Difference(diff.Added).Difference(diff.Removed), true
}

// sortConflicts sorts by manager; paths of one manager are in order already.
func sortConflicts(conflicts merge.Conflicts) {
	slices.SortStableFunc(conflicts, func(a, b merge.Conflict) int { return cmp.Compare(a.Manager, b.Manager) })
}
