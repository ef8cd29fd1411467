package server

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/keelson-io/keelson/internal/admission/plugins"
	"github.com/keelson-io/keelson/internal/store/mem"
	"github.com/keelson-io/keelson/internal/testkit"
)

// This file tests admission configuration that comes from files.

// admissionFile writes an AdmissionConfiguration, and returns its path. Each plugin is a name and its
// configuration in JSON.
func admissionFile(t *testing.T, plugins ...string) string {
	t.Helper()
	text := `{"apiVersion":"apiserver.config.k8s.io/v1","kind":"AdmissionConfiguration","plugins":[`
	for i := 0; i < len(plugins); i += 2 {
		if i > 0 {
			text += ","
		}
		text += fmt.Sprintf(`{"name":%q,"configuration":%s}`, plugins[i], plugins[i+1])
	}
	return writeFile(t, t.TempDir(), "admission.json", text+"]}")
}

func writeFile(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// policyConfig returns the configuration of a policy plugin.
func policyConfig(plugin, dir string) string {
	return fmt.Sprintf(`{"apiVersion":"apiserver.config.k8s.io/v1","kind":"%sConfiguration","staticManifestsDir":%q}`, plugin, dir)
}

// denyLabel is a policy with its binding, which refuses objects with a label.
const denyLabel = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: label.static.k8s.io}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]},
      {apiGroups: [admissionregistration.k8s.io], apiVersions: [v1], operations: [CREATE], resources: ["*"]}]
  validations: [{expression: "!has(object.metadata.labels) || !('%s' in object.metadata.labels)", message: the label is not allowed}]
---
apiVersion: v1
kind: List
items:
- apiVersion: admissionregistration.k8s.io/v1
  kind: ValidatingAdmissionPolicyBinding
  metadata: {name: label.static.k8s.io}
  spec: {policyName: label.static.k8s.io, validationActions: [Deny]}
`

// TestStaticPolicies holds that policies from files are in force, also for the objects that configure admission, and are read again when
// they change.
func TestStaticPolicies(t *testing.T) {
	dir := t.TempDir()
	file := writeFile(t, dir, "p.yaml", fmt.Sprintf(denyLabel, "secret"))
	writeFile(t, dir, "README.md", "this is not a manifest")
	r := start(t, Config{Store: mem.New(mem.Options{}), AdmissionConfigFile: admissionFile(t, plugins.ValidatingPolicy, policyConfig(plugins.ValidatingPolicy, dir))})
	labeled := func(kind, name, label, more string) string {
		version := "v1"
		if strings.HasPrefix(kind, "Validating") {
			version = "admissionregistration.k8s.io/v1"
		}
		return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"labels":{%q:"x"}}%s}`, version, kind, name, label, more)
	}
	const maps, own = "/api/v1/namespaces/default/configmaps", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
	const denied = `ValidatingAdmissionPolicy 'label.static.k8s.io' with binding 'label.static.k8s.io' denied request: the label is not allowed`
	const spec = `,"spec":{"policyName":"p","validationActions":["Deny"]}`
	r.run(t, []step{
		{"POST", maps, labeled("ConfigMap", "a", "secret", ""), 422, []string{denied}},
		{"POST", maps, labeled("ConfigMap", "a", "other", ""), 201, nil},
		{"POST", own, labeled("ValidatingAdmissionPolicyBinding", "b", "secret", spec), 422, []string{denied}},
		{"POST", own, labeled("ValidatingAdmissionPolicyBinding", "b.static.k8s.io", "other", spec), 422, []string{`are reserved for static manifest-based configurations`}},
		{"GET", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/label.static.k8s.io", "", 404, nil},
	})
	// A mistake leaves the policies as they are.
	swapFile(t, file, "kind: Nonesuch")
	r.run(t, []step{{"POST", maps, labeled("ConfigMap", "c", "secret", ""), 422, []string{denied}}})
	swapFile(t, file, fmt.Sprintf(denyLabel, "other"))
	n := 0
	testkit.Eventually(t, "the policy is read again", func() bool {
		n++
		code, _ := r.call(r.client, "POST", maps, labeled("ConfigMap", fmt.Sprintf("d%d", n), "secret", ""))
		return code == 201
	})
	r.run(t, []step{{"POST", maps, labeled("ConfigMap", "e", "other", ""), 422, []string{denied}}})
}

