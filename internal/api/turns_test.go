package api

import (
	"strconv"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/testkit"
)

func TestListsEndTheirTurns(t *testing.T) {
	s := newTestServer(t)
	for i := range 2 * checkEach {
		s.must(201, "POST", "/apis/demo.io/v1/namespaces/default/widgets", widget("w"+strconv.Itoa(i), ""))
	}
	for _, accept := range []string{"application/json", "application/yaml", "application/json;as=Table;v=v1;g=meta.k8s.io"} {
		s.must(200, "GET", "/apis/demo.io/v1/widgets", "", "Accept", accept)
		testkit.Eventually(t, accept+": no turn in use after the list", func() bool { return !strings.Contains(s.h.limits.Leftovers(), "turns") })
	}
}
