package networking

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func parse(t *testing.T, text string) *corev1.Service {
	t.Helper()
	if text == "" {
		return nil
	}
	s := &corev1.Service{}
	s.Spec.Type = corev1.ServiceTypeClusterIP
	if err := yaml.UnmarshalStrict([]byte(text), &s.Spec); err != nil {
		t.Fatal(err)
	}
	return s
}

// said is what a service's addresses, families and policy are.
func said(s *corev1.Service) string {
	policy := "-"
	if s.Spec.IPFamilyPolicy != nil {
		policy = string(*s.Spec.IPFamilyPolicy)
	}
	return fmt.Sprint(s.Spec.ClusterIPs, s.Spec.IPFamilies, " ", policy)
}

const both = "{clusterIP: 10.0.0.9, clusterIPs: [10.0.0.9, 'fd00::9'], ipFamilies: [IPv4, IPv6], ipFamilyPolicy: PreferDualStack}"

// A row of the tests of families: a service is changed from old, "" for none, to new.
type familyRow struct{ name, new, old, want, err string }

// checkFamilies sets the families of each row's service on a cluster with families own.
func checkFamilies(t *testing.T, rows []familyRow, own ...corev1.IPFamily) {
	t.Helper()
	for _, c := range rows {
		s, old := parse(t, c.new), parse(t, c.old)
		if old != nil {
			Keep(s, old)
		}
		Normalize(s, old)
		err := Families(s, old, own).ToAggregate()
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want %s", c.name, err, c.err)
			}
		case err != nil:
			t.Errorf("%s: %v", c.name, err)
		case said(s) != c.want:
			t.Errorf("%s: %s, want %s", c.name, said(s), c.want)
		}
	}
}

// TestTwoFamilies changes services on a cluster whose first family is IPv6.
func TestTwoFamilies(t *testing.T) {
	const one = "{clusterIP: 'fd00::9', clusterIPs: ['fd00::9'], ipFamilies: [IPv6], ipFamilyPolicy: SingleStack}"
	checkFamilies(t, []familyRow{
		{name: "a new one", new: "{}", want: "[] [IPv6] SingleStack"},
		{name: "that prefers two", new: "{ipFamilyPolicy: PreferDualStack}", want: "[] [IPv6 IPv4] PreferDualStack"},
		{name: "that requires two", new: "{ipFamilyPolicy: RequireDualStack}", want: "[] [IPv6 IPv4] RequireDualStack"},
		{name: "that requires two, the other first", new: "{ipFamilyPolicy: RequireDualStack, ipFamilies: [IPv4]}", want: "[] [IPv4 IPv6] RequireDualStack"},
		{name: "of the other family", new: "{ipFamilies: [IPv4]}", want: "[] [IPv4] SingleStack"},
		{name: "with an address of the other family", new: "{clusterIP: 10.0.0.9}", want: "[10.0.0.9] [IPv4] SingleStack"},
		{name: "of two families without a policy", new: "{ipFamilies: [IPv4, IPv6]}", err: "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified"},
		{name: "of two addresses without a policy", new: "{clusterIP: 10.0.0.9, clusterIPs: [10.0.0.9, 'fd00::9']}", err: "must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified"},
		{name: "of two addresses of a family", new: "{clusterIP: 10.0.0.9, clusterIPs: [10.0.0.9, 10.0.0.8], ipFamilyPolicy: PreferDualStack}", err: "may specify no more than one IP for each IP family"},
		{name: "headless", new: "{clusterIP: None, selector: {a: b}}", want: "[None] [IPv6] SingleStack"},
		{name: "headless, that prefers two", new: "{clusterIP: None, selector: {a: b}, ipFamilyPolicy: PreferDualStack}", want: "[None] [IPv6 IPv4] PreferDualStack"},
		{name: "of one that is to have two", new: "{ipFamilyPolicy: RequireDualStack, ipFamilies: [IPv6]}", old: one, want: "[fd00::9] [IPv6 IPv4] RequireDualStack"},
		{name: "of two that is to have one", new: strings.ReplaceAll(both, "PreferDualStack", "SingleStack"), old: both, want: "[10.0.0.9] [IPv4] SingleStack"},
		{name: "whose second address changes", new: strings.ReplaceAll(both, "fd00::9", "fd00::8"), old: both, want: "[10.0.0.9 fd00::8] [IPv4 IPv6] PreferDualStack"},
	}, corev1.IPv6Protocol, corev1.IPv4Protocol)
}

