package allocator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/networking"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file allocates addresses. The server that creates the IPAddress object of an address has it.

// addressRange is a range from which addresses are allocated.
type addressRange struct {
	prefix      netip.Prefix
	first, last netip.Addr
	size        uint64 // number of addresses, at most 1<<63 - 1
	reserved    uint64 // how many at the beginning are allocated last, so that services that ask for an address find them free
}

// newRange returns the range of a prefix. Its first address, and in IPv4 its last one, are never
// allocated: they are the addresses of the network and of broadcasts. A sixteenth of the range, at
// least 16 and at most 256 addresses at its beginning, is reserved (KEP-3070).
func newRange(p netip.Prefix) *addressRange {
	p = p.Masked()
	r := &addressRange{prefix: p, first: p.Addr().Next()}
	host := p.Addr().BitLen() - p.Bits()
	less := uint64(1)
	if p.Addr().Is4() {
		less = 2
	}
	r.size = 1<<63 - 1
	whole := r.size
	if host < 63 {
		whole = 1 << host
		r.size = max(whole, less) - less
	}
	r.last = after(p.Addr(), new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(host)), big.NewInt(int64(less))))
	if whole > 16 {
		r.reserved = min(max(16, whole/16), 256)
	}
	return r
}

// Last returns the last address of a range that can be allocated.
func Last(p netip.Prefix) netip.Addr { return newRange(p).last }

// after returns the address that comes n after a.
func after(a netip.Addr, n *big.Int) netip.Addr {
	sum := new(big.Int).SetBytes(a.AsSlice())
	out := sum.Add(sum, n).FillBytes(make([]byte, a.BitLen()/8))
	addr, _ := netip.AddrFromSlice(out)
	return addr
}

// has reports whether an address can be allocated from the range.
func (r *addressRange) has(a netip.Addr) bool {
	return r.prefix.Contains(a) && !a.Less(r.first) && !r.last.Less(a)
}

// each calls fn with the n addresses that begin at an offset, until fn returns false. It starts at
// a random one of them, so that servers rarely try the same one, and continues at the first one.
func (r *addressRange) each(offset, n uint64, fn func(netip.Addr) bool) {
	if n == 0 {
		return
	}
	at := func(i uint64) netip.Addr { return after(r.first, new(big.Int).SetUint64(offset+i)) }
	start := rand.Uint64N(n)
	for a, i := at(start), start; i < n; a, i = a.Next(), i+1 {
		if !fn(a) {
			return
		}
	}
	for a, i := at(0), uint64(0); i < start; a, i = a.Next(), i+1 {
		if !fn(a) {
			return
		}
	}
}

// ranges returns the ranges from which addresses of some families are allocated: those of the
// ServiceCIDRs that are ready.
func (a *Allocator) ranges(families ...corev1.IPFamily) []*addressRange {
	var all []*addressRange
	k := a.Kinds.Load().Lookup(networkingv1.GroupName, "servicecidrs")
	found := false
	prefix := k.StoragePrefix + "/"
	a.Cache.Resource(k.StoragePrefix).Snapshot().Ascend(prefix, func(o *cache.Object) bool {
		if !strings.HasPrefix(o.Key, prefix) {
			return false
		}
		d := jsondoc.Get()
		defer d.Release()
		if k.Storage.Load(d, o.Raw, o.Rev) != nil {
			return true
		}
		found = true
		if (meta.Object{Doc: d}).DeletionTimestamp() != "" || !isReady(d) {
			return true
		}
		for _, c := range d.Root().At("spec", "cidrs").Items() {
			if p, err := netip.ParsePrefix(c.Text()); err == nil && slices.Contains(families, networking.FamilyOf(p.Addr())) &&
				!slices.ContainsFunc(all, func(r *addressRange) bool { return r.prefix == p.Masked() }) {
				all = append(all, newRange(p))
			}
		}
		return true
	})
	if found {
		return all
	}
	for _, p := range a.Ranges { // as long as nobody has made a ServiceCIDR
		if slices.Contains(families, networking.FamilyOf(p.Addr())) {
			all = append(all, newRange(p))
		}
	}
	return all
}

