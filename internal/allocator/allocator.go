// Package allocator allocates the addresses and node ports of services, each to one service only.
//
// # Model
//
// An IPAddress object reserves the address in its name for a service. A bit in the value under
// ranges/servicenodeports reserves a node port. kube-apiserver keeps both in these forms, so that
// either server can use a store of the other. The ranges of addresses come from the ServiceCIDRs,
// the range of ports from the configuration. A service gets its addresses and ports before it is
// validated ([Allocator.Claim]). They are released if the service was not stored, and when the
// service is gone ([Allocator.Release]).
//
// # Invariants
//
//   - An address or port is reserved by a compare-and-swap before the service that has it is
//     stored. So of all servers that share a store, none gives it to another service.
//   - If it is not known whether a service was stored, its addresses and ports stay reserved. A
//     service of the same name that asks for the address takes it over at once. The next start of a
//     server that has the store for itself releases them. [Allocator.Run] releases them if the
//     service does not exist a minute later.
//   - Older servers stored services without reserving anything. The addresses and ports of these
//     services are reserved before any new ones are.
//   - A dry run writes nothing.
//   - Free addresses are found in the cache: the cost of a service does not grow with the number of
//     services, unless a range is nearly full.
package allocator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/controller/loop"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/networking"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// API is the part of the API that the allocator calls, as a client would.
type API interface {
	// Create creates an object from its JSON, and returns its UID. It returns the status
	// AlreadyExists if there is one.
	Create(ctx context.Context, k *kind.Kind, namespace, name string, body []byte) (uid string, err error)
	// Remove deletes an object, if it fulfils the preconditions.
	Remove(ctx context.Context, k *kind.Kind, namespace, name string, o *meta.DeleteOptions) error
	// Apply applies a configuration to an object or a subresource of it.
	Apply(ctx context.Context, k *kind.Kind, namespace, name, subresource string, body []byte) error
}

// The default ranges: of the addresses of services, and of the ports of nodes.
const (
	DefaultRange = "10.0.0.0/24"
	DefaultPorts = "30000-32767"
)

// Allocator allocates addresses and ports. Its fields are set before it is used.
type Allocator struct {
	Kinds  *kind.Registry
	Cache  *cache.Cache
	Store  store.Store
	Logger *slog.Logger

	API    API // of the server
	Status API // for the status of the default ServiceCIDR, whose manager is [StatusManager]

	// Ranges has the ranges of addresses, for a store without a ServiceCIDR: one, or one of each IP
	// family. The first has the addresses of services that do not name a family.
	Ranges []netip.Prefix
	Ports  utilnet.PortRange // of nodes

	// Exclusive reports that no other server uses the store. Then an address or port that is reserved
	// at the start, and that no stored service has, was left by a server that ended between the
	// reservation and the write of the service. It is released at once.
	Exclusive bool

	// Patience is how long an address or port may be reserved before its service is stored. It must
	// be longer than a request can last. 0 means a minute.
	Patience time.Duration

	begin sync.Mutex // held during ready
	begun bool       // the addresses and ports of all stored services are reserved
	ports ports
	loop  loop.Loop
	known owners
}

// StatusManager is the field manager of the status of the default ServiceCIDR, as in
// kube-controller-manager.
const StatusManager = "kubernetes-service-cidr-controller"

// cleanUp is the longest time for releasing addresses and ports after a request. Run releases those
// that are left.
const cleanUp = 20 * time.Second

// refusal is the reason why an address or port is not allocated, in upstream's words.
type refusal string

// Error returns the reason.
func (r refusal) Error() string { return string(r) }

const (
	errFull      refusal = "range is full"
	errTaken     refusal = "provided IP is already allocated"
	errElsewhere refusal = "the provided network does not match the current range"
	errPortTaken refusal = "provided port is already allocated"
)

