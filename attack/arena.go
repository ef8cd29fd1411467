package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// arena is a server under attack, with what the moves know about it: who may do what, and where resources are.
//
// The namespaces: arena is where the editor may write; ordinary is where the ordinary user works; vault holds objects that no actor
// may read or change.
type arena struct {
	o         *options
	dir       string
	server    *process
	disk      *disk // of the data directory; nil if that is an ordinary folder
	ordinary  *bystander
	admin     *http.Client
	resources []resource // what is served, as discovery lists it
	baseline  *baseline
	secret    string // text that only objects of vault hold; an answer with it has leaked
	files     int    // open files at rest
	peak      int64  // largest resident memory that was seen

	mu     sync.Mutex
	leaks  []string  // answers to an actor that held the secret
	noted  []Finding // by moves that judge themselves
	volume string    // where a file system of -volume is mounted, "" if none is
}

// resource is one entry of discovery.
type resource struct {
	Group, Version, Plural, Kind string
	Namespaced                   bool
	Verbs                        []string
}

func (r resource) path(namespace, name string) string {
	p := "/apis/" + r.Group + "/" + r.Version
	if r.Group == "" {
		p = "/api/" + r.Version
	}
	if r.Namespaced && namespace != "" {
		p += "/namespaces/" + namespace
	}
	p += "/" + r.Plural
	if name != "" {
		p += "/" + name
	}
	return p
}

func (r resource) apiVersion() string {
	if r.Group == "" {
		return r.Version
	}
	return r.Group + "/" + r.Version
}

// setup is what the administrator creates: rights of the actors, and objects that must stay as they are.
const setup = `
POST /api/v1/namespaces {"apiVersion":"v1","kind":"Namespace","metadata":{"name":"arena"}}
POST /api/v1/namespaces {"apiVersion":"v1","kind":"Namespace","metadata":{"name":"ordinary"}}
POST /api/v1/namespaces {"apiVersion":"v1","kind":"Namespace","metadata":{"name":"vault"}}
POST /apis/rbac.authorization.k8s.io/v1/namespaces/ordinary/rolebindings {"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"ordinary"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"edit"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"ordinary"}]}
POST /apis/rbac.authorization.k8s.io/v1/namespaces/ordinary/roles {"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"works"},"rules":[{"apiGroups":["ordinary.example"],"resources":["*"],"verbs":["*"]}]}
POST /apis/rbac.authorization.k8s.io/v1/namespaces/ordinary/rolebindings {"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"works"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"works"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"ordinary"}]}
POST /apis/rbac.authorization.k8s.io/v1/namespaces/arena/rolebindings {"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"editor"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"admin"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"editor"},{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"author"}]}
POST /apis/rbac.authorization.k8s.io/v1/clusterroles {"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"author"},"rules":[{"apiGroups":["apiextensions.k8s.io"],"resources":["*"],"verbs":["*"]},{"apiGroups":["attack.example"],"resources":["*"],"verbs":["*"]}]}
POST /apis/rbac.authorization.k8s.io/v1/clusterrolebindings {"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"author"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"author"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"author"}]}
POST /apis/rbac.authorization.k8s.io/v1/clusterroles {"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"policies"},"rules":[{"apiGroups":["admissionregistration.k8s.io"],"resources":["*"],"verbs":["*"]},{"apiGroups":["attack.example"],"resources":["*"],"verbs":["*"]}]}
POST /apis/rbac.authorization.k8s.io/v1/clusterrolebindings {"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"policies"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"policies"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"policies"}]}
POST /apis/rbac.authorization.k8s.io/v1/clusterroles {"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"fairness"},"rules":[{"apiGroups":["flowcontrol.apiserver.k8s.io"],"resources":["*"],"verbs":["*"]}]}
POST /apis/rbac.authorization.k8s.io/v1/clusterrolebindings {"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"fairness"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"fairness"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"fairness"}]}
POST /apis/rbac.authorization.k8s.io/v1/clusterroles {"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"monitor"},"rules":[{"nonResourceURLs":["*"],"verbs":["*"]}]}
POST /apis/rbac.authorization.k8s.io/v1/clusterrolebindings {"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"monitor"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"monitor"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"monitor"}]}
POST /apis/rbac.authorization.k8s.io/v1/namespaces/arena/roles {"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"quotas"},"rules":[{"apiGroups":[""],"resources":["resourcequotas","resourcequotas/status","limitranges","pods","configmaps"],"verbs":["*"]}]}
POST /apis/rbac.authorization.k8s.io/v1/namespaces/arena/rolebindings {"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"quotas"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"quotas"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"quotas"}]}
POST /apis/rbac.authorization.k8s.io/v1/clusterrolebindings {"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"warden"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"warden"}]}
POST /apis/rbac.authorization.k8s.io/v1/clusterroles {"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"canary"},"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}
POST /apis/rbac.authorization.k8s.io/v1/clusterrolebindings {"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"canary"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"canary"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"canary"}]}
POST /api/v1/nodes {"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"}}
POST /api/v1/nodes {"apiVersion":"v1","kind":"Node","metadata":{"name":"n2"},"spec":{"taints":[{"key":"a","effect":"NoSchedule"}]}}
POST /api/v1/namespaces/vault/secrets {"apiVersion":"v1","kind":"Secret","metadata":{"name":"treasure"},"stringData":{"gold":"SECRET"}}
POST /api/v1/namespaces/vault/configmaps {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"map"},"data":{"gold":"SECRET"}}
POST /api/v1/namespaces/vault/serviceaccounts {"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"keeper"}}
POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"works.ordinary.example"},"spec":{"group":"ordinary.example","scope":"Namespaced","names":{"plural":"works","kind":"Work"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"n":{"type":"integer","default":1}}}}}}}]}}
POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"targets.attack.example"},"spec":{"group":"attack.example","scope":"Namespaced","names":{"plural":"targets","kind":"Target"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}
`