// isReady reports whether a ServiceCIDR may be used. One without the condition Ready may.
func isReady(d *jsondoc.Doc) bool {
	for _, c := range d.Root().At("status", "conditions").Items() {
		if c.Get("type").Text() == networkingv1.ServiceCIDRConditionReady {
			return c.Get("status").Text() == string(metav1.ConditionTrue)
		}
	}
	return true
}

// allocateIP allocates an address of a family for a service: the requested one, or any if asked is
// "".
func (a *Allocator) allocateIP(ctx context.Context, family corev1.IPFamily, asked string, of networkingv1.ParentReference, dryRun bool) (reservation, error) {
	res := a.Cache.Resource(a.Kinds.Load().Lookup(networkingv1.GroupName, "servicecidrs").StoragePrefix)
	if err := res.Fresh(ctx); err != nil {
		return reservation{}, err
	}
	ranges := a.ranges(family)
	if asked != "" {
		uid, err := a.allocateAsked(ctx, asked, ranges, of, dryRun)
		return reservation{asked, uid}, err
	}
	if dryRun && len(ranges) > 0 {
		return reservation{ip: ranges[0].prefix.Addr().String()}, nil // the network's own, as upstream
	}
	r, err := a.allocateFrom(ctx, ranges, of)
	if errors.Is(err, errFull) { // as far as the cache knows
		if err := a.Cache.Resource(a.Kinds.Load().Lookup(networkingv1.GroupName, "ipaddresses").StoragePrefix).Fresh(ctx); err != nil {
			return reservation{}, err
		}
		r, err = a.allocateFrom(ctx, ranges, of)
	}
	return r, err
}

// allocateFrom allocates any address of the ranges, the reserved parts last.
func (a *Allocator) allocateFrom(ctx context.Context, ranges []*addressRange, of networkingv1.ParentReference) (reservation, error) {
	for _, r := range ranges {
		for _, part := range [][2]uint64{{r.reserved, r.size - r.reserved}, {0, r.reserved}} {
			got, err := a.allocateAny(ctx, r, part[0], part[1], of)
			if !errors.Is(err, errFull) {
				return got, err
			}
		}
	}
	return reservation{}, errFull
}

// allocateAsked allocates a requested address, and returns the UID of its IPAddress. It returns "" if
// the address was reserved for a service of the same name, which is taken over.
func (a *Allocator) allocateAsked(ctx context.Context, asked string, ranges []*addressRange, of networkingv1.ParentReference, dryRun bool) (uid string, err error) {
	addr, err := netip.ParseAddr(asked)
	if err != nil {
		return "", err
	}
	in := slices.ContainsFunc(ranges, func(r *addressRange) bool { return r.has(addr) })
	switch {
	case dryRun && !in && len(ranges) > 0:
		return "", refusal(fmt.Sprintf("the provided IP (%v) is not in the valid range. The range of valid IPs is %s", addr, ranges[0].prefix))
	case !in:
		return "", errElsewhere
	case dryRun:
		return "", nil
	}
	uid, err = a.create(ctx, addr, of)
	if !errors.Is(err, errTaken) {
		return uid, err
	}
	return "", a.takeOver(ctx, addr, of)
}

// takeOver replaces the IPAddress that was reserved for a service of the same name, which was not
// stored with it. The new IPAddress has another UID, so that the change that reserved the address
// does not release it any more.
func (a *Allocator) takeOver(ctx context.Context, addr netip.Addr, of networkingv1.ParentReference) error {
	k, services := a.Kinds.Load().Lookup(networkingv1.GroupName, "ipaddresses"), a.Kinds.Load().Lookup("", "services")
	got, err := a.load(ctx, k, k.Key("", addr.String()))
	if err != nil {
		return err
	}
	if got != nil {
		if got.parent != of || !got.isManaged(addr) {
			return errTaken
		}
		s, err := a.load(ctx, services, services.Key(of.Namespace, of.Name))
		if err != nil {
			return err
		}
		if s != nil && slices.Contains(s.ips, addr.String()) {
			return errTaken
		}
		if err := a.remove(ctx, k, addr.String(), got.uid); err != nil {
			return err
		}
	}
	_, err = a.create(ctx, addr, of)
	return err
}