// Claim completes a service that is to be created, or to replace old: it allocates the missing
// addresses and ports. The caller then calls finish with the outcome of the write, or does not call
// it if the outcome is not known. finish may be nil.
func (a *Allocator) Claim(ctx context.Context, next, old *jsondoc.Doc, dryRun bool) (finish func(stored bool), err error) {
	s, before, err := read(next)
	if err != nil {
		return nil, err
	}
	var was *corev1.Service
	if old != nil {
		if was, _, err = read(old); err != nil {
			return nil, err
		}
		networking.OnRead(was, a.families()[0])
		networking.Keep(s, was)
	}
	networking.Normalize(s, was)
	if errs := networking.Families(s, was, a.families()); len(errs) > 0 {
		return nil, invalid(s, errs...)
	}
	c := &claims{a: a}
	if err := c.allocate(ctx, s, was, dryRun); err != nil {
		c.finish(false)
		return nil, err
	}
	if was != nil {
		networking.Drop(s, was)
	}
	networking.DropUnused(s)
	if err := write(next, s, before); err != nil {
		c.finish(false)
		return nil, err
	}
	if dryRun || c.isEmpty() {
		return nil, nil
	}
	return c.finish, nil
}

// Release releases the addresses and ports of a service that was deleted.
func (a *Allocator) Release(gone *jsondoc.Doc) {
	s, _, err := read(gone)
	if err != nil {
		a.Logger.Warn("addresses of a deleted service cannot be released", "error", err)
		return
	}
	networking.Normalize(s, nil)
	c := &claims{a: a, of: ref(s), freedPorts: networking.NodePorts(s)}
	if networking.Addressed(s) {
		c.freed = addresses(s)
	}
	if networking.Checked(s) && s.Spec.HealthCheckNodePort > 0 {
		c.freedPorts = append(c.freedPorts, s.Spec.HealthCheckNodePort)
	}
	c.finish(true)
}

// families returns the IP families of the configured ranges. Services have addresses of these
// families only.
func (a *Allocator) families() []corev1.IPFamily {
	var all []corev1.IPFamily
	for _, r := range a.Ranges {
		all = append(all, networking.FamilyOf(r.Addr()))
	}
	return all
}

// claims has the addresses and ports that a change of a service reserves, and those that it does
// not need any more.
type claims struct {
	a          *Allocator
	of         networkingv1.ParentReference
	addresses  []reservation
	ports      []int32 // reserved
	freed      []string
	freedPorts []int32
}

// reservation is an address that a change of a service reserves.
type reservation struct {
	ip  string
	uid string // of the IPAddress; "": it was another change's before, which may still store the service
}

// isEmpty reports whether there is nothing to release, whatever the outcome of the write.
func (c *claims) isEmpty() bool {
	return len(c.addresses)+len(c.ports)+len(c.freed)+len(c.freedPorts) == 0
}

// allocate reserves the missing addresses and ports of the service, and sets them in s.
func (c *claims) allocate(ctx context.Context, s, was *corev1.Service, dryRun bool) error {
	c.of = ref(s)
	if !dryRun {
		if err := c.a.ready(ctx); err != nil {
			return err
		}
	}
	if err := c.allocateAddresses(ctx, s, was, dryRun); err != nil {
		return err
	}
	return c.allocatePorts(ctx, s, was, dryRun)
}

// finish releases the addresses and ports that are not needed any more: those of the old service if
// the new one was stored, else those that were reserved for the new one.
func (c *claims) finish(stored bool) {
	ips, ports, unused := c.freed, c.freedPorts, []reservation(nil)
	if !stored {
		ips, ports, unused = nil, c.ports, c.addresses
	}
	if len(ips)+len(ports)+len(unused) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), cleanUp)
	defer cancel()
	later := func(ip string, err error) {
		if err != nil {
			c.a.Logger.Warn("address of a service will be released later", "address", ip, "error", err)
		}
	}
	for _, ip := range ips {
		later(ip, c.a.releaseAddress(ctx, ip, c.of))
	}
	for _, r := range unused {
		if r.uid != "" {
			later(r.ip, c.a.remove(ctx, c.a.Kinds.Load().Lookup(networkingv1.GroupName, "ipaddresses"), r.ip, r.uid))
		}
	}
	if err := c.a.ports.release(ctx, c.a, ports); err != nil {
		c.a.Logger.Warn("ports of a service will be released later", "ports", ports, "error", err)
	}
}