// longList is the number of objects of the ordinary user that are there from the start: their list is one that waits when memory is tight.
const longList = 300

func newArena(ctx context.Context, o *options) (_ *arena, err error) {
	dir, err := os.MkdirTemp("", "attack-")
	if err != nil {
		return nil, err
	}
	a := &arena{o: o, dir: dir, secret: "secret-" + random(16)}
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	if o.power {
		if a.disk, err = newDisk(filepath.Join(dir, "disk")); err != nil {
			return nil, err
		}
		dir = a.disk.dir
	}
	if dir, err = a.mount(dir); err != nil {
		return nil, err
	}
	if a.server, err = start(ctx, o, filepath.Join(dir, "data")); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, a.log())
	}
	a.admin = client(a, "admin", ordinaryAddress, false)
	for line := range strings.Lines(setup) {
		parts := strings.SplitN(strings.TrimSpace(line), " ", 3)
		if len(parts) < 3 {
			continue
		}
		text := strings.ReplaceAll(parts[2], "SECRET", a.secret)
		if _, err := a.ask(ctx, parts[0], parts[1], text, 201); err != nil {
			return nil, fmt.Errorf("preparing the server: %w", err)
		}
	}
	for i := range longList {
		text := fmt.Sprintf(`{"metadata":{"name":"s%d"}}`, i)
		if _, err := a.ask(ctx, "POST", "/api/v1/namespaces/ordinary/configmaps", text, 201); err != nil {
			return nil, fmt.Errorf("preparing the server: %w", err)
		}
	}
	if a.resources, err = a.discover(ctx); err != nil {
		return nil, err
	}
	if a.baseline, err = a.observe(ctx); err != nil {
		return nil, err
	}
	a.ordinary = newBystander(a)
	a.files = a.server.files()
	return a, nil
}

func (a *arena) close() {
	if a.server != nil {
		a.server.kill()
	}
	if a.disk != nil {
		a.disk.close()
	}
	if a.volume != "" {
		syscall.Unmount(a.volume, syscall.MNT_DETACH)
	}
	os.RemoveAll(a.dir)
}

// mount returns the folder for the data directory: on a small file system in memory if there is to be one, which only root can have.
func (a *arena) mount(dir string) (string, error) {
	if a.o.volume == 0 || a.o.power || os.Getuid() != 0 {
		return dir, nil
	}
	volume := filepath.Join(dir, "volume")
	if err := os.Mkdir(volume, 0o700); err != nil {
		return "", err
	}
	if err := syscall.Mount("tmpfs", volume, "tmpfs", 0, fmt.Sprintf("size=%dm", a.o.volume)); err != nil {
		// Root in a container may not be allowed to. Only "churn" needs it.
		fmt.Fprintf(os.Stderr, "attack: the data is on an ordinary file system: mounting one of %d MiB: %v\n", a.o.volume, err)
		a.o.volume = 0
		return dir, nil
	}
	a.volume = volume
	return volume, nil
}

func (a *arena) log() string {
	if a.server == nil {
		return ""
	}
	text := a.server.log.String()
	return text[max(0, len(text)-2000):]
}

