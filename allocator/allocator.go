// Package allocator gives services their addresses and ports of nodes, each to one service only.
//
// # Model
//
// An address of a service is taken by an IPAddress object of its name, a port of nodes by a bit of the one value under
// ranges/servicenodeports: the forms in which kube-apiserver keeps both, so that a store may be either's. The ranges of addresses are what
// the ServiceCIDRs say, that of ports is configured. A service is completed before it is validated ([Allocator.Claim]); what it was given
// is given back if it was not stored, and when it is gone ([Allocator.Release]).
//
// # Invariants
//
//   - What a service has was written before the service was, by a compare-and-swap: whichever of the servers that share a store
//     acknowledges a service, no other one has its address.
//   - Where it is not known whether a service was stored, what it was given stays taken. [Allocator.Run] gives it back if a minute later
//     there is no such service.
//   - Services that have addresses or ports which nobody noted, as older servers wrote them, are noted before anything is given.
//   - A dry run writes nothing.
//   - What is free is known from the cache: what a service costs does not grow with the number of services, unless a range is nearly full.
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
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/controller/loop"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/meta"
	"github.com/keelson-io/keelson/networking"
	"github.com/keelson-io/keelson/status"
	"github.com/keelson-io/keelson/store"
)

// API is what the allocator asks of the API, as a client would.
type API interface {
	// Create creates an object of a body; AlreadyExists.
	Create(ctx context.Context, k *kind.Kind, namespace, name string, body []byte) error
	// Remove deletes an object.
	Remove(ctx context.Context, k *kind.Kind, namespace, name string, o *meta.DeleteOptions) error
	// Apply applies a body to a part of an object.
	Apply(ctx context.Context, k *kind.Kind, namespace, name, subresource string, body []byte) error
}

// Allocator gives addresses and ports. Its fields are set before it is used.
type Allocator struct {
	Kinds  *kind.Registry
	Cache  *cache.Cache
	Store  store.Store
	Logger *slog.Logger

	API    API // of the server
	Status API // for the status of the default ServiceCIDR, whose manager is [StatusManager]

	Range netip.Prefix      // of addresses, for a store that does not say
	Ports utilnet.PortRange // of nodes

	// Patience is how long something may be taken before there is a service that has it: longer than a request lasts; 0: a minute.
	Patience time.Duration

	begin sync.Mutex // held by who begins
	begun bool       // services of the store are noted
	ports ports
	loop  loop.Loop
	known owners
}

// StatusManager is who writes the status of the default ServiceCIDR.
const StatusManager = "kubernetes-service-cidr-controller"

// cleanUp bounds giving something back.
const cleanUp = 20 * time.Second

// refusal says why something is not given, in upstream's words.
type refusal string

func (r refusal) Error() string { return string(r) }

const (
	errFull      refusal = "range is full"
	errTaken     refusal = "provided IP is already allocated"
	errElsewhere refusal = "the provided network does not match the current range"
	errPortTaken refusal = "provided port is already allocated"
)

// Claim completes a service that is to be created, or to replace old: it gets what it needs. Who stores it then calls settle, saying
// whether it was stored; not if that is not known. settle may be nil.
func (a *Allocator) Claim(ctx context.Context, next, old *jsondoc.Doc, dryRun bool) (settle func(stored bool), err error) {
	s, before, err := read(next)
	if err != nil {
		return nil, err
	}
	var was *corev1.Service
	if old != nil {
		if was, _, err = read(old); err != nil {
			return nil, err
		}
		networking.OnRead(was, a.family())
		networking.Keep(s, was)
	}
	networking.Normalize(s, was)
	if errs := networking.Families(s, was, a.family()); len(errs) > 0 {
		return nil, invalid(s, errs...)
	}
	c := &claims{a: a}
	if err := c.take(ctx, s, was, dryRun); err != nil {
		c.settle(false)
		return nil, err
	}
	if was != nil {
		networking.Drop(s, was)
	}
	networking.DropUnused(s)
	if err := write(next, s, before); err != nil {
		c.settle(false)
		return nil, err
	}
	if dryRun || c.none() {
		return nil, nil
	}
	return c.settle, nil
}

// Release gives back what a service has that is gone.
func (a *Allocator) Release(gone *jsondoc.Doc) {
	s, _, err := read(gone)
	if err != nil {
		a.Logger.Warn("addresses of a service that is gone cannot be given back", "error", err)
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
	c.settle(true)
}

// family is that of the addresses.
func (a *Allocator) family() corev1.IPFamily { return networking.FamilyOf(a.Range.Addr()) }

// claims are what a change of a service took, and what it makes free.
type claims struct {
	a          *Allocator
	of         networkingv1.ParentReference
	address    string  // taken; "": none
	ports      []int32 // likewise
	freed      []string
	freedPorts []int32
}

func (c *claims) none() bool {
	return c.address == "" && len(c.ports)+len(c.freed)+len(c.freedPorts) == 0
}

// take takes what the service needs, which it is told.
func (c *claims) take(ctx context.Context, s, was *corev1.Service, dryRun bool) error {
	c.of = ref(s)
	if !dryRun {
		if err := c.a.ready(ctx); err != nil {
			return err
		}
	}
	if err := c.takeAddress(ctx, s, was, dryRun); err != nil {
		return err
	}
	return c.takePorts(ctx, s, was, dryRun)
}

// settle gives back what is not needed any more.
func (c *claims) settle(stored bool) {
	ips, ports := c.freed, c.freedPorts
	if !stored {
		ports, ips = c.ports, nil
		if c.address != "" {
			ips = []string{c.address}
		}
	}
	if len(ips)+len(ports) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), cleanUp)
	defer cancel()
	for _, ip := range ips {
		if err := c.a.giveBack(ctx, ip, c.of); err != nil {
			c.a.Logger.Warn("address of a service is given back later", "address", ip, "error", err)
		}
	}
	if err := c.a.ports.release(ctx, c.a, ports); err != nil {
		c.a.Logger.Warn("ports of a service are given back later", "ports", ports, "error", err)
	}
}