// allocateAny allocates one of the n addresses that begin at an offset of a range.
func (a *Allocator) allocateAny(ctx context.Context, r *addressRange, offset, n uint64, of networkingv1.ParentReference) (got reservation, err error) {
	k := a.Kinds.Load().Lookup(networkingv1.GroupName, "ipaddresses")
	known := a.Cache.Resource(k.StoragePrefix).Snapshot()
	err = errFull
	r.each(offset, n, func(addr netip.Addr) bool {
		text := addr.String()
		if _, taken := known.Get(k.Key("", text)); taken {
			return true
		}
		uid := ""
		if uid, err = a.create(ctx, addr, of); errors.Is(err, errTaken) { // by a request that was faster
			err = errFull
			return true
		}
		got = reservation{text, uid}
		return false
	})
	return got, err
}

// create creates the IPAddress of a service, and returns its UID. It returns errTaken if there is
// one.
func (a *Allocator) create(ctx context.Context, addr netip.Addr, of networkingv1.ParentReference) (uid string, err error) {
	k := a.Kinds.Load().Lookup(networkingv1.GroupName, "ipaddresses")
	body, err := json.Marshal(&networkingv1.IPAddress{
		TypeMeta: metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "IPAddress"},
		ObjectMeta: metav1.ObjectMeta{Name: addr.String(), Labels: map[string]string{
			networkingv1.LabelIPAddressFamily: string(networking.FamilyOf(addr)), networkingv1.LabelManagedBy: ManagedBy,
		}},
		Spec: networkingv1.IPAddressSpec{ParentRef: &of},
	})
	if err != nil {
		return "", err
	}
	if uid, err = a.API.Create(ctx, k, "", addr.String(), body); exists(err) {
		return "", errTaken
	}
	return uid, err
}

// ManagedBy is the value of the label managed-by of the IPAddresses of services.
const ManagedBy = "ipallocator.k8s.io"

// releaseAddress deletes an IPAddress if it is that of the service.
func (a *Allocator) releaseAddress(ctx context.Context, ip string, of networkingv1.ParentReference) error {
	k := a.Kinds.Load().Lookup(networkingv1.GroupName, "ipaddresses")
	got, err := a.load(ctx, k, k.Key("", ip))
	if got == nil || err != nil || got.parent != of {
		return err
	}
	return a.remove(ctx, k, ip, got.uid)
}

// remove deletes an IPAddress with a UID. If the IPAddress is missing or has
// another UID, it does nothing.
func (a *Allocator) remove(ctx context.Context, k *kind.Kind, ip, uid string) error {
	err := a.API.Remove(ctx, k, "", ip, &meta.DeleteOptions{UID: &uid})
	if overtaken(err) {
		return nil
	}
	return err
}

// ensureRange creates the default ServiceCIDR if there is none, and sets its condition Ready.
func (a *Allocator) ensureRange(ctx context.Context) error {
	k := a.Kinds.Load().Lookup(networkingv1.GroupName, "servicecidrs")
	for {
		item, err := a.Store.Get(ctx, k.Key("", defaultRange))
		if err == nil {
			d := jsondoc.Get()
			defer d.Release()
			if err := k.Storage.Load(d, item.Value, item.Rev); err != nil {
				return err
			}
			return a.readyRange(ctx, k, d)
		}
		if !missing(err) {
			return err
		}
		body, err := json.Marshal(&networkingv1.ServiceCIDR{
			TypeMeta:   metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "ServiceCIDR"},
			ObjectMeta: metav1.ObjectMeta{Name: defaultRange},
			Spec:       networkingv1.ServiceCIDRSpec{CIDRs: a.cidrs()},
		})
		if err != nil {
			return err
		}
		if _, err := a.API.Create(ctx, k, "", defaultRange, body); err != nil && !exists(err) {
			return err
		}
	}
}

// defaultRange is the name of the default ServiceCIDR, which is created again if it is deleted.
const defaultRange = "kubernetes"

