package lib

import (
	"fmt"
	"net/netip"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// This file defines Kubernetes' functions of IP addresses and networks (CIDR).

// The types of addresses and networks.
var (
	IPType   = types.NewOpaqueType("net.IP")
	CIDRType = types.NewOpaqueType("net.CIDR")
)

// Address is an IP address.
type Address struct {
	Object
	a netip.Addr
}

// NewAddress returns an IP address as a value.
func NewAddress(a netip.Addr) Address { return Address{Object{IPType}, a} }

func (a Address) String() string { return a.a.String() }
func (a Address) Value() any     { return a.a }
func (a Address) Size() ref.Val  { return types.Int((a.a.BitLen() + 7) / 8) }
func (a Address) ConvertToType(t ref.Type) ref.Val {
	if t == types.StringType {
		return types.String(a.a.String())
	}
	return Convert(a, t)
}
func (a Address) Equal(other ref.Val) ref.Val {
	o, ok := other.(Address)
	if !ok {
		return types.ValOrErr(other, "no such overload")
	}
	return types.Bool(a.a == o.a)
}

// Network is an IP network.
type Network struct {
	Object
	p netip.Prefix
}

func newNetwork(p netip.Prefix) Network { return Network{Object{CIDRType}, p} }

func (n Network) String() string { return n.p.String() }
func (n Network) Value() any     { return n.p }
func (n Network) Size() ref.Val  { return types.Int((n.p.Bits() + 7) / 8) }
func (n Network) ConvertToType(t ref.Type) ref.Val {
	if t == types.StringType {
		return types.String(n.p.String())
	}
	return Convert(n, t)
}
func (n Network) Equal(other ref.Val) ref.Val {
	o, ok := other.(Network)
	if !ok {
		return types.ValOrErr(other, "no such overload")
	}
	return types.Bool(n.p == o.p)
}

// ParseAddress parses an address as rules do: it must have no zone, and must not be IPv4 written as
// IPv6.
func ParseAddress(s string) (netip.Addr, error) {
	a, err := netip.ParseAddr(s)
	switch {
	case err != nil:
		return a, fmt.Errorf("IP Address %q parse error during conversion from string: %v", s, err)
	case a.Zone() != "":
		return a, fmt.Errorf("IP address %q with zone value is not allowed", s)
	case a.Is4In6():
		return a, fmt.Errorf("IPv4-mapped IPv6 address %q is not allowed", s)
	}
	return a, nil
}

// parseNetwork parses a network by the same rules.
func parseNetwork(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	switch {
	case err != nil:
		return p, fmt.Errorf("network address parse error during conversion from string: %v", err)
	case p.Addr().Is4In6():
		return p, fmt.Errorf("IPv4-mapped IPv6 address %q is not allowed", s)
	}
	return p, nil
}

// NetworkLibrary returns the functions of IP addresses and networks.
func NetworkLibrary() []cel.EnvOption { return append(addressFunctions(), networkFunctions()...) }

// addressFunctions returns the functions of addresses.
func addressFunctions() []cel.EnvOption {
	is := func(name, id string, test func(netip.Addr) bool) cel.EnvOption {
		return Method(name, id, IPType, types.BoolType, func(a Address) ref.Val { return types.Bool(test(a.a)) })
	}
	return []cel.EnvOption{
		cel.Types(IPType),
		FromString("ip", "string_to_ip", IPType, func(s types.String) ref.Val {
			a, err := ParseAddress(string(s))
			if err != nil {
				return types.WrapErr(err)
			}
			return NewAddress(a)
		}),
		FromString("isIP", "is_ip", types.BoolType, func(s types.String) ref.Val {
			_, err := ParseAddress(string(s))
			return types.Bool(err == nil)
		}),
		FromString("ip.isCanonical", "ip_is_canonical", types.BoolType, func(s types.String) ref.Val {
			a, err := ParseAddress(string(s))
			if err != nil {
				return types.WrapErr(err)
			}
			return types.Bool(a.String() == string(s))
		}),
		cel.Function("string", cel.Overload("ip_to_string", []*types.Type{IPType}, types.StringType, unary(
			func(a Address) ref.Val { return types.String(a.a.String()) }))),
		Method("family", "ip_family", IPType, types.IntType, func(a Address) ref.Val {
			if a.a.Is4() {
				return types.Int(4)
			}
			return types.Int(6)
		}),
		is("isUnspecified", "ip_is_unspecified", netip.Addr.IsUnspecified),
		is("isLoopback", "ip_is_loopback", netip.Addr.IsLoopback),
		is("isLinkLocalMulticast", "ip_is_link_local_multicast", netip.Addr.IsLinkLocalMulticast),
		is("isLinkLocalUnicast", "ip_is_link_local_unicast", netip.Addr.IsLinkLocalUnicast),
		is("isGlobalUnicast", "ip_is_global_unicast", netip.Addr.IsGlobalUnicast),
	}
}

// networkFunctions returns the functions of networks.
func networkFunctions() []cel.EnvOption {
	ct := CIDRType
	parse := func(s types.String) ref.Val {
		p, err := parseNetwork(string(s))
		if err != nil {
			return types.NewErr("network address parse error during conversion from string: %v", err)
		}
		return newNetwork(p)
	}
	within := func(n, other Network) ref.Val {
		return types.Bool(n.p.Overlaps(other.p) && n.p.Bits() <= other.p.Bits())
	}
	return []cel.EnvOption{
		cel.Types(ct),
		FromString("cidr", "string_to_cidr", ct, parse),
		FromString("isCIDR", "is_cidr", types.BoolType, func(s types.String) ref.Val {
			_, err := parseNetwork(string(s))
			return types.Bool(err == nil)
		}),
		cel.Function("containsIP",
			cel.MemberOverload("cidr_contains_ip_string", []*types.Type{ct, types.StringType}, types.BoolType, binary(
				func(n Network, s types.String) ref.Val {
					a, err := ParseAddress(string(s))
					if err != nil {
						return types.NoSuchOverloadErr()
					}
					return types.Bool(n.p.Contains(a))
				})),
			cel.MemberOverload("cidr_contains_ip_ip", []*types.Type{ct, IPType}, types.BoolType, binary(
				func(n Network, a Address) ref.Val { return types.Bool(n.p.Contains(a.a)) }))),
		cel.Function("containsCIDR",
			cel.MemberOverload("cidr_contains_cidr_string", []*types.Type{ct, types.StringType}, types.BoolType, binary(
				func(n Network, s types.String) ref.Val {
					other := parse(s)
					if o, ok := other.(Network); ok {
						return within(n, o)
					}
					return other
				})),
			cel.MemberOverload("cidr_contains_cidr", []*types.Type{ct, ct}, types.BoolType, binary(within))),
		cel.Function("string", cel.Overload("cidr_to_string", []*types.Type{ct}, types.StringType, unary(
			func(n Network) ref.Val { return types.String(n.p.String()) }))),
		Method("ip", "cidr_ip", ct, IPType, func(n Network) ref.Val { return NewAddress(n.p.Addr()) }),
		Method("masked", "cidr_masked", ct, ct, func(n Network) ref.Val { return newNetwork(n.p.Masked()) }),
		Method("prefixLength", "cidr_prefix_length", ct, types.IntType, func(n Network) ref.Val { return types.Int(n.p.Bits()) }),
	}
}
