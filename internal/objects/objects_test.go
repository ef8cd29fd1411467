package objects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/internal/store/mem"
	"github.com/keelson-io/keelson/internal/testkinds"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

const partCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: parts.demo.io, uid: 6f1c8bb2-1c1f-4bb5-9f02-0d2f0b6c1a01, generation: 1}
spec:
  group: demo.io
  scope: Cluster
  names: {plural: parts, singular: part, kind: Part, listKind: PartList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.size, statusReplicasPath: .status.size}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {color: {type: string, default: red}, size: {type: integer, maximum: 9}}}
          status: {type: object, properties: {phase: {type: string}, size: {type: integer}}}
`

// compile returns the established kind of a definition.
func compile(t testing.TB, text string) *kind.Kind {
	t.Helper()
	for k := range testkinds.Registry(t, text).Load().All() {
		if k.Group == "demo.io" {
			return k
		}
	}
	t.Fatal("the definition has no kind in demo.io")
	return nil
}

// between is a store in which another writer changes an object just before each of the next n updates.
type between struct {
	store.Store
	n       int
	updates int
}

func (b *between) Update(ctx context.Context, key string, value []byte, rev int64) (int64, error) {
	b.updates++
	if b.n > 0 {
		b.n--
		now, err := b.Get(ctx, key)
		if err != nil {
			return 0, err
		}
		other := strings.Replace(string(now.Value), `"spec":{`, `"spec":{"size":7,`, 1)
		if _, err := b.Store.Update(ctx, key, []byte(other), now.Rev); err != nil {
			return 0, err
		}
	}
	return b.Store.Update(ctx, key, value, rev)
}

// warner is an admission step that warns, and refuses objects whose color is black.
type warner struct{}

func (warner) Mutate(_ context.Context, r *admission.Request) error {
	r.Warn(fmt.Sprintf("seen by admission for %s: %s %q of %q", r.User.Name, r.Operation, r.Name, meta.Object{Doc: cmp.Or(r.New, r.Old)}.Name()))
	r.Annotate("demo.io/seen", "yes")
	if r.New != nil && r.New.Root().At("spec", "color").Text() == "black" {
		return status.BadRequest("black is taken")
	}
	return nil
}

// asking is a Client that notes what it is told.
type asking struct {
	annotations []string
	refuse      error
	work        func() error // nil permits all work
}

func (a *asking) Annotate(key, value string)        { a.annotations = append(a.annotations, key+"="+value) }
func (a *asking) AnnotateRequest(key, value string) { a.Annotate(key, value) }
func (a *asking) MayCreate() error                  { return a.refuse }

func (*asking) Validated(*kind.Version, schema.Validated) {}

func (a *asking) Work(int) error {
	if a.work == nil {
		return nil
	}
	return a.work()
}

// tested is the verbs over a store in memory, and a reference to the object a.
type tested struct {
	*testing.T
	*Verbs
	store *between
	ref   Ref
}

func newTested(t *testing.T) *tested {
	st := &between{Store: mem.New(mem.Options{})}
	kinds := testkinds.Registry(t, partCRD)
	cached := cache.New(st, cache.Options{})
	t.Cleanup(func() { cached.Close(); st.Close() })
	v := New(Config{Kinds: kinds, Store: st, Cache: cached, Admission: func(admission.Host) *admission.Chain {
		c := admission.NewChain(nil)
		c.Mutates("Warner", warner{})
		return c
	}})
	return &tested{t, v, st, RefTo(kinds.Load().Lookup("demo.io", "parts"), "", "a")}
}

var ann = NewCaller(&authn.User{Name: "ann"}, "tests/1", nil)

// body is an object with a spec.
func body(spec string) string {
	return `{"apiVersion":"demo.io/v1","kind":"Part","metadata":{"name":"a"},"spec":{` + spec + `}}`
}

// create creates the object a.
func (t *tested) create(c Caller, spec string) (Outcome, error) {
	t.Helper()
	d := jsondoc.Get()
	t.Cleanup(d.Release)
	if _, err := t.ref.Version.Decode(d, []byte(body(spec))); err != nil {
		t.Fatal(err)
	}
	return t.Verbs.Create(t.Context(), c, t.ref, d, &meta.WriteOptions{})
}

// patch merges a text into the object a.
func (t *tested) patch(c Caller, text string) (Outcome, error) {
	return t.Verbs.Patch(t.Context(), c, t.ref, Patch{Type: types.MergePatchType, Body: []byte(text), Options: &meta.WriteOptions{}})
}

// check fails the test unless a verb came to a result without an error.
func (t *tested) check(what string, want Result, out *Outcome, err error) {
	t.Helper()
	if err != nil || out.Result != want {
		t.Fatalf("%s: got result %d, %v, want result %d", what, out.Result, err, want)
	}
}

func TestOutcomesSayWhatHappened(t *testing.T) {
	s := newTested(t)
	made, err := s.create(ann, "")
	s.check("create", Created, &made, err)
	if got := made.View; got == nil || !strings.Contains(string(got.JSON), `"color":"red"`) || !got.KnownValid {
		t.Errorf("create: got view %+v, want one with defaults that passed every check", got)
	}
	if made.Revision == 0 || made.Doc == nil || !made.Changed() {
		t.Errorf("create: got %+v", made)
	}
	changed, err := s.patch(ann, `{"spec":{"size":1}}`)
	s.check("patch", Updated, &changed, err)
	if changed.Revision <= made.Revision || changed.Doc.Root().At("spec", "size").Int() != 1 {
		t.Errorf("patch: got revision %d after %d", changed.Revision, made.Revision)
	}
	changed.Release()
	same, err := s.patch(ann, `{"spec":{"size":1}}`)
	s.check("the same patch", Unchanged, &same, err)
	if same.Object == nil || same.Revision != changed.Revision || same.Doc != nil || same.Changed() {
		t.Errorf("the same patch: got %+v", same)
	}
	held, err := s.patch(ann, `{"metadata":{"finalizers":["demo.io/f"]}}`)
	s.check("patch of finalizers", Updated, &held, err)
	held.Release()
	waits, err := s.Delete(t.Context(), ann, s.ref, &meta.DeleteOptions{})
	s.check("delete with a finalizer", Terminating, &waits, err)
	if (meta.Object{Doc: waits.Doc}).DeletionTimestamp() == "" || waits.UID == "" {
		t.Error("delete with a finalizer: no deletionTimestamp, or no UID")
	}
	waits.Release()
	gone, err := s.patch(ann, `{"metadata":{"finalizers":null}}`)
	s.check("the last finalizer removed", Deleted, &gone, err)
	gone.Release()
	if _, err := s.Delete(t.Context(), ann, s.ref, &meta.DeleteOptions{}); status.From(err).Reason != metav1.StatusReasonNotFound {
		t.Errorf("delete again: got %v", err)
	}
}

func TestConflictsAreRetried(t *testing.T) {
	s := newTested(t)
	if _, err := s.create(ann, ""); err != nil {
		t.Fatal(err)
	}
	s.store.n = 3
	out, err := s.patch(ann, `{"spec":{"color":"blue"}}`)
	s.check("patch", Updated, &out, err)
	if spec := out.Doc.Root().At("spec"); spec.Get("size").Int() != 7 || spec.Get("color").Text() != "blue" || s.store.updates != 4 {
		t.Errorf("got %s after %d updates, want both writers' changes after 4", spec.AppendJSON(nil), s.store.updates)
	}
	if len(out.Warnings) != 1 {
		t.Errorf("got warnings %q, want those of the last attempt only", out.Warnings)
	}
	out.Release()

	s.store.n, s.store.updates = 1, 0
	held, err := s.patch(ann, `{"metadata":{"finalizers":["demo.io/f"]}}`)
	s.check("patch of finalizers", Updated, &held, err)
	held.Release()
	s.store.n = 2
	waits, err := s.Delete(t.Context(), ann, s.ref, &meta.DeleteOptions{})
	s.check("delete", Terminating, &waits, err)
	waits.Release()
}

// TestStorageVersionChangesMeanwhile holds that a write that began before the definition got another
// storage version stores nothing in the old one, and that the client is told to try again.
//
// Ledger: storage-version-changes.
func TestStorageVersionChangesMeanwhile(t *testing.T) {
	s := newTested(t)
	made, err := s.create(ann, "")
	s.check("create", Created, &made, err)
	out, err := s.patch(ann, `{"metadata":{"finalizers":["demo.io/f"]}}`)
	s.check("patch", Updated, &out, err)
	out.Release()
	if err := s.Kinds.Put(compile(t, strings.Replace(partCRD, "name: v1\n", "name: v2\n", 1))); err != nil {
		t.Fatal(err)
	}
	const want = "the storage version of parts.demo.io has changed from v1 to v2 during the request: try again"
	expect := func(what string, err error) {
		t.Helper()
		if e := status.From(err); err == nil || e.Code != 503 || e.Message != want || e.Details == nil || e.Details.RetryAfterSeconds == 0 {
			t.Errorf("%s: got %v, want 503 and %s", what, err, want)
		}
	}
	_, err = s.patch(ann, `{"spec":{"color":"blue"}}`)
	expect("patch", err)
	_, err = s.Delete(t.Context(), ann, s.ref, &meta.DeleteOptions{})
	expect("delete of an object with finalizers", err)
	s.ref.Name = "b"
	_, err = s.create(ann, "")
	expect("create", err)
}

// TestWritesAwaitKinds holds what a server learns about definitions before it stores an object: a
// new object of the cluster needs all that other servers wrote, and an object that another server
// changed needs what was written before that.
func TestWritesAwaitKinds(t *testing.T) {
	s := newTested(t)
	var asked []int64
	s.AwaitKinds = func(_ context.Context, rev int64) {
		if asked = append(asked, rev); rev > 0 {
			if err := s.Kinds.Put(compile(t, strings.Replace(partCRD, "name: v1\n", "name: v2\n", 1))); err != nil {
				t.Error(err)
			}
		}
	}
	made, err := s.create(ann, "")
	s.check("create", Created, &made, err)
	s.store.n = 1
	if _, err = s.patch(ann, `{"spec":{"color":"blue"}}`); err == nil || status.From(err).Code != 503 {
		t.Errorf("patch: got %v, want 503", err)
	}
	now, err := s.store.Get(t.Context(), s.ref.Key())
	if want := []int64{-1, 0, now.Rev}; err != nil || !slices.Equal(asked, want) {
		t.Errorf("got questions about revisions %d, %v, want %d", asked, err, want)
	}
}

func TestWarningsComeWithErrors(t *testing.T) {
	s := newTested(t)
	out, err := s.create(ann, `"color":"black"`)
	if err == nil || len(out.Warnings) != 1 || out.Warnings[0] != `seen by admission for ann: CREATE "a" of "a"` {
		t.Errorf("got %q, %v", out.Warnings, err)
	}
	if out.Doc != nil {
		t.Error("a refused create left a document")
	}
}

func TestClientsHearOfAdmission(t *testing.T) {
	s := newTested(t)
	client := &asking{}
	c := ann
	c.client = client
	if _, err := s.create(c, ""); err != nil || len(client.annotations) != 1 {
		t.Errorf("got annotations %q, %v", client.annotations, err)
	}
}

// TestApplyAsksBeforeItCreates holds that an apply creates an object only for callers who may create it.
func TestApplyAsksBeforeItCreates(t *testing.T) {
	s := newTested(t)
	client := &asking{refuse: errors.New("may not")}
	c := ann
	c.client = client
	p := Patch{Type: types.ApplyPatchType, Body: []byte(body(`"size":2`)), Options: &meta.WriteOptions{FieldManager: "m"}}
	if _, err := s.Patch(t.Context(), c, s.ref, p); !errors.Is(err, client.refuse) {
		t.Errorf("refused: got %v", err)
	}
	client.refuse = nil
	out, err := s.Patch(t.Context(), c, s.ref, p)
	s.check("apply", Created, &out, err)
	out.Release()
	again, err := s.Patch(t.Context(), c, s.ref, p)
	s.check("apply again", Unchanged, &again, err)
}

// TestRefusedWritesAreNotTriedAgain holds that a request whose work is refused ends, also if another writer has changed the object meanwhile:
// its client may have the answer.
func TestRefusedWritesAreNotTriedAgain(t *testing.T) {
	s := newTested(t)
	if _, err := s.create(ann, ""); err != nil {
		t.Fatal(err)
	}
	refusal, asked := errors.New("too many requests"), 0
	c := ann
	c.client = &asking{work: func() error {
		if asked++; asked > 1 {
			return nil
		}
		out, err := s.patch(ann, `{"spec":{"color":"green"}}`)
		s.check("the other writer", Updated, &out, err)
		out.Release()
		return refusal
	}}
	if _, err := s.patch(c, `{"spec":{"color":"blue"}}`); err != refusal || asked != 1 {
		t.Errorf("got %v after %d attempts, want the refusal after one", err, asked)
	}
}

func TestDeleteCollectionDeletesWhatItIsGiven(t *testing.T) {
	s := newTested(t)
	if _, err := s.create(ann, ""); err != nil {
		t.Fatal(err)
	}
	obj, err := s.Find(t.Context(), s.ref)
	if err != nil || obj == nil {
		t.Fatal(obj, err)
	}
	each := func(do func(*cache.Object) error) error { return errors.Join(do(obj), do(obj)) } // the second time it is gone
	warnings, err := s.DeleteCollection(t.Context(), ann, s.ref, &meta.DeleteOptions{}, each)
	// The request names no object: no step may take one for allowed by its name.
	if want := []string{`seen by admission for ann: DELETE "" of "a"`}; err != nil || !slices.Equal(warnings, want) {
		t.Errorf("got warnings %q, %v, want %q", warnings, err, want)
	}
	if obj, err := s.Find(t.Context(), s.ref); err != nil || obj != nil {
		t.Errorf("afterwards: got %v, %v", obj, err)
	}
}

func TestDryRunsWriteNothing(t *testing.T) {
	s := newTested(t)
	d := jsondoc.Get()
	defer d.Release()
	if _, err := s.ref.Version.Decode(d, []byte(body(""))); err != nil {
		t.Fatal(err)
	}
	out, err := s.Verbs.Create(t.Context(), ann, s.ref, d, &meta.WriteOptions{DryRun: true})
	s.check("create", Created, &out, err)
	if out.Revision != 0 || out.View != nil {
		t.Errorf("create: got %+v", out)
	}
	if obj, err := s.Find(t.Context(), s.ref); err != nil || obj != nil {
		t.Errorf("afterwards: got %v, %v", obj, err)
	}
}

func TestWriterNamesItsManager(t *testing.T) {
	s := newTested(t)
	w := s.Writer(Server(), "gardener")
	if _, err := w.Create(t.Context(), s.ref.Kind, "", "a", []byte(body(""))); err != nil {
		t.Fatal(err)
	}
	if err := w.Ensure(t.Context(), s.ref.Kind, "", "a", []byte(body(`"size":3`))); err != nil {
		t.Fatal(err)
	}
	err := w.ModifyPart(t.Context(), s.ref.Kind, "", "a", "status", func(o meta.Object) error {
		o.Doc.Set(o.Doc.NewString("Ready"), "status", "phase")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	obj, err := s.Find(t.Context(), s.ref)
	if err != nil {
		t.Fatal(err)
	}
	text := string(obj.Raw)
	if strings.Count(text, `"manager":"gardener"`) != 2 || !strings.Contains(text, `"phase":"Ready"`) || strings.Contains(text, `"size":3`) {
		t.Errorf("got %s", text)
	}
	if err := w.Delete(t.Context(), s.ref.Kind, "", "a"); err != nil {
		t.Fatal(err)
	}
	if err := w.Delete(t.Context(), s.ref.Kind, "", "a"); err != nil {
		t.Errorf("delete of an object that does not exist: %v", err)
	}
}

// TestWritesNeedACaller calls each verb without an identity.
func TestWritesNeedACaller(t *testing.T) {
	s := newTested(t)
	if _, err := s.create(ann, `"size":1`); err != nil {
		t.Fatal(err)
	}
	pod := RefTo(s.Kinds.Load().Lookup("", "pods"), "default", "p")
	text := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","uid":"1"},"spec":{"containers":[{"name":"c","image":"i"}]}}`
	if _, err := s.store.Create(t.Context(), pod.Key(), []byte(text)); err != nil {
		t.Fatal(err)
	}
	before, err := s.store.List(t.Context(), "", store.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, write, remove := t.Context(), &meta.WriteOptions{FieldManager: "tests"}, &meta.DeleteOptions{}
	d := jsondoc.Get()
	defer d.Release()
	if _, err := s.ref.Version.Decode(d, []byte(body(`"size":2`))); err != nil {
		t.Fatal(err)
	}
	patch := func(how types.PatchType, text string) Patch {
		return Patch{Type: how, Body: []byte(text), Options: write}
	}
	unused := func(*jsondoc.Doc) error { t.Error("a change was made"); return nil }
	verbs := map[string]func(c Caller) error{
		"Create": func(c Caller) error { _, err := s.create(c, ""); return err },
		"Update": func(c Caller) error {
			_, err := s.Update(ctx, c, s.ref, d, &Body{JSON: []byte(body(`"size":2`))}, write)
			return err
		},
		"Patch":  func(c Caller) error { _, err := s.patch(c, `{"spec":{"size":2}}`); return err },
		"Delete": func(c Caller) error { _, err := s.Delete(ctx, c, s.ref, remove); return err },
		"DeleteCollection": func(c Caller) error {
			obj, err := s.Find(ctx, s.ref)
			if err != nil {
				return err
			}
			_, err = s.DeleteCollection(ctx, c, s.ref, remove, func(yield func(*cache.Object) error) error { return yield(obj) })
			return err
		},
		"DeleteUnreadable": func(c Caller) error { _, err := s.DeleteUnreadable(ctx, c, s.ref, false); return err },
		"Modify": func(c Caller) error {
			_, err := s.Modify(ctx, c, s.ref, write, func(o meta.Object) error { return unused(o.Doc) })
			return err
		},
		"UpdateScale": func(c Caller) error {
			_, err := s.UpdateScale(ctx, c, s.ref, &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, write)
			return err
		},
		"PatchScale": func(c Caller) error {
			_, err := s.PatchScale(ctx, c, s.ref, patch(types.MergePatchType, `{"spec":{"replicas":2}}`))
			return err
		},
		"Bind": func(c Caller) error {
			return s.Bind(ctx, c, "default", "p", &corev1.Binding{Target: corev1.ObjectReference{Name: "n"}}, false)
		},
		"Evict": func(c Caller) error { return s.Evict(ctx, c, "default", "p", remove) },
		"Writer": func(c Caller) error {
			return s.Writer(c, "tests").Apply(ctx, s.ref.Kind, "", "a", "", []byte(body(`"size":2`)))
		},
	}
	for m := range reflect.TypeFor[*Verbs]().Methods() {
		takes := slices.Contains(slices.Collect(m.Type.Ins()), reflect.TypeFor[Caller]())
		if (verbs[m.Name] != nil) != takes {
			t.Errorf("%s: tested %v, takes a caller %v", m.Name, verbs[m.Name] != nil, takes)
		}
	}
	verbs["apply"] = func(c Caller) error {
		_, err := s.Patch(ctx, c, s.ref, patch(types.ApplyPatchType, body(`"size":2`)))
		return err
	}
	for name, verb := range verbs {
		for _, c := range []Caller{{}, NewCaller(nil, "tests/1", new(asking))} {
			if err := verb(c); !errors.Is(err, errNoCaller) || status.From(err).Code != 500 {
				t.Errorf("%s: got %v, want an internal error", name, err)
			}
		}
	}
	after, err := s.store.List(t.Context(), "", store.ListOptions{})
	if err != nil || !reflect.DeepEqual(before, after) {
		t.Errorf("something was written (%v)", err)
	}
}

// TestAdmissionSeesWhatWasSent holds that the steps that change objects see an update without the members of the metadata
// that the client left out, which the object has when it is stored.
func TestAdmissionSeesWhatWasSent(t *testing.T) {
	s := newTested(t)
	if _, err := s.Writer(Server(), "tests").Create(t.Context(), s.ref.Kind, "", "a", []byte(body(""))); err != nil {
		t.Fatal(err)
	}
	saw := ""
	s.Chain().Mutates("Seer", admission.Func(func(_ context.Context, r *admission.Request) error {
		o := meta.Object{Doc: r.New}
		saw = o.UID() + o.CreationTimestamp()
		return nil
	}))
	stored, err := s.Find(t.Context(), s.ref)
	if err != nil {
		t.Fatal(err)
	}
	sent := []byte(strings.Replace(body(`"size":2`), `"name":"a"`, fmt.Sprintf(`"name":"a","resourceVersion":"%d"`, stored.Rev), 1))
	d := jsondoc.Get()
	defer d.Release()
	if _, err := s.ref.Version.Decode(d, sent); err != nil {
		t.Fatal(err)
	}
	out, err := s.Update(t.Context(), ann, s.ref, d, &Body{JSON: sent}, &meta.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if saw != "" {
		t.Errorf("admission sees %q, which was not sent", saw)
	}
	if o := (meta.Object{Doc: out.Doc}); o.UID() == "" || o.CreationTimestamp() == "" {
		t.Errorf("the object lacks its uid %q or its creationTimestamp %q", o.UID(), o.CreationTimestamp())
	}
}
