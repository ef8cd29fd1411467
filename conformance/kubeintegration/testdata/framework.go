package framework

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/spf13/pflag"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	authorizationapi "k8s.io/kubernetes/pkg/apis/authorization"
	authorizationconversion "k8s.io/kubernetes/pkg/apis/authorization/v1"
	authorizationutil "k8s.io/kubernetes/pkg/registry/authorization/util"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	client "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	kubeapiservertesting "k8s.io/kubernetes/cmd/kube-apiserver/app/testing"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/controlplane"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	"k8s.io/kubernetes/pkg/serviceaccount"
	"k8s.io/kubernetes/test/utils"
)

// This file starts servers for upstream's integration tests. It takes the place of upstream's file
// of this name: that one builds kube-apiserver in the process of the tests, this one runs the
// keelson binary under the name kube-apiserver. Options become flags; authenticators and authorizers
// of the test become webhooks of the server. What else a test changes in upstream's process is
// refused.

// TestServerSetup changes the server before it starts.
type TestServerSetup struct {
	ModifyServerRunOptions func(*options.ServerRunOptions)
	ModifyServerConfig     func(*controlplane.Config)
	DisableInvariantChecks bool
}

// TearDownFunc stops a server.
type TearDownFunc func()

// StartTestServer starts a server, and returns a client with all permissions and its configuration.
func StartTestServer(ctx context.Context, t testing.TB, setup TestServerSetup) (client.Interface, *rest.Config, TearDownFunc) {
	t.Helper()
	dir, err := os.MkdirTemp("", "test-integration-"+strings.ReplaceAll(t.Name(), "/", "_"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	opts, err := newOptions(dir)
	if err != nil {
		t.Fatal(err)
	}
	if setup.ModifyServerRunOptions != nil {
		setup.ModifyServerRunOptions(opts)
	}
	args, err := flagsOf(opts)
	if err != nil {
		t.Fatal(err)
	}
	in := &inProcess{t: t, dir: dir, modes: opts.Authorization.Modes}
	if setup.ModifyServerConfig != nil {
		more, err := in.modify(opts, setup.ModifyServerConfig)
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, more...)
	}
	if len(opts.Authorization.Modes) > 0 {
		args = append(args, "--authorization-mode="+strings.Join(in.modes, ","))
	}
	p, err := kubeapiservertesting.Run(t, dir, opts, args, true)
	if err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(p.Config)
	config.CAFile, config.CAData = opts.SecureServing.ServerCert.CertKey.CertFile, nil
	if in.anybody {
		config.BearerToken = "anybody"
	}
	c, err := client.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c, config, func() {
		if !setup.DisableInvariantChecks {
			p.CheckInvariants(t)
		}
		p.Stop(t)
	}
}

// newOptions returns the options that tests get and may change.
func newOptions(dir string) (*options.ServerRunOptions, error) {
	key, err := kubeapiservertesting.SigningKey(dir)
	if err != nil {
		return nil, err
	}
	proxy, err := authority(dir, "front-proxy-ca")
	if err != nil {
		return nil, err
	}
	clients, err := authority(dir, "client-ca")
	if err != nil {
		return nil, err
	}
	opts := options.NewServerRunOptions()
	opts.SecureServing.BindAddress = net.IPv4(127, 0, 0, 1)
	opts.SecureServing.ServerCert.CertDirectory = dir
	opts.ServiceAccountSigningKeyFile = key
	opts.Etcd.StorageConfig.Prefix = path.Join("/", uuid.NewString(), "registry")
	opts.Etcd.StorageConfig.Transport.ServerList = []string{GetEtcdURL()}
	opts.ServiceClusterIPRanges = "10.0.0.0/24"
	authn := opts.Authentication
	authn.RequestHeader.UsernameHeaders = []string{"X-Remote-User"}
	authn.RequestHeader.GroupHeaders = []string{"X-Remote-Group"}
	authn.RequestHeader.ExtraHeaderPrefixes = []string{"X-Remote-Extra-"}
	authn.RequestHeader.AllowedNames = []string{"kube-aggregator"}
	authn.RequestHeader.ClientCAFile = proxy
	authn.ClientCert.ClientCA = clients
	authn.APIAudiences = []string{"https://foo.bar.example.com"}
	authn.ServiceAccounts.Issuers = []string{"https://foo.bar.example.com"}
	authn.ServiceAccounts.KeyFiles = []string{key}
	opts.Authorization.Modes = []string{"Node", "RBAC"}
	return opts, nil
}

// authority makes an authority and returns the file with its certificate.
func authority(dir, name string) (string, error) {
	key, err := utils.NewPrivateKey()
	if err != nil {
		return "", err
	}
	crt, err := cert.NewSelfSignedCACert(cert.Config{CommonName: name}, key)
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, name+".crt")
	return file, os.WriteFile(file, utils.EncodeCertPEM(crt), 0o644)
}

