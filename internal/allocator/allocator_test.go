package allocator

import (
	"bytes"
	"math/big"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/keelson-io/keelson/internal/store/mem"
	"github.com/keelson-io/keelson/kind"
)

// This file tests ranges by themselves; what becomes of services is tested with a server, in package server.

func TestRanges(t *testing.T) {
	for _, c := range []struct {
		prefix, first, last string
		size, reserved      uint64
	}{
		{"10.0.0.0/24", "10.0.0.1", "10.0.0.254", 254, 16},
		{"10.0.0.7/28", "10.0.0.1", "10.0.0.14", 14, 0},
		{"10.0.0.0/27", "10.0.0.1", "10.0.0.30", 30, 16},
		{"10.0.0.0/16", "10.0.0.1", "10.0.255.254", 65534, 256},
		{"10.0.0.0/30", "10.0.0.1", "10.0.0.2", 2, 0},
		{"10.0.0.0/31", "10.0.0.1", "10.0.0.0", 0, 0},
		{"fd00::/120", "fd00::1", "fd00::ff", 255, 16},
		{"fd00::/64", "fd00::1", "fd00::ffff:ffff:ffff:ffff", 1<<63 - 1, 256},
	} {
		r := newRange(netip.MustParsePrefix(c.prefix))
		if r.first.String() != c.first || r.last.String() != c.last || r.size != c.size || r.reserved != c.reserved {
			t.Errorf("%s: got %v to %v, %d, of which %d are given last", c.prefix, r.first, r.last, r.size, r.reserved)
		}
		for _, in := range []netip.Addr{r.first, r.last, r.prefix.Addr(), r.last.Next()} {
			want := c.size > 0 && (in == r.first || in == r.last)
			if got := r.has(in); got != want {
				t.Errorf("%s has %s: %v", c.prefix, in, got)
			}
		}
	}
}

func TestEveryAddressIsTriedOnce(t *testing.T) {
	r := newRange(netip.MustParsePrefix("10.0.0.0/26"))
	begins := map[netip.Addr]bool{}
	for range 200 {
		seen := map[netip.Addr]bool{}
		r.each(16, r.size-16, func(a netip.Addr) bool {
			if len(seen) == 0 {
				begins[a] = true
			}
			if seen[a] || !r.has(a) || a.Less(netip.MustParseAddr("10.0.0.17")) {
				t.Fatalf("%s: again, or none of them", a)
			}
			seen[a] = true
			return true
		})
		if len(seen) != 46 {
			t.Fatalf("got %d addresses, want 46", len(seen))
		}
	}
	if len(begins) < 2 {
		t.Error("begins with the same address each time")
	}
	r.each(0, 0, func(netip.Addr) bool { t.Error("an address of none"); return true })
}

// TestPortsInStore holds that the value is what kube-apiserver writes and reads.
func TestPortsInStore(t *testing.T) {
	bits := new(big.Int).SetBit(new(big.Int), 100, 1)
	value, err := (&rangeAllocation{"30000-32767", bits.Bytes()}).encode()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := (&corev1.RangeAllocation{Range: "30000-32767", Data: bits.Bytes()}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	want, err := kind.WrapProtobuf(raw, "v1", "RangeAllocation")
	if err != nil || !bytes.Equal(value, want) {
		t.Errorf("got %q, want %q, %v", value, want, err)
	}
	a := &Allocator{Ports: utilnet.PortRange{Base: 30050, Size: 100}}
	for _, text := range [][]byte{value, []byte(`{"kind":"RangeAllocation","apiVersion":"v1","range":"30000-32767","data":"EAAAAAAAAAAAAAAAAA=="}`)} {
		if got, err := a.translate(text); err != nil || got.BitLen() != 51 || got.Bit(50) != 1 {
			t.Errorf("%q: got %b, %v, want bit 50", text, got, err)
		}
	}
	if _, err := a.translate([]byte("nothing")); err == nil {
		t.Error("nothing is no value")
	}
	a.Ports.Base = 40000
	if got, err := a.translate(value); err != nil || got.BitLen() != 0 {
		t.Errorf("of a range elsewhere: %b, %v", got, err)
	}
}

func TestPortsAreTaken(t *testing.T) {
	a := &Allocator{Ports: utilnet.PortRange{Base: 30000, Size: 40}}
	p := &bitAllocator{a: a, bits: new(big.Int)}
	for i := range 40 {
		port, err := p.next()
		if err != nil {
			t.Fatal(err)
		}
		if last := i >= 24; last != (port < 30016) {
			t.Errorf("port %d is %d, want those up to 30015 last", i, port)
		}
	}
	if _, err := p.next(); err != errFull || len(p.taken) != 40 {
		t.Errorf("got %v after %d ports", err, len(p.taken))
	}
	if err := p.allocate(30001); err != errPortTaken {
		t.Errorf("got %v", err)
	}
	if err := p.allocate(29999); err == nil || err.Error() != "provided port is not in the valid range. The range of valid ports is 30000-30039" {
		t.Errorf("got %v", err)
	}
}

// TestDryRunsTakeNoLock holds that nobody waits for the ports of a dry run.
func TestDryRunsTakeNoLock(t *testing.T) {
	st := mem.New(mem.Options{})
	defer st.Close()
	a := &Allocator{Store: st, Ports: utilnet.PortRange{Base: 30000, Size: 40}}
	s := &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 1}, {Port: 2, NodePort: 30001}, {Port: 3}}}}
	a.ports.mu.Lock() // for good: a dry run that takes it never ends
	if err := (&claims{a: a}).allocatePorts(t.Context(), s, nil, true); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int32{32769, 30001, 32770} {
		if got := s.Spec.Ports[i].NodePort; got != want {
			t.Errorf("port %d: got %d, want %d", i, got, want)
		}
	}
}
