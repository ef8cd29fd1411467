// Package service keeps the service default/kubernetes, by whose name programs find the server, and
// its endpoints, which are the addresses of all servers that share the store.
//
// # Model
//
// The service is created if it is missing, and not changed afterwards: an administrator may change
// it. Its Endpoints and its EndpointSlice are kept correct. Every server writes a key
// masterleases/<address> into the store, which disappears when the server ends (see
// [store.Holder]). A store that no other server can share has no such keys, and the only address is
// the server's own.
//
// The [Controller] reads changes of these few keys from a tap of the cache. Without changes it does
// nothing.
//
// # Invariants
//
//   - Servers that share a store agree on the endpoints, so that they do not undo each other's
//     work. They may disagree about the port. So a server sets the port only when it starts, or
//     when there is none.
//   - kube-apiserver, whose leases have the same keys, may be among them.
//
// [Controller.Run] is the function to call.
package service

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/controller/loop"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// Name is the name of the controller for the flag --controllers.
const Name = "kubernetes-service-controller"

// Where the service is.
const (
	namespace = metav1.NamespaceDefault
	name      = "kubernetes"
)

// leases is the prefix of the keys of servers.
const leases = "masterleases/"

// API is the part of the API that the controller calls, as a client would.
type API interface {
	// Ensure creates an object from its JSON unless it exists.
	Ensure(ctx context.Context, k *kind.Kind, namespace, name string, body []byte) error
	// Modify changes an object. It returns the errors of fn unchanged.
	Modify(ctx context.Context, k *kind.Kind, namespace, name string, fn func(meta.Object) error) error
	// Delete deletes an object if it exists.
	Delete(ctx context.Context, k *kind.Kind, namespace, name string) error
}

// Controller keeps the service. Its fields are set before Run.
type Controller struct {
	Kinds  *kind.Registry
	Cache  *cache.Cache
	Store  store.Store
	API    API
	Logger *slog.Logger

	ClusterIP netip.Addr // of the service
	Port      int        // at which the server listens
	Address   netip.Addr // by which pods reach the server; the zero Addr: it has no endpoints

	loop   loop.Loop       // due are the objects, and the server's own lease
	shared store.Holder    // nil: no other server uses the store
	others map[string]bool // addresses with a lease, the server's own included
	placed bool            // the port of the endpoints has been checked

	services, endpoints, slices *kind.Kind
}

// Endpoints reports whether an address can be an endpoint: programs on other machines must be able
// to reach it.
func Endpoints(address netip.Addr) bool {
	return address.IsValid() && !address.IsUnspecified() && !address.IsLoopback() && !address.IsLinkLocalUnicast() && !address.IsMulticast()
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) {
	now := c.Kinds.Load()
	c.services, c.endpoints, c.slices = now.Lookup("", "services"), now.Lookup("", "endpoints"), now.Lookup(discoveryv1.GroupName, "endpointslices")
	if c.services == nil || c.endpoints == nil || c.slices == nil {
		return
	}
	c.shared, _ = c.Store.(store.Holder)
	c.loop = loop.Loop{Cache: c.Cache, Store: c.Store, Logger: c.Logger, Name: Name, List: []string{leases}, Wants: c.wants, Begin: c.begin, See: c.see, Work: c.work}
	c.loop.Run(ctx)
}

// own returns the key of the server's lease.
func (c *Controller) own() string { return leases + c.Address.String() }

// begin schedules all objects.
func (c *Controller) begin() {
	c.others = map[string]bool{}
	c.loop.Add(c.services.Key(namespace, name))
	if !c.Address.IsValid() {
		return
	}
	if c.shared != nil {
		c.loop.Add(c.own())
	}
	c.loop.Add(c.endpoints.Key(namespace, name))
}

// wants reports whether a change is of the service, its endpoints, or a lease.
func (c *Controller) wants(e *store.Event) bool {
	return strings.HasPrefix(e.Key, leases) || strings.HasSuffix(e.Key, "/"+namespace+"/"+name) &&
		(e.Key == c.services.Key(namespace, name) || e.Key == c.endpoints.Key(namespace, name) || e.Key == c.slices.Key(namespace, name))
}

