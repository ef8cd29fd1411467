package authz

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/union"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/api"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/authz/webhook"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/objects"
	"github.com/keelson-io/keelson/internal/store/mem"
	"github.com/keelson-io/keelson/kind"
)

// This file is what requests are authorized by, and what chains make of their authorizers' opinions.

// url makes the URL of a request: of every shape, also encoded oddly.
func (d dice) url() string {
	var b strings.Builder
	b.WriteString(d.pick("/api/v1 /api/v1 /apis/demo.io/v1 /apis/demo.io/v1 /apis /api / /healthz /metrics /apis/demo.io /version/ /x/y/z"))
	b.WriteString(d.pick("_ _ _ /watch /proxy"))
	if d.IntN(2) == 0 {
		b.WriteString("/namespaces/" + d.pick("ns1 default a%2Fb a%20b . %2e%2e ns%3F"))
	}
	if d.IntN(4) > 0 {
		b.WriteString("/" + d.pick("pods foos namespaces status finalize watch proxy nodes p%2fods p%6fds"))
		for range d.IntN(4) {
			b.WriteString("/" + d.pick("x status scale log %2e a%2Fb a%25b ns1 proxy finalize watch"))
		}
	}
	b.WriteString(d.pick("_ _ _ /"))
	sep := "?"
	for range d.IntN(3) {
		b.WriteString(sep + d.pick("watch watch=true watch=false watch=False watch=0 watch=1 watch= watch=nonsense limit=5 timeoutSeconds=1 resourceVersion=0 fieldSelector=metadata.name%3Dx fieldSelector=metadata.name%3D%3Dx,a%3Db "+
			"fieldSelector=metadata.name%3D.. fieldSelector=metadata.name%3Da%252Fb fieldSelector=metadata.name!%3Dx fieldSelector=spec.nodeName%3Dn1 fieldSelector= labelSelector=a%3Db,c labelSelector=a+in+(x,y),!z labelSelector=a%3E1"))
		sep = "&"
	}
	return b.String()
}

// TestAttributes compares what requests are authorized by.
func TestAttributes(t *testing.T) {
	d := roll(8)
	var got *authz.Attributes
	st := mem.New(mem.Options{})
	defer st.Close()
	cached := cache.New(st, cache.Options{Logger: slog.New(slog.DiscardHandler)})
	defer cached.Close()
	kinds := new(kind.Registry)
	ours := api.New(api.Config{Objects: objects.New(objects.Config{Kinds: kinds, Store: st, Cache: cached}), Logger: slog.New(slog.DiscardHandler),
		Authn: authn.Func(func(*http.Request, []string) (*authn.Response, error) {
			return &authn.Response{User: &authn.User{Name: "ann", Groups: []string{"dev"}}}, nil
		}),
		Authz: authz.Func(func(_ context.Context, a *authz.Attributes) authz.Result {
			copied := *a
			got = &copied
			return authz.Result{}
		})})
	defer ours.Stop()
	info := &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	compared := 0
	for range times(200_000) {
		method, url := d.pick("GET GET GET HEAD POST PUT PATCH DELETE OPTIONS"), d.url()
		r := httptest.NewRequest(method, url, nil)
		want, err := info.NewRequestInfo(r)
		if err != nil {
			continue // a prefix and nothing after it, which has no attributes
		}
		ctx := request.WithUser(request.WithRequestInfo(r.Context(), want), &user.DefaultInfo{Name: "ann", Groups: []string{"dev"}})
		theirs, err := filters.GetAuthorizerAttributes(ctx)
		if err != nil {
			t.Fatal(err)
		}
		got = nil
		ours.ServeHTTP(httptest.NewRecorder(), r)
		if got == nil {
			t.Fatalf("%s %s: nobody was asked", method, url)
		}
		// As webhooks see them, both.
		spec := webhook.Spec(got)
		text := func(a authorizer.Attributes) string {
			return fmt.Sprintf("%v %s %s/%s %s/%s ns=%s name=%s path=%s", a.IsResourceRequest(), a.GetVerb(), a.GetAPIGroup(), a.GetAPIVersion(), a.GetResource(), a.GetSubresource(), a.GetNamespace(), a.GetName(), a.GetPath())
		}
		have := fmt.Sprintf("%v %s %s/%s %s/%s ns=%s name=%s path=%s", got.ResourceRequest, got.Verb, got.Group, got.Version, got.Resource, got.Subresource, got.Namespace, got.Name, got.Path)
		if have != text(theirs) {
			t.Fatalf("%s %s:\n\tupstream %s\n\tkeelson  %s", method, url, text(theirs), have)
		}
		fields, _ := theirs.GetFieldSelector()
		var texts []string
		for _, f := range fields {
			texts = append(texts, f.Field+map[string]string{"=": "In", "==": "In", "!=": "NotIn"}[string(f.Operator)]+f.Value)
		}
		var ownTexts []string
		if a := spec.ResourceAttributes; a != nil && a.FieldSelector != nil {
			for _, f := range a.FieldSelector.Requirements {
				ownTexts = append(ownTexts, f.Key+string(f.Operator)+f.Values[0])
			}
		}
		if !reflect.DeepEqual(texts, ownTexts) {
			t.Fatalf("%s %s: field selector:\n\tupstream %q\n\tkeelson  %q", method, url, texts, ownTexts)
		}
		compared++
	}
	t.Logf("%d requests", compared)
}

// scripted is an authorizer that says what it is told to, for both sides.
type scripted struct {
	decision authorizer.Decision
	reason   string
	err      error
}

func (s scripted) ours(context.Context, *authz.Attributes) authz.Result {
	return authz.Result{Decision: map[authorizer.Decision]authz.Decision{authorizer.DecisionAllow: authz.Allow, authorizer.DecisionDeny: authz.Deny}[s.decision], Reason: s.reason, Err: s.err}
}

// TestChain compares what chains make of their authorizers' opinions.
func TestChain(t *testing.T) {
	d := roll(9)
	for range times(100_000) {
		var theirs []union.NamedAuthorizer
		var ours []authz.Named
		for i := range d.IntN(5) {
			s := scripted{reason: d.pick("_ why because")}
			s.decision = []authorizer.Decision{authorizer.DecisionNoOpinion, authorizer.DecisionNoOpinion, authorizer.DecisionAllow, authorizer.DecisionDeny}[d.IntN(4)]
			if d.IntN(3) == 0 {
				s.err = errors.New(d.pick("broken wrong late"))
			}
			name := fmt.Sprint("a", i)
			theirs = append(theirs, union.NamedAuthorizer{AuthorizerName: name, Authorizer: authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
				return s.decision, s.reason, s.err
			})})
			ours = append(ours, authz.Named{Name: name, Authorizer: authz.Func(s.ours)})
		}
		up, err := union.New(theirs...)
		if err != nil {
			t.Fatal(err)
		}
		decision, reason, err := up.Authorize(context.Background(), authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "ann"}})
		got := authz.NewChain(nil, ours...).Authorize(context.Background(), &authz.Attributes{User: &authn.User{Name: "ann"}})
		if !same(t, ours, got, decision, reason, err, true) {
			return
		}
	}
}
