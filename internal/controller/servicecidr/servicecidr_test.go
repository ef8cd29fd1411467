package servicecidr

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/keelson-io/keelson/internal/objects"
	"github.com/keelson-io/keelson/internal/testapi"
	"github.com/keelson-io/keelson/internal/testkit"
)

const (
	ranges    = "/apis/networking.k8s.io/v1/servicecidrs"
	addresses = "/apis/networking.k8s.io/v1/ipaddresses"
)

// started returns an API in which the controller runs.
func started(t *testing.T) *testapi.API {
	t.Helper()
	api := testapi.New(t)
	c := &Controller{Kinds: api.Kinds, Cache: api.Cache, Store: api.Store, API: api.As(objects.ControllerManager), Status: api.As(Name), Logger: api.Logger}
	api.Run(c.Run)
	return api
}

func rangeText(name string, cidrs ...string) string {
	return fmt.Sprintf(`{"apiVersion":"networking.k8s.io/v1","kind":"ServiceCIDR","metadata":{"name":%q},"spec":{"cidrs":["%s"]}}`, name, strings.Join(cidrs, `","`))
}

func addressText(ip, manager string) string {
	return fmt.Sprintf(`{"apiVersion":"networking.k8s.io/v1","kind":"IPAddress","metadata":{"name":%q,"labels":{"ipaddress.kubernetes.io/managed-by":%q,`+
		`"ipaddress.kubernetes.io/ip-family":"IPv4"}},"spec":{"parentRef":{"resource":"services","namespace":"default","name":"s"}}}`, ip, manager)
}

// stateOf returns the status of the condition Ready, with its reason, and "guarded" if the
// ServiceCIDR has the finalizer. It returns "" if the ServiceCIDR does not exist.
func stateOf(api *testapi.API, name string) string {
	var c networkingv1.ServiceCIDR
	if !api.Get(ranges+"/"+name, &c) {
		return ""
	}
	text := "no condition"
	if ready := meta.FindStatusCondition(c.Status.Conditions, networkingv1.ServiceCIDRConditionReady); ready != nil {
		text = string(ready.Status) + ready.Reason
	}
	if strings.Contains(strings.Join(c.Finalizers, " "), Finalizer) {
		text += " guarded"
	}
	return text
}

// TestNewRangesAreReady holds that a ServiceCIDR gets the finalizer and the condition Ready, and
// keeps other finalizers.
func TestNewRangesAreReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := started(t)
		api.Must("POST", ranges, rangeText("a", "10.0.0.0/24", "fd00::/120"))
		api.Must("POST", ranges, strings.Replace(rangeText("b", "10.0.1.0/24"), `"name":"b"`, `"name":"b","finalizers":["a.io/b"]`, 1))
		synctest.Wait()
		for _, name := range []string{"a", "b"} {
			if got := stateOf(api, name); got != "True guarded" {
				t.Errorf("%s: got %q", name, got)
			}
		}
		if text := api.Must("GET", ranges+"/b", ""); !strings.Contains(text, `"a.io/b"`) || !strings.Contains(text, `"manager":"service-cidr-controller"`) {
			t.Errorf("got %s", text)
		}
	})
}

// TestDeletedRanges holds that a deleted ServiceCIDR stays while an allocated address is in no other,
// and for the grace period.
func TestDeletedRanges(t *testing.T) {
	for _, row := range []struct {
		at               testkit.Position
		others           []string // ranges of another ServiceCIDR
		address, manager string   // of an IPAddress; "" for none
		atOnce           string   // state after the delete
		after            string   // state after the grace period
	}{
		{testkit.Here(), nil, "", "", "True guarded", ""},
		{testkit.Here(), nil, "10.0.0.9", "ipallocator.k8s.io", "FalseTerminating guarded", "FalseTerminating guarded"},
		{testkit.Here(), nil, "10.0.0.9", "a.io", "True guarded", ""},
		{testkit.Here(), nil, "10.0.1.9", "ipallocator.k8s.io", "True guarded", ""},
		{testkit.Here(), []string{"10.0.0.0/16"}, "10.0.0.9", "ipallocator.k8s.io", "True guarded", ""},
		{testkit.Here(), []string{"10.0.0.0/29"}, "10.0.0.1", "ipallocator.k8s.io", "True guarded", ""},
		{testkit.Here(), []string{"10.0.0.0/29"}, "10.0.0.9", "ipallocator.k8s.io", "FalseTerminating guarded", "FalseTerminating guarded"},
	} {
		synctest.Test(t, func(t *testing.T) {
			api := started(t)
			api.Must("POST", ranges, rangeText("a", "10.0.0.0/24"))
			if row.others != nil {
				api.Must("POST", ranges, rangeText("b", row.others...))
			}
			if row.address != "" {
				api.Must("POST", addresses, addressText(row.address, row.manager))
			}
			synctest.Wait()
			api.Must("DELETE", ranges+"/a", "")
			synctest.Wait()
			if got := stateOf(api, "a"); got != row.atOnce {
				t.Errorf("%s: at once: got %q, want %q", row.at, got, row.atOnce)
			}
			time.Sleep(Grace - time.Second) // of the bubble
			synctest.Wait()
			if got := stateOf(api, "a"); got != row.atOnce {
				t.Errorf("%s: within the grace period: got %q, want %q", row.at, got, row.atOnce)
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if got := stateOf(api, "a"); got != row.after {
				t.Errorf("%s: after the grace period: got %q, want %q", row.at, got, row.after)
			}
		})
	}
}

// TestAddressesDecideAgain holds that an address that is allocated in the grace period keeps a
// ServiceCIDR, and that its release lets the ServiceCIDR go.
func TestAddressesDecideAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := started(t)
		api.Must("POST", ranges, rangeText("a", "10.0.0.0/24"))
		synctest.Wait()
		api.Must("DELETE", ranges+"/a", "")
		synctest.Wait()
		api.Must("POST", addresses, addressText("10.0.0.9", "ipallocator.k8s.io"))
		time.Sleep(2 * Grace) // of the bubble
		synctest.Wait()
		if got := stateOf(api, "a"); got != "FalseTerminating guarded" {
			t.Errorf("with an address: got %q", got)
		}
		api.Must("DELETE", addresses+"/10.0.0.9", "")
		synctest.Wait()
		if got := stateOf(api, "a"); got != "" {
			t.Errorf("without one: got %q", got)
		}
	})
}

func TestIsOnlyIn(t *testing.T) {
	parse := func(cidrs ...string) (all []netip.Prefix) {
		for _, c := range cidrs {
			all = append(all, netip.MustParsePrefix(c))
		}
		return all
	}
	for _, test := range []struct {
		name        string
		own, others []netip.Prefix
		want        bool
	}{
		{"10.0.0.1", parse("10.0.0.0/24"), nil, true},
		{"10.0.1.1", parse("10.0.0.0/24"), nil, false},
		{"10.0.0.1", parse("10.0.0.0/24"), parse("10.1.0.0/16", "10.0.0.0/16"), false},
		{"10.0.0.1", parse("10.0.0.0/24"), parse("10.1.0.0/16"), true},
		{"fd00::1", parse("10.0.0.0/24", "fd00::/64"), parse("10.0.0.0/16"), true},
		{"fd00::1", parse("10.0.0.0/24"), nil, false},
		{"name", parse("0.0.0.0/0", "::/0"), nil, false},
	} {
		if got := isOnlyIn(test.name, test.own, test.others); got != test.want {
			t.Errorf("%s in %v and not in %v: got %v, want %v", test.name, test.own, test.others, got, test.want)
		}
	}
}
