package protection

import (
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/objects"
	"github.com/keelson-io/keelson/internal/testapi"
	"github.com/keelson-io/keelson/internal/testkit"
)

// TestAttributes holds that a volume attributes class goes when no claim names it any more, and that
// other finalizers stay.
func TestAttributes(t *testing.T) {
	api := testapi.New(t)
	c := &Controller{Kinds: api.Kinds, Cache: api.Cache, Store: api.Store, Logger: api.Logger, Attributes: api.As(objects.ControllerManager)}
	api.Run(c.Run)
	const classes, claims = "/apis/storage.k8s.io/v1/volumeattributesclasses", "/api/v1/namespaces/default/persistentvolumeclaims"
	class := func(name, finalizers string) string {
		return `{"apiVersion":"storage.k8s.io/v1","kind":"VolumeAttributesClass","metadata":{"name":"` + name + `","finalizers":[` + finalizers + `]},"driverName":"d","parameters":{"a":"b"}}`
	}
	const own = `"kubernetes.io/vac-protection"`
	api.Must("POST", classes, class("used", own))
	api.Must("POST", classes, class("held", own+`,"a.io/other"`))
	api.Must("POST", claims, `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"c"},"spec":{"accessModes":["ReadWriteOnce"],
		"volumeAttributesClassName":"used","resources":{"requests":{"storage":"1Gi"}}}}`)
	api.Must("DELETE", classes+"/used", "")
	api.Must("DELETE", classes+"/held", "")
	has := func(name, text string) bool {
		return strings.Contains(api.Must("GET", classes, ""), text)
	}
	testkit.Eventually(t, "one finalizer of the class held", func() bool { return has("held", `"finalizers":["a.io/other"]`) })
	if !has("used", own) {
		t.Error("a class that a claim names lost its finalizer")
	}
	api.Must("DELETE", claims+"/c", "")
	testkit.Eventually(t, "the end of the class", func() bool { return !has("used", `"name":"used"`) })
}