// allocateAddresses reserves the addresses that a service lacks, one for each of its families, and
// sets them in s. Addresses that it must not keep are added to c.freed.
func (c *claims) allocateAddresses(ctx context.Context, s, was *corev1.Service, dryRun bool) error {
	spec := &s.Spec
	first := 0 // the first family whose address is missing
	switch {
	case was == nil || !networking.Addressed(was) && networking.Addressed(s) || networking.Addressed(s) && len(was.Spec.ClusterIPs) == 0:
	case networking.Unmoved(s, was), networking.Headless(was):
		return nil
	case !networking.Addressed(s):
		c.freed = addresses(was)
		return nil
	case len(was.Spec.IPFamilies) == 1 && len(spec.IPFamilies) == 2:
		first = 1
	case len(was.Spec.IPFamilies) == 2 && len(spec.IPFamilies) == 1 && len(was.Spec.ClusterIPs) == 2:
		c.freed = was.Spec.ClusterIPs[1:]
		return nil
	default:
		return nil
	}
	if !networking.Addressed(s) || len(spec.ClusterIPs) > 0 && spec.ClusterIPs[0] == corev1.ClusterIPNone {
		return nil
	}
	spec.ClusterIPs = slices.Clone(spec.ClusterIPs)
	for len(spec.ClusterIPs) < len(spec.IPFamilies) {
		spec.ClusterIPs = append(spec.ClusterIPs, "")
	}
	for i := first; i < len(spec.IPFamilies); i++ {
		if err := c.allocateAddress(ctx, s, i, dryRun); err != nil {
			return err
		}
	}
	spec.ClusterIP = spec.ClusterIPs[0]
	return nil
}

// allocateAddress reserves the address of the service's i-th family, and sets it in s.
func (c *claims) allocateAddress(ctx context.Context, s *corev1.Service, i int, dryRun bool) error {
	spec, at := &s.Spec, field.NewPath("spec", "clusterIPs")
	asked := spec.ClusterIPs[i]
	given, err := c.a.allocateIP(ctx, spec.IPFamilies[i], asked, c.of, dryRun)
	switch no := refusal(""); {
	case err != nil && !errors.As(err, &no) && status.From(err).Code >= 500: // it is not the service's fault
		return err
	case err != nil && asked != "":
		return invalid(s, field.Invalid(at, spec.ClusterIPs, fmt.Sprintf("failed to allocate IP %v: %v", asked, err)))
	case errors.Is(err, errFull):
		return status.Internal(fmt.Errorf("failed to allocate a serviceIP for Service %q: %w", s.Name, err))
	case err != nil:
		return invalid(s, field.Invalid(at, spec.ClusterIPs, fmt.Sprintf("failed to allocate IP: %v", err)))
	case !dryRun:
		c.addresses = append(c.addresses, given)
	}
	spec.ClusterIPs[i] = given.ip
	return nil
}

// invalid returns the error for an invalid service.
func invalid(s *corev1.Service, errs ...*field.Error) error {
	return status.Invalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), s.Name, errs)
}

// ref names a service as the parent of an address.
func ref(s *corev1.Service) networkingv1.ParentReference {
	return networkingv1.ParentReference{Resource: "services", Namespace: s.Namespace, Name: s.Name}
}

// addresses returns the cluster IPs of a service in their canonical form.
func addresses(s *corev1.Service) []string {
	var all []string
	for _, ip := range s.Spec.ClusterIPs {
		if a, err := netip.ParseAddr(ip); err == nil {
			all = append(all, a.String())
		}
	}
	return all
}

// read decodes the service in a document. The second result is the JSON of its spec and status, for
// write.
func read(d *jsondoc.Doc) (s *corev1.Service, text [2][]byte, err error) {
	s = new(corev1.Service)
	if err := json.Unmarshal(d.AppendJSON(nil, d.Root().Node), s); err != nil {
		return nil, text, err
	}
	s.ManagedFields = nil
	text, err = parts(s)
	return s, text, err
}