// cidrs returns the configured ranges as texts.
func (a *Allocator) cidrs() []string {
	var all []string
	for _, r := range a.Ranges {
		all = append(all, r.Masked().String())
	}
	return all
}

// readyRange sets the condition Ready of the default ServiceCIDR, if its ranges are the configured
// ones and the condition is not set yet. If a second range was configured since the ServiceCIDR was
// created, it adds the range.
func (a *Allocator) readyRange(ctx context.Context, k *kind.Kind, d *jsondoc.Doc) error {
	if (meta.Object{Doc: d}).DeletionTimestamp() != "" {
		return nil
	}
	var have []string
	for _, c := range d.Root().At("spec", "cidrs").Items() {
		have = append(have, strings.Clone(c.Text()))
	}
	switch want := a.cidrs(); {
	case len(want) == 2 && slices.Equal(have, want[:1]):
		if err := a.addRange(ctx, k, want); err != nil {
			return err
		}
	case !slices.Equal(have, want):
		a.Logger.Warn("addresses of services are those of the default ServiceCIDR, and not of the configured ranges", "configured", want, "default", have)
		return nil
	}
	for _, c := range d.Root().At("status", "conditions").Items() {
		if c.Get("type").Text() == networkingv1.ServiceCIDRConditionReady && c.Get("status").Text() != string(metav1.ConditionUnknown) {
			return nil
		}
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": networkingv1.SchemeGroupVersion.String(), "kind": "ServiceCIDR", "metadata": map[string]any{"name": defaultRange},
		"status": map[string]any{"conditions": []map[string]any{{
			"type": networkingv1.ServiceCIDRConditionReady, "status": metav1.ConditionTrue, "message": "Kubernetes default Service CIDR is ready",
			"lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
		}}},
	})
	if err != nil {
		return err
	}
	return a.Status.Apply(ctx, k, "", defaultRange, "status", body)
}

// addRange sets the ranges of the default ServiceCIDR, which had the first of them only.
func (a *Allocator) addRange(ctx context.Context, k *kind.Kind, cidrs []string) error {
	body, err := json.Marshal(map[string]any{
		"apiVersion": networkingv1.SchemeGroupVersion.String(), "kind": "ServiceCIDR", "metadata": map[string]any{"name": defaultRange},
		"spec": map[string]any{"cidrs": cidrs},
	})
	if err != nil {
		return err
	}
	a.Logger.Info("the default ServiceCIDR gets a second range", "ranges", cidrs)
	return a.Status.Apply(ctx, k, "", defaultRange, "", body)
}

// loaded has the fields that the allocator needs of a stored IPAddress or service.
type loaded struct {
	uid     string
	created time.Time
	labels  map[string]string
	parent  networkingv1.ParentReference
	ips     []string
	typ     corev1.ServiceType
}

// load reads an IPAddress or a service from the store. It returns nil if there is none.
func (a *Allocator) load(ctx context.Context, k *kind.Kind, key string) (*loaded, error) {
	item, err := a.Store.Get(ctx, key)
	if missing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parse(k, item.Value, item.Rev)
}

// parse decodes a stored IPAddress or service.
func parse(k *kind.Kind, raw []byte, rev int64) (*loaded, error) {
	d := jsondoc.Get()
	defer d.Release()
	if err := k.Storage.Load(d, raw, rev); err != nil {
		return nil, err
	}
	var o struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
		Spec     struct {
			ParentRef  networkingv1.ParentReference `json:"parentRef"`
			Type       corev1.ServiceType           `json:"type"`
			ClusterIP  string                       `json:"clusterIP"`
			ClusterIPs []string                     `json:"clusterIPs"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(d.AppendJSON(nil, d.Root().Node), &o); err != nil {
		return nil, err
	}
	s := corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: o.Spec.ClusterIP, ClusterIPs: o.Spec.ClusterIPs}}
	networking.Normalize(&s, nil)
	return &loaded{uid: string(o.Metadata.UID), created: o.Metadata.CreationTimestamp.Time, labels: o.Metadata.Labels, parent: o.Spec.ParentRef,
		ips: addresses(&s), typ: o.Spec.Type}, nil
}
