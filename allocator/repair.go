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

	"github.com/keelson-io/keelson/controller/loop"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/networking"
	"github.com/keelson-io/keelson/status"
	"github.com/keelson-io/keelson/store"
)

// This file keeps right what is noted of addresses and ports: servers may have ended between noting and storing, or may not note at all.

// Name is what the controller is called in the log.
const Name = "service-allocator"

// patience is Patience or what that is by default.
func (a *Allocator) patience() time.Duration {
	if a.Patience > 0 {
		return a.Patience
	}
	return time.Minute
}

// quick is how long an address may be another one than its service's, which somebody is about to give back.
const quick = 5 * time.Second

// owners is what the controller has seen of services and ports.
type owners struct {
	ports  map[string][]int32  // of services, by key
	users  map[int32]int       // how many services have a port
	ips    map[string]string   // keys of services by address
	had    map[string][]string // addresses of services, by key
	bits   *big.Int            // ports that are taken, as seen last
	rev    int64               // when that was
	unused map[int32]time.Time // since when ports are taken that no service has
}

// Run keeps the default ServiceCIDR, notes what services have, and gives back what no service has, until ctx ends.
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

// seePorts sees which ports are taken.
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

// nextUnused has ports given back when that is due.
func (a *Allocator) nextUnused() {
	for _, since := range a.known.unused {
		a.loop.By(portsKey, since.Add(a.patience()))
	}
}

// seeService sees what a service has.
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

// mendPorts notes ports that services have, and gives those back that none has had for long.
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
		if a.ports.rev != seen {
			return nil // what is unused may be another's by now: the next change brings it up again
		}
		for p, since := range own.unused {
			if at, ok := a.offset(p); ok && time.Since(since) >= a.patience() {
				a.Logger.Warn("port of nodes is given back that no service has", "port", p)
				bits.SetBit(bits, at, 0)
			}
		}
		return nil
	})
	a.nextUnused()
	return err
}

// cached is an IPAddress or a service as the cache has it, nil if there is none.
func (a *Allocator) cached(k *kind.Kind, key string) (*loaded, error) {
	o, ok := a.Cache.Resource(k.StoragePrefix).Get(key)
	if !ok {
		return nil, nil
	}
	return parse(k, o.Raw, o.Rev)
}

// mendService makes sure that the addresses of a service are noted to be its own.
func (a *Allocator) mendService(ctx context.Context, services, ips *kind.Kind, key string) error {
	s, err := a.cached(services, key)
	if s == nil || err != nil {
		return err
	}
	namespace, name := loop.Place(services, key)
	of := networkingv1.ParentReference{Resource: "services", Namespace: namespace, Name: name}
	ranges := a.ranges()
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
		case got != nil && got.parent == of && got.managed(addr):
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
		a.Logger.Info("address of a service was not noted", "service", namespace+"/"+name, "address", ip)
		if err := a.create(ctx, addr, of); err != nil && !errors.Is(err, errTaken) {
			return err
		}
	}
	return nil
}

// managed reports whether an IPAddress has the labels of those of services.
func (l *loaded) managed(addr netip.Addr) bool {
	return l.labels[networkingv1.LabelManagedBy] == manager && l.labels[networkingv1.LabelIPAddressFamily] == string(networking.FamilyOf(addr))
}

// mendAddress gives an address back that no service has.
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
	if got.labels[networkingv1.LabelManagedBy] != manager {
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
	a.Logger.Warn("address is given back that no service has", "address", ip, "service", got.parent.Namespace+"/"+got.parent.Name)
	return a.remove(ctx, ips, ip, got.uid)
}

// missing reports whether an error of the store says that there is no such key.
func missing(err error) bool { return errors.Is(err, store.ErrNotFound) }

// overtaken reports whether an error of a deletion says that the object is not there any more.
func overtaken(err error) bool {
	if err == nil {
		return false
	}
	reason := status.From(err).Reason
	return reason == metav1.StatusReasonNotFound || reason == metav1.StatusReasonConflict
}