// see schedules the work after a change.
func (c *Controller) see(e *loop.Change) {
	address, lease := strings.CutPrefix(e.Key, leases)
	switch {
	case !c.Address.IsValid() && (lease || e.Key != c.services.Key(namespace, name)):
	case !lease:
		c.loop.Add(e.Key)
	case e.Deleted && address == c.Address.String():
		if c.shared != nil {
			c.loop.Add(e.Key)
		}
	case e.Deleted && c.others[address]:
		delete(c.others, address)
		c.loop.Add(c.endpoints.Key(namespace, name))
	case !e.Deleted && !c.others[address]:
		c.others[address] = true
		c.loop.Add(c.endpoints.Key(namespace, name))
	}
}

// work makes sure that one object is as it should be.
func (c *Controller) work(ctx context.Context, key string) error {
	switch key {
	case c.services.Key(namespace, name):
		return c.API.Ensure(ctx, c.services, namespace, name, c.service())
	case c.endpoints.Key(namespace, name):
		if err := c.writeEndpoints(ctx); err != nil {
			return err
		}
		c.loop.Add(c.slices.Key(namespace, name))
		return nil
	case c.slices.Key(namespace, name):
		return c.writeSlice(ctx)
	case c.own():
		return c.shared.Hold(ctx, key, c.lease())
	}
	return nil
}

// service returns the JSON of the service.
func (c *Controller) service() []byte {
	return body(map[string]any{
		"apiVersion": "v1", "kind": "Service",
		"metadata": map[string]any{"name": name, "namespace": namespace, "labels": map[string]string{"component": "apiserver", "provider": "kubernetes"}},
		"spec": map[string]any{
			"clusterIP": c.ClusterIP.String(), "ipFamilyPolicy": corev1.IPFamilyPolicySingleStack,
			"ports":           []map[string]any{{"name": "https", "port": 443, "protocol": corev1.ProtocolTCP, "targetPort": c.Port}},
			"sessionAffinity": corev1.ServiceAffinityNone, "type": corev1.ServiceTypeClusterIP,
		},
	})
}

// lease is the value of the server's key, in the form that kube-apiserver writes.
func (c *Controller) lease() []byte {
	return body(map[string]any{"apiVersion": "v1", "kind": "Endpoints", "metadata": map[string]any{}, "subsets": []subset{{Addresses: []address{{c.Address.String()}}}}})
}

// subset has the fields of a part of Endpoints that the controller reads.
type subset struct {
	Addresses []address `json:"addresses"`
	Ports     []port    `json:"ports,omitempty"`
}

type address struct {
	IP string `json:"ip"`
}

type port struct {
	Name     string `json:"name"`
	Port     int    `json:"port"`
	Protocol string `json:"protocol"`
}

