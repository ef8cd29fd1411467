package allocator

import (
	"context"
	"errors"
	"math/big"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/controller/loop"
	"github.com/keelson-io/keelson/internal/networking"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/kind"
)

// This file repairs the reservations of addresses and ports. A server may have ended between the
// reservation and the write of the service, or may be one that does not reserve anything.

// Name is the name of the controller in the log.
const Name = "service-allocator"

// patience returns Patience or its default.
func (a *Allocator) patience() time.Duration {
	if a.Patience > 0 {
		return a.Patience
	}
	return time.Minute
}

// quick is how long a new IPAddress may be one that its service does not have: the request that
// created it may still be about to release it.
const quick = 5 * time.Second

// owners is what the controller has read of services and ports.
type owners struct { // node ports of services, by key
	ports  map[string][]int32  // of services, by key
	users  map[int32]int       // how many services have a port
	ips    map[string]string   // keys of services by address
	had    map[string][]string // addresses of services, by key
	bits   *big.Int            // reserved ports, as seen last
	rev    int64               // revision of bits
	unused map[int32]time.Time // reserved ports that no service has, and since when
}

// Run keeps the default ServiceCIDR, reserves the addresses and ports that services have, and
// releases those that no service has, until ctx ends.
func (a *Allocator) Run(ctx context.Context) {
	now := a.Kinds.Load()
	services, ips := now.Lookup("", "services"), now.Lookup(networkingv1.GroupName, "ipaddresses")
	cidrs := now.Lookup(networkingv1.GroupName, "servicecidrs").Key("", defaultRange)
	a.loop = loop.Loop{Cache: a.Cache, Store: a.Store, Logger: a.Logger, Name: Name, List: []string{portsKey, services.StoragePrefix + "/", ips.StoragePrefix + "/"},
		Wants: func(e *store.Event) bool {
			return e.Key == portsKey || e.Key == cidrs && e.Deleted || strings.HasPrefix(e.Key, services.StoragePrefix+"/") || strings.HasPrefix(e.Key, ips.StoragePrefix+"/")
		},
		Begin: func() {
			a.known = owners{ports: map[string][]int32{}, users: map[int32]int{}, ips: map[string]string{}, had: map[string][]string{}, bits: new(big.Int), unused: map[int32]time.Time{}}
			a.loop.Add(cidrs)
		},
		See: func(c *loop.Change) {
			switch {
			case c.Key == portsKey:
				a.seePorts(c)
			case strings.HasPrefix(c.Key, services.StoragePrefix+"/"):
				a.seeService(services, c)
			case !c.Deleted || a.known.ips[strings.TrimPrefix(c.Key, ips.StoragePrefix+"/")] != "" || c.Key == cidrs:
				a.loop.Add(c.Key)
			}
		},
		Work: func(ctx context.Context, key string) error {
			switch {
			case key == cidrs:
				if err := a.ready(ctx); err != nil {
					return err
				}
				return a.ensureRange(ctx)
			case key == portsKey:
				return a.mendPorts(ctx)
			case strings.HasPrefix(key, services.StoragePrefix+"/"):
				return a.mendService(ctx, services, ips, key)
			}
			return a.mendAddress(ctx, services, ips, key)
		},
	}
	a.loop.Run(ctx)
}

// seePorts reads which ports are reserved.
func (a *Allocator) seePorts(c *loop.Change) {
	bits := new(big.Int)
	if !c.Deleted {
		got, err := decodePorts(c.Value)
		if err != nil || got.Range != a.Ports.String() {
			return
		}
		bits.SetBytes(got.Data)
	}
	n := max(bits.BitLen(), a.known.bits.BitLen())
	for i := range n {
		port := int32(a.Ports.Base + i)
		switch now, before := bits.Bit(i), a.known.bits.Bit(i); {
		case now == 0:
			delete(a.known.unused, port)
		case before == 0 && a.known.users[port] == 0:
			a.known.unused[port] = time.Now()
		}
	}
	a.known.bits, a.known.rev = bits, c.Rev
	a.nextUnused()
}

