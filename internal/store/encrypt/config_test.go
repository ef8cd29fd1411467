package encrypt

import (
	"fmt"
	"strings"
	"testing"
)

// TestDecode: what is wrong is said in upstream's words, and secrets are never among them.
func TestDecode(t *testing.T) {
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n"
	entry := func(resources, provider string) string {
		return head + "resources:\n- resources: [" + resources + "]\n  providers: [" + provider + "]\n"
	}
	kms := func(more string) string {
		return entry("secrets", "{kms: {name: a, endpoint: 'unix:///a', apiVersion: v2, "+more+"}}")
	}
	good := keyFor("aescbc", "a", 1)
	for _, test := range []struct{ text, want string }{
		{entry("secrets", good), ""},
		{entry("secrets", "{identity: {}}"), ""},
		{kms("timeout: 1s"), ""},
		{head + "resources: []", "resources: Required value: at least one resources is required"},
		{entry("", good), "resources[0].resources: Required value: at least one resources[0].resources is required"},
		{entry("secrets", ""), "resources[0].providers: Required value: at least one resources[0].providers is required"},
		{entry("Secrets", good), "resource name should not contain capital letters"},
		{entry("'*'", good), "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources"},
		{entry("secrets.*", good), "encrypting the same resource across groups is not supported"},
		{entry("events.events.k8s.io", good), "'*.events.k8s.io' objects are stored using the 'events' API group in etcd"},
		{entry("a.extensions", good), "'extensions' group has been removed"},
		{entry("serviceipallocations", good), "resources which do not have REST API/s cannot be encrypted"},
		{entry("secrets, secrets", good), "the same resource cannot be specified multiple times"},
		{entry("secrets, '*.'", good), "using overlapping resources such as"},
		{entry("secrets", "{}"), "provider does not contain any of the expected providers"},
		{entry("secrets", "{identity: {}, aescbc: {keys: []}}"), "more than one provider specified in a single element"},
		{entry("secrets", "{aescbc: {keys: []}}"), "resources[0].providers[0].aescbc.keys: Required value: at least one keys is required"},
		{entry("secrets", "{aescbc: {keys: [{secret: aaaa}]}}"), "name is a mandatory field for a key"},
		{entry("secrets", "{aescbc: {keys: [{name: a}]}}"), "secret is a mandatory field for a key"},
		{entry("secrets", "{aescbc: {keys: [{name: a, secret: '!topsecret'}]}}"), `Invalid value: "REDACTED": secrets must be base64 encoded`},
		{entry("secrets", "{secretbox: {keys: [{name: a, secret: topsecre}]}}"), "secret is not of the expected length, got 6, expected one of [32]"},
		{entry("secrets", "{kms: {name: '', endpoint: 'unix:///a', apiVersion: v2}}"), "name is a mandatory field for a provider"},
		{entry("secrets", "{kms: {name: 'a:b', endpoint: 'unix:///a', apiVersion: v2}}"), "invalid KMS provider name a:b, must not contain ':'"},
		{entry("secrets", "{kms: {name: a, endpoint: 'tcp://a', apiVersion: v2}}"), `unsupported scheme "tcp" for KMS provider, only unix is supported`},
		{entry("secrets", "{kms: {name: a, apiVersion: v2}}"), "endpoint is a mandatory field for a kms"},
		{kms("timeout: -1s"), "timeout should be a positive value"},
		{kms("cachesize: 3"), "cachesize is not supported in v2"},
		{entry("secrets", "{kms: {name: a, endpoint: 'unix:///a', apiVersion: v3}}"), "only v1 and v2 are supported"},
		{entry("secrets", good) + "more: 1\n", `unknown field "more"`},
	} {
		_, err := Decode([]byte(test.text))
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: %v", test.text, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: got %v, want %s", test.text, err, test.want)
		case err != nil && strings.Contains(err.Error(), "topsec"):
			t.Errorf("the error has the secret: %v", err)
		}
	}
	if got := fmt.Sprintf("%v %+v %#v", Key{"a", "b4"}, Key{"a", "b4"}, Key{"a", "b4"}); strings.Contains(got, "b4") {
		t.Errorf("a key is printed as %s", got)
	}
}

// TestRulesRefuse: version 1 of the KMS API, and rules that an earlier one hides, are refused.
func TestRulesRefuse(t *testing.T) {
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n"
	for text, want := range map[string]string{
		head + "- resources: [secrets]\n  providers: [{kms: {name: a, endpoint: 'unix:///a'}}]\n":                             "KMSv1 is deprecated and not supported here",
		head + "- resources: ['*.*']\n  providers: [{identity: {}}]\n- resources: [secrets]\n  providers: [{identity: {}}]\n": `resource "secrets" is masked by earlier rule "*.*"`,
		head + "- resources: ['*.']\n  providers: [{identity: {}}]\n- resources: [secrets]\n  providers: [{identity: {}}]\n":  `resource "secrets" is masked by earlier rule "*."`,
	} {
		c, err := Decode([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := NewRules(t.Context(), c, PluginOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