// found has the fields of Endpoints or an EndpointSlice that the controller reads.
type found struct {
	Metadata struct {
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Subsets     []subset        `json:"subsets"`
	AddressType string          `json:"addressType"`
	Endpoints   json.RawMessage `json:"endpoints"`
	Ports       json.RawMessage `json:"ports"`
}

// read reads an object. It returns nil if there is none.
func (c *Controller) read(ctx context.Context, k *kind.Kind) (*found, error) {
	o, err := loop.Load(ctx, c.Store, k, k.Key(namespace, name))
	if o == nil {
		return nil, err
	}
	defer o.Doc.Release()
	f := new(found)
	return f, json.Unmarshal(o.Doc.Root().AppendJSON(nil), f)
}

// writeEndpoints makes the Endpoints correct.
func (c *Controller) writeEndpoints(ctx context.Context) error {
	have, err := c.read(ctx, c.endpoints)
	if err != nil {
		return err
	}
	want := subset{Ports: []port{{Name: "https", Port: c.Port, Protocol: "TCP"}}}
	ips := maps.Clone(c.others)
	ips[c.Address.String()] = true
	for _, ip := range slices.Sorted(maps.Keys(ips)) {
		want.Addresses = append(want.Addresses, address{ip})
	}
	if have == nil {
		c.placed = true
		return c.API.Ensure(ctx, c.endpoints, namespace, name, body(map[string]any{
			"apiVersion": "v1", "kind": "Endpoints", "subsets": []subset{want},
			"metadata": map[string]any{"name": name, "namespace": namespace, "labels": map[string]string{discoveryv1.LabelSkipMirror: "true"}},
		}))
	}
	whole := len(have.Subsets) == 1 && len(have.Subsets[0].Ports) > 0
	if whole && (c.placed || len(want.Addresses) > 1) {
		want.Ports = have.Subsets[0].Ports
	}
	c.placed = true
	if whole && slices.Equal(have.Subsets[0].Addresses, want.Addresses) && slices.Equal(have.Subsets[0].Ports, want.Ports) &&
		have.Metadata.Labels[discoveryv1.LabelSkipMirror] == "true" {
		return nil
	}
	return c.API.Modify(ctx, c.endpoints, namespace, name, func(o meta.Object) error {
		o.Doc.Set(o.Doc.NewString("true"), "metadata", "labels", discoveryv1.LabelSkipMirror)
		return set(o.Doc, []subset{want}, "subsets")
	})
}

// writeSlice makes the EndpointSlice agree with the Endpoints.
func (c *Controller) writeSlice(ctx context.Context) error {
	have, err := c.read(ctx, c.endpoints)
	if have == nil || err != nil || len(have.Subsets) != 1 {
		return err
	}
	now, err := c.read(ctx, c.slices)
	if err != nil {
		return err
	}
	family, addresses := discoveryv1.AddressTypeIPv6, have.Subsets[0].Addresses
	if slices.ContainsFunc(addresses, func(a address) bool { return !strings.Contains(a.IP, ":") }) {
		family = discoveryv1.AddressTypeIPv4
	}
	endpoints := []any{}
	for _, a := range addresses {
		if strings.Contains(a.IP, ":") == (family == discoveryv1.AddressTypeIPv6) {
			endpoints = append(endpoints, map[string]any{"addresses": []string{a.IP}, "conditions": map[string]any{"ready": true}})
		}
	}
	ports, labels := have.Subsets[0].Ports, map[string]string{discoveryv1.LabelServiceName: name}
	switch {
	case now != nil && now.AddressType != string(family): // the type of the addresses is immutable
		if err := c.API.Delete(ctx, c.slices, namespace, name); err != nil {
			return err
		}
		return errors.New("the EndpointSlice is of another address type and has to be made anew")
	case now == nil:
		return c.API.Ensure(ctx, c.slices, namespace, name, body(map[string]any{
			"apiVersion": discoveryv1.SchemeGroupVersion.String(), "kind": "EndpointSlice", "addressType": family, "endpoints": endpoints, "ports": ports,
			"metadata": map[string]any{"name": name, "namespace": namespace, "labels": labels},
		}))
	case same(now.Endpoints, endpoints) && same(now.Ports, ports) && maps.Equal(now.Metadata.Labels, labels):
		return nil
	}
	return c.API.Modify(ctx, c.slices, namespace, name, func(o meta.Object) error {
		return errors.Join(set(o.Doc, labels, "metadata", "labels"), set(o.Doc, endpoints, "endpoints"), set(o.Doc, ports, "ports"))
	})
}

// same reports whether a JSON text has the same value as a Go value.
func same(text json.RawMessage, value any) bool {
	a, b := jsondoc.Get(), jsondoc.Get()
	defer a.Release()
	defer b.Release()
	return jsondoc.Parse(a, text) == nil && jsondoc.Parse(b, body(value)) == nil && jsondoc.Equal(a.Root(), b.Root())
}

// set sets a member of an object to a value.
func set(d *jsondoc.Doc, value any, path ...string) error {
	v := jsondoc.Get()
	defer v.Release()
	if err := jsondoc.Parse(v, body(value)); err != nil {
		return err
	}
	d.Set(d.Import(v.Root()), path...)
	return nil
}

// body returns the JSON of a value of strings, numbers and maps of them.
func body(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return text
}
