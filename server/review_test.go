package server

import (
	"crypto/tls"
	"encoding/base64"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/keelson-io/keelson/internal/store/mem"
	"github.com/keelson-io/keelson/internal/testkit"
)

// This file asks who somebody is and what they may do, and tries to get in with
// what a server gave out.

// stranger returns a client without a credential.
func stranger() *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}}
}

const (
	authorizationPath  = "/apis/authorization.k8s.io/v1/"
	authenticationPath = "/apis/authentication.k8s.io/v1/"
)

func TestReviews(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens.csv")
	if err := os.WriteFile(tokens, []byte("good,root,1,system:masters\nplain,ann,2,dev\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, Config{Store: mem.New(mem.Options{}), TokenAuthFile: tokens})
	type row struct {
		name, auth, path, body string
		code                   int
		want                   string
	}
	sar := func(spec string) string {
		return `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":` + spec + `}`
	}
	for _, x := range []row{
		{"masters may", "good", authorizationPath + "subjectaccessreviews", sar(`{"user":"x","groups":["system:masters"],"resourceAttributes":{"verb":"get","resource":"pods"}}`), 201, `"status":{"allowed":true`},
		{"nobody may not", "good", authorizationPath + "subjectaccessreviews", sar(`{"user":"x","resourceAttributes":{"verb":"get","resource":"pods"}}`), 201, `"status":{"allowed":false}`},
		{"groups are literal", "good", authorizationPath + "subjectaccessreviews", sar(`{"user":"x","nonResourceAttributes":{"verb":"get","path":"/api"}}`), 201, `"status":{"allowed":false}`},
		{"both", "good", authorizationPath + "subjectaccessreviews", sar(`{"user":"x","nonResourceAttributes":{"verb":"get","path":"/api"},"resourceAttributes":{"verb":"get"}}`), 422,
			`\".authorization.k8s.io \\\"\\\" is invalid: spec: Invalid value: {\\\"path\\\":\\\"/api\\\",\\\"verb\\\":\\\"get\\\"}: exactly one of nonResourceAttributes or resourceAttributes must be specified`},
		{"neither, nobody", "good", authorizationPath + "subjectaccessreviews", sar(`{}`), 422, `spec.user: Invalid value: \"\": at least one of user or group must be specified`},
		{"metadata", "good", authorizationPath + "subjectaccessreviews", strings.Replace(sar(`{"user":"x","nonResourceAttributes":{"path":"/"}}`), `"spec"`, `"metadata":{"name":"x"},"spec"`, 1), 422, `must be empty`},
		{"selectors", "good", authorizationPath + "subjectaccessreviews", sar(`{"user":"x","resourceAttributes":{"verb":"list","resource":"pods","fieldSelector":{"rawSelector":"a=b","requirements":[{"key":"a","operator":"In","values":["b"]}]},"labelSelector":{}}}`), 422,
			`spec.resourceAttributes.fieldSelector.rawSelector: Invalid value: \"a=b\": may not specified at the same time as requirements, spec.resourceAttributes.labelSelector.requirements: Required value: when spec.resourceAttributes.labelSelector is specified, requirements or rawSelector is required`},
		{"selectors that are ignored", "good", authorizationPath + "subjectaccessreviews", sar(`{"user":"x","resourceAttributes":{"verb":"list","resource":"pods","fieldSelector":{"requirements":[{"key":"a","operator":"In","values":["b"]},{"key":"a","operator":"Odd","values":["b"]}]},"labelSelector":{"rawSelector":"=="}}}`), 201,
			`"evaluationError":"spec.resourceAttributes.fieldSelector partially ignored due to parse error; spec.resourceAttributes.labelSelector ignored due to parse error"`},
		{"self", "plain", authorizationPath + "selfsubjectaccessreviews", `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{"nonResourceAttributes":{"verb":"get","path":"/api"}}}`, 201, `"allowed":true,"reason":"RBAC: allowed by`},
		{"self, not", "plain", authorizationPath + "selfsubjectaccessreviews", `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}}`, 201, `"status":{"allowed":false}`},
		{"others are not to be asked about", "plain", authorizationPath + "subjectaccessreviews", sar(`{"user":"x","nonResourceAttributes":{"path":"/"}}`), 403, `User \"ann\" cannot create resource \"subjectaccessreviews\"`},
		{"local", "good", authorizationPath + "namespaces/default/localsubjectaccessreviews", `{"apiVersion":"authorization.k8s.io/v1","kind":"LocalSubjectAccessReview","metadata":{"namespace":"default"},"spec":{"groups":["system:masters"],"resourceAttributes":{"namespace":"default","verb":"get","resource":"pods"}}}`, 201, `"allowed":true`},
		{"local, elsewhere", "good", authorizationPath + "namespaces/default/localsubjectaccessreviews", `{"apiVersion":"authorization.k8s.io/v1","kind":"LocalSubjectAccessReview","spec":{"user":"x","resourceAttributes":{"namespace":"kube-system","verb":"get","resource":"pods"}}}`, 422, `spec.resourceAttributes.namespace: Invalid value: \"kube-system\": must match metadata.namespace`},
		{"local, path", "good", authorizationPath + "namespaces/default/localsubjectaccessreviews", `{"apiVersion":"authorization.k8s.io/v1","kind":"LocalSubjectAccessReview","spec":{"user":"x","nonResourceAttributes":{"path":"/"}}}`, 422, `disallowed on this kind of request`},
		{"rules", "plain", authorizationPath + "selfsubjectrulesreviews", `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectRulesReview","spec":{"namespace":"default"}}`, 201, `"resources":["selfsubjectaccessreviews","selfsubjectrulesreviews"]`},
		{"rules, no namespace", "plain", authorizationPath + "selfsubjectrulesreviews", `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectRulesReview","spec":{}}`, 400, `no namespace on request`},
		{"who am I", "plain", authenticationPath + "selfsubjectreviews", `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`, 201, `"userInfo":{"username":"ann","uid":"2","groups":["dev","system:authenticated"]}`},
		{"token", "good", authenticationPath + "tokenreviews", `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{"token":"plain"}}`, 201, `"status":{"authenticated":true,"user":{"username":"ann","uid":"2","groups":["dev","system:authenticated"]},"audiences":["https://kubernetes.default.svc.cluster.local"]}`},
		{"wrong token", "good", authenticationPath + "tokenreviews", `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{"token":"x"}}`, 201, `"status":{"user":{},"error":"invalid bearer token"}`},
		{"token for others", "good", authenticationPath + "tokenreviews", `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{"token":"plain","audiences":["x"]}}`, 201, `"error":"invalid bearer token"`},
		{"no token", "good", authenticationPath + "tokenreviews", `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{}}`, 400, `token is required for TokenReview in authentication`},
	} {
		code, text := r.call(stranger(), "POST", x.path, x.body, "Authorization", "Bearer "+x.auth, "Content-Type", "application/json")
		if code != x.code || !strings.Contains(text, x.want) && !strings.Contains(text, strings.ReplaceAll(strings.TrimPrefix(x.want, `\"`), `\\\"`, `\"`)) {
			t.Errorf("%s: got %d %s, want %d with %s", x.name, code, text, x.code, x.want)
		}
	}
	// They are created and nothing else.
	for _, method := range []string{"GET", "PUT", "DELETE", "PATCH"} {
		if code, text := r.call(r.client, method, authorizationPath+"subjectaccessreviews", "{}"); code != 405 && code != 404 {
			t.Errorf("%s: got %d %s", method, code, text)
		}
	}
}

// Policies and webhooks that are for everything are not for reviews: one that refuses, or whose
// server is away, would lock everybody out. Requests for tokens go through them.
func TestReviewsAreNobodysBusiness(t *testing.T) {
	r := start(t, Config{Store: mem.New(mem.Options{})})
	r.until("service account", func() bool { // the policy would refuse it to its controller
		code, _ := r.call(r.client, "GET", "/api/v1/namespaces/default/serviceaccounts/default", "")
		return code == http.StatusOK
	})
	const all = `"rules":[{"apiGroups":["*"],"apiVersions":["*"],"operations":["*"],"resources":["*/*"]}]`
	r.must("POST", admissionPath+"validatingadmissionpolicies", `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"p"},
		"spec":{"matchConstraints":{"resourceRules":[`+strings.TrimSuffix(strings.TrimPrefix(all, `"rules":[`), `]`)+`]},"validations":[{"expression":"request.kind.kind in ['ValidatingAdmissionPolicyBinding', 'ValidatingWebhookConfiguration']"}]}}`)
	r.must("POST", admissionPath+"validatingwebhookconfigurations", `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration","metadata":{"name":"w"},
		"webhooks":[{"name":"w.demo.io","admissionReviewVersions":["v1"],"sideEffects":"None","failurePolicy":"Fail","clientConfig":{"url":"https://127.0.0.1:1/"},`+all+`}]}`)
	r.must("POST", admissionPath+"validatingadmissionpolicybindings", bindingBody("b", "p", `"validationActions":["Deny"]`))
	refused := func(path, body string) bool {
		code, text := r.call(r.client, "POST", "/api/v1/namespaces/default/"+path, body, "Content-Type", "application/json")
		return code >= 400 && strings.Contains(text, "denied request")
	}
	testkit.Eventually(t, "the policy is in force", func() bool {
		return refused("configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}`) &&
			refused("serviceaccounts/default/token", `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}`)
	})
	for path, body := range map[string]string{
		authenticationPath + "selfsubjectreviews":      `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`,
		authenticationPath + "tokenreviews":            `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{"token":"x"}}`,
		authorizationPath + "subjectaccessreviews":     `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{"user":"x","nonResourceAttributes":{"path":"/"}}}`,
		authorizationPath + "selfsubjectaccessreviews": `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{"nonResourceAttributes":{"path":"/"}}}`,
		authorizationPath + "selfsubjectrulesreviews":  `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectRulesReview","spec":{"namespace":"default"}}`,
		authorizationPath + "namespaces/missing/localsubjectaccessreviews": `{"apiVersion":"authorization.k8s.io/v1","kind":"LocalSubjectAccessReview","metadata":{"namespace":"missing"},
			"spec":{"user":"x","resourceAttributes":{"namespace":"missing","verb":"get","resource":"pods"}}}`,
	} {
		if code, text := r.call(r.client, "POST", path, body, "Content-Type", "application/json"); code != 201 {
			t.Errorf("%s: got %d %s", path, code, text)
		}
	}
}

// Typed clients speak protobuf.
func TestReviewsOfTypedClients(t *testing.T) {
	r := start(t, Config{Store: mem.New(mem.Options{})})
	config, err := clientcmd.RESTConfigFromKubeConfig(r.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if got, err := c.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: "get", Path: "/x"}}}, metav1.CreateOptions{}); err != nil || !got.Status.Allowed {
		t.Errorf("access: got %+v, %v", got, err)
	}
	if got, err := c.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{}); err != nil ||
		got.Status.UserInfo.Username != adminUser || len(got.Status.UserInfo.Extra) != 1 {
		t.Errorf("self: got %+v, %v", got, err)
	}
	if got, err := c.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: "x"}}, metav1.CreateOptions{}); err != nil ||
		got.Status.Authenticated || got.Status.Error == "" {
		t.Errorf("token: got %+v, %v", got, err)
	}
	if got, err := c.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx, &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "default"}},
		metav1.CreateOptions{}); err != nil || len(got.Status.ResourceRules) == 0 {
		t.Errorf("rules: got %+v, %v", got, err)
	}
}