// nextUnused schedules the release of the ports that no service has.
func (a *Allocator) nextUnused() {
	for _, since := range a.known.unused {
		a.loop.By(portsKey, since.Add(a.patience()))
	}
}

// seeService reads the addresses and ports of a service.
func (a *Allocator) seeService(k *kind.Kind, c *loop.Change) {
	own := &a.known
	before := own.ports[c.Key]
	for _, ip := range own.had[c.Key] {
		if own.ips[ip] == c.Key {
			delete(own.ips, ip)
		}
	}
	delete(own.ports, c.Key)
	delete(own.had, c.Key)
	if !c.Deleted {
		if ports := portsOf(k, c.Value, c.Rev); len(ports) > 0 {
			own.ports[c.Key] = ports
		}
		if got, err := parse(k, c.Value, c.Rev); err == nil && len(got.ips) > 0 {
			own.had[c.Key] = got.ips
			for _, ip := range got.ips {
				own.ips[ip] = c.Key
			}
			a.loop.Add(c.Key)
		}
	}
	for _, p := range own.ports[c.Key] {
		own.users[p]++
		delete(own.unused, p)
		if at, ok := a.offset(p); ok && own.bits.Bit(at) == 0 {
			a.loop.Add(portsKey)
		}
	}
	for _, p := range before {
		if own.users[p]--; own.users[p] > 0 {
			continue
		}
		delete(own.users, p)
		if at, ok := a.offset(p); ok && own.bits.Bit(at) == 1 {
			own.unused[p] = time.Now()
			a.loop.By(portsKey, time.Now().Add(a.patience()))
		}
	}
}

// mendPorts reserves the ports that services have, and releases those that no service has had for
// the time of patience.
func (a *Allocator) mendPorts(ctx context.Context) error {
	if err := a.ready(ctx); err != nil {
		return err
	}
	own, seen := &a.known, a.known.rev
	err := a.ports.change(ctx, a, func(bits *big.Int) error {
		for p := range own.users {
			if at, ok := a.offset(p); ok && bits.Bit(at) == 0 && own.bits.Bit(at) == 0 {
				bits.SetBit(bits, at, 1)
			}
		}
		if a.ports.now.Rev != seen {
			return nil // what is unused may be another's by now: the next change brings it up again
		}
		for p, since := range own.unused {
			if at, ok := a.offset(p); ok && time.Since(since) >= a.patience() {
				a.Logger.Warn("node port without a service is released", "port", p)
				bits.SetBit(bits, at, 0)
			}
		}
		return nil
	})
	a.nextUnused()
	return err
}

// cached returns an IPAddress or a service from the cache. It returns nil if there is none.
func (a *Allocator) cached(k *kind.Kind, key string) (*loaded, error) {
	o, ok := a.Cache.Resource(k.StoragePrefix).Get(key)
	if !ok {
		return nil, nil
	}
	return parse(k, o.Raw, o.Rev)
}

