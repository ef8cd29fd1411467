package meta

import (
	"encoding/base64"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/status"
)

func checkError(t *testing.T, what string, err error, code int32, text string) {
	t.Helper()
	var e *status.Error
	switch {
	case code == 0 && err == nil:
	case code == 0:
		t.Errorf("%s: %v", what, err)
	case !errors.As(err, &e):
		t.Errorf("%s: got %v, want a status", what, err)
	case e.Code != code || e.Message != text:
		t.Errorf("%s: got %d %q, want %d %q", what, e.Code, e.Message, code, text)
	}
}

func query(t *testing.T, s string) url.Values {
	t.Helper()
	q, err := url.ParseQuery(s)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestParseListOptions(t *testing.T) {
	const list = `ListOptions.meta.k8s.io "" is invalid: `
	for _, tt := range []struct {
		query string
		code  int32
		text  string
	}{
		{"", 0, ""},
		{"limit=500&continue=abc&resourceVersion=0&timeoutSeconds=10&labelSelector=a%3Db,c&fieldSelector=metadata.name%3Dx&unknown=1", 0, ""},
		{"limit=x", 400, `strconv.ParseInt: parsing "x": invalid syntax`},
		{"timeoutSeconds=1.5", 400, `strconv.ParseInt: parsing "1.5": invalid syntax`},
		{"limit=-1", 0, ""},
		{"labelSelector=a%3D%3D%3Db", 400, `unable to parse requirement: found '=', expected: identifier`},
		{"fieldSelector=a", 400, `invalid selector: 'a'; can't understand 'a'`},
		{"resourceVersionMatch=Exact", 422, list + `resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided`},
		{"resourceVersionMatch=Exact&resourceVersion=0", 422, list + `resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"`},
		{"resourceVersionMatch=Bogus&resourceVersion=1", 422, list + `resourceVersionMatch: Unsupported value: "Bogus": supported values: "Exact", "NotOlderThan", ""`},
		{"sendInitialEvents=true", 422, list + `sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list`},
		{"watch=1&sendInitialEvents=true", 422, list + `resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan`},
		{"watch=1&resourceVersionMatch=NotOlderThan", 422, list + `resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided`},
	} {
		_, err := ParseListOptions(query(t, tt.query))
		checkError(t, tt.query, err, tt.code, tt.text)
	}
	o, err := ParseListOptions(query(t, "watch=abc&allowWatchBookmarks=true"))
	if err != nil || !o.Watch || !o.AllowWatchBookmarks || o.SendInitialEvents == nil || !*o.SendInitialEvents || o.ResourceVersionMatch != "NotOlderThan" {
		t.Errorf("a watch from the beginning: got %+v, %v", o, err)
	}
	if o, err = ParseListOptions(query(t, "watch=true&resourceVersion=5")); err != nil || o.SendInitialEvents != nil {
		t.Errorf("a watch from a version: got %+v, %v", o, err)
	}
	if o, err = ParseListOptions(query(t, "watch=False")); err != nil || o.Watch {
		t.Errorf("watch=False: got %+v, %v", o, err)
	}
}

func TestParseWriteOptions(t *testing.T) {
	const bad = "dryRun=Some&fieldValidation=x&fieldManager=a%07b"
	for _, tt := range []struct {
		query string
		apply bool
		code  int32
		text  string // after the kind of options
	}{
		{"", false, 0, ""},
		{"dryRun=All&fieldManager=me&fieldValidation=Strict", false, 0, ""},
		{"dryRun=All&dryRun=All", false, 0, ""},
		{bad, false, 422, `[fieldManager: Invalid value: "a\ab": invalid character U+0007 (at position 1), dryRun: Unsupported value: ["Some"]: supported values: "All", fieldValidation: Unsupported value: "x": supported values: "", "Ignore", "Strict", "Warn"]`},
		{"fieldManager=" + strings.Repeat("x", 129), false, 422, `fieldManager: Too long: may not be more than 128 bytes`},
	} {
		text := func(kind string) string { return kind + `.meta.k8s.io "" is invalid: ` + tt.text }
		q := query(t, tt.query)
		_, err := ParseCreateOptions(q)
		checkError(t, "create "+tt.query, err, tt.code, text("CreateOptions"))
		_, err = ParseUpdateOptions(q)
		checkError(t, "update "+tt.query, err, tt.code, text("UpdateOptions"))
		_, err = ParsePatchOptions(q, false)
		checkError(t, "patch "+tt.query, err, tt.code, text("PatchOptions"))
	}
	_, err := ParsePatchOptions(query(t, "force=true"), false)
	checkError(t, "force", err, 422, `PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch`)
	_, err = ParsePatchOptions(query(t, "force=true"), true)
	checkError(t, "apply", err, 422, `PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch`)
	o, err := ParsePatchOptions(query(t, "force=true&fieldManager=me&dryRun=All"), true)
	if err != nil || o.Force == nil || !*o.Force || o.FieldManager != "me" || !o.DryRun || o.FieldValidation != "" {
		t.Errorf("got %+v, %v", o, err)
	}
}

func TestParseDeleteOptions(t *testing.T) {
	const invalid = `DeleteOptions.meta.k8s.io "" is invalid: `
	for _, tt := range []struct {
		name, body, media, query string
		code                     int32
		text                     string
	}{
		{"nothing", "", "", "", 0, ""},
		{"kubectl", `{"propagationPolicy":"Background"}`, "application/json", "propagationPolicy=bogus", 0, ""},
		{"typed", `{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0,"unknown":1}`, "", "", 0, ""},
		{"meta", `{"kind":"DeleteOptions","apiVersion":"meta.k8s.io/v1"}`, "application/json; charset=utf-8", "", 0, ""},
		{"other group", `{"kind":"DeleteOptions","apiVersion":"apps/v1"}`, "", "", 0, ""},
		{"yaml", "kind: DeleteOptions\napiVersion: v1\npropagationPolicy: Orphan\n", "application/yaml", "", 0, ""},
		{"policy", `{"propagationPolicy":"bogus"}`, "", "", 422, invalid + `propagationPolicy: Unsupported value: "bogus": supported values: "Foreground", "Background", "Orphan", "nil"`},
		{"policy in query", "", "", "propagationPolicy=bogus", 422, invalid + `propagationPolicy: Unsupported value: "bogus": supported values: "Foreground", "Background", "Orphan", "nil"`},
		{"both", `{"orphanDependents":true,"propagationPolicy":"Orphan"}`, "", "", 422, invalid + `propagationPolicy: Invalid value: "Orphan": orphanDependents and deletionPropagation cannot be both set`},
		{"dry run", `{"dryRun":["Some"]}`, "", "", 422, invalid + `dryRun: Unsupported value: ["Some"]: supported values: "All"`},
		{"grace", "", "", "gracePeriodSeconds=x", 400, `strconv.ParseInt: parsing "x": invalid syntax`},
	} {
		_, err := ParseDeleteOptions(t.Context(), []byte(tt.body), tt.media, query(t, tt.query))
		checkError(t, tt.name, err, tt.code, tt.text)
	}
	for _, body := range []string{`{`, `[]`, `{"kind":"Pod","apiVersion":"v1"}`, `{"kind":"Foo","apiVersion":"demo.io/v1"}`, `{"gracePeriodSeconds":"x"}`} {
		_, err := ParseDeleteOptions(t.Context(), []byte(body), "", nil)
		if e := (*status.Error)(nil); !errors.As(err, &e) || e.Code != 400 {
			t.Errorf("%s: got %v, want 400", body, err)
		}
	}
	o, err := ParseDeleteOptions(t.Context(), []byte(`{"dryRun":["All"],"preconditions":{"uid":"u","resourceVersion":"7"},"gracePeriodSeconds":5,"orphanDependents":false}`), "", nil)
	if err != nil || !o.DryRun || *o.UID != "u" || *o.ResourceVersion != "7" || *o.GracePeriodSeconds != 5 || *o.OrphanDependents {
		t.Errorf("got %+v, %v", o, err)
	}
}

func TestContinue(t *testing.T) {
	// A token of kube-apiserver.
	const token = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MTIsInN0YXJ0IjoiL2RlZmF1bHQvYVx1MDAwMCJ9"
	if got := EncodeContinue(12, "/default/a\x00"); got != token {
		t.Errorf("EncodeContinue: got %s", got)
	}
	rv, start, err := ParseContinue(token)
	if rv != 12 || start != "/default/a\x00" || err != nil {
		t.Errorf("ParseContinue: got %d, %q, %v", rv, start, err)
	}
	for raw, want := range map[string]string{
		`{"v":"meta.k8s.io/v1","rv":-1,"start":"a"}`:        "/a",
		`{"v":"meta.k8s.io/v1","rv":1,"start":"/a/b"}`:      "/a/b",
		`{"v":"meta.k8s.io/v1","rv":1,"start":"/é\\u0000"}`: "",
	} {
		if _, start, err := ParseContinue(base64.RawURLEncoding.EncodeToString([]byte(raw))); want != "" && (err != nil || start != want) {
			t.Errorf("%s: got %q, %v", raw, start, err)
		}
	}
	const bad = "invalid continue token: continue key is not valid: "
	for raw, want := range map[string]string{
		`{"v":"meta.k8s.io/v1","rv":0,"start":"a"}`:    bad + "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
		`{"v":"meta.k8s.io/v1","rv":1}`:                bad + "encoded start key empty (version meta.k8s.io/v1)",
		`{"v":"meta.k8s.io/v1","rv":1,"start":"../x"}`: bad + "../x",
		`{"v":"meta.k8s.io/v1","rv":1,"start":"a//b"}`: bad + "a//b",
		`{"v":"v2","rv":1,"start":"a"}`:                bad + "server does not recognize this encoded version v2",
		`{"v":1}`:                                      bad + "json: cannot unmarshal number into Go struct field continueToken.v of type string",
		`{`:                                            bad + "unexpected end of JSON input",
	} {
		_, _, err := ParseContinue(base64.RawURLEncoding.EncodeToString([]byte(raw)))
		checkError(t, raw, err, 400, want)
	}
	_, _, err = ParseContinue("%")
	checkError(t, "%", err, 400, bad+"illegal base64 data at input byte 0")
}

func FuzzParseContinue(f *testing.F) {
	f.Add("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MTIsInN0YXJ0IjoiL2RlZmF1bHQvYVx1MDAwMCJ9")
	f.Add("e30")
	f.Add(EncodeContinue(-1, "/../a"))
	f.Add(EncodeContinue(1, "a/b/./c"))
	f.Fuzz(func(t *testing.T, token string) {
		rv, start, err := ParseContinue(token)
		if err != nil {
			checkCode(t, err)
			return
		}
		if rv == 0 || !strings.HasPrefix(start, "/") || strings.Contains(start+"/", "/../") || strings.Contains(start, "//") {
			t.Fatalf("%q leads to %d %q", token, rv, start)
		}
		if rv2, start2, err := ParseContinue(EncodeContinue(rv, start)); err != nil || rv2 != rv || start2 != start {
			t.Fatalf("%q does not come back: %d %q %v", token, rv2, start2, err)
		}
	})
}

func checkCode(t *testing.T, err error) {
	t.Helper()
	if e := (*status.Error)(nil); !errors.As(err, &e) || e.Code != 400 {
		t.Fatalf("got %v, want 400", err)
	}
}
