package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// deploymentOf prints a Deployment of a container for each of images, in JSON. Annotations may be empty.
func deploymentOf(name, annotations string, images ...string) string {
	var containers strings.Builder
	for i, image := range images {
		if i > 0 {
			containers.WriteByte(',')
		}
		fmt.Fprintf(&containers, `{"name":"container-%d","image":%q}`, i, image)
	}
	return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":%q,"annotations":{%s}},
		"spec":{"selector":{"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[%s]}}}}`,
		name, annotations, containers.String())
}

// TestApplyTakesOverWhatClientSideApplySet applies, as manager kubectl, objects that client-side apply made: fields that are as the
// last-applied annotation has them change hands, other fields are conflicts. Requests run side by side, so that memory which is
// used after its release is in other hands.
func TestApplyTakesOverWhatClientSideApplySet(t *testing.T) {
	s := startServer(t)
	const deployments = "/apis/apps/v1/namespaces/default/deployments"
	send := func(want int, text, method, path, body string, header ...string) {
		code, b, err := s.try(method, path, []byte(body), header...)
		if err != nil || code != want || !bytes.Contains(b, []byte(text)) {
			t.Errorf("%s %s: got %d, %v, want %d and %s: %s", method, path, code, err, want, text, tail(string(b), 1000))
		}
	}
	var wg sync.WaitGroup
	for n := range 12 {
		wg.Go(func() {
			name := fmt.Sprint("d", n)
			path := deployments + "/" + name
			last := fmt.Sprintf(`"kubectl.kubernetes.io/last-applied-configuration":%q`, deploymentOf(name, "", "a:1", "b:1", "c:1"))
			apply := func(want int, text string, images ...string) {
				send(want, text, "PATCH", path+"?fieldManager=kubectl", deploymentOf(name, "", images...), "Content-Type", "application/apply-patch+yaml")
			}
			send(http.StatusCreated, `"a:1"`, "POST", deployments+"?fieldManager=kubectl-client-side-apply", deploymentOf(name, last, "a:1", "b:1", "c:1"))
			apply(http.StatusOK, `"c:2"`, "a:2", "b:2", "c:2")
			// Another manager takes one field: that one is a conflict now, and only that.
			send(http.StatusOK, `"b:3"`, "PATCH", path+"?fieldManager=other",
				`{"spec":{"template":{"spec":{"containers":[{"name":"container-1","image":"b:3"}]}}}}`, "Content-Type", "application/strategic-merge-patch+json")
			apply(http.StatusConflict, `Apply failed with 1 conflict: conflict with \"other\" using apps/v1: .spec.template.spec.containers[name=\"container-1\"].image`,
				"a:4", "b:4", "c:4")
		})
	}
	wg.Wait()
	if strings.Contains(s.log.String(), "panicked") {
		t.Error("a request panicked")
	}
}
