package allocator

import (
	"context"
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
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/networking"
	"github.com/keelson-io/keelson/status"
	"github.com/keelson-io/keelson/store"
)

// This file gives ports of nodes: which are taken is one value of the store, a RangeAllocation, as kube-apiserver has it.

// portsKey is where the value is.
const portsKey = "ranges/servicenodeports"

// ports are the ports that are taken, as this server knows them.
type ports struct {
	mu   sync.Mutex // held while they are changed
	rev  int64      // of the value; 0: it is not known
	bits *big.Int   // by how far a port is from the first
}

// rangeAllocation is what kube-apiserver calls the value. The message has fields metadata, range and data.
type rangeAllocation struct {
	Range string
	Data  []byte
}

// decodePorts reads the value of the store: in protobuf, or in the JSON that a server with that storage writes.
func decodePorts(value []byte) (*rangeAllocation, error) {
	obj := new(corev1.RangeAllocation)
	if kind.IsProtobuf(value) {
		if _, err := kind.FromProtobuf(value, func(metav1.TypeMeta) (runtime.Object, error) { return obj, nil }); err != nil {
			return nil, err
		}
	} else if _, err := kind.Message(value, obj); err != nil {
		return nil, err
	}
	return &rangeAllocation{obj.Range, obj.Data}, nil
}

// encode prints the value.
func (r *rangeAllocation) encode() ([]byte, error) {
	obj := &corev1.RangeAllocation{Range: r.Range, Data: r.Data}
	raw, err := obj.Marshal()
	if err != nil {
		return nil, err
	}
	return kind.WrapProtobuf(raw, "v1", "RangeAllocation")
}

// begin makes the value say at least what services of the store have. What it says of another range of ports is taken over.
func (p *ports) begin(ctx context.Context, a *Allocator) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		item, err := a.Store.Get(ctx, portsKey)
		gone := missing(err)
		if err != nil && !gone {
			return err
		}
		bits := new(big.Int)
		if !gone {
			if bits, err = a.translate(item.Value); err != nil {
				return err
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
			return err
		}
		value, err := (&rangeAllocation{a.Ports.String(), bits.Bytes()}).encode()
		if err != nil {
			return err
		}
		var rev int64
		switch {
		case gone:
			rev, err = a.Store.Create(ctx, portsKey, value)
		case string(value) == string(item.Value):
			rev = item.Rev
		default:
			rev, err = a.Store.Update(ctx, portsKey, value, item.Rev)
		}
		var changed *store.Changed
		if errors.Is(err, store.ErrExists) || errors.As(err, &changed) {
			continue
		}
		if err == nil {
			p.rev, p.bits = rev, bits
		}
		return err
	}
}

// translate reads the ports of a value, which may be of another range.
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

// offset is how far a port is from the first one of the range.
func (a *Allocator) offset(port int32) (int, bool) {
	return int(port) - a.Ports.Base, a.Ports.Contains(int(port))
}

// portsOf are the ports that a stored service has, those of nodes and the health check port, each once.
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

// change changes the ports that are taken. fn changes bits, and may be called again, as its error may be due to what has changed since.
func (p *ports) change(ctx context.Context, a *Allocator, fn func(bits *big.Int) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for fresh := false; ; {
		if p.rev == 0 {
			if err := p.read(ctx, a); err != nil {
				return err
			}
			fresh = true
		}
		bits := new(big.Int).Set(p.bits)
		if err := fn(bits); err != nil {
			if !fresh {
				p.rev = 0
				continue
			}
			return err
		}
		if bits.Cmp(p.bits) == 0 {
			return nil
		}
		value, err := (&rangeAllocation{a.Ports.String(), bits.Bytes()}).encode()
		if err != nil {
			return err
		}
		rev, err := a.Store.Update(ctx, portsKey, value, p.rev)
		var changed *store.Changed
		switch {
		case err == nil:
			p.rev, p.bits = rev, bits
			return nil
		case errors.As(err, &changed):
			p.rev = 0
		default:
			p.rev = 0
			return err
		}
	}
}

// read reads which ports are taken.
func (p *ports) read(ctx context.Context, a *Allocator) error {
	item, err := a.Store.Get(ctx, portsKey)
	if missing(err) {
		return errors.New("cannot allocate resources of type servicenodeportallocations at this time")
	}
	if err != nil {
		return err
	}
	had, err := decodePorts(item.Value)
	if err != nil {
		return err
	}
	if had.Range != a.Ports.String() {
		return errors.New("the provided range does not match the current range")
	}
	p.rev, p.bits = item.Rev, new(big.Int).SetBytes(had.Data)
	return nil
}

// release gives ports back.
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

// taker takes ports for one service.
type taker interface {
	take(port int32) error
	next() (int32, error)
}

// bitTaker takes ports in the value.
type bitTaker struct {
	a     *Allocator
	bits  *big.Int
	taken []int32
}

func (t *bitTaker) take(port int32) error {
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

// next takes any port: of those at the beginning of the range, which are for who asks for one, only if there is no other.
func (t *bitTaker) next() (int32, error) {
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
				return port, t.take(port)
			}
		}
	}
	return 0, errFull
}