// TestFamilies changes services on a cluster of one family, some of which come from a cluster of two.
func TestFamilies(t *testing.T) {
	checkFamilies(t, []familyRow{
		{name: "a new one", new: "{}", want: "[] [IPv4] SingleStack"},
		{name: "that prefers two", new: "{ipFamilyPolicy: PreferDualStack}", want: "[] [IPv4] PreferDualStack"},
		{name: "that requires two", new: "{ipFamilyPolicy: RequireDualStack}", err: "this cluster is not configured for dual-stack services"},
		{name: "of the other family", new: "{ipFamilies: [IPv6]}", err: "not configured on this cluster"},
		{name: "with an address of the other family", new: "{clusterIP: 'fd00::1'}", err: "IPv6 is not configured on this cluster"},
		{name: "of a family twice", new: "{ipFamilies: [IPv4, IPv4]}", err: "Duplicate value"},
		{name: "headless", new: "{clusterIP: None, selector: {a: b}}", want: "[None] [IPv4] SingleStack"},
		{name: "headless, for endpoints of anybody", new: "{clusterIP: None}", want: "[None] [IPv4 IPv6] RequireDualStack"},
		{name: "headless, of one family", new: "{clusterIP: None, ipFamilyPolicy: SingleStack}", want: "[None] [IPv4] SingleStack"},
		{name: "without a cluster IP", new: "{type: ExternalName}", want: "[] [] -"},

		{name: "one of two families, written as it was", new: both, old: both, want: "[10.0.0.9 fd00::9] [IPv4 IPv6] PreferDualStack"},
		{name: "that is to have one", new: strings.ReplaceAll(both, "PreferDualStack", "SingleStack"), old: both, want: "[10.0.0.9] [IPv4] SingleStack"},
		{name: "that is to have one address of two families", new: "{clusterIP: 10.0.0.9, clusterIPs: [10.0.0.9], ipFamilies: [IPv4, IPv6], ipFamilyPolicy: PreferDualStack}", old: both,
			err: "must be 'SingleStack' to release the secondary cluster IP"},
		{name: "that is to have one family of two addresses", new: "{clusterIP: 10.0.0.9, clusterIPs: [10.0.0.9, 'fd00::9'], ipFamilies: [IPv4], ipFamilyPolicy: PreferDualStack}", old: both,
			err: "must be 'SingleStack' to release the secondary IP family"},
		{name: "whose second address changes", new: strings.ReplaceAll(both, "fd00::9", "fd00::8"), old: both, err: "not configured on this cluster"},
		{name: "whose addresses change places", new: "{clusterIP: 10.0.0.9, clusterIPs: [10.0.0.9, 'fd00::9'], ipFamilies: [IPv6, IPv4], ipFamilyPolicy: PreferDualStack}", old: both,
			err: "expected an IPv6 value as indicated by `ipFamilies[0]`"},
		{name: "that says nothing of the policy", new: "{clusterIP: 10.0.0.9}", old: "{clusterIP: 10.0.0.9, clusterIPs: [10.0.0.9], ipFamilies: [IPv4], ipFamilyPolicy: PreferDualStack}",
			want: "[10.0.0.9] [IPv4] PreferDualStack"},
	}, corev1.IPv4Protocol)
}

// TestOnRead completes services that are older than families.
func TestOnRead(t *testing.T) {
	for text, want := range map[string]string{
		"{clusterIP: 10.0.0.9}": "[10.0.0.9] [IPv4] SingleStack",
		"{clusterIP: 10.0.0.9, clusterIPs: [10.0.0.9, 'fd00::9']}": "[10.0.0.9 fd00::9] [IPv4 IPv6] RequireDualStack",
		"{clusterIP: None, selector: {a: b}}":                      "[None] [IPv6] SingleStack",
		"{clusterIP: None}":                                        "[None] [IPv6 IPv4] RequireDualStack",
		"{type: ExternalName}":                                     "[] [] -",
		both:                                                       "[10.0.0.9 fd00::9] [IPv4 IPv6] PreferDualStack",
	} {
		s := parse(t, text)
		if OnRead(s, corev1.IPv6Protocol); said(s) != want {
			t.Errorf("%s: %s, want %s", text, said(s), want)
		}
	}
}

// TestKeepPorts keeps ports of nodes by name where an update does not mention them.
func TestKeepPorts(t *testing.T) {
	old := parse(t, "{type: NodePort, ports: [{name: a, port: 1, nodePort: 30001}, {name: b, port: 2, nodePort: 30002}]}")
	for text, want := range map[string]string{
		"{type: NodePort, ports: [{name: b, port: 2}, {name: c, port: 3}, {name: a, port: 1}]}":                  "[30002 30001]",
		"{type: NodePort, ports: [{name: c, port: 1, nodePort: 30001}, {name: a, port: 2}]}":                     "[30001]",
		"{type: ClusterIP, ports: [{name: a, port: 1}]}":                                                         "[]",
		"{type: LoadBalancer, ports: [{name: a, port: 1, nodePort: 30009}, {name: b, port: 2}]}":                 "[30009 30002]",
		"{type: LoadBalancer, allocateLoadBalancerNodePorts: false, ports: [{name: a, port: 1}]}":                "[]",
		"{type: NodePort, ports: [{name: a, port: 1, nodePort: 30002}, {name: b, port: 2}, {name: x, port: 3}]}": "[30002]",
	} {
		s := parse(t, text)
		if Keep(s, old); strings.TrimSpace(fmt.Sprint(NodePorts(s))) != want {
			t.Errorf("%s: %v, want %s", text, NodePorts(s), want)
		}
	}
}
