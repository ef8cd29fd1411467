package webhook

import (
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

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// This file asks a webhook that answers as it is told.

func TestWebhook(t *testing.T) {
	var code int
	var status, answerVersion string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review authenticationv1.TokenReview
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, &review)
		}
		if err != nil || review.Kind != "TokenReview" || review.Spec.Token != "secret" {
			t.Errorf("asked %s (%v)", body, err)
		}
		if answerVersion == "" {
			answerVersion = review.APIVersion
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"apiVersion":%q,"kind":"TokenReview","status":%s}`, answerVersion, status)
	}))
	defer server.Close()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c"}}],"clusters":[{"name":"c","cluster":{"server":%q}}]}`, server.URL)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	const ann = `{"authenticated":true,"user":{"username":"ann","uid":"7","groups":["dev"],"extra":{"k":["v"]}}`
	for _, version := range []string{"v1", "v1beta1"} {
		reg := prometheus.NewRegistry()
		hook, err := New(Config{ConfigFile: path, Version: version, Audiences: []string{"api"}, Metrics: reg, Backoff: wait.Backoff{Duration: time.Millisecond, Steps: 2}})
		if err != nil {
			t.Fatal(err)
		}
		for name, row := range map[string]struct {
			code            int
			status, version string
			audiences       []string
			want            string
		}{
			"good":               {200, ann + "}", "", nil, "ann 7 [dev system:authenticated] map[k:[v]] []"},
			"created":            {201, ann + "}", "", nil, "ann 7 [dev system:authenticated] map[k:[v]] []"},
			"default audience":   {200, ann + "}", "", []string{"x", "api"}, "ann 7 [dev system:authenticated] map[k:[v]] [api]"},
			"said audience":      {200, ann + `,"audiences":["x"]}`, "", []string{"x", "api"}, "ann 7 [dev system:authenticated] map[k:[v]] [x]"},
			"another audience":   {200, ann + `,"audiences":["y"]}`, "", []string{"x", "api"}, "nobody"},
			"not authenticated":  {200, `{"user":{"username":"root"}}`, "", nil, "nobody"},
			"error":              {200, `{"error":"expired"}`, "", nil, "expired"},
			"error and user":     {200, `{"error":"expired","user":{"username":"root"}}`, "", nil, "expired"},
			"broken":             {500, `{}`, "", nil, "an error on the server"},
			"forbidden":          {403, ann + "}", "", nil, "unknown"},
			"of another version": {200, ann + "}", "authentication.k8s.io/v2", nil, `no kind "TokenReview" is registered for version "authentication.k8s.io/v2"`},
			"no JSON":            {200, "{", "", nil, "json parse error"},
		} {
			code, status, answerVersion = row.code, row.status, row.version
			r, err := hook.AuthenticateToken(t.Context(), "secret", row.audiences)
			got := "nobody"
			if err != nil {
				got = err.Error()
			} else if r != nil {
				got = fmt.Sprintf("%s %s %v %v %v", r.User.Name, r.User.UID, r.User.Groups, r.User.Extra, r.Audiences)
			}
			if got != row.want && (err == nil || !strings.Contains(got, row.want)) {
				t.Errorf("%s, %s: got %q, want %q", version, name, got, row.want)
			}
		}
		if n, err := testutil.GatherAndCount(reg, "apiserver_delegated_authn_request_total"); n != 4 || err != nil {
			t.Errorf("%s: got %d codes counted, %v", version, n, err)
		}
	}
	if _, err := New(Config{ConfigFile: path, Version: "v2"}); err == nil || err.Error() != `unsupported authentication webhook version "v2", supported versions are "v1", "v1beta1"` {
		t.Errorf("version v2: got %v", err)
	}
	if _, err := New(Config{ConfigFile: path + "x", Version: "v1"}); err == nil {
		t.Error("no file: no error")
	}
}
