package kubehook

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	authorizationv1beta1 "k8s.io/api/authorization/v1beta1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// This file calls a webhook that can give all kinds of answers.

func TestPost(t *testing.T) {
	type answer struct {
		code int
		body string
	}
	var script []answer
	var got []string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got = append(got, r.Method+" "+r.URL.Path+" "+r.Header.Get("Content-Type")+" "+r.Header.Get("Authorization")+" "+string(body))
		next := script[0]
		if len(script) > 1 {
			script = script[1:]
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(next.code)
		io.WriteString(w, next.body)
	}))
	defer server.Close()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
"clusters":[{"name":"c","cluster":{"insecure-skip-tls-verify":true,"server":%q}}],"users":[{"name":"u","user":{"token":"secret"}}]}`, server.URL+"/hook")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := Config(path)
	if err != nil {
		t.Fatal(err)
	}
	codec, err := Codec(authorizationv1.SchemeGroupVersion, authorizationv1.AddToScheme, authorizationv1beta1.AddToScheme)
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(config, wait.Backoff{Duration: time.Millisecond, Factor: 1.5, Steps: 5}, codec, nil)
	if err != nil {
		t.Fatal(err)
	}
	ok := answer{200, `{"status":{"reason":"2"}}`}
	for name, row := range map[string]struct {
		script []answer
		calls  int
		err    string
	}{
		"good":             {[]answer{ok}, 1, ""},
		"created":          {[]answer{{201, `{"status":{"reason":"2"}}`}}, 1, ""},
		"broken, then not": {[]answer{{500, ""}, {429, ""}, ok}, 3, ""},
		"broken":           {[]answer{{500, ""}}, 5, "an error on the server"},
		"not found":        {[]answer{{404, ""}, ok}, 1, "could not find the requested resource"},
		"forbidden":        {[]answer{{403, ""}, ok}, 1, "unknown"},
		"no JSON":          {[]answer{{200, "{"}, ok}, 1, "json parse error"},
		"no answer":        {[]answer{{200, ""}, ok}, 1, "0-length response with status code: 200 and content type: application/json"},
		"another version":  {[]answer{{200, `{"apiVersion":"authorization.k8s.io/v1beta1","kind":"SubjectAccessReview"}`}, ok}, 1, "converting (v1beta1.SubjectAccessReview) to (v1.SubjectAccessReview): unknown conversion"},
		"a message":        {[]answer{{400, `{"apiVersion":"v1","kind":"Status","status":"Failure","message":"not like this","code":400}`}, ok}, 1, "not like this"},
		"too much":         {[]answer{{200, strings.Repeat(" ", MaxAnswer) + "{}"}, ok}, 1, "the answer has more than 1048576 bytes"},
	} {
		script, got = row.script, nil
		out, observed := authorizationv1.SubjectAccessReview{}, 0
		err := c.Post(t.Context(), &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: "ann"}}, &out, Call{Observe: func(int, time.Duration, error) { observed++ }})
		if (err == nil) != (row.err == "") || err != nil && !strings.Contains(err.Error(), row.err) || len(got) != row.calls || observed != row.calls {
			t.Errorf("%s: got %v after %d calls, %d observed, want %q after %d", name, err, len(got), observed, row.err, row.calls)
		}
		if err == nil && out.Status.Reason != "2" {
			t.Errorf("%s: got answer %+v", name, out)
		}
		if want := `POST /hook application/json Bearer secret {"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","metadata":{},"spec":{"user":"ann"},"status":{"allowed":false}}` + "\n"; got[0] != want {
			t.Errorf("%s: got request %q, want %q", name, got[0], want)
		}
	}
	script, got = []answer{ok}, nil
	if err := c.Post(t.Context(), map[string]int{"a": 1}, nil, Call{}); err != nil || got[0] != `POST /hook application/json Bearer secret {"a":1}` {
		t.Errorf("any JSON: got %v after %q", err, got)
	}
	script, got = []answer{{500, ""}, ok}, nil
	if err := c.Post(t.Context(), json.RawMessage("{}"), nil, Call{Once: true}); err == nil || len(got) != 1 {
		t.Errorf("once: got %v after %d calls", err, len(got))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Post(ctx, json.RawMessage("{}"), nil, Call{}); err == nil {
		t.Error("without time: no error")
	}
	server.Close()
	if err := c.Post(t.Context(), json.RawMessage("{}"), nil, Call{}); err == nil {
		t.Error("nobody there: no error")
	}
	if _, err := Config(filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("no file: no error")
	}
}
