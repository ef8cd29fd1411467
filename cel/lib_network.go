package cel

import (
	"fmt"
	"net/netip"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// This file defines Kubernetes' functions of IP addresses and CIDRs.

var (
	ipType   = types.NewOpaqueType("net.IP")
	cidrType = types.NewOpaqueType("net.CIDR")
)

// address is an IP address.
type address struct {
	object
	a netip.Addr
}

func newAddress(a netip.Addr) address { return address{object{ipType}, a} }

func (a address) String() string { return a.a.String() }
func (a address) Value() any     { return a.a }
func (a address) Size() ref.Val  { return types.Int((a.a.BitLen() + 7) / 8) }
func (a address) ConvertToType(t ref.Type) ref.Val {
	if t == types.StringType {
		return types.String(a.a.String())
	}
	return convert(a, t)
}
func (a address) Equal(other ref.Val) ref.Val {
	o, ok := other.(address)
	if !ok {
		return types.ValOrErr(other, "no such overload")
	}
	return types.Bool(a.a == o.a)
}

// network is an IP network.
type network struct {
	object
	p netip.Prefix
}

func newNetwork(p netip.Prefix) network { return network{object{cidrType}, p} }

func (n network) String() string { return n.p.String() }
func (n network) Value() any     { return n.p }
func (n network) Size() ref.Val  { return types.Int((n.p.Bits() + 7) / 8) }
func (n network) ConvertToType(t ref.Type) ref.Val {
	if t == types.StringType {
		return types.String(n.p.String())
	}
	return convert(n, t)
}
func (n network) Equal(other ref.Val) ref.Val {
	o, ok := other.(network)
	if !ok {
		return types.ValOrErr(other, "no such overload")
	}
	return types.Bool(n.p == o.p)
}

func parseAddress(s string) (netip.Addr, error) {
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

func networkLibrary() []cel.EnvOption { return append(addressFunctions(), networkFunctions()...) }

func addressFunctions() []cel.EnvOption {
	is := func(name, id string, test func(netip.Addr) bool) cel.EnvOption {
		return method(name, id, ipType, types.BoolType, func(a address) ref.Val { return types.Bool(test(a.a)) })
	}
	return []cel.EnvOption{
		cel.Types(ipType),
		fromString("ip", "string_to_ip", ipType, func(s types.String) ref.Val {
			a, err := parseAddress(string(s))
			if err != nil {
				return types.WrapErr(err)
			}
			return newAddress(a)
		}),
		fromString("isIP", "is_ip", types.BoolType, func(s types.String) ref.Val {
			_, err := parseAddress(string(s))
			return types.Bool(err == nil)
		}),
		fromString("ip.isCanonical", "ip_is_canonical", types.BoolType, func(s types.String) ref.Val {
			a, err := parseAddress(string(s))
			if err != nil {
				return types.WrapErr(err)
			}
			return types.Bool(a.String() == string(s))
		}),
		cel.Function("string", cel.Overload("ip_to_string", []*types.Type{ipType}, types.StringType, unary(
			func(a address) ref.Val { return types.String(a.a.String()) }))),
		method("family", "ip_family", ipType, types.IntType, func(a address) ref.Val {
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

func networkFunctions() []cel.EnvOption {
	ct := cidrType
	parse := func(s types.String) ref.Val {
		p, err := parseNetwork(string(s))
		if err != nil {
			return types.NewErr("network address parse error during conversion from string: %v", err)
		}
		return newNetwork(p)
	}
	within := func(n, other network) ref.Val {
		return types.Bool(n.p.Overlaps(other.p) && n.p.Bits() <= other.p.Bits())
	}
	return []cel.EnvOption{
		cel.Types(ct),
		fromString("cidr", "string_to_cidr", ct, parse),
		fromString("isCIDR", "is_cidr", types.BoolType, func(s types.String) ref.Val {
			_, err := parseNetwork(string(s))
			return types.Bool(err == nil)
		}),
		cel.Function("containsIP",
			cel.MemberOverload("cidr_contains_ip_string", []*types.Type{ct, types.StringType}, types.BoolType, binary(
				func(n network, s types.String) ref.Val {
					a, err := parseAddress(string(s))
					if err != nil {
						return types.NoSuchOverloadErr()
					}
					return types.Bool(n.p.Contains(a))
				})),
			cel.MemberOverload("cidr_contains_ip_ip", []*types.Type{ct, ipType}, types.BoolType, binary(
				func(n network, a address) ref.Val { return types.Bool(n.p.Contains(a.a)) }))),
		cel.Function("containsCIDR",
			cel.MemberOverload("cidr_contains_cidr_string", []*types.Type{ct, types.StringType}, types.BoolType, binary(
				func(n network, s types.String) ref.Val {
					other := parse(s)
					if o, ok := other.(network); ok {
						return within(n, o)
					}
					return other
				})),
			cel.MemberOverload("cidr_contains_cidr", []*types.Type{ct, ct}, types.BoolType, binary(within))),
		cel.Function("string", cel.Overload("cidr_to_string", []*types.Type{ct}, types.StringType, unary(
			func(n network) ref.Val { return types.String(n.p.String()) }))),
		method("ip", "cidr_ip", ct, ipType, func(n network) ref.Val { return newAddress(n.p.Addr()) }),
		method("masked", "cidr_masked", ct, ct, func(n network) ref.Val { return newNetwork(n.p.Masked()) }),
		method("prefixLength", "cidr_prefix_length", ct, types.IntType, func(n network) ref.Val { return types.Int(n.p.Bits()) }),
	}
}
