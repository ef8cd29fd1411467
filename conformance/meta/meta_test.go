// Package meta compares Keelson's handling of object metadata and of request
// options with the API server's own.
package meta

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	listvalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/klog/v2"

	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/jsondoc"
)

func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	m.Run()
}

// sameStatus compares what a client would see of two errors.
func sameStatus(t *testing.T, what string, got, want error) {
	t.Helper()
	if got == nil && want == nil {
		return
	}
	if got == nil || want == nil {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
	g, err := json.Marshal(status.From(got).Status)
	if err != nil {
		t.Fatal(err)
	}
	w, err := json.Marshal(responsewriters.ErrorToAPIStatus(want))
	if err != nil {
		t.Fatal(err)
	}
	if string(g) != string(w) {
		t.Fatalf("%s: got\n%s, want\n%s", what, g, w)
	}
}

func TestStatus(t *testing.T) {
	gr := kschema.GroupResource{Group: "demo.io", Resource: "widgets"}
	cause := errors.New("cause")
	errs := field.ErrorList{field.Invalid(field.NewPath("a"), 1, "x"), field.Invalid(field.NewPath("a"), 1, "x"), field.TooLong(field.NewPath("b"), "", 3)}
	for _, tt := range []struct{ got, want error }{
		{status.NotFound(gr, "x"), apierrors.NewNotFound(gr, "x")},
		{status.Invalid(kschema.GroupKind{Group: "g", Kind: "K"}, "x", errs), apierrors.NewInvalid(kschema.GroupKind{Group: "g", Kind: "K"}, "x", errs)},
		{status.Conflict(gr, "x", cause), apierrors.NewConflict(gr, "x", cause)},
		{status.TooLargeRV(9, 3), storage.NewTooLargeResourceVersionError(9, 3, 1)},
		{status.Plain500("x"), errors.New("x")},
		{cause, cause},
	} {
		sameStatus(t, tt.want.Error(), tt.got, tt.want)
	}
}

func checkContinue(t *testing.T, token string) {
	t.Helper()
	wantKey, wantRV, err := storage.DecodeContinue(token, "/p/")
	if err != nil {
		err = apierrors.NewBadRequest(fmt.Sprintf("invalid continue token: %v", err))
	}
	rv, start, gotErr := meta.ParseContinue(token)
	sameStatus(t, token, gotErr, err)
	if err == nil && (rv != wantRV || "/p"+start != wantKey) {
		t.Fatalf("%s: got %d %q, want %d %q", token, rv, start, wantRV, wantKey)
	}
}

func FuzzContinue(f *testing.F) {
	for _, s := range []string{"", "e30", "%", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MTIsInN0YXJ0IjoiL2RlZmF1bHQvYVx1MDAwMCJ9"} {
		f.Add(s, "")
	}
	for _, s := range []string{`{"v":"meta.k8s.io/v1","rv":1,"start":"../x"}`, `{"v":"meta.k8s.io/v1","rv":-1,"start":"a/b\u0000"}`, `{"v":"x"}`, `{"v":1}`, `[]`, `{"v":"meta.k8s.io/v1"}`, `{"v":"meta.k8s.io/v1","rv":1}`} {
		f.Add("", s)
	}
	f.Fuzz(func(t *testing.T, token, plain string) {
		checkContinue(t, token)
		checkContinue(t, base64.RawURLEncoding.EncodeToString([]byte(plain)))
		key := "/p/" + plain
		want, err := storage.EncodeContinue(key, "/p", 7)
		if err != nil {
			t.Fatal(err)
		}
		if got := meta.EncodeContinue(7, "/"+plain); got != want {
			t.Fatalf("token of %q: got %s, want %s", plain, got, want)
		}
	})
}

// queries are made of these.
var parameters = map[string][]string{
	"limit": {"", "5", "-1", "x", "99999999999999999999"}, "timeoutSeconds": {"", "1", "1.5"}, "watch": {"", "0", "true", "False", "x"}, "allowWatchBookmarks": {"true"},
	"resourceVersion": {"", "0", "5", "x"}, "resourceVersionMatch": {"", "Exact", "NotOlderThan", "x"}, "sendInitialEvents": {"", "true", "false"}, "continue": {"", "x"},
	"labelSelector": {"", "a=b", "a===b", "a in (", "!x"}, "fieldSelector": {"", "a=b", "a", "a!=b"},
	"dryRun": {"", "All", "x"}, "fieldManager": {"", "me", "a\x07", strings.Repeat("x", 200)}, "fieldValidation": {"", "Warn", "x"}, "force": {"", "true", "0"},
	"gracePeriodSeconds": {"", "0", "x"}, "orphanDependents": {"", "true"}, "propagationPolicy": {"", "Orphan", "Foreground", "x"},
}

func randomQuery(r *rand.Rand) url.Values {
	q := url.Values{}
	for name, values := range parameters {
		if r.IntN(4) == 0 {
			for range 1 + r.IntN(2) {
				q.Add(name, values[r.IntN(len(values))])
			}
		}
	}
	return q
}

// upstreamOptions decodes and checks options as the API server's handlers do.
func upstreamOptions(q url.Values, into runtime.Object, kind string, check func() field.ErrorList) error {
	if err := scheme.ParameterCodec.DecodeParameters(q, metav1.SchemeGroupVersion, into); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if errs := check(); len(errs) > 0 {
		return apierrors.NewInvalid(kschema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", errs)
	}
	return nil
}

func TestOptions(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 20_000 {
		q := randomQuery(r)
		if len(q) == 0 {
			continue // upstream leaves the selectors nil then
		}
		what := q.Encode()
		var list internalversion.ListOptions
		want := upstreamOptions(q, &list, "ListOptions", func() field.ErrorList {
			internalversion.SetListOptionsDefaults(&list, true)
			return listvalidation.ValidateListOptions(&list, true)
		})
		o, err := meta.ParseListOptions(q)
		sameStatus(t, "list "+what, err, want)
		if err == nil && (o.Limit != list.Limit || o.Watch != list.Watch || o.ResourceVersion != list.ResourceVersion || o.ResourceVersionMatch != string(list.ResourceVersionMatch) ||
			o.Labels.String() != list.LabelSelector.String() || o.Fields.String() != list.FieldSelector.String() || (o.SendInitialEvents == nil) != (list.SendInitialEvents == nil)) {
			t.Fatalf("list %s: got %+v, want %+v", what, o, list)
		}
		var create metav1.CreateOptions
		want = upstreamOptions(q, &create, "CreateOptions", func() field.ErrorList { return validation.ValidateCreateOptions(&create) })
		_, err = meta.ParseCreateOptions(q)
		sameStatus(t, "create "+what, err, want)
		var update metav1.UpdateOptions
		want = upstreamOptions(q, &update, "UpdateOptions", func() field.ErrorList { return validation.ValidateUpdateOptions(&update) })
		_, err = meta.ParseUpdateOptions(q)
		sameStatus(t, "update "+what, err, want)
		for apply, kind := range map[bool]types.PatchType{false: types.JSONPatchType, true: types.ApplyYAMLPatchType} {
			var patch metav1.PatchOptions
			want = upstreamOptions(q, &patch, "PatchOptions", func() field.ErrorList { return validation.ValidatePatchOptions(&patch, kind) })
			_, err = meta.ParsePatchOptions(q, apply)
			sameStatus(t, "patch "+what, err, want)
		}
		var del metav1.DeleteOptions
		want = upstreamOptions(q, &del, "DeleteOptions", func() field.ErrorList { return validation.ValidateDeleteOptions(&del) })
		_, err = meta.ParseDeleteOptions(t.Context(), nil, "", q)
		sameStatus(t, "delete "+what, err, want)
	}
}

func TestDeleteOptionsInBody(t *testing.T) {
	for _, body := range []string{
		`{}`, `{"kind":"DeleteOptions","apiVersion":"v1"}`, `{"kind":"DeleteOptions","apiVersion":"demo.io/v1"}`, `{"kind":"DeleteOptions"}`, `{"apiVersion":"v1"}`, `{"kind":"Pod","apiVersion":"v1"}`, `{"kind":"Status","apiVersion":"v1"}`,
		`{"kind":"Foo","apiVersion":"demo.io/v1"}`, `{"gracePeriodSeconds":"x"}`, `{"propagationPolicy":"x"}`, `{"dryRun":["x"]}`, `{"preconditions":{"uid":"x"}}`, `[]`, `{`, `null`, `1`, `{"kind":1}`,
	} {
		var o metav1.DeleteOptions
		want := func() error {
			info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
			gvk := metav1.SchemeGroupVersion.WithKind("DeleteOptions")
			obj, _, err := scheme.Codecs.DecoderToVersion(info.Serializer, gvk.GroupVersion()).Decode([]byte(body), &gvk, &o)
			if err != nil {
				return apierrors.NewBadRequest(err.Error())
			}
			if obj != runtime.Object(&o) {
				return apierrors.NewBadRequest("decoded object cannot be converted to DeleteOptions")
			}
			if errs := validation.ValidateDeleteOptions(&o); len(errs) > 0 {
				return apierrors.NewInvalid(kschema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", errs)
			}
			return nil
		}()
		_, err := meta.ParseDeleteOptions(t.Context(), []byte(body), "application/json", nil)
		sameStatus(t, body, err, want)
	}
}

var gvk = kschema.GroupVersionKind{Group: "demo.io", Version: "v1", Kind: "Widget"}

// typer knows unstructured objects.
type typer struct{}

func (typer) ObjectKinds(obj runtime.Object) ([]kschema.GroupVersionKind, bool, error) {
	return []kschema.GroupVersionKind{obj.GetObjectKind().GroupVersionKind()}, false, nil
}

func (typer) Recognizes(kschema.GroupVersionKind) bool { return true }

type recorder struct{ warnings []string }

func (r *recorder) AddWarning(_, text string) { r.warnings = append(r.warnings, text) }

// metadataParts are members of metadata to choose from.
var metadataParts = map[string][]string{
	"name": {`"a"`, `"a"`, `"a"`, `"A"`, `"b"`, `"a.b-c"`, `""`}, "namespace": {`"ns"`, `"ns"`, `"ns"`, `"ns"`}, "generateName": {`"a-"`, `"A"`, `"a"`}, "uid": {`"u"`, `"u"`, `"v"`, `""`},
	"resourceVersion": {`"5"`, `"5"`, `"5"`, `"6"`}, "creationTimestamp": {`"2020-01-01T00:00:00Z"`, `"2020-01-01T00:00:01Z"`}, "deletionTimestamp": {`"2021-01-01T00:00:00Z"`}, "deletionGracePeriodSeconds": {`0`, `1`},
	"generation": {`1`, `2`, `7`}, "labels": {`{"a":"b"}`, `{"a b":"c"}`, `{"a":"b c"}`, `{"demo.io/x":""}`}, "annotations": {`{"x":"y"}`, `{"X/Y":"any thing"}`, `{"-":""}`},
	"finalizers": {`["a/b"]`, `["a/b","c"]`, `["x.y"]`, `["a b"]`, `["orphan"]`, `["orphan","foregroundDeletion"]`}, "selfLink": {},
	"ownerReferences": {`[{"apiVersion":"v1","kind":"K","name":"n","uid":"u","controller":true}]`, `[{"apiVersion":"v1","kind":"K","name":"n","uid":"u"},{"apiVersion":"v1","kind":"K","name":"n","uid":"v"}]`, `[{"apiVersion":"v1","kind":"Event","name":"n","uid":"u"}]`, `[{"apiVersion":"a/b/c","kind":"","name":"","uid":""}]`},
	"managedFields":   {`[{"manager":"m","operation":"Update","fieldsType":"FieldsV1","apiVersion":"v1","fieldsV1":{}}]`, `[{"manager":"m","operation":"x","fieldsType":"y"}]`},
}

func randomObject(r *rand.Rand, likely int) string {
	var parts []string
	for name, values := range metadataParts {
		chance := 3
		switch name {
		case "name", "namespace", "uid", "resourceVersion", "creationTimestamp", "generation":
			chance = likely
		}
		if len(values) > 0 && r.IntN(12) < chance {
			parts = append(parts, fmt.Sprintf("%q:%s", name, values[r.IntN(len(values))]))
		}
	}
	return fmt.Sprintf(`{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{%s},"spec":{"x":%d}}`, strings.Join(parts, ","), r.IntN(2))
}

func upstreamObject(t *testing.T, src string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON([]byte(src)); err != nil {
		t.Fatal(err)
	}
	return u
}

func ourObject(t *testing.T, src string) meta.Object {
	t.Helper()
	d := new(jsondoc.Doc)
	if err := jsondoc.Parse(d, []byte(src)); err != nil {
		t.Fatal(err)
	}
	return meta.Object{Doc: d}
}

func sameObject(t *testing.T, what string, o meta.Object, u *unstructured.Unstructured) {
	t.Helper()
	want, err := json.Marshal(u.Object["metadata"])
	if err != nil {
		t.Fatal(err)
	}
	if got := string(o.Meta().AppendJSON(nil)); got != string(want) {
		t.Fatalf("%s: got\n%s, want\n%s", what, got, want)
	}
}

// Create and update of metadata against the custom resource strategy and the
// generic registry.
func TestCreateAndUpdate(t *testing.T) {
	strategy := customresource.NewStrategy(typer{}, true, gvk, nil, nil, &schema.Structural{}, nil, nil, nil)
	r := rand.New(rand.NewPCG(2, 2))
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	valid := map[string]int{}
	for range 5_000 {
		rec := &recorder{}
		ctx := warning.WithWarningRecorder(request.WithNamespace(context.Background(), "ns"), rec)
		src := randomObject(r, 11)
		u, o := upstreamObject(t, src), ourObject(t, src)
		rest.WipeObjectMetaSystemFields(u)
		rest.FillObjectMetaSystemFields(u)
		if u.GetName() == "" && u.GetGenerateName() != "" {
			u.SetName("generated")
		}
		want := rest.BeforeCreate(strategy, ctx, u)
		o.SetNamespace("ns") // as the request does
		warnings := meta.WipeCreate(o)
		meta.FillCreate(o, now)
		o.SetGeneration(1)
		if o.Name() == "" && o.GenerateName() != "" {
			o.SetName("generated")
		}
		u.SetUID(types.UID(o.UID()))
		u.SetCreationTimestamp(metav1.NewTime(now))
		sameOutcome(t, "create "+src, o, u, meta.ValidateObjectMeta(o, true), want)
		if want == nil {
			valid["create"]++
			sameWarnings(t, src, append(warnings, meta.Warnings(o, meta.Object{})...), rec.warnings)
		}

		oldSrc, newSrc := src, randomObject(r, 11)
		if upstreamObject(t, oldSrc).GetUID() == "" || upstreamObject(t, oldSrc).GetName() == "" || upstreamObject(t, oldSrc).GetNamespace() == "" || upstreamObject(t, oldSrc).GetGeneration() == 0 {
			continue // no such object is stored
		}
		rec.warnings = nil
		oldU, newU, oldO, newO := upstreamObject(t, oldSrc), upstreamObject(t, newSrc), ourObject(t, oldSrc), ourObject(t, newSrc)
		if newU.GetResourceVersion() == "" {
			newU.SetResourceVersion(oldU.GetResourceVersion())
		}
		want = rest.BeforeUpdate(strategy, ctx, newU, oldU)
		newO.SetNamespace("ns") // as the request does
		meta.FillUpdate(newO, oldO, !jsondoc.Equal(newO.Doc.Root().Get("spec"), oldO.Doc.Root().Get("spec")))
		sameOutcome(t, "update "+oldSrc+" to "+newSrc, newO, newU, meta.ValidateObjectMetaUpdate(newO, oldO), want)
		if want == nil {
			valid["update"]++
			sameWarnings(t, newSrc, meta.Warnings(newO, oldO), rec.warnings)
		}
	}
	if valid["create"] < 100 || valid["update"] < 100 {
		t.Errorf("too few valid cases: %v", valid)
	}
}

func sameOutcome(t *testing.T, what string, o meta.Object, u *unstructured.Unstructured, errs field.ErrorList, want error) {
	t.Helper()
	var got error
	if len(errs) > 0 {
		got = status.Invalid(gvk.GroupKind(), o.Name(), errs)
	}
	sameStatus(t, what, got, want)
	if want == nil {
		sameObject(t, what, o, u)
	}
}

func sameWarnings(t *testing.T, what string, got, want []string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Fatalf("%s: got warnings %q, want %q", what, got, want)
	}
}