// takeAddress gives the service its address.
func (c *claims) takeAddress(ctx context.Context, s, was *corev1.Service, dryRun bool) error {
	spec := &s.Spec
	switch {
	case was == nil || !networking.Addressed(was) && networking.Addressed(s) || networking.Addressed(s) && len(was.Spec.ClusterIPs) == 0:
	case networking.Unmoved(s, was), networking.Headless(was):
		return nil
	case !networking.Addressed(s):
		c.freed = addresses(was)
		return nil
	case len(was.Spec.IPFamilies) == 2 && len(spec.IPFamilies) == 1 && len(was.Spec.ClusterIPs) == 2:
		c.freed = was.Spec.ClusterIPs[1:]
		return nil
	default:
		return nil
	}
	if !networking.Addressed(s) || len(spec.ClusterIPs) > 0 && spec.ClusterIPs[0] == corev1.ClusterIPNone {
		return nil
	}
	if len(spec.ClusterIPs) == 0 {
		spec.ClusterIPs = []string{""}
	}
	at := field.NewPath("spec", "clusterIPs")
	asked := spec.ClusterIPs[0]
	given, err := c.a.takeIP(ctx, asked, c.of, dryRun)
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
		c.address = given
	}
	if asked == "" {
		spec.ClusterIP, spec.ClusterIPs[0] = given, given
	}
	return nil
}

// invalid is the error for a service that cannot be.
func invalid(s *corev1.Service, errs ...*field.Error) error {
	return status.Invalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), s.Name, errs)
}

// ref names a service as the parent of an address.
func ref(s *corev1.Service) networkingv1.ParentReference {
	return networkingv1.ParentReference{Resource: "services", Namespace: s.Namespace, Name: s.Name}
}

// addresses are those that a service has, in one form.
func addresses(s *corev1.Service) []string {
	var all []string
	for _, ip := range s.Spec.ClusterIPs {
		if a, err := netip.ParseAddr(ip); err == nil {
			all = append(all, a.String())
		}
	}
	return all
}

// read reads a service out of a document; text is its spec and status.
func read(d *jsondoc.Doc) (s *corev1.Service, text [2][]byte, err error) {
	s = new(corev1.Service)
	if err := json.Unmarshal(d.AppendJSON(nil, d.Root().Node), s); err != nil {
		return nil, text, err
	}
	s.ManagedFields = nil
	text, err = parts(s)
	return s, text, err
}

func parts(s *corev1.Service) (text [2][]byte, err error) {
	if text[0], err = json.Marshal(&s.Spec); err == nil {
		text[1], err = json.Marshal(&s.Status)
	}
	return text, err
}

// write writes a service back into a document, as far as it has changed.
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

// ready makes sure that what services of the store have is noted, and that there is a range of addresses.
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
	_, err := store.Each(ctx, a.Store, services.StoragePrefix+"/", 0, func(it *store.Item) error {
		d := jsondoc.Get()
		defer d.Release()
		if services.Storage.Load(d, it.Value, it.Rev) != nil {
			return nil // nobody can tell what it has
		}
		s, _, err := read(d)
		if err != nil {
			return nil
		}
		networking.Normalize(s, nil)
		return a.note(ctx, s)
	})
	if err != nil {
		return err
	}
	if err := a.ports.begin(ctx, a); err != nil {
		return err
	}
	a.begun = true
	return nil
}

// note makes sure that the addresses of a service are taken.
func (a *Allocator) note(ctx context.Context, s *corev1.Service) error {
	ranges, k := a.ranges(), a.Kinds.Load().Lookup(networkingv1.GroupName, "ipaddresses")
	for _, ip := range addresses(s) {
		addr := netip.MustParseAddr(ip)
		if _, ok := a.Cache.Resource(k.StoragePrefix).Get(k.Key("", ip)); ok || !slices.ContainsFunc(ranges, func(r *addressRange) bool { return r.has(addr) }) {
			continue
		}
		if err := a.create(ctx, addr, ref(s)); err != nil && !errors.Is(err, errTaken) {
			return err
		}
	}
	return nil
}

// exists reports whether an error says that there is such an object already.
func exists(err error) bool {
	return err != nil && status.From(err).Reason == metav1.StatusReasonAlreadyExists
}