// parts encodes the spec and the status of a service.
func parts(s *corev1.Service) (text [2][]byte, err error) {
	if text[0], err = json.Marshal(&s.Spec); err == nil {
		text[1], err = json.Marshal(&s.Status)
	}
	return text, err
}

// write sets the spec and the status of a document to those of a service, if they differ from
// before.
func write(d *jsondoc.Doc, s *corev1.Service, before [2][]byte) error {
	now, err := parts(s)
	if err != nil {
		return err
	}
	for i, name := range []string{"spec", "status"} {
		if bytes.Equal(now[i], before[i]) {
			continue
		}
		v := jsondoc.Get()
		err := jsondoc.Parse(v, now[i])
		if err == nil {
			d.Set(d.Import(v.Root()), name)
		}
		v.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// ready makes sure, once, that the addresses and ports of all stored services are reserved, that
// there is a range of addresses, and that nothing else is reserved if no other server uses the store.
func (a *Allocator) ready(ctx context.Context) error {
	a.begin.Lock()
	defer a.begin.Unlock()
	if a.begun {
		return nil
	}
	if err := a.ensureRange(ctx); err != nil {
		return err
	}
	services := a.Kinds.Load().Lookup("", "services")
	used, exclusive := map[string]bool{}, a.Exclusive
	_, err := store.Each(ctx, a.Store, services.StoragePrefix+"/", 0, func(it *store.Item) error {
		d := jsondoc.Get()
		defer d.Release()
		if services.Storage.Load(d, it.Value, it.Rev) != nil {
			exclusive = false // it is not known what the service has
			return nil
		}
		s, _, err := read(d)
		if err != nil {
			exclusive = false
			return nil
		}
		networking.Normalize(s, nil)
		for _, ip := range addresses(s) {
			used[ip] = true
		}
		return a.reserveAddresses(ctx, s)
	})
	if err != nil {
		return err
	}
	if exclusive {
		if err := a.releaseUnused(ctx, used); err != nil {
			return err
		}
	}
	if err := a.ports.begin(ctx, a, exclusive); err != nil {
		return err
	}
	a.begun = true
	return nil
}

// reserveAddresses creates the missing IPAddresses of a stored service. Addresses outside the
// ranges are left out.
func (a *Allocator) reserveAddresses(ctx context.Context, s *corev1.Service) error {
	ranges, k := a.ranges(a.families()...), a.Kinds.Load().Lookup(networkingv1.GroupName, "ipaddresses")
	for _, ip := range addresses(s) {
		addr := netip.MustParseAddr(ip)
		if _, ok := a.Cache.Resource(k.StoragePrefix).Get(k.Key("", ip)); ok || !slices.ContainsFunc(ranges, func(r *addressRange) bool { return r.has(addr) }) {
			continue
		}
		if _, err := a.create(ctx, addr, ref(s)); err != nil && !errors.Is(err, errTaken) {
			return err
		}
	}
	return nil
}

// releaseUnused deletes the IPAddresses of services that are not in used.
func (a *Allocator) releaseUnused(ctx context.Context, used map[string]bool) error {
	k := a.Kinds.Load().Lookup(networkingv1.GroupName, "ipaddresses")
	_, err := store.Each(ctx, a.Store, k.StoragePrefix+"/", 0, func(it *store.Item) error {
		got, err := parse(k, it.Value, it.Rev)
		ip := strings.TrimPrefix(it.Key, k.StoragePrefix+"/")
		if err != nil || used[ip] || got.labels[networkingv1.LabelManagedBy] != ManagedBy {
			return nil
		}
		a.Logger.Info("address without a service is released", "address", ip, "service", got.parent.Namespace+"/"+got.parent.Name)
		return a.remove(ctx, k, ip, got.uid)
	})
	return err
}

// exists reports whether an error has the reason AlreadyExists.
func exists(err error) bool {
	return err != nil && status.From(err).Reason == metav1.StatusReasonAlreadyExists
}