// swapFile replaces a file in one step: a server must not read it when it is empty.
func swapFile(t *testing.T, file, text string) {
	t.Helper()
	next := filepath.Join(t.TempDir(), "next")
	if err := errors.Join(os.WriteFile(next, []byte(text), 0o600), os.Rename(next, file)); err != nil {
		t.Fatal(err)
	}
}

// TestStaticMistakes holds that the server does not start with a folder that has a mistake, and says which.
func TestStaticMistakes(t *testing.T) {
	const head = "apiVersion: admissionregistration.k8s.io/v1\nkind: "
	for _, row := range []struct{ plugin, text, want string }{
		{plugins.ValidatingPolicy, head + "ValidatingAdmissionPolicy\nmetadata: {name: p}", `got the name "p", want one that ends with .static.k8s.io`},
		{plugins.ValidatingPolicy, head + "MutatingAdmissionPolicy\nmetadata: {name: p.static.k8s.io}", "got MutatingAdmissionPolicy of admissionregistration.k8s.io/v1, want ValidatingAdmissionPolicy or ValidatingAdmissionPolicyBinding"},
		{plugins.ValidatingPolicy, "a: [", "m.yaml"},
		{plugins.ValidatingPolicy, fmt.Sprintf(denyLabel, "a") + "---\n" + fmt.Sprintf(denyLabel, "a"), "is in "},
		{plugins.ValidatingPolicy, strings.Replace(fmt.Sprintf(denyLabel, "a"), "spec:\n", "spec:\n  paramKind: {apiVersion: v1, kind: ConfigMap}\n", 1), "spec.paramKind is not supported for static manifests"},
		{plugins.ValidatingPolicy, strings.Replace(fmt.Sprintf(denyLabel, "a"), "policyName: label", "policyName: another", 1), `spec.policyName: got "another.static.k8s.io", want a policy of the same folder`},
		{plugins.ValidatingPolicy, strings.Replace(fmt.Sprintf(denyLabel, "a"), "!has(", "!hasnt(", 1), "undeclared reference to 'hasnt'"},
		{plugins.ValidatingPolicy, strings.Replace(fmt.Sprintf(denyLabel, "a"), "validations:", "validation:", 1), `unknown field "spec.validation"`},
		{plugins.ValidatingWebhook, head + "ValidatingWebhookConfiguration\nmetadata: {name: w.static.k8s.io}\nwebhooks: [{name: a.b.c, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {service: {name: hook, namespace: team}}}]",
			`webhook "a.b.c": clientConfig.service is not supported for static manifests; use clientConfig.url instead`},
	} {
		dir := t.TempDir()
		writeFile(t, dir, "m.yaml", row.text)
		config := policyConfig(row.plugin, dir)
		if row.plugin == plugins.ValidatingWebhook {
			config = strings.Replace(config, "ValidatingAdmissionWebhookConfiguration", "WebhookAdmissionConfiguration", 1)
		}
		s, err := New(t.Context(), Config{Store: mem.New(mem.Options{}), SecurePort: -1, AdmissionConfigFile: admissionFile(t, row.plugin, config)})
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: got %v, want %q", row.text, err, row.want)
		}
	}
}