// mendService makes sure that the IPAddresses of a service's addresses exist and are its own. A
// service whose address is in no range, or belongs to another service, is logged: only its owner
// can recreate it.
func (a *Allocator) mendService(ctx context.Context, services, ips *kind.Kind, key string) error {
	s, err := a.cached(services, key)
	if s == nil || err != nil {
		return err
	}
	namespace, name := loop.Place(services, key)
	of := networkingv1.ParentReference{Resource: "services", Namespace: namespace, Name: name}
	ranges := a.ranges(a.families()...)
	for _, ip := range s.ips {
		addr := netip.MustParseAddr(ip)
		if !slices.ContainsFunc(ranges, func(r *addressRange) bool { return r.has(addr) }) {
			a.Logger.Warn("service has an address of no range; please recreate it", "service", namespace+"/"+name, "address", ip)
			continue
		}
		got, err := a.cached(ips, ips.Key("", ip))
		switch {
		case err != nil:
			return err
		case got != nil && got.parent == of && got.isManaged(addr):
			continue
		case got != nil && got.parent != of && got.parent.Group == "" && got.parent.Resource == "services":
			owner, err := a.cached(services, services.Key(got.parent.Namespace, got.parent.Name))
			if err != nil {
				return err
			}
			if owner != nil && slices.Contains(owner.ips, ip) {
				a.Logger.Warn("several services have an address; please recreate one", "service", namespace+"/"+name, "other", got.parent.Namespace+"/"+got.parent.Name, "address", ip)
				continue
			}
		}
		if got != nil {
			if err := a.remove(ctx, ips, ip, got.uid); err != nil {
				return err
			}
		}
		a.Logger.Info("address of a service was not reserved", "service", namespace+"/"+name, "address", ip)
		if err := a.reserveFor(ctx, services, key, addr, of); err != nil {
			return err
		}
	}
	return nil
}

// reserveFor reserves an address for a stored service that has it. The cache may lag behind the
// deletion of the service by another server, which has then released the address.
func (a *Allocator) reserveFor(ctx context.Context, services *kind.Kind, key string, addr netip.Addr, of networkingv1.ParentReference) error {
	has := func() (bool, error) {
		s, err := a.load(ctx, services, key)
		return s != nil && slices.Contains(s.ips, addr.String()), err
	}
	if ok, err := has(); !ok || err != nil {
		return err
	}
	uid, err := a.create(ctx, addr, of)
	if errors.Is(err, errTaken) {
		return nil
	}
	if err != nil {
		return err
	}
	if ok, err := has(); ok || err != nil {
		return err
	}
	return a.remove(ctx, a.Kinds.Load().Lookup(networkingv1.GroupName, "ipaddresses"), addr.String(), uid)
}

// isManaged reports whether an IPAddress has the labels of the IPAddresses of services.
func (l *loaded) isManaged(addr netip.Addr) bool {
	return l.labels[networkingv1.LabelManagedBy] == ManagedBy && l.labels[networkingv1.LabelIPAddressFamily] == string(networking.FamilyOf(addr))
}

// mendAddress releases an address that no service has.
func (a *Allocator) mendAddress(ctx context.Context, services, ips *kind.Kind, key string) error {
	got, err := a.cached(ips, key)
	if err != nil {
		return err
	}
	ip := strings.TrimPrefix(key, ips.StoragePrefix+"/")
	if got == nil {
		if owner := a.known.ips[ip]; owner != "" {
			a.loop.Add(owner)
		}
		return nil
	}
	if got.labels[networkingv1.LabelManagedBy] != ManagedBy {
		if owner := a.known.ips[ip]; owner != "" {
			a.loop.Add(owner)
		}
		return nil
	}
	until := time.Time{}
	if got.parent.Group == "" && got.parent.Resource == "services" {
		s, err := a.cached(services, services.Key(got.parent.Namespace, got.parent.Name))
		switch {
		case err != nil:
			return err
		case s == nil || s.typ == corev1.ServiceTypeExternalName:
			until = got.created.Add(a.patience())
		case slices.Contains(s.ips, ip):
			return nil
		default:
			until = got.created.Add(min(quick, a.patience()))
		}
	}
	if time.Now().Before(until) {
		a.loop.At(key, until)
		return nil
	}
	a.Logger.Warn("address without a service is released", "address", ip, "service", got.parent.Namespace+"/"+got.parent.Name)
	return a.remove(ctx, ips, ip, got.uid)
}

// missing reports whether err says that the store does not have the key.
func missing(err error) bool { return errors.Is(err, store.ErrNotFound) }

// overtaken reports whether an object that was to be deleted is gone, or replaced by one with
// another UID.
func overtaken(err error) bool {
	if err == nil {
		return false
	}
	reason := status.From(err).Reason
	return reason == metav1.StatusReasonNotFound || reason == metav1.StatusReasonConflict
}
