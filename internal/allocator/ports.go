package allocator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/networking"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file allocates node ports. One value of the store, a RangeAllocation, has a bit for each
// port of the range, as in kube-apiserver.

// portsKey is the key of the value.
const portsKey = "ranges/servicenodeports"

// ports is the value as this server read or wrote it last.
type ports struct {
	mu   sync.Mutex // held while the value is read or changed
	now  store.Item // the zero Item: it has to be read
	bits *big.Int   // set for each reserved port; bit 0 is the first port of the range
}

// rangeAllocation has the fields of the value: its range as text, such as 30000-32767, and the
// bits, highest first.
type rangeAllocation struct {
	Range string
	Data  []byte
}

var rangeType = kind.NewGoType(func() runtime.Object { return new(corev1.RangeAllocation) })

// decodePorts decodes the value: from protobuf, or from the JSON that a kube-apiserver with JSON
// storage writes.
func decodePorts(value []byte) (*rangeAllocation, error) {
	if kind.IsProtobuf(value) {
		text, err := kind.FromProtobuf(value, func(metav1.TypeMeta) (*kind.GoType, error) { return rangeType, nil })
		if err != nil {
			return nil, err
		}
		value = text
	}
	obj := new(corev1.RangeAllocation)
	if err := json.Unmarshal(value, obj); err != nil {
		return nil, err
	}
	return &rangeAllocation{obj.Range, obj.Data}, nil
}

// encode encodes the value as protobuf, as kube-apiserver does.
func (r *rangeAllocation) encode() ([]byte, error) {
	obj := &corev1.RangeAllocation{Range: r.Range, Data: r.Data}
	raw, err := obj.Marshal()
	if err != nil {
		return nil, err
	}
	return kind.WrapProtobuf(raw, "v1", "RangeAllocation")
}

// begin reserves the ports of all stored services. If exclusive, it releases all other ports. If
// not, the ports of a value with another range stay reserved as far as they are in this range.
func (p *ports) begin(ctx context.Context, a *Allocator, exclusive bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	bits := new(big.Int)
	now, err := store.Change(ctx, a.Store, portsKey, nil, func(now store.Item) (value []byte, err error) {
		bits = new(big.Int)
		if now.Rev > 0 && !exclusive {
			if bits, err = a.translate(now.Value); err != nil {
				return nil, err
			}
		}
		services := a.Kinds.Load().Lookup("", "services")
		if _, err := store.Each(ctx, a.Store, services.StoragePrefix+"/", 0, func(it *store.Item) error {
			for _, port := range portsOf(services, it.Value, it.Rev) {
				if at, ok := a.offset(port); ok {
					bits.SetBit(bits, at, 1)
				}
			}
			return nil
		}); err != nil {
			return nil, err
		}
		value, err = (&rangeAllocation{a.Ports.String(), bits.Bytes()}).encode()
		if now.Rev > 0 && string(value) == string(now.Value) {
			value = nil
		}
		return value, err
	})
	if err == nil {
		p.now, p.bits = now, bits
	}
	return err
}

// translate returns the bits of a value. If the value has another range, they are moved to the
// places that the same ports have in this one.
func (a *Allocator) translate(value []byte) (*big.Int, error) {
	had, err := decodePorts(value)
	if err != nil {
		return nil, err
	}
	bits := new(big.Int).SetBytes(had.Data)
	if had.Range == a.Ports.String() {
		return bits, nil
	}
	other, err := utilnet.ParsePortRange(had.Range)
	if err != nil {
		return nil, err
	}
	out := new(big.Int)
	for i := range min(bits.BitLen(), other.Size) {
		if at, ok := a.offset(int32(other.Base + i)); ok && bits.Bit(i) == 1 {
			out.SetBit(out, at, 1)
		}
	}
	return out, nil
}

// offset returns the distance of a port from the first one, and whether the port is in the range.
func (a *Allocator) offset(port int32) (int, bool) {
	return int(port) - a.Ports.Base, a.Ports.Contains(int(port))
}

// portsOf returns the ports that a stored service has, node ports and the health check port, each
// once.
func portsOf(k *kind.Kind, raw []byte, rev int64) []int32 {
	d := jsondoc.Get()
	defer d.Release()
	if k.Storage.Load(d, raw, rev) != nil {
		return nil
	}
	spec := d.Root().Get("spec")
	all := map[int32]bool{int32(spec.Get("healthCheckNodePort").Int()): true}
	for _, p := range spec.Get("ports").Items() {
		all[int32(p.Get("nodePort").Int())] = true
	}
	delete(all, 0)
	return slices.Sorted(maps.Keys(all))
}