// elsewhere are flags that the fixture gives itself.
var elsewhere = []string{"authorization-mode", "bind-address", "cert-dir", "etcd-prefix", "etcd-servers", "secure-port", "token-auth-file"}

// flagsOf returns the flags that make kube-apiserver's options those of a test.
func flagsOf(opts *options.ServerRunOptions) ([]string, error) {
	plain := values(options.NewServerRunOptions())
	var args []string
	for name, f := range values(opts) {
		if f.DefValue == plain[name].DefValue || slices.Contains(elsewhere, name) {
			continue
		}
		list, ok := f.Value.(pflag.SliceValue)
		if !ok {
			args = append(args, "--"+name+"="+f.DefValue)
			continue
		}
		for _, item := range list.GetSlice() {
			if f.Value.Type() == "stringSlice" {
				var quoted strings.Builder
				w := csv.NewWriter(&quoted)
				w.Write([]string{item})
				w.Flush()
				item = strings.TrimSuffix(quoted.String(), "\n")
			}
			args = append(args, "--"+name+"="+item)
		}
	}
	if n := opts.GenericServerRunOptions.MaxRequestBodyBytes; n != options.NewServerRunOptions().GenericServerRunOptions.MaxRequestBodyBytes {
		return nil, kubeapiservertesting.InProcess("ServerRunOptions.GenericServerRunOptions.MaxRequestBodyBytes, which has no flag")
	}
	slices.Sort(args)
	return args, nil
}

// values returns the flags that are bound to options, which are their defaults.
func values(opts *options.ServerRunOptions) map[string]*pflag.Flag {
	all := map[string]*pflag.Flag{}
	named := opts.Flags()
	for _, set := range named.FlagSets {
		set.VisitAll(func(f *pflag.Flag) { all[f.Name] = f })
	}
	return all
}

// inProcess is what a test changes in the configuration of upstream's server.
type inProcess struct {
	t       testing.TB
	dir     string
	modes   []string // the authorizers
	anybody bool     // clients need no credential: the returned configuration has a token for which the webhook is asked
}

// noOpinion stands for the authorizers and the authenticators of the server.
type noOpinion struct{ authorizer.AuthorizerFunc }

// AuthenticateRequest implements authenticator.Request.
func (*noOpinion) AuthenticateRequest(*http.Request) (*authenticator.Response, bool, error) {
	return nil, false, nil
}

// modify lets the test change the configuration, and returns the flags that do the same.
func (in *inProcess) modify(opts *options.ServerRunOptions, change func(*controlplane.Config)) ([]string, error) {
	server := &noOpinion{func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
		return authorizer.DecisionNoOpinion, "", nil
	}}
	generic := genericapiserver.NewConfig(legacyscheme.Codecs)
	generic.LoopbackClientConfig = &rest.Config{BearerToken: "loopback"}
	generic.Authentication.Authenticator, generic.Authorization.Authorizer = server, server
	key, err := keyutil.PrivateKeyFromFile(opts.ServiceAccountSigningKeyFile)
	if err != nil {
		return nil, err
	}
	config := &controlplane.Config{ControlPlane: controlplaneapiserver.Config{Generic: generic}}
	if config.ControlPlane.Extra.ServiceAccountIssuer, err = serviceaccount.JWTTokenGenerator(opts.Authentication.ServiceAccounts.Issuers[0], key); err != nil {
		return nil, err
	}
	resolver, evaluator := generic.RequestInfoResolver, generic.AuditPolicyRuleEvaluator
	change(config)
	extra := &config.ControlPlane.Extra
	switch {
	case generic.AdmissionControl != nil:
		return nil, kubeapiservertesting.InProcess("controlplane.Config.ControlPlane.Generic.AdmissionControl")
	case generic.AuditBackend != nil || generic.AuditPolicyRuleEvaluator != evaluator:
		return nil, kubeapiservertesting.InProcess("controlplane.Config.ControlPlane.Generic.AuditBackend")
	case generic.OpenAPIConfig != nil:
		return nil, kubeapiservertesting.InProcess("controlplane.Config.ControlPlane.Generic.OpenAPIConfig")
	case generic.RequestInfoResolver != resolver:
		return nil, kubeapiservertesting.InProcess("controlplane.Config.ControlPlane.Generic.RequestInfoResolver")
	}
	var args []string
	if kind := config.Extra.EndpointReconcilerType; kind != "" {
		args = append(args, "--endpoint-reconciler-type="+string(kind))
	}
	if extra.ServiceAccountMaxExpiration != 0 {
		args = append(args, "--service-account-max-token-expiration="+extra.ServiceAccountMaxExpiration.String())
	}
	if extra.ExtendExpiration {
		args = append(args, "--service-account-extend-token-expiration=true")
	}
	if enabled, ok := extra.APIResourceConfigSource.(*serverstorage.ResourceConfig); ok {
		args = append(args, runtimeConfig(enabled)...)
	}
	in.anybody = generic.LoopbackClientConfig.BearerToken == ""
	if a := generic.Authorization.Authorizer; a != authorizer.Authorizer(server) {
		file, err := in.webhook(func(w http.ResponseWriter, r *http.Request) { authorize(w, r, a) })
		if err != nil {
			return nil, err
		}
		in.modes = append([]string{"Webhook"}, in.modes...)
		args = append(args, "--authorization-webhook-config-file="+file, "--authorization-webhook-version=v1",
			"--authorization-webhook-cache-authorized-ttl=0s", "--authorization-webhook-cache-unauthorized-ttl=0s")
	}
	if a := generic.Authentication.Authenticator; a != authenticator.Request(server) {
		file, err := in.webhook(func(w http.ResponseWriter, r *http.Request) { authenticate(w, r, a) })
		if err != nil {
			return nil, err
		}
		args = append(args, "--authentication-token-webhook-config-file="+file, "--authentication-token-webhook-version=v1",
			"--authentication-token-webhook-cache-ttl=1ns")
	}
	return args, nil
}