// TestWebhookCredentials holds that a webhook gets the credentials that a kubeconfig has for its host, also new ones, and that webhooks
// from files are called for the objects that configure admission, and never for reviews.
// Ledger: kubeconfig-reload.
func TestWebhookCredentials(t *testing.T) {
	var asked []string
	hook := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var v review
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the server ended while a controller wrote an object
		}
		if err := json.Unmarshal(body, &v); err != nil {
			t.Error(err)
		}
		user := "nobody"
		if len(r.TLS.PeerCertificates) > 0 {
			user = r.TLS.PeerCertificates[0].Subject.CommonName
		}
		if v.Request.Name == "kube-root-ca.crt" || v.Request.Namespace == "kube-system" { // which the server makes by itself
			fmt.Fprintf(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,"allowed":true}}`, v.Request.UID)
			return
		}
		asked = append(asked, fmt.Sprintf("%s %s %s", v.Request.Kind.Kind, r.Header.Get("Authorization"), user))
		fmt.Fprintf(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,"allowed":true}}`, v.Request.UID)
	}))
	hook.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	hook.StartTLS()
	defer hook.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw})

	first := start(t, Config{Store: mem.New(mem.Options{})})
	cert, key, err := first.ClientCertificate("the-server")
	if err != nil {
		t.Fatal(err)
	}
	host := strings.TrimPrefix(hook.URL, "https://")
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(clientcmdapi.Config{AuthInfos: map[string]*clientcmdapi.AuthInfo{
		host: {Token: "for-this-host", ClientCertificateData: cert, ClientKeyData: key},
		"*":  {Token: "for-others"},
	}}, kubeconfig); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	writeFile(t, dir, "w.json", fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration","metadata":{"name":"w.static.k8s.io"},
		"webhooks":[{"name":"a.b.c","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":%q,"caBundle":%q},
		"rules":[{"apiGroups":["*"],"apiVersions":["*"],"operations":["CREATE"],"resources":["configmaps","validatingwebhookconfigurations","selfsubjectreviews"]}]}]}`,
		hook.URL, base64.StdEncoding.EncodeToString(ca)))
	config := fmt.Sprintf(`{"apiVersion":"apiserver.config.k8s.io/v1","kind":"WebhookAdmissionConfiguration","kubeConfigFile":%q,"staticManifestsDir":%q}`, kubeconfig, dir)
	r := start(t, Config{Store: mem.New(mem.Options{}), AdmissionConfigFile: admissionFile(t, plugins.ValidatingWebhook, config)})
	r.must("POST", "/api/v1/namespaces/default/configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"}}`)
	r.must("POST", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration","metadata":{"name":"x"}}`)
	r.must("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`)
	if got, want := strings.Join(asked, "\n"), "ConfigMap Bearer for-this-host the-server\nValidatingWebhookConfiguration Bearer for-this-host the-server"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}

	// The kubeconfig, and then the files that it names, are replaced.
	folder := filepath.Dir(kubeconfig)
	issue := func(name string) (cert, key string) {
		t.Helper()
		c, k, err := first.ClientCertificate(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(c), string(k)
	}
	nextCert, nextKey := issue("the-next")
	lastCert, lastKey := issue("the-last")
	for n, row := range []struct {
		what   string
		change func()
		want   string
	}{
		{"another kubeconfig", func() {
			writeFile(t, folder, "client.crt", nextCert)
			writeFile(t, folder, "client.key", nextKey)
			if err := clientcmd.WriteToFile(clientcmdapi.Config{AuthInfos: map[string]*clientcmdapi.AuthInfo{
				host: {Token: "another", ClientCertificate: "client.crt", ClientKey: "client.key"},
			}}, kubeconfig); err != nil {
				t.Fatal(err)
			}
		}, "another the-next"},
		{"a certificate without its key", func() { writeFile(t, folder, "client.crt", lastCert) }, "another the-next"},
		{"its key", func() { writeFile(t, folder, "client.key", lastKey) }, "another the-last"},
		{"a missing kubeconfig", func() { os.Remove(kubeconfig) }, "another the-last"},
	} {
		row.change()
		r.files.Check()
		asked = nil
		r.must("POST", "/api/v1/namespaces/default/configmaps", fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m%d"}}`, n))
		if got, want := strings.Join(asked, "\n"), "ConfigMap Bearer "+row.want; got != want {
			t.Errorf("%s: got %s, want %s", row.what, got, want)
		}
	}
}