// change writes the value that fn makes of the bits. fn may be called again: if the value was
// changed by another server meanwhile, or if fn failed on bits that may be old.
func (p *ports) change(ctx context.Context, a *Allocator, fn func(bits *big.Int) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var known *store.Item
	if p.now.Rev > 0 {
		known = &p.now
	}
	var bits *big.Int
	now, err := store.Change(ctx, a.Store, portsKey, known, func(now store.Item) ([]byte, error) {
		if now.Rev != p.now.Rev || now.Rev == 0 {
			if err := p.know(a, now); err != nil {
				return nil, err
			}
		}
		bits = new(big.Int).Set(p.bits)
		if err := fn(bits); err != nil || bits.Cmp(p.bits) == 0 {
			return nil, err
		}
		return (&rangeAllocation{a.Ports.String(), bits.Bytes()}).encode()
	})
	if err != nil {
		now = store.Item{}
	}
	p.now, p.bits = now, bits
	return err
}

// know takes over the value.
func (p *ports) know(a *Allocator, now store.Item) error {
	bits, err := a.reserved(now)
	if err != nil {
		return err
	}
	p.now, p.bits = now, bits
	return nil
}

// reserved returns the bits of the value. Errors have upstream's words.
func (a *Allocator) reserved(now store.Item) (*big.Int, error) {
	if now.Rev == 0 {
		return nil, errors.New("cannot allocate resources of type servicenodeportallocations at this time")
	}
	had, err := decodePorts(now.Value)
	if err != nil {
		return nil, err
	}
	if had.Range != a.Ports.String() {
		return nil, errors.New("the provided range does not match the current range")
	}
	return new(big.Int).SetBytes(had.Data), nil
}

// release clears the bits of ports.
func (p *ports) release(ctx context.Context, a *Allocator, all []int32) error {
	if len(all) == 0 {
		return nil
	}
	return p.change(ctx, a, func(bits *big.Int) error {
		for _, port := range all {
			if at, ok := a.offset(port); ok {
				bits.SetBit(bits, at, 0)
			}
		}
		return nil
	})
}

// portAllocator allocates ports for one service: allocate a requested one, next any.
type portAllocator interface {
	allocate(port int32) error
	next() (int32, error)
}

// bitAllocator allocates ports by setting their bits.
type bitAllocator struct {
	a     *Allocator
	bits  *big.Int
	taken []int32
}

// allocate reserves a requested port.
func (t *bitAllocator) allocate(port int32) error {
	at, ok := t.a.offset(port)
	if !ok {
		return refusal("provided port is not in the valid range. The range of valid ports is " + t.a.Ports.String())
	}
	if t.bits.Bit(at) == 1 {
		return errPortTaken
	}
	t.bits.SetBit(t.bits, at, 1)
	t.taken = append(t.taken, port)
	return nil
}

// next reserves any port. It starts at a random one. The ports at the beginning of the range (a
// 32nd of it, at least 16 and at most 128) come last: they are kept for services that ask for a
// port (KEP-3668).
func (t *bitAllocator) next() (int32, error) {
	size := t.a.Ports.Size
	reserved := 0
	if size > 16 {
		reserved = min(max(16, size/32), 128)
	}
	for _, part := range [][2]int{{reserved, size}, {0, reserved}} {
		n := part[1] - part[0]
		if n <= 0 {
			continue
		}
		start := rand.IntN(n)
		for i := range n {
			at := part[0] + (start+i)%n
			if t.bits.Bit(at) == 0 {
				port := int32(t.a.Ports.Base + at)
				return port, t.allocate(port)
			}
		}
	}
	return 0, errFull
}

// dryAllocator allocates ports in a dry run. Nothing is written, nobody waits for it, and the ports
// are those that upstream returns in a dry run.
type dryAllocator struct {
	a     *Allocator
	bits  *big.Int
	taken sets.Set[int32]
	last  int32 // the largest of taken
}

// allocate fails for a port that is reserved already.
func (t *dryAllocator) allocate(port int32) error {
	if at, ok := t.a.offset(port); ok && t.bits.Bit(at) == 1 || t.taken.Has(port) {
		return errPortTaken
	}
	t.taken.Insert(port)
	t.last = max(t.last, port)
	return nil
}

// next returns 32769, and for more ports the next numbers. Upstream does the same, and these ports
// may be in use.
func (t *dryAllocator) next() (int32, error) {
	port := int32(32769)
	if len(t.taken) > 0 {
		port = t.last + 1
	}
	t.taken.Insert(port)
	t.last = port
	return port, nil
}

// allocatePorts sets the missing node ports and the health check port of a service. The ports that
// only the old service has are added to c.freedPorts.
func (c *claims) allocatePorts(ctx context.Context, s, was *corev1.Service, dryRun bool) error {
	if was != nil && networking.OnNodes(was) {
		c.freedPorts = networking.NodePorts(was)
	}
	if was != nil && networking.Checked(was) && !networking.Checked(s) && was.Spec.HealthCheckNodePort != 0 {
		c.freedPorts = append(c.freedPorts, was.Spec.HealthCheckNodePort)
	}
	if networking.OnNodes(s) {
		asked := slices.Clone(s.Spec.Ports)
		known := knownPorts(s, was)
		health := s.Spec.HealthCheckNodePort
		give := func(t portAllocator) error {
			copy(s.Spec.Ports, asked)
			s.Spec.HealthCheckNodePort = health
			return setPorts(t, s, was, known)
		}
		if err := c.withPorts(ctx, give, dryRun); err != nil {
			return err
		}
		c.freedPorts = slices.DeleteFunc(c.freedPorts, sets.New(networking.NodePorts(s)...).Has)
	}
	return nil
}