// runtimeConfig returns the flag for what a test serves in addition to the defaults.
func runtimeConfig(c *serverstorage.ResourceConfig) []string {
	var entries []string
	plain := controlplane.DefaultAPIResourceConfigSource()
	for gv, on := range c.GroupVersionConfigs {
		if on != plain.GroupVersionConfigs[gv] {
			entries = append(entries, fmt.Sprintf("%s=%t", strings.TrimPrefix(gv.Group+"/"+gv.Version, "/"), on))
		}
	}
	for r, on := range c.ResourceConfigs {
		if was, ok := plain.ResourceConfigs[r]; !ok || was != on {
			entries = append(entries, fmt.Sprintf("%s/%s/%s=%t", r.Group, r.Version, r.Resource, on))
		}
	}
	if len(entries) == 0 {
		return nil
	}
	slices.Sort(entries)
	return []string{"--runtime-config=" + strings.Join(entries, ",")}
}

// webhook serves a handler, and returns the kubeconfig of a client of it.
func (in *inProcess) webhook(h http.HandlerFunc) (string, error) {
	server := httptest.NewTLSServer(h)
	in.t.Cleanup(server.Close)
	f, err := os.CreateTemp(in.dir, "webhook-*.kubeconfig")
	if err != nil {
		return "", err
	}
	config := map[string]any{"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"clusters": []any{map[string]any{"name": "c", "cluster": map[string]any{"server": server.URL, "insecure-skip-tls-verify": true}}},
		"contexts": []any{map[string]any{"name": "c", "context": map[string]any{"cluster": "c", "user": "u"}}},
		"users":    []any{map[string]any{"name": "u", "user": map[string]any{}}}}
	return f.Name(), errors.Join(json.NewEncoder(f).Encode(config), f.Close())
}

// authorize answers a review by an authorizer of the test.
func authorize(w http.ResponseWriter, r *http.Request, a authorizer.Authorizer) {
	var review authorizationv1.SubjectAccessReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var spec authorizationapi.SubjectAccessReviewSpec
	if err := authorizationconversion.Convert_v1_SubjectAccessReviewSpec_To_authorization_SubjectAccessReviewSpec(&review.Spec, &spec, nil); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	decision, reason, err := a.Authorize(r.Context(), authorizationutil.AuthorizationAttributesFrom(spec))
	review.Status = authorizationv1.SubjectAccessReviewStatus{Allowed: decision == authorizer.DecisionAllow, Denied: decision == authorizer.DecisionDeny, Reason: reason}
	if err != nil {
		review.Status.EvaluationError = err.Error()
	}
	json.NewEncoder(w).Encode(review)
}

// authenticate answers a review of a token by an authenticator of the test.
func authenticate(w http.ResponseWriter, r *http.Request, a authenticator.Request) {
	var review authenticationv1.TokenReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, "/", nil)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	req.Header.Set("Authorization", "Bearer "+review.Spec.Token)
	resp, ok, err := a.AuthenticateRequest(req)
	review.Status = authenticationv1.TokenReviewStatus{Authenticated: ok && err == nil}
	switch {
	case err != nil:
		review.Status.Error = err.Error()
	case ok && resp.User != nil:
		u := resp.User
		review.Status.User = authenticationv1.UserInfo{Username: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: map[string]authenticationv1.ExtraValue{}}
		for key, value := range maps.All(u.GetExtra()) {
			review.Status.User.Extra[key] = value
		}
		// An authenticator of requests names no audiences: its users are for all of them.
		review.Status.Audiences = review.Spec.Audiences
	}
	review.APIVersion, review.Kind = "authentication.k8s.io/v1", "TokenReview"
	json.NewEncoder(w).Encode(review)
}