// Ledger: service-account-issuer, webhook-bound-tokens.
func TestServiceAccountTokens(t *testing.T) {
	r := start(t, Config{Store: mem.New(mem.Options{})})
	const base = "/api/v1/namespaces/default/"
	r.must("POST", base+"serviceaccounts", `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"robot"}}`)
	r.must("POST", base+"secrets", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}`)
	r.must("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"robot"},
		"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"view"},"subjects":[{"kind":"ServiceAccount","name":"robot","namespace":"default"}]}`)
	config, err := clientcmd.RESTConfigFromKubeConfig(r.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	c := kubernetes.NewForConfigOrDie(config)
	ctx := t.Context()
	issue := func(spec authenticationv1.TokenRequestSpec) (string, error) {
		got, err := c.CoreV1().ServiceAccounts("default").CreateToken(ctx, "robot", &authenticationv1.TokenRequest{Spec: spec}, metav1.CreateOptions{})
		if err != nil {
			return "", err
		}
		if got.Status.ExpirationTimestamp.IsZero() || got.Name != "robot" {
			t.Errorf("got %+v", got)
		}
		return got.Status.Token, nil
	}
	token := func(spec authenticationv1.TokenRequestSpec) string {
		t.Helper()
		text, err := issue(spec)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	as := func(token string) int {
		code, _ := r.call(stranger(), "GET", base+"serviceaccounts", "", "Authorization", "Bearer "+token)
		return code
	}
	good := token(authenticationv1.TokenRequestSpec{})
	if code := as(good); code != 200 {
		t.Fatalf("with its token: got %d", code)
	}
	code, text := r.call(stranger(), "POST", authenticationPath+"selfsubjectreviews", `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`, "Authorization", "Bearer "+good)
	if code != 201 || !strings.Contains(text, `"username":"system:serviceaccount:default:robot"`) || !strings.Contains(text, `"authentication.kubernetes.io/credential-id":["JTI=`) {
		t.Errorf("who am I: got %d %s", code, text)
	}
	parts := strings.Split(good, ".")
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`))
	for name, bad := range map[string]string{
		"alg none":     none + "." + parts[1] + ".",
		"no signature": parts[0] + "." + parts[1] + ".",
		"another's":    parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"https://kubernetes.default.svc.cluster.local"}`)) + "." + parts[2],
		"for others":   token(authenticationv1.TokenRequestSpec{Audiences: []string{"elsewhere"}}),
	} {
		if code := as(bad); code != 401 {
			t.Errorf("%s: got %d", name, code)
		}
	}
	// A token ends with what it is bound to.
	bound := token(authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Secret", APIVersion: "v1", Name: "s"}})
	r.must("DELETE", base+"secrets/s", "")
	if code := as(bound); code != 401 {
		t.Errorf("bound to a secret that is gone: got %d", code)
	}
	short := int64(60)
	for want, spec := range map[string]authenticationv1.TokenRequestSpec{
		"may not specify a duration less than 10 minutes":                {ExpirationSeconds: &short},
		"cannot bind token to object of type":                            {BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "ConfigMap", APIVersion: "v1", Name: "s"}},
		"(feature gate APIServerWebhookAuthenticationToken is disabled)": {BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "MutatingWebhookConfiguration", APIVersion: "admissionregistration.k8s.io/v1", Name: "s"}},
		`secrets "s" not found`:                                          {BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Secret", APIVersion: "v1", Name: "s"}},
	} {
		if _, err := issue(spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	other := token(authenticationv1.TokenRequestSpec{})
	r.must("DELETE", base+"serviceaccounts/robot", "")
	r.must("POST", base+"serviceaccounts", `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"robot"}}`)
	if code := as(other); code != 401 {
		t.Errorf("after the account was made anew: got %d", code)
	}
	// Others can verify.
	for path, want := range map[string]string{"/.well-known/openid-configuration": `"jwks_uri":"https://`, "/openid/v1/jwks": `"keys":[{"use":"sig","kty":"EC"`} {
		if text := r.must("GET", path, ""); !strings.Contains(text, want) {
			t.Errorf("%s: got %s", path, text)
		}
		if code, _ := r.call(stranger(), "GET", path, ""); code != 403 {
			t.Errorf("%s, a stranger: got %d", path, code)
		}
	}
}