// dryTaker says what taking ports may come to, as upstream says it.
type dryTaker struct {
	a     *Allocator
	bits  *big.Int
	taken []int32
}

func (t *dryTaker) take(port int32) error {
	if at, ok := t.a.offset(port); ok && t.bits.Bit(at) == 1 || slices.Contains(t.taken, port) {
		return errPortTaken
	}
	t.taken = append(t.taken, port)
	return nil
}

func (t *dryTaker) next() (int32, error) {
	port := int32(32769)
	if len(t.taken) > 0 {
		port = slices.Max(t.taken) + 1
	}
	t.taken = append(t.taken, port)
	return port, nil
}

// takePorts gives the service its ports of nodes, and notes which ones of the old one become free.
func (c *claims) takePorts(ctx context.Context, s, was *corev1.Service, dryRun bool) error {
	if was != nil && networking.OnNodes(was) {
		c.freedPorts = networking.NodePorts(was)
	}
	if was != nil && networking.Checked(was) && !networking.Checked(s) && was.Spec.HealthCheckNodePort != 0 {
		c.freedPorts = append(c.freedPorts, was.Spec.HealthCheckNodePort)
	}
	if networking.OnNodes(s) {
		asked := slices.Clone(s.Spec.Ports)
		health := s.Spec.HealthCheckNodePort
		give := func(t taker) error {
			copy(s.Spec.Ports, asked)
			s.Spec.HealthCheckNodePort = health
			return give(t, s, was)
		}
		if err := c.givePorts(ctx, give, dryRun); err != nil {
			return err
		}
		has := networking.NodePorts(s)
		c.freedPorts = slices.DeleteFunc(c.freedPorts, func(p int32) bool { return slices.Contains(has, p) })
	}
	return nil
}

func (c *claims) givePorts(ctx context.Context, give func(taker) error, dryRun bool) error {
	if dryRun {
		p := &c.a.ports
		p.mu.Lock()
		defer p.mu.Unlock()
		t := &dryTaker{a: c.a, bits: new(big.Int)}
		if err := p.read(ctx, c.a); errors.Is(err, store.ErrUnavailable) {
			return err
		} else if err == nil {
			t.bits.Set(p.bits)
		}
		return give(t)
	}
	return c.a.ports.change(ctx, c.a, func(bits *big.Int) error {
		t := &bitTaker{a: c.a, bits: bits}
		err := give(t)
		c.ports = nil
		if err == nil {
			c.ports = t.taken
		}
		return err
	})
}

// give gives a service ports of nodes.
func give(t taker, s, was *corev1.Service) error {
	err := error(nil)
	if was == nil {
		err = giveNew(t, s)
	} else {
		err = giveMore(t, s, was)
	}
	if err != nil || !networking.Checked(s) || was != nil && networking.Checked(was) {
		return err
	}
	if port := s.Spec.HealthCheckNodePort; port != 0 {
		if err := t.take(port); err != nil {
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

// takeFor takes the port that one of the service's ports names.
func takeFor(t taker, s *corev1.Service, i int, port int32) error {
	if err := t.take(port); err != nil {
		return invalid(s, field.Invalid(field.NewPath("spec", "ports").Index(i).Child("nodePort"), port, err.Error()))
	}
	return nil
}

func takeAny(t taker) (int32, error) {
	port, err := t.next()
	if err != nil {
		return 0, status.Internal(fmt.Errorf("failed to allocate a nodePort: %w", err))
	}
	return port, nil
}

// giveNew gives a new service its ports. Ports of the same number, of several protocols, share one.
func giveNew(t taker, s *corev1.Service) error {
	shared := map[int32]int32{} // by the service's own port
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		if p.NodePort == 0 && !networking.GivenPorts(s) {
			continue
		}
		has := shared[p.Port]
		switch {
		case has == 0:
			j := slices.IndexFunc(s.Spec.Ports, func(q corev1.ServicePort) bool { return q.Port == p.Port && q.NodePort != 0 })
			if j >= 0 {
				if err := takeFor(t, s, i, s.Spec.Ports[j].NodePort); err != nil {
					return err
				}
				p.NodePort = s.Spec.Ports[j].NodePort
			} else {
				port, err := takeAny(t)
				if err != nil {
					return err
				}
				p.NodePort = port
			}
			shared[p.Port] = p.NodePort
		case p.NodePort == 0:
			p.NodePort = has
		case p.NodePort != has:
			if err := takeFor(t, s, i, p.NodePort); err != nil {
				return err
			}
		}
	}
	return nil
}

// giveMore gives a changed service the ports that the old one has not got.
func giveMore(t taker, s, was *corev1.Service) error {
	type pair struct {
		Protocol corev1.Protocol
		NodePort int32
	}
	had := networking.NodePorts(was)
	seen, taken := map[pair]bool{}, map[int32]bool{}
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		switch {
		case p.NodePort == 0 && !networking.GivenPorts(s):
			continue
		case p.NodePort == 0:
			port, err := takeAny(t)
			if err != nil {
				return err
			}
			p.NodePort = port
		case !slices.Contains(had, p.NodePort) && !taken[p.NodePort]:
			if err := takeFor(t, s, i, p.NodePort); err != nil {
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