// withPorts calls give with an allocator of ports, in a dry run with one that writes nothing. give
// may be called several times.
func (c *claims) withPorts(ctx context.Context, give func(portAllocator) error, dryRun bool) error {
	if dryRun {
		t := &dryAllocator{a: c.a, bits: new(big.Int), taken: sets.Set[int32]{}}
		now, err := c.a.Store.Get(ctx, portsKey)
		if errors.Is(err, store.ErrUnavailable) {
			return err
		}
		if err == nil {
			if bits, err := c.a.reserved(now); err == nil {
				t.bits = bits
			}
		}
		return give(t)
	}
	return c.a.ports.change(ctx, c.a, func(bits *big.Int) error {
		t := &bitAllocator{a: c.a, bits: bits}
		err := give(t)
		c.ports = nil
		if err == nil {
			c.ports = t.taken
		}
		return err
	})
}

// knownPorts returns the node ports that an allocation looks up, so that it is made before the lock
// for ports is taken: those of the old service, or the first one of each port of a new service.
func knownPorts(s, was *corev1.Service) map[int32]int32 {
	known := map[int32]int32{}
	if was != nil {
		for _, port := range networking.NodePorts(was) {
			known[port] = port
		}
		return known
	}
	for i := range s.Spec.Ports {
		if p := &s.Spec.Ports[i]; known[p.Port] == 0 {
			known[p.Port] = p.NodePort
		}
	}
	return known
}

// setPorts sets the ports of a service with the allocator t.
func setPorts(t portAllocator, s, was *corev1.Service, known map[int32]int32) error {
	err := error(nil)
	if was == nil {
		err = setNewPorts(t, s, known)
	} else {
		err = setMissingPorts(t, s, known)
	}
	if err != nil || !networking.Checked(s) || was != nil && networking.Checked(was) {
		return err
	}
	if port := s.Spec.HealthCheckNodePort; port != 0 {
		if err := t.allocate(port); err != nil {
			return status.Internal(fmt.Errorf("failed to allocate requested HealthCheck NodePort %v: %v", port, err))
		}
		return nil
	}
	port, err := t.next()
	if err != nil {
		return status.Internal(fmt.Errorf("failed to allocate a HealthCheck NodePort %v: %v", port, err))
	}
	s.Spec.HealthCheckNodePort = port
	return nil
}

// allocateFor allocates the port that one of the service's ports requests.
func allocateFor(t portAllocator, s *corev1.Service, i int, port int32) error {
	if err := t.allocate(port); err != nil {
		return invalid(s, field.Invalid(field.NewPath("spec", "ports").Index(i).Child("nodePort"), port, err.Error()))
	}
	return nil
}

// allocateAnyPort allocates any port.
func allocateAnyPort(t portAllocator) (int32, error) {
	port, err := t.next()
	if err != nil {
		return 0, status.Internal(fmt.Errorf("failed to allocate a nodePort: %w", err))
	}
	return port, nil
}

// setNewPorts sets the ports of a new service. Ports of the same number, for several protocols, share
// one node port.
func setNewPorts(t portAllocator, s *corev1.Service, known map[int32]int32) error {
	shared := map[int32]int32{} // by the service's own port
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		if p.NodePort == 0 && !networking.GivenPorts(s) {
			continue
		}
		has := shared[p.Port]
		switch {
		case has == 0:
			if asked := known[p.Port]; asked != 0 {
				if err := allocateFor(t, s, i, asked); err != nil {
					return err
				}
				p.NodePort = asked
			} else {
				port, err := allocateAnyPort(t)
				if err != nil {
					return err
				}
				p.NodePort = port
			}
			shared[p.Port] = p.NodePort
		case p.NodePort == 0:
			p.NodePort = has
		case p.NodePort != has:
			if err := allocateFor(t, s, i, p.NodePort); err != nil {
				return err
			}
		}
	}
	return nil
}

// setMissingPorts sets the ports that a changed service needs beyond those of the old one, which are
// known.
func setMissingPorts(t portAllocator, s *corev1.Service, known map[int32]int32) error {
	type pair struct {
		Protocol corev1.Protocol
		NodePort int32
	}
	seen, taken := map[pair]bool{}, map[int32]bool{}
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		switch {
		case p.NodePort == 0 && !networking.GivenPorts(s):
			continue
		case p.NodePort == 0:
			port, err := allocateAnyPort(t)
			if err != nil {
				return err
			}
			p.NodePort = port
		case known[p.NodePort] == 0 && !taken[p.NodePort]:
			if err := allocateFor(t, s, i, p.NodePort); err != nil {
				return err
			}
			taken[p.NodePort] = true
		}
		key := pair{p.Protocol, p.NodePort}
		if seen[key] {
			return fmt.Errorf("duplicate nodePort: %v", key)
		}
		seen[key] = true
	}
	return nil
}