func random(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// tlsConfig trusts the server without looking: both ends are on this machine.
func tlsConfig(protocols ...string) *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, NextProtos: protocols}
}

// The addresses that clients connect from. The server shares connections of strangers among addresses, so that a flood does not shut
// out those behind other addresses; it does not promise that to who shares one with the flood.
const (
	attackersAddress = "127.0.0.1"
	ordinaryAddress  = "127.0.0.2"
)

// client is an HTTP client of one user, "" for nobody, that connects from an address.
func client(a *arena, user, address string, http2 bool) *http.Client {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	t := &http.Transport{DialContext: dialer.DialContext, TLSClientConfig: tlsConfig(), ForceAttemptHTTP2: http2, MaxIdleConnsPerHost: 100, DisableCompression: true}
	if !http2 {
		t.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	return &http.Client{Transport: &bearer{a, user, t}}
}

// bearer adds the token of a user to requests, and the address of the server.
type bearer struct {
	a    *arena
	user string
	next *http.Transport
}

// CloseIdleConnections is for http.Client.
func (b *bearer) CloseIdleConnections() { b.next.CloseIdleConnections() }

func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.user != "" {
		r.Header.Set("Authorization", "Bearer "+b.user)
	}
	r.URL.Scheme, r.URL.Host = "https", b.a.server.address
	return b.next.RoundTrip(r)
}

// answer is what a request got.
type answer struct {
	code  int
	body  []byte
	retry bool // Retry-After is set
}

// send sends a request and reads its answer, of at most 64 MiB.
func send(ctx context.Context, c *http.Client, method, path string, body []byte, header ...string) (answer, error) {
	r, err := http.NewRequestWithContext(ctx, method, "https://server"+path, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	if len(body) > 0 && r.Header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	return answer{resp.StatusCode, b, resp.Header.Get("Retry-After") != ""}, err
}

// ask is a request of the administrator that has to have a code.
func (a *arena) ask(ctx context.Context, method, path, body string, code int) ([]byte, error) {
	ctx, cancel := a.server.clock.patience(ctx, max(15*time.Second, a.o.patience))
	defer cancel()
	r, err := send(ctx, a.admin, method, path, []byte(body))
	if err != nil {
		return nil, err
	}
	if r.code != code {
		return r.body, fmt.Errorf("%s %s: %d: %s", method, path, r.code, r.body[:min(len(r.body), 300)])
	}
	return r.body, nil
}

// discover lists the resources that are served.
func (a *arena) discover(ctx context.Context) ([]resource, error) {
	var groups struct {
		Groups []struct {
			Name     string
			Versions []struct{ Version string }
		}
	}
	if err := a.decode(ctx, "/apis", &groups); err != nil {
		return nil, err
	}
	var all []resource
	read := func(group, version string) error {
		var list struct {
			Resources []struct {
				Name, Kind string
				Namespaced bool
				Verbs      []string
			}
		}
		if err := a.decode(ctx, strings.TrimSuffix(resource{Group: group, Version: version}.path("", ""), "/"), &list); err != nil {
			return err
		}
		for _, r := range list.Resources {
			if !strings.Contains(r.Name, "/") {
				all = append(all, resource{group, version, r.Name, r.Kind, r.Namespaced, r.Verbs})
			}
		}
		return nil
	}
	errs := []error{read("", "v1")}
	for _, g := range groups.Groups {
		for _, v := range g.Versions {
			errs = append(errs, read(g.Name, v.Version))
		}
	}
	return all, errors.Join(errs...)
}

func (a *arena) decode(ctx context.Context, path string, into any) error {
	b, err := a.ask(ctx, "GET", path, "", 200)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, into)
}

// inspect looks for what an actor must not see in an answer.
func (a *arena) inspect(actor, what string, body []byte) {
	encoded := base64.StdEncoding.EncodeToString([]byte(a.secret))
	if bytes.Contains(body, []byte(a.secret)) || bytes.Contains(body, []byte(encoded)) || bytes.Contains(body, []byte(ordinaryMark)) {
		a.leaked(fmt.Sprintf("%q got an object of others by %s", actor, what))
	}
}

// found notes what a move has found itself: the first of each class.
func (a *arena) found(class, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.ContainsFunc(a.noted, func(f Finding) bool { return f.Class == class }) {
		a.noted = append(a.noted, Finding{class, text})
	}
}

// leaked notes the first answer of a round that told an actor too much.
func (a *arena) leaked(text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.leaks) == 0 {
		a.leaks = append(a.leaks, text)
	}
}
